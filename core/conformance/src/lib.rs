//! The replay of the conformance traces (`spec/traces/`) against the core.
//!
//! It is the same program on the host, in the operating system's kernel and in its processes.
#![no_std]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod held;
mod platform;
mod primitives;
mod served;

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::fmt;

use corank::Config;
use corank_model::TRACES;

pub use platform::{Configure, CorePlatform, LimitMemory, Verdict, replay_all, replay_on};
pub use served::{Driver, Workers};

/// Starts a platform's loop with an executor of this configuration, for one scene.
pub type Drive = Rc<dyn Fn(Config) -> Rc<dyn Driver>>;

impl CorePlatform {
    /// Creates the platform, whose executors run in a platform's own loop.
    #[must_use]
    pub fn driven(drive: Drive) -> Self {
        Self::served(Rc::new(move |config, _| {
            served::Served::Driven(drive(config))
        }))
    }
}

/// The result of replaying every trace on each kind of executor.
#[derive(Clone, Debug)]
pub struct Report(Vec<(&'static str, Verdict)>);

impl Report {
    /// Tests whether each kind has passed traces, and failed none.
    ///
    /// Which ones it skipped is for the reader to judge.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        let good = |verdict: &Verdict| verdict.failures.is_empty() && verdict.passed > 0;
        self.0.iter().all(|(_, verdict)| good(verdict))
    }
}

/// Failures, then a line for each kind of executor.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failure in self.0.iter().flat_map(|(_, verdict)| &verdict.failures) {
            writeln!(f, "FAIL {failure}")?;
        }
        let mut between = "";
        for (kind, verdict) in &self.0 {
            write!(f, "{between}{kind}: {verdict}")?;
            between = "\n";
        }
        Ok(())
    }
}

/// Replays every trace on all kinds of executors.
#[must_use]
pub fn report() -> Report {
    let kinds = [
        ("executors of one thread", Workers::None),
        ("shared executors with one worker", Workers::One),
        #[cfg(feature = "std")]
        ("shared executors with several workers", Workers::Threads),
    ];
    Report(
        kinds
            .map(|(kind, workers)| (kind, replay_all(TRACES.iter(), workers)))
            .into(),
    )
}

/// Tests the example of the repository's README.
///
/// It is tested here because the published crates do not contain that file.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Tests the examples of docs/guide.md.
///
/// They are tested here for the same reason.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide.md")]
struct Guide;
