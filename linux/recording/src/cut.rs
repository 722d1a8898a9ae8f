//! Cuts a scene out of a recording, as a conformance trace (`spec/traces/README.md`).
//!
//! A trace knows one worker, whose polls follow each other. It has spawns, wakes, new levels,
//! cancellations and the ends of polls as the recording has them. What a coroutine has waited for
//! is in a recording only if it has donated its level. Then it becomes the join of a coroutine, or
//! a mutex, whichever ends the donation in the same way. Other waits are a `block` and a `wake`.
//!
//! 1. `begin` finds a moment at which the scene can begin: no coroutine is polled, and none
//!    donates. It has what the check knows of all coroutines then.
//! 2. `waits` says which donations are joins, and which of them are for one mutex.
//! 3. `parts` turns steps into the lines of the trace.
//! 4. `text` writes them.

mod begin;
mod parts;
mod text;
mod waits;

use crate::order::Ordered;
use crate::read::Recording;
use begin::Beginning;
use std::fmt;
use std::ops::Range;

/// A scene of a recording, as a conformance trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scene {
    /// The trace.
    pub text: String,
    /// The steps of the recording of which it consists.
    pub steps: Range<usize>,
    /// The rule that the step after them breaks. Then the trace ends with what should have come.
    pub broken: Option<&'static str>,
}

/// Why there is no trace of a scene.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutError {
    step: usize,
    reason: String,
}

impl CutError {
    fn at(step: usize, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { step, reason }
    }
}

impl fmt::Display for CutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}: {}", self.step, self.reason)
    }
}

impl std::error::Error for CutError {}

/// Cuts these steps out of a recording, as a trace of this name.
///
/// Steps have the numbers that the check prints. The scene begins earlier if a coroutine is polled
/// or donates its level at the first one, and ends later if one is polled at the last one. It ends
/// before the first step that breaks a rule, and then says what should have come instead. So the
/// trace holds for every scheduler that keeps the contract.
///
/// # Errors
/// Fails if there are no steps, or if a trace cannot show them: two coroutines are polled at the
/// same time or one is preempted, coroutines are demoted by their use, one waits in two places at
/// once, or a rule is broken before the scene.
pub fn cut(recording: &Recording, steps: Range<usize>, name: &str) -> Result<Scene, CutError> {
    let settings = &recording.header.settings;
    if settings.demotes {
        let reason = "coroutines are demoted by their use, and a recording does not say when";
        return Err(CutError::at(0, reason));
    }
    let ordered = Ordered::of(recording);
    let beginning = Beginning::find(recording, &ordered, &steps)?;
    let waits = waits::Waits::of(&beginning)?;
    let parts = parts::of(&beginning, &waits)?;
    if parts.is_empty() {
        return Err(CutError::at(
            beginning.first,
            "there are no steps to cut out",
        ));
    }
    Ok(Scene {
        text: text::write(recording, &beginning, &waits, &parts, name),
        steps: beginning.first..beginning.first + beginning.steps.len(),
        broken: beginning.broken.as_ref().map(|broken| broken.rule),
    })
}
