//! The steps before a violation, in words.

use crate::format::{Id, Kind, Role};
use crate::order::{Ordered, Step, StepKind};
use crate::read::Recording;
use crate::summary::short_name;

/// The steps that are shown before the wrong one.
const SHOWN: usize = 16;

/// Returns a coroutine's identifier, and its name if it has one.
#[must_use]
pub fn name(recording: &Recording, id: Id) -> String {
    match recording.name(id) {
        Some(name) => format!("{id} ({})", short_name(Some(name))),
        None => id.to_string(),
    }
}

/// Returns what writes the ring with this number, in [`Recording::rings`].
#[must_use]
pub fn ring(recording: &Recording, ring: usize) -> String {
    let Some(ring) = recording.rings.get(ring) else {
        return "?".to_string();
    };
    let role = match ring.role {
        Role::Worker => "worker",
        Role::Spare => "spare worker",
        Role::Bulk => "bulk worker",
        Role::Thread => "thread",
        Role::Others => "other threads",
        Role::Hart => "hart",
        Role::Interrupts => "interrupts",
    };
    format!("{role} {}", ring.number)
}

pub(super) fn before(recording: &Recording, ordered: &Ordered, wrong: usize) -> Vec<String> {
    let first = wrong.saturating_sub(SHOWN);
    let steps = &ordered.steps[first..=wrong];
    let start = steps.first().map_or(0, |step| step.time);
    (steps.iter().enumerate())
        .map(|(at, step)| {
            let mark = if first + at == wrong { ">" } else { " " };
            format!("{mark} {}", line(recording, step, start))
        })
        .collect()
}

fn line(recording: &Recording, step: &Step, start: u64) -> String {
    let time = step.time.saturating_sub(start) as f64 / 1000.0;
    let (who, what) = (ring(recording, step.ring), name(recording, step.id));
    let to = |other: Option<Id>| other.map_or("?".to_string(), |id| name(recording, id));
    let text = match step.kind {
        StepKind::Lend(other) => format!("{what} donates to {}", to(other)),
        StepKind::Unlend(other) => format!("{what} donates no more to {}", to(other)),
        StepKind::Of(kind) => {
            let verb = match kind {
                Kind::Spawn => "spawn",
                Kind::Wake => "wake of",
                Kind::Ready => "ready:",
                Kind::Pick => "pick",
                Kind::Yield => "yield of",
                Kind::Block => "block of",
                Kind::Finish => "finish of",
                Kind::Panic => "panic of",
                Kind::Cancel => "cancel of",
                Kind::Level => "new level of",
                Kind::Base => "new base level of",
                Kind::Preempt => "preempt",
                Kind::Stall => "stall",
                Kind::Resume => "resume",
                _ => "event of",
            };
            let level = match kind {
                Kind::Wake | Kind::Block | Kind::Finish | Kind::Panic | Kind::Cancel => {
                    String::new()
                }
                _ => format!(" at level {}", step.level),
            };
            format!("{verb} {what}{level}")
        }
    };
    format!("+{time:.3} µs  {who}: {text}")
}
