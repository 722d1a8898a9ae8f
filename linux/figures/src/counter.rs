//! The observer that counts an executor's coroutines (feature `counter`).

use crate::figures::{Figures, LevelFigures};
use crate::running::{Running, Threads};
use crate::stays::{State, Stay, Stays};
use corank::{CoroutineId, Exit, Observer, Priority};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the coroutines of one executor, as its [observer](corank::Config::observer).
///
/// The executor calls it under its lock. Each poll costs three readings of the clock and, unless it
/// counts [`alone`](Self::alone), ten atomic additions. It keeps 24 bytes for each
/// coroutine that there were at once, in pages of 256. A coroutine for which there is no memory is
/// not counted until it becomes ready while there is some.
pub struct Counter {
    figures: &'static Figures,
    /// No other counter writes to the figures.
    is_alone: bool,
    stays: Stays,
    running: Running,
    now: fn() -> u64,
}

impl Counter {
    /// Creates a counter that writes to `figures`. `now` reads a monotonic clock, in nanoseconds.
    ///
    /// Several executors may have counters that write to the same figures.
    #[must_use]
    pub fn new(figures: &'static Figures, now: fn() -> u64) -> Self {
        figures.add_counter();
        Self {
            figures,
            is_alone: false,
            stays: Stays::new(),
            running: Running::new(None),
            now,
        }
    }

    /// Counts without atomic read-modify-writes, because no other counter writes to the figures.
    ///
    /// If one does nevertheless, counts are lost.
    #[must_use]
    pub fn alone(self) -> Self {
        Self {
            is_alone: true,
            ..self
        }
    }

    /// Also counts inversions, for an executor with this many workers.
    ///
    /// With `bulk`, as many others take this level and those that are less urgent, and the workers
    /// take only what is more urgent.
    #[must_use]
    pub fn workers(self, workers: usize, bulk: Option<Priority>) -> Self {
        let workers = u32::try_from(workers).unwrap_or(u32::MAX);
        Self {
            running: Running::new(Some(Threads { workers, bulk })),
            ..self
        }
    }

    /// Adds to a counter, modulo 2⁶⁴.
    #[inline]
    fn add(&self, counter: &AtomicU64, amount: u64) {
        if self.is_alone {
            // The executor makes one call at a time.
            let before = counter.load(Ordering::Relaxed);
            counter.store(before.wrapping_add(amount), Ordering::Relaxed);
        } else {
            counter.fetch_add(amount, Ordering::Relaxed);
        }
    }

    /// Moves a coroutine to another state.
    fn enter(&self, stay: &Stay, before: State, after: State) {
        if let Some(count) = self.count_of(before) {
            self.add(count, u64::MAX);
        }
        if let Some(count) = self.count_of(after) {
            self.add(count, 1);
        }
        stay.set_state(after);
    }

    fn count_of(&self, state: State) -> Option<&AtomicU64> {
        match state {
            State::Nowhere => None,
            State::Ready(level) => Some(&self.figures.level(level).ready),
            State::Running { level, .. } => Some(&self.figures.level(level).running),
            State::Blocked => Some(&self.figures.blocked),
        }
    }

    /// Counts that a coroutine is ready now.
    fn ready(&self, id: CoroutineId, level: Priority) {
        let Some(stay) = self.stays.add(id) else {
            return;
        };
        let now = (self.now)();
        stay.since.store(now, Ordering::Relaxed);
        stay.inverted.store(0, Ordering::Relaxed);
        self.enter(stay, stay.state(), State::Ready(level));
        if self.running.hold_up(level) {
            self.begin_inversion(stay, level, now);
        }
    }

    #[cold]
    fn begin_inversion(&self, stay: &Stay, level: Priority, now: u64) {
        // 0 stands for none.
        stay.inverted.store(now.max(1), Ordering::Relaxed);
        self.add(&self.figures.level(level).inversions, 1);
    }

    /// Adds the time of the inversion, if the coroutine has one, at the end of its wait.
    fn end_inversion(&self, stay: &Stay, level: Priority, now: u64) {
        let began = stay.inverted.load(Ordering::Relaxed);
        if began == 0 {
            return;
        }
        stay.inverted.store(0, Ordering::Relaxed);
        let lasted = (self.running.held_up_until(level, now)).saturating_sub(began);
        let figures: &LevelFigures = self.figures.level(level);
        self.add(&figures.inverted, lasted);
        raise(&figures.longest_inversion, lasted);
    }
}

impl std::fmt::Debug for Counter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counter").finish_non_exhaustive()
    }
}

#[inline]
fn raise(longest: &AtomicU64, time: u64) {
    // Mostly it is shorter, and reading is cheaper than writing.
    if time > longest.load(Ordering::Relaxed) {
        longest.fetch_max(time, Ordering::Relaxed);
    }
}

// SAFETY: it writes figures of its own and reads the clock. It calls nothing of an executor, drops
// nothing, and does not panic: indices come from `Priority`, whose level is below 64, and the
// memory that it needs may be refused.
unsafe impl Observer for Counter {
    fn spawned(&self, id: CoroutineId, priority: Priority) {
        self.ready(id, priority);
    }

    fn woken(&self, id: CoroutineId, priority: Priority) {
        self.ready(id, priority);
    }

    fn poll_started(&self, id: CoroutineId, priority: Priority) {
        let Some(stay) = self.stays.get(id) else {
            return;
        };
        let before = stay.state();
        if before == State::Nowhere {
            return;
        }
        let now = (self.now)();
        let figures = self.figures.level(priority);
        self.add(&figures.polls, 1);
        if let State::Ready(_) = before {
            let waited = now.saturating_sub(stay.since.load(Ordering::Relaxed));
            self.add(&figures.wait, waited);
            raise(&figures.longest_wait, waited);
            self.add(figures.waits.of(waited), 1);
            self.end_inversion(stay, priority, now);
        }
        stay.since.store(now, Ordering::Relaxed);
        let after = State::Running {
            level: priority,
            began: priority,
        };
        self.enter(stay, before, after);
        self.running.begin(priority);
    }

    fn poll_ended(&self, id: CoroutineId) {
        let Some(stay) = self.stays.get(id) else {
            return;
        };
        let before = stay.state();
        let State::Running { level, began } = before else {
            return;
        };
        let now = (self.now)();
        let ran = now.saturating_sub(stay.since.load(Ordering::Relaxed));
        self.add(&self.figures.level(began).run, ran);
        self.enter(stay, before, State::Blocked);
        self.running.end(level, now);
    }

    fn reprioritized(&self, id: CoroutineId, from: Priority, to: Priority) {
        let Some(stay) = self.stays.get(id) else {
            return;
        };
        match stay.state() {
            before @ State::Ready(_) => {
                self.enter(stay, before, State::Ready(to));
                if stay.inverted.load(Ordering::Relaxed) == 0
                    && to.is_more_urgent_than(from)
                    && self.running.hold_up(to)
                {
                    self.begin_inversion(stay, to, (self.now)());
                }
            }
            before @ State::Running { level, began } => {
                self.enter(stay, before, State::Running { level: to, began });
                self.running.end(level, (self.now)());
                self.running.begin(to);
            }
            State::Nowhere | State::Blocked => {}
        }
    }

    fn exited(&self, id: CoroutineId, _: Exit) {
        let Some(stay) = self.stays.get(id) else {
            return;
        };
        let before = stay.state();
        if let State::Ready(level) = before
            && stay.inverted.load(Ordering::Relaxed) != 0
        {
            self.end_inversion(stay, level, (self.now)());
        }
        self.enter(stay, before, State::Nowhere);
    }
}

#[cfg(test)]
mod tests;
