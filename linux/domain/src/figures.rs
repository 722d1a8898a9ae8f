//! What a participant counts for those who watch the domain.

use crate::claim::Nanoseconds;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters in the page. Written by the process that owns it, read by those who watch. All start at
/// 0 and, but for the three that say how many there are now, only grow.
#[repr(C, align(64))]
#[derive(Default)]
pub(crate) struct Figures {
    /// How often a worker has stepped aside.
    pub(crate) asides: AtomicU64,
    /// How often a worker found, when it stepped aside, that something more urgent had been waiting
    /// for it to do so.
    pub(crate) inversions: AtomicU64,
    /// How long these had waited, all together, in nanoseconds.
    pub(crate) inverted: AtomicU64,
    /// How long one of these had waited at most, in nanoseconds.
    pub(crate) longest_inversion: AtomicU64,
    /// How many executors count their coroutines; the rest is 0 without one.
    pub(crate) counting: AtomicU64,
    /// Coroutines that wait for something, now.
    pub(crate) blocked: AtomicU64,
    /// By level.
    pub(crate) levels: LevelFiguresOfAll,
}

/// One for each level.
#[repr(C)]
pub(crate) struct LevelFiguresOfAll(pub(crate) [LevelFigures; corank::LEVELS]);

impl Default for LevelFiguresOfAll {
    fn default() -> Self {
        Self(std::array::from_fn(|_| LevelFigures::default()))
    }
}

/// What all coroutines of one level have had. A poll and the wait before it count for the level at
/// which the poll began.
#[repr(C)]
#[derive(Default)]
pub(crate) struct LevelFigures {
    /// Ready coroutines, now.
    pub(crate) ready: AtomicU64,
    /// Coroutines that are being polled, now.
    pub(crate) running: AtomicU64,
    pub(crate) polls: AtomicU64,
    /// Nanoseconds in polls.
    pub(crate) run: AtomicU64,
    /// Nanoseconds from being ready to being polled.
    pub(crate) wait: AtomicU64,
    /// The longest such time.
    pub(crate) longest_wait: AtomicU64,
}

impl Figures {
    /// A worker steps aside; for something that has been `waiting` for that, or to keep room for
    /// something that has gone.
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
