//! The polls in progress, and whether they hold up what is more urgent.

use corank::{LEVELS, Levels, Priority};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The threads that poll an executor's coroutines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Threads {
    /// The number of workers that take a level, for each level.
    pub(crate) workers: u32,
    /// The level from which other workers take the work, as many.
    pub(crate) bulk: Option<Priority>,
}

impl Threads {
    /// Returns the levels that the workers of this level take.
    fn levels_with(&self, level: Priority) -> Levels {
        let Some(from) = self.bulk else {
            return Levels::ALL;
        };
        if from.is_more_urgent_than(level) || from == level {
            Levels::from_level(from)
        } else {
            Levels::above(from)
        }
    }
}

/// Counts polls in progress.
///
/// One thread at a time changes it, as with [`Stay`](crate::stays::Stay), so a change is a load and
/// a store.
pub(crate) struct Running {
    threads: Option<Threads>,
    polls: [AtomicU32; LEVELS],
    /// The levels with polls in progress.
    levels: AtomicU64,
    /// The levels that have ever had a poll.
    known: AtomicU64,
    /// When the last poll of a level ended.
    ended: [AtomicU64; LEVELS],
}

fn index(level: Priority) -> usize {
    usize::from(level.level())
}

/// Calls `act` with each of the levels.
fn each(levels: Levels, mut act: impl FnMut(usize)) {
    let mut bits = levels.bits();
    while bits != 0 {
        act(bits.trailing_zeros() as usize);
        bits &= bits - 1;
    }
}

impl Running {
    pub(crate) fn new(threads: Option<Threads>) -> Self {
        Self {
            threads,
            polls: [const { AtomicU32::new(0) }; LEVELS],
            levels: AtomicU64::new(0),
            known: AtomicU64::new(0),
            ended: [const { AtomicU64::new(0) }; LEVELS],
        }
    }

    /// Counts a poll that begins.
    #[inline]
    pub(crate) fn begin(&self, level: Priority) {
        let polls = &self.polls[index(level)];
        let before = polls.load(Ordering::Relaxed);
        polls.store(before.wrapping_add(1), Ordering::Relaxed);
        if before == 0 {
            for levels in [&self.levels, &self.known] {
                let with = Levels::from_bits(levels.load(Ordering::Relaxed)).with(level);
                levels.store(with.bits(), Ordering::Relaxed);
            }
        }
    }

    /// Counts that a poll has ended.
    #[inline]
    pub(crate) fn end(&self, level: Priority, now: u64) {
        let polls = &self.polls[index(level)];
        let left = polls.load(Ordering::Relaxed).wrapping_sub(1);
        polls.store(left, Ordering::Relaxed);
        self.ended[index(level)].store(now, Ordering::Relaxed);
        if left == 0 {
            let levels = Levels::from_bits(self.levels.load(Ordering::Relaxed)).without(level);
            self.levels.store(levels.bits(), Ordering::Relaxed);
        }
    }

    /// Returns the levels that are less urgent, of those that the same workers take.
    fn less_urgent(threads: Threads, level: Priority) -> Levels {
        let less_urgent = Levels::from_bits(!(u64::MAX >> (63 - level.level())));
        threads.levels_with(level).intersection(less_urgent)
    }

    /// Tests whether polls of less urgent coroutines hold up a coroutine of this level that has
    /// become ready: all workers that take it are inside polls, and one of these is less urgent.
    #[inline]
    pub(crate) fn hold_up(&self, level: Priority) -> bool {
        let Some(threads) = self.threads else {
            return false;
        };
        let running = Levels::from_bits(self.levels.load(Ordering::Relaxed));
        if running
            .intersection(Self::less_urgent(threads, level))
            .is_empty()
        {
            return false;
        }
        let mut polls = 0_u32;
        each(running.intersection(threads.levels_with(level)), |level| {
            polls = polls.saturating_add(self.polls[level].load(Ordering::Relaxed));
        });
        polls >= threads.workers
    }

    /// Returns until when polls of less urgent coroutines have held up one of this level: until now
    /// if one is in progress, or else until the last one ended.
    pub(crate) fn held_up_until(&self, level: Priority, now: u64) -> u64 {
        let Some(threads) = self.threads else {
            return 0;
        };
        let less_urgent = Self::less_urgent(threads, level);
        let running = Levels::from_bits(self.levels.load(Ordering::Relaxed));
        if !running.intersection(less_urgent).is_empty() {
            return now;
        }
        let known = Levels::from_bits(self.known.load(Ordering::Relaxed));
        let mut last = 0;
        each(known.intersection(less_urgent), |level| {
            last = last.max(self.ended[level].load(Ordering::Relaxed));
        });
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(level: u8) -> Priority {
        Priority::new(level).unwrap()
    }

    fn with(workers: u32, bulk: Option<u8>) -> Running {
        let bulk = bulk.map(level);
        Running::new(Some(Threads { workers, bulk }))
    }

    #[test]
    fn only_less_urgent_polls_of_all_workers_hold_up() {
        let running = with(2, None);
        running.begin(level(40));
        assert!(!running.hold_up(level(3)), "a worker is free");
        running.begin(level(9));
        assert!(running.hold_up(level(3)));
        assert!(running.hold_up(level(39)));
        assert!(
            !running.hold_up(level(40)),
            "an equal level is not less urgent"
        );
        assert!(!running.hold_up(level(63)));
        running.end(level(40), 5);
        running.begin(level(9));
        assert!(running.hold_up(level(3)));
        assert!(!running.hold_up(level(9)));
    }

    #[test]
    fn an_unknown_number_of_workers_holds_up_nothing() {
        let running = Running::new(None);
        running.begin(level(40));
        assert!(!running.hold_up(level(3)));
    }

    #[test]
    fn polls_for_which_other_workers_are_do_not_count() {
        let running = with(1, Some(40));
        running.begin(level(50));
        assert!(
            !running.hold_up(level(3)),
            "the worker for urgent work is free"
        );
        assert!(running.hold_up(level(40)), "the one for bulk work is not");
        running.begin(level(2));
        assert!(
            !running.hold_up(level(3)),
            "an urgent poll keeps the worker"
        );
        running.end(level(2), 1);
        running.begin(level(39));
        assert!(running.hold_up(level(3)));
    }

    #[test]
    fn it_ends_with_the_last_less_urgent_poll() {
        let running = with(2, None);
        running.begin(level(40));
        running.begin(level(50));
        running.end(level(40), 10);
        assert_eq!(
            running.held_up_until(level(3), 15),
            15,
            "one is in progress"
        );
        running.end(level(50), 20);
        running.begin(level(2));
        running.end(level(2), 30);
        assert_eq!(running.held_up_until(level(3), 40), 20);
    }
}
