//! A copy of the counters at one moment.

use crate::figures::{Figures, LevelFigures};
use crate::histogram::Histogram;
use corank::Priority;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts of coroutines, and times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coroutines {
    /// The number of coroutines that wait for something.
    pub blocked: u64,
    /// The levels that have had any, the most urgent first.
    pub levels: Vec<LevelState>,
}

/// The coroutines of one level.
///
/// A poll and the wait before it count for the level at which the poll began. A *wait* is the time
/// from becoming ready to the beginning of the poll.
///
/// A coroutine has an *inversion* if, when it becomes ready, as many polls are in progress as its
/// level has workers, and at least one of these polls is at a strictly less urgent level. So is a
/// ready coroutine that becomes more urgent, if that is so at this moment. The inversion lasts
/// until the coroutine's poll begins, or until no poll at a less urgent level is in progress: what
/// it waits for then is not less urgent than itself. Polls of spare workers count as well. An
/// inversion counts when it begins, and its time when its coroutine has ended its wait. Without a
/// known number of workers none is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelState {
    /// The level.
    pub level: Priority,
    /// The number of ready coroutines.
    pub ready: u64,
    /// The number of coroutines that are being polled.
    pub running: u64,
    /// The number of polls that have begun.
    pub polls: u64,
    /// The time in polls that have ended.
    pub run: Duration,
    /// The sum of the waits that have ended.
    pub wait: Duration,
    /// The longest wait since counting began.
    pub longest_wait: Duration,
    /// The distribution of the waits that have ended.
    pub waits: Histogram,
    /// The number of inversions that have begun.
    pub inversions: u64,
    /// The time that ended inversions have lasted, all together.
    pub inverted: Duration,
    /// The longest inversion since counting began.
    pub longest_inversion: Duration,
}

impl LevelState {
    /// Returns the state of a level that has had no coroutines.
    fn none(level: Priority) -> Self {
        Self {
            level,
            ready: 0,
            running: 0,
            polls: 0,
            run: Duration::ZERO,
            wait: Duration::ZERO,
            longest_wait: Duration::ZERO,
            waits: Histogram::new(),
            inversions: 0,
            inverted: Duration::ZERO,
            longest_inversion: Duration::ZERO,
        }
    }

    fn read(level: Priority, figures: &LevelFigures) -> Self {
        Self {
            level,
            ready: load(&figures.ready),
            running: load(&figures.running),
            polls: load(&figures.polls),
            run: time(&figures.run),
            wait: time(&figures.wait),
            longest_wait: time(&figures.longest_wait),
            waits: figures.waits.read(),
            inversions: load(&figures.inversions),
            inverted: time(&figures.inverted),
            longest_inversion: time(&figures.longest_inversion),
        }
    }

    /// Returns the median of the waits, with an error of at most 6.25 %; `None` without any wait.
    #[must_use]
    pub fn wait_p50(&self) -> Option<Duration> {
        self.waits.quantile(0.5)
    }

    /// Returns the wait that 99 of 100 do not exceed, with an error of at most 6.25 %; `None`
    /// without any wait.
    #[must_use]
    pub fn wait_p99(&self) -> Option<Duration> {
        self.waits.quantile(0.99)
    }

    /// Returns what happened after `earlier`; see [`Coroutines::since`].
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            polls: self.polls.saturating_sub(earlier.polls),
            run: self.run.saturating_sub(earlier.run),
            wait: self.wait.saturating_sub(earlier.wait),
            waits: self.waits.since(&earlier.waits),
            inversions: self.inversions.saturating_sub(earlier.inversions),
            inverted: self.inverted.saturating_sub(earlier.inverted),
            ..self.clone()
        }
    }
}

impl Coroutines {
    /// Returns what happened after `earlier`, an older copy of the same counters.
    ///
    /// Polls, times, waits and inversions are those in between. What is ready, running or blocked
    /// is as in `self`, and the longest times are those since counting began.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |level: Priority| {
            let found = earlier.levels.iter().find(|state| state.level == level);
            found.cloned().unwrap_or_else(|| LevelState::none(level))
        };
        Self {
            blocked: self.blocked,
            levels: (self.levels.iter())
                .map(|state| state.since(&before(state.level)))
                .collect(),
        }
    }
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn time(counter: &AtomicU64) -> Duration {
    Duration::from_nanos(load(counter))
}

impl Figures {
    /// Returns a copy of the counters; `None` if nothing counts here.
    ///
    /// The copy is not of one instant: counters change while others are read. Whatever another
    /// process has written, nothing here fails.
    #[must_use]
    pub fn read(&self) -> Option<Coroutines> {
        if load(&self.counting) == 0 {
            return None;
        }
        let levels = (0u8..).zip(&self.levels).filter_map(|(level, figures)| {
            let counts = [
                &figures.ready,
                &figures.running,
                &figures.polls,
                &figures.inversions,
            ];
            // Before the copy of its buckets: most levels are never used.
            if counts.iter().all(|counter| load(counter) == 0) {
                return None;
            }
            Some(LevelState::read(Priority::new(level)?, figures))
        });
        Some(Coroutines {
            blocked: load(&self.blocked),
            levels: levels.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Box<Figures> {
        let figures = Box::new(Figures::new());
        figures.counting.store(1, Ordering::Relaxed);
        figures
    }

    #[test]
    fn nothing_is_read_where_nothing_counts() {
        assert_eq!(Figures::new().read(), None);
        assert_eq!(figures().read(), Some(Coroutines::default()));
    }

    #[test]
    fn counts_of_any_size_are_read() {
        let figures = figures();
        let level = &figures.levels[3];
        for counter in [&level.ready, &level.run, &level.wait, &level.inverted] {
            counter.store(u64::MAX, Ordering::Relaxed);
        }
        let all = figures.read().unwrap();
        assert_eq!((all.levels.len(), all.levels[0].ready), (1, u64::MAX));
        assert_eq!(all.levels[0].run, Duration::from_nanos(u64::MAX));
        assert_eq!(all.since(&all).levels[0].run, Duration::ZERO);
    }

    #[test]
    fn a_difference_has_the_counts_in_between() {
        let figures = figures();
        let level = &figures.levels[3];
        level.polls.store(5, Ordering::Relaxed);
        let before = figures.read().unwrap();
        level.polls.store(7, Ordering::Relaxed);
        level.ready.store(2, Ordering::Relaxed);
        level.inversions.store(4, Ordering::Relaxed);
        level.longest_wait.store(9, Ordering::Relaxed);
        figures.levels[9].polls.store(1, Ordering::Relaxed);
        let between = figures.read().unwrap().since(&before);
        let [first, second] = &between.levels[..] else {
            panic!("two levels");
        };
        assert_eq!((first.polls, first.ready, first.inversions), (2, 2, 4));
        assert_eq!(first.longest_wait, Duration::from_nanos(9));
        assert_eq!((second.level.level(), second.polls), (9, 1));
    }
}
