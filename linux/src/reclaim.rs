//! Gives memory back to the allocator that coroutines have not used for a while.
//!
//! An executor keeps the memory of futures that are gone, for the next ones. What none of them has
//! used for a [`ROUND`] goes back, in small steps, so that other workers do not wait for long. A
//! worker does that between two batches of polls, also if all are idle.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use corank::SharedExecutor;

use crate::time::nanoseconds;

/// The time after which unused memory goes back, at the earliest; twice that at the latest, if a
/// worker is not kept by a poll.
pub(crate) const ROUND: Duration = Duration::from_secs(1);
/// Limits the futures whose memory goes back in one step, which takes some ten microseconds.
const STEP: usize = 256;

/// Knows when the next round ends.
pub(crate) struct Reclaim {
    /// In nanoseconds of the runtime's clock.
    due: AtomicU64,
    /// Set if no memory was kept when the last round ended, and nothing has run since.
    is_done: AtomicBool,
}

impl Reclaim {
    pub(crate) const fn new() -> Self {
        Self {
            due: AtomicU64::new(0),
            is_done: AtomicBool::new(true),
        }
    }

    /// Makes a step if a round is over at `now`; called by a worker after each batch, which made
    /// so many polls.
    #[inline]
    pub(crate) fn check(&self, executor: &SharedExecutor, now: u64, polls: u64) {
        if polls > 0 && self.is_done.load(Ordering::Relaxed) {
            self.is_done.store(false, Ordering::Relaxed);
        }
        if self.due.load(Ordering::Relaxed) <= now {
            self.step(executor, now);
        }
    }

    #[cold]
    fn step(&self, executor: &SharedExecutor, now: u64) {
        if executor.reclaim(STEP) < STEP {
            let next = now + nanoseconds(ROUND);
            self.due.store(next, Ordering::Relaxed);
            if !executor.keeps_memory() {
                self.is_done.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Returns when a worker that has nothing to do should [check](Self::check) again; `None` if no
    /// memory is kept.
    pub(crate) fn next(&self) -> Option<u64> {
        let is_done = self.is_done.load(Ordering::Relaxed);
        (!is_done).then(|| self.due.load(Ordering::Relaxed))
    }
}
