//! How often and how long coroutines ran and waited (feature `stats`).

use core::cell::Cell;

use crate::priority::{LEVELS, Priority};

/// The statistics of one coroutine, or of all coroutines of one level.
///
/// Times are in nanoseconds of the executor's [`clock`](crate::Config::clock). Without a clock they
/// grow only by the times that are passed to [`Executor::advance`](crate::Executor::advance).
///
/// ```
/// # #[cfg(feature = "std")] {
/// use corank::{Executor, Priority, yield_now};
///
/// let executor = Executor::new();
/// let twice = executor.spawn(Priority::DEFAULT, yield_now())?;
/// executor.run_until_idle();
/// assert_eq!(executor.stats(twice.id()).unwrap().polls, 2);
/// # }
/// # Ok::<(), corank::SpawnError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Polls that have begun.
    pub polls: u64,
    /// Time in polls that have ended; for a preempted coroutine, also the parts of its poll that
    /// have ended.
    pub run_time: u64,
    /// Time from becoming ready to being polled, over all polls, and from being preempted to being
    /// resumed.
    pub wait_time: u64,
    /// The longest such time.
    pub longest_wait: u64,
}

impl Stats {
    fn waited(&mut self, time: u64) {
        self.wait_time += time;
        self.longest_wait = self.longest_wait.max(time);
    }
}

/// One coroutine's statistics, and the poll or wait that is going on.
#[derive(Default)]
pub(crate) struct BlockStats {
    stats: Cell<Stats>,
    /// When it became ready or, while it runs, when the poll began.
    since: Cell<u64>,
    /// The level at which the poll began.
    level: Cell<Priority>,
}

impl BlockStats {
    pub(crate) fn get(&self) -> Stats {
        self.stats.get()
    }

    pub(crate) fn begin(&self, now: u64) {
        self.stats.set(Stats::default());
        self.since.set(now);
    }

    pub(crate) fn ready(&self, now: u64) {
        self.since.set(now);
    }

    pub(crate) fn poll_started(&self, now: u64, level: Priority, levels: &ByLevel) {
        let waited = now.saturating_sub(self.since.replace(now));
        self.level.set(level);
        for stats in [&self.stats, levels.at(level)] {
            update(stats, |stats| {
                stats.polls += 1;
                stats.waited(waited);
            });
        }
    }

    /// Counts the wait of a preempted poll that is resumed.
    pub(crate) fn poll_resumed(&self, now: u64, levels: &ByLevel) {
        let waited = now.saturating_sub(self.since.replace(now));
        for stats in [&self.stats, levels.at(self.level.get())] {
            update(stats, |stats| stats.waited(waited));
        }
    }

    pub(crate) fn poll_ended(&self, now: u64, levels: &ByLevel) {
        let ran = now.saturating_sub(self.since.replace(now));
        for stats in [&self.stats, levels.at(self.level.get())] {
            update(stats, |stats| stats.run_time += ran);
        }
    }
}

fn update(stats: &Cell<Stats>, change: impl FnOnce(&mut Stats)) {
    let mut changed = stats.get();
    change(&mut changed);
    stats.set(changed);
}

/// The statistics of each level.
pub(crate) struct ByLevel([Cell<Stats>; LEVELS]);

impl ByLevel {
    pub(crate) fn new() -> Self {
        Self(core::array::from_fn(|_| Cell::default()))
    }

    pub(crate) fn at(&self, level: Priority) -> &Cell<Stats> {
        &self.0[usize::from(level.level())]
    }
}
