//! The counters that a participant keeps for the watchers of the domain.

use crate::claim::Nanoseconds;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The counters in the page.
///
/// The process that owns the page writes them, and watchers read them. All start at 0 and only
/// grow, except for those that say how many there are now.
#[repr(C, align(64))]
#[derive(Default)]
pub(crate) struct Figures {
    /// The number of times that a worker has stepped aside.
    pub(crate) asides: AtomicU64,
    /// The number of times that a worker found, when it stepped aside, that something more urgent
    /// had been waiting for it to do so.
    pub(crate) inversions: AtomicU64,
    /// The time that these had waited, all together, in nanoseconds.
    pub(crate) inverted: AtomicU64,
    /// The longest time that one of these had waited, in nanoseconds.
    pub(crate) longest_inversion: AtomicU64,
    /// What the runtime of the process reports.
    pub(crate) runtime: RuntimeFigures,
    /// The coroutines, by level.
    pub(crate) coroutines: corank_figures::Figures,
}

impl Figures {
    /// Counts that a worker steps aside.
    ///
    /// It does so for something that has been `waiting` for that, or to keep room for something
    /// that has gone.
    pub(crate) fn step_aside(&self, waiting: Option<Nanoseconds>) {
        self.asides.fetch_add(1, Ordering::Relaxed);
        let Some(waited) = waiting else {
            return;
        };
        self.inversions.fetch_add(1, Ordering::Relaxed);
        self.inverted.fetch_add(waited, Ordering::Relaxed);
        self.longest_inversion.fetch_max(waited, Ordering::Relaxed);
    }
}

/// The state of a runtime's threads, as it reports that to the watchers of its domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuntimeState {
    /// The number of its workers, without spare workers.
    pub workers: u64,
    /// The time that all its workers and spare workers have spent in polls, all together.
    pub busy: Duration,
    /// The number of its workers and spare workers that one poll keeps for long.
    pub blocked: u64,
    /// The number of its spare workers.
    pub spare_workers: u64,
    /// The number of times that a spare worker began to act for a worker.
    pub takeovers: u64,
}

/// The [`RuntimeState`] in the page.
#[repr(C)]
#[derive(Default)]
pub(crate) struct RuntimeFigures {
    /// 0 if no runtime reports.
    workers: AtomicU64,
    busy: AtomicU64,
    blocked: AtomicU64,
    spare_workers: AtomicU64,
    takeovers: AtomicU64,
}

impl RuntimeFigures {
    pub(crate) fn write(&self, state: &RuntimeState) {
        let busy = u64::try_from(state.busy.as_nanos()).unwrap_or(u64::MAX);
        for (word, value) in [
            (&self.busy, busy),
            (&self.blocked, state.blocked),
            (&self.spare_workers, state.spare_workers),
            (&self.takeovers, state.takeovers),
            (&self.workers, state.workers),
        ] {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Returns the state; `None` if no runtime reports.
    pub(crate) fn read(&self) -> Option<RuntimeState> {
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let state = RuntimeState {
            workers: load(&self.workers),
            busy: Duration::from_nanos(load(&self.busy)),
            blocked: load(&self.blocked),
            spare_workers: load(&self.spare_workers),
            takeovers: load(&self.takeovers),
        };
        (state.workers > 0).then_some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_is_read_as_it_was_reported() {
        let figures = RuntimeFigures::default();
        assert_eq!(figures.read(), None);
        let state = RuntimeState {
            workers: 2,
            busy: Duration::MAX,
            blocked: 1,
            spare_workers: 3,
            takeovers: 4,
        };
        figures.write(&state);
        let busy = Duration::from_nanos(u64::MAX);
        assert_eq!(figures.read(), Some(RuntimeState { busy, ..state }));
    }
}
