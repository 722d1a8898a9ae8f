//! Counts an executor's coroutines for the watchers of the domain (feature `figures`).

use crate::claim::Nanoseconds;
use crate::clock;
use crate::figures::{Figures, LevelFigures};
use corank::{CoroutineId, Exit, Observer, Priority};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The state of a coroutine, and since when.
#[derive(Clone, Copy, Default)]
enum Stay {
    /// No coroutine has this number.
    #[default]
    Nowhere,
    Ready(Priority, Nanoseconds),
    Running(Priority, Nanoseconds),
    Blocked,
}

/// One executor's counter.
pub(crate) struct Count {
    figures: &'static Figures,
    /// The stay of each coroutine, by the number of its slot.
    ///
    /// The executor makes one call at a time, so no thread ever waits for the lock.
    stays: Mutex<Vec<Stay>>,
    now: fn() -> Nanoseconds,
}

impl Count {
    pub(crate) fn new(figures: &'static Figures) -> Self {
        figures.counting.fetch_add(1, Ordering::Relaxed);
        Self {
            figures,
            stays: Mutex::default(),
            now: clock::now,
        }
    }

    /// Moves the coroutine from its state to the one that `next` returns.
    fn go(&self, id: CoroutineId, next: impl FnOnce(Stay) -> Stay) {
        let slot = id.to_bits() as u32 as usize;
        let mut stays = self.stays.lock().unwrap_or_else(PoisonError::into_inner);
        if slot >= stays.len() {
            stays.resize(slot + 1, Stay::Nowhere);
        }
        let before = stays[slot];
        let after = next(before);
        stays[slot] = after;
        if let Some(counter) = self.counter(before) {
            counter.fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(counter) = self.counter(after) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn counter(&self, stay: Stay) -> Option<&'static AtomicU64> {
        match stay {
            Stay::Nowhere => None,
            Stay::Ready(level, _) => Some(&self.level(level).ready),
            Stay::Running(level, _) => Some(&self.level(level).running),
            Stay::Blocked => Some(&self.figures.blocked),
        }
    }

    fn level(&self, level: Priority) -> &'static LevelFigures {
        &self.figures.levels.0[usize::from(level.level())]
    }
}

// SAFETY: it writes figures of its own and reads the clock. Nothing of it belongs to an executor.
unsafe impl Observer for Count {
    fn spawned(&self, id: CoroutineId, priority: Priority) {
        let now = (self.now)();
        self.go(id, |_| Stay::Ready(priority, now));
    }

    fn woken(&self, id: CoroutineId, priority: Priority) {
        let now = (self.now)();
        self.go(id, |_| Stay::Ready(priority, now));
    }

    fn poll_started(&self, id: CoroutineId, priority: Priority) {
        let now = (self.now)();
        let figures = self.level(priority);
        figures.polls.fetch_add(1, Ordering::Relaxed);
        self.go(id, |before| {
            if let Stay::Ready(_, since) = before {
                let waited = now.saturating_sub(since);
                figures.wait.fetch_add(waited, Ordering::Relaxed);
                figures.longest_wait.fetch_max(waited, Ordering::Relaxed);
            }
            Stay::Running(priority, now)
        });
    }

    fn poll_ended(&self, id: CoroutineId) {
        let now = (self.now)();
        self.go(id, |before| {
            if let Stay::Running(level, since) = before {
                let ran = now.saturating_sub(since);
                self.level(level).run.fetch_add(ran, Ordering::Relaxed);
            }
            Stay::Blocked
        });
    }

    fn reprioritized(&self, id: CoroutineId, _from: Priority, to: Priority) {
        self.go(id, |before| match before {
            Stay::Ready(_, since) => Stay::Ready(to, since),
            other => other,
        });
    }

    fn exited(&self, id: CoroutineId, _: Exit) {
        self.go(id, |_| Stay::Nowhere);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corank::{Config, Executor, yield_now};
    use std::task::Poll;

    /// Returns the time of a clock that advances by one each time it is read.
    fn steps() -> Nanoseconds {
        thread_local!(static NOW: std::cell::Cell<u64> = const { std::cell::Cell::new(0) });
        NOW.replace(NOW.get() + 1)
    }

    fn counted() -> (Executor, &'static Figures) {
        let figures: &'static Figures = Box::leak(Box::default());
        let mut count = Count::new(figures);
        count.now = steps;
        let executor = Executor::with(Config::new().observer(Box::leak(Box::new(count))));
        (executor, figures)
    }

    /// Returns (ready, running, polls) of a level.
    fn at(figures: &Figures, level: Priority) -> [u64; 3] {
        let level = &figures.levels.0[usize::from(level.level())];
        [&level.ready, &level.running, &level.polls].map(|counter| counter.load(Ordering::Relaxed))
    }

    #[test]
    fn coroutines_are_counted_where_they_are() {
        let (executor, figures) = counted();
        let blocked = || figures.blocked.load(Ordering::Relaxed);
        let urgent = Priority::MOST_URGENT;
        let waiting = std::future::poll_fn(|_| Poll::<()>::Pending);
        let handle = executor.spawn(Priority::DEFAULT, waiting).unwrap();
        executor.spawn(urgent, yield_now()).unwrap();
        assert_eq!(at(figures, Priority::DEFAULT), [1, 0, 0]);
        assert_eq!(at(figures, urgent), [1, 0, 0]);
        executor.step();
        assert_eq!(at(figures, urgent), [1, 0, 1], "it is ready again");
        executor.run_until_idle();
        assert_eq!(at(figures, urgent), [0, 0, 2]);
        assert_eq!((at(figures, Priority::DEFAULT), blocked()), ([0, 0, 1], 1));
        executor.wake(handle.id());
        executor.reprioritize(handle.id(), urgent);
        assert_eq!((at(figures, urgent), blocked()), ([1, 0, 2], 0));
        executor.cancel(handle.id());
        assert_eq!((at(figures, urgent), blocked()), ([0, 0, 2], 0));
    }

    #[test]
    fn times_are_those_between_the_transitions() {
        let (executor, figures) = counted();
        // The clock: 0 at the spawn, 1 when the poll starts, 2 when it ends.
        executor.spawn(Priority::DEFAULT, async {}).unwrap();
        executor.run_until_idle();
        let level = &figures.levels.0[32];
        assert_eq!(level.wait.load(Ordering::Relaxed), 1);
        assert_eq!(level.longest_wait.load(Ordering::Relaxed), 1);
        assert_eq!(level.run.load(Ordering::Relaxed), 1);
    }
}
