//! When an executor's timers are due, level by level: for a system that has to know while the
//! executor does not run (rule T9).
//!
//! What is published is a lower bound for each level, so that setting a timer and changing a level
//! stay O(1):
//! - a timer that is set lowers the bound of its sleeper's level, if it is due earlier;
//! - a sleeper that changes its level takes its old level's bound along;
//! - a timer that fires or is cancelled leaves the bound as it is: too early now, perhaps.
//!
//! A bound is *stale* when it is before the first deadline of all. When the executor next reads its
//! clock, and before it is idle, stale bounds become the first deadline. That may still be too
//! early, but it matters only for levels more urgent than that of the first timer. At the others
//! the executor is as urgent by then anyway. So the bounds are made exact, by a search of the heap,
//! only for the sake of the more urgent levels. This is done only if the timers that were set have
//! earned it ([`VISITS_EARNED`]). No timer is due before its level's bound, and while an
//! executor is idle none of its bounds is before the time until which it sleeps. A bound that is
//! too early costs one check in vain.
//!
//! The executor's thread may be interrupted at each instruction, and then its timers count by what
//! is published there. So a bound is lowered before the timer or the sleeper is where it is needed.
//! It is raised when the coroutines with fired timers are ready, which the bitmap shows.

use core::cell::Cell;

use crate::atomic::{AtomicU64, Ordering};
use crate::priority::{LEVELS, Levels, Priority};
use crate::scheduling::config::Config;
use crate::scheduling::table::block::{BlockRef, Flags};

/// For each level, a time before which no timer of a coroutine at that level is due (rule T9).
///
/// It is readable from any thread, hart or address space that maps it.
///
/// The layout is part of the interface (`repr(C)`, 65 64-bit words): first the levels that have a
/// bound, then a bound for each level, in nanoseconds of the executor's clock. The word of a level
/// without a bound means nothing. One side writes all of it, so plain stores suffice. A reader on
/// another hart may see the words of different moments, and checks again when the executor comes to
/// rest on its own hart.
#[repr(C, align(8))]
#[derive(Debug)]
pub struct Deadlines {
    levels: AtomicU64,
    bounds: [AtomicU64; LEVELS],
}

/// The result of [`Deadlines::check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// The levels with a bound that has been reached.
    pub levels: Levels,
    /// The earliest of the other bounds: nothing more is due before then.
    pub next: Option<u64>,
}

impl Deadlines {
    /// Makes an instance without timers.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self {
            levels: AtomicU64::new(0),
            bounds: [const { AtomicU64::new(0) }; LEVELS],
        }
    }

    /// Makes an instance without timers; loom's atomics are not made at compile time.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self {
            levels: AtomicU64::new(0),
            bounds: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Returns the levels that have a bound.
    pub fn levels(&self) -> Levels {
        Levels::from_bits(self.levels.load(Ordering::Acquire))
    }

    /// Returns the bound of a level: no coroutine at this level has a timer that is due earlier.
    ///
    /// `None` means that no coroutine at this level has a timer at all.
    pub fn bound(&self, level: Priority) -> Option<u64> {
        self.levels()
            .contains(level)
            .then(|| self.place(level).load(Ordering::Relaxed))
    }

    /// Returns what is due at `now`, and what comes next.
    ///
    /// Levels in `passed_over` are not checked. Costs a few instructions for each level that has a
    /// bound, whatever the words say.
    pub fn check(&self, now: u64, passed_over: Levels) -> Due {
        let mut due = Due {
            levels: Levels::NONE,
            next: None,
        };
        let asked = self.levels().bits() & !passed_over.bits();
        for level in each(Levels::from_bits(asked)) {
            let bound = self.place(level).load(Ordering::Relaxed);
            if bound <= now {
                due.levels = due.levels.with(level);
            } else {
                due.next = Some(due.next.map_or(bound, |next| next.min(bound)));
            }
        }
        due
    }

    #[inline]
    fn place(&self, level: Priority) -> &AtomicU64 {
        &self.bounds[usize::from(level.level()) % LEVELS]
    }

    /// Lowers a level's bound to `deadline`, at which a timer of a coroutine at that level is due.
    fn lower(&self, level: Priority, deadline: u64) {
        let levels = Levels::from_bits(self.levels.load(Ordering::Relaxed));
        let bound = self.place(level);
        if !levels.contains(level) {
            bound.store(deadline, Ordering::Relaxed);
            // Release: a reader that finds the level finds its bound.
            self.levels
                .store(levels.with(level).bits(), Ordering::Release);
        } else if deadline < bound.load(Ordering::Relaxed) {
            bound.store(deadline, Ordering::Relaxed);
        }
    }
}

impl Default for Deadlines {
    fn default() -> Self {
        Self::new()
    }
}

/// The number of waiting timers that searches for exact bounds may visit for each timer that is
/// set.
///
/// So the searches cost O(1) for each timer. While no more than this many timers wait, each search
/// that is wanted has been earned.
pub(crate) const VISITS_EARNED: usize = 16;

