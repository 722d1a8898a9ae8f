//! The counters that a participant keeps for the watchers of the domain.

use crate::claim::Nanoseconds;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counters in the page.
///
/// The process that owns the page writes them, and watchers read them. All start at 0 and only
/// grow, except for the three that say how many there are now.
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
    /// The number of executors that count their coroutines. The rest is 0 without one.
    pub(crate) counting: AtomicU64,
    /// The number of coroutines that wait for something now.
    pub(crate) blocked: AtomicU64,
    /// The figures by level.
    pub(crate) levels: LevelFiguresOfAll,
}

/// The figures of all levels, one for each level.
#[repr(C)]
pub(crate) struct LevelFiguresOfAll(pub(crate) [LevelFigures; corank::LEVELS]);

impl Default for LevelFiguresOfAll {
    fn default() -> Self {
        Self(std::array::from_fn(|_| LevelFigures::default()))
    }
}

/// The figures of all coroutines of one level.
///
/// A poll and the wait before it count for the level at which the poll began.
#[repr(C)]
#[derive(Default)]
pub(crate) struct LevelFigures {
    /// The number of coroutines that are ready now.
    pub(crate) ready: AtomicU64,
    /// The number of coroutines that are being polled now.
    pub(crate) running: AtomicU64,
    pub(crate) polls: AtomicU64,
    /// The time in polls, in nanoseconds.
    pub(crate) run: AtomicU64,
    /// The time from being ready to being polled, in nanoseconds.
    pub(crate) wait: AtomicU64,
    /// The longest such time.
    pub(crate) longest_wait: AtomicU64,
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
