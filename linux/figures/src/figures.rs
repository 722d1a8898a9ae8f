//! The counters of one executor, or of all executors of a process.

use crate::histogram::Buckets;
use corank::{LEVELS, Priority};
use std::sync::atomic::AtomicU64;

/// The counters, by level; all start at 0.
///
/// A [`Counter`](crate::Counter) writes them, and [`read`](Self::read) makes a copy. They consist
/// of atomics alone, have a fixed layout, and any bits are a value. So they may lie in memory that
/// another process writes. They take 151,616 bytes.
#[repr(C, align(64))]
pub struct Figures {
    /// The number of counters that write here. The rest is 0 without one.
    pub(crate) counting: AtomicU64,
    /// The number of coroutines that wait for something now.
    pub(crate) blocked: AtomicU64,
    pub(crate) levels: [LevelFigures; LEVELS],
}

/// The figures of all coroutines of one level. Times are in nanoseconds.
#[repr(C, align(64))]
pub(crate) struct LevelFigures {
    /// The number of coroutines that are ready now.
    pub(crate) ready: AtomicU64,
    /// The number of coroutines that are being polled now.
    pub(crate) running: AtomicU64,
    pub(crate) polls: AtomicU64,
    pub(crate) run: AtomicU64,
    pub(crate) wait: AtomicU64,
    pub(crate) longest_wait: AtomicU64,
    pub(crate) inversions: AtomicU64,
    pub(crate) inverted: AtomicU64,
    pub(crate) longest_inversion: AtomicU64,
    pub(crate) waits: Buckets,
}

impl LevelFigures {
    fn new() -> Self {
        Self {
            ready: AtomicU64::new(0),
            running: AtomicU64::new(0),
            polls: AtomicU64::new(0),
            run: AtomicU64::new(0),
            wait: AtomicU64::new(0),
            longest_wait: AtomicU64::new(0),
            inversions: AtomicU64::new(0),
            inverted: AtomicU64::new(0),
            longest_inversion: AtomicU64::new(0),
            waits: Buckets::new(),
        }
    }
}

impl Figures {
    /// Creates counters that all are 0.
    #[must_use]
    pub fn new() -> Self {
        Self {
            counting: AtomicU64::new(0),
            blocked: AtomicU64::new(0),
            levels: std::array::from_fn(|_| LevelFigures::new()),
        }
    }

    #[cfg_attr(not(feature = "counter"), allow(dead_code, reason = "it counts"))]
    #[inline]
    pub(crate) fn level(&self, level: Priority) -> &LevelFigures {
        &self.levels[usize::from(level.level())]
    }

    /// Counts one more counter that writes here, and touches all memory: later, under an executor's
    /// lock, it has no page faults.
    #[cfg(feature = "counter")]
    pub(crate) fn add_counter(&self) {
        use std::sync::atomic::Ordering::Relaxed;

        for level in &self.levels {
            level.ready.fetch_add(0, Relaxed);
        }
        self.counting.fetch_add(1, Relaxed);
    }
}

impl Default for Figures {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Figures").field(&self.read()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_as_documented() {
        assert_eq!(size_of::<Figures>(), 151_616);
    }
}