/// The place where an executor publishes its [`Deadlines`], and what it remembers for that.
///
/// Only the scheduler's owner uses it.
#[derive(Debug)]
pub(crate) struct Bounds {
    shown: Option<&'static Deadlines>,
    /// The earliest of the bounds, or `u64::MAX`.
    earliest: Cell<u64>,
    /// The number of timers that the next search may visit.
    earned: Cell<usize>,
    /// The number of timers that wait.
    waiting: Cell<usize>,
}

impl Bounds {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            shown: config.deadlines,
            earliest: Cell::new(u64::MAX),
            earned: Cell::new(0),
            waiting: Cell::new(0),
        }
    }

    /// Records that a timer of `sleeper`, which is at `level`, begins to wait.
    #[inline]
    pub(crate) fn started(&self, sleeper: Option<BlockRef>, level: Priority, deadline: u64) {
        if self.shown.is_some() {
            self.waiting.set(self.waiting.get() + 1);
            self.earned
                .set(self.earned.get().saturating_add(VISITS_EARNED));
            self.handed_over(sleeper, level, deadline);
        }
    }

    /// Records that a timer that waits becomes that of `sleeper`, which is at `level`.
    pub(crate) fn handed_over(&self, sleeper: Option<BlockRef>, level: Priority, deadline: u64) {
        if let Some(shown) = self.shown {
            if let Some(sleeper) = sleeper {
                sleeper.insert(Flags::SLEPT);
            }
            self.earliest.set(self.earliest.get().min(deadline));
            shown.lower(level, deadline);
        }
    }

    /// Takes the bound of a coroutine's level along to the level to which the coroutine goes.
    ///
    /// This is done if the coroutine ever had a timer: it does not know whether a timer is still
    /// pending.
    #[inline]
    pub(crate) fn sleeper_moves(&self, sleeper: BlockRef, to: Priority) {
        if sleeper.has(Flags::SLEPT)
            && let Some(shown) = self.shown
            && let Some(bound) = shown.bound(sleeper.level())
        {
            shown.lower(to, bound);
        }
    }

    /// Records that a timer does not wait any more.
    ///
    /// Its bound stays until the sleeper that it was for is awake.
    #[inline]
    pub(crate) fn ended(&self) {
        if self.shown.is_some() {
            self.waiting.set(self.waiting.get() - 1);
        }
    }

    /// Clears all bounds, because no timer waits.
    #[inline]
    pub(crate) fn emptied(&self) {
        if let Some(shown) = self.shown {
            self.earliest.set(u64::MAX);
            shown.levels.store(0, Ordering::Relaxed);
        }
    }

    /// Tests whether a bound is before the first deadline of all.
    #[inline]
    pub(crate) fn are_stale(&self, first: u64) -> bool {
        self.earliest.get() < first
    }

    /// Raises the bounds, so that none is before `first`, the first deadline of all.
    ///
    /// That deadline is of a coroutine at level `at`. `search` calls what it is given with the
    /// level and the deadline of each timer that waits.
    #[cold]
    pub(crate) fn raise(
        &self,
        first: u64,
        at: Priority,
        search: impl FnOnce(&mut dyn FnMut(Priority, u64)),
    ) {
        let Some(shown) = self.shown else {
            return;
        };
        self.earliest.set(first);
        let mut too_urgent = false;
        for level in each(shown.levels()) {
            let bound = shown.place(level);
            if bound.load(Ordering::Relaxed) < first {
                bound.store(first, Ordering::Relaxed);
                too_urgent |= level.is_more_urgent_than(at);
            }
        }
        let (earned, waiting) = (self.earned.get(), self.waiting.get());
        if too_urgent && waiting <= earned {
            self.search(shown, earned, waiting, search);
        }
    }

    /// Makes the bounds exact.
    fn search(
        &self,
        shown: &Deadlines,
        earned: usize,
        waiting: usize,
        search: impl FnOnce(&mut dyn FnMut(Priority, u64)),
    ) {
        // No more is saved than the timers that wait have earned, or one search after the other
        // might be long.
        let most = waiting.saturating_mul(VISITS_EARNED);
        self.earned.set((earned - waiting).min(most));
        let mut levels = Levels::NONE;
        let mut exact = [u64::MAX; LEVELS];
        search(&mut |level, deadline| {
            let bound = &mut exact[usize::from(level.level())];
            *bound = deadline.min(*bound);
            levels = levels.with(level);
        });
        for level in each(levels) {
            let exact = exact[usize::from(level.level())];
            shown.place(level).store(exact, Ordering::Relaxed);
        }
        // Stored after the bounds. None is missing: each level that was found had one before.
        shown.levels.store(levels.bits(), Ordering::Release);
    }
}

/// Returns the levels of a set, the most urgent first.
fn each(levels: Levels) -> impl Iterator<Item = Priority> {
    let mut rest = levels;
    core::iter::from_fn(move || {
        let level = rest.most_urgent()?;
        rest = rest.without(level);
        Some(level)
    })
}
