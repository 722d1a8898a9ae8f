//! What Linux is told of the levels that a process runs.
//!
//! A process that becomes urgent must get a processor before it can show that it is: until then only Linux can help it. So
//! Linux is told in which of three *bands* of levels the process's most urgent work is. All workers of a process are in the same
//! band: they share the locks of one executor, and one that Linux leaves aside must not hold up a more urgent one.
//!
//! In the most urgent band the workers' timers are exact as well, which each worker sees to itself.
//!
//! A band that is more urgent is entered at once, a less urgent one at a tick: so there are at most two system calls per worker and tick.

use crate::linux::{self, Policy, Settings};
use corank::Priority;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::page::WORKERS;

/// What a process lets Linux know of its levels: what it may, without privileges, and what it promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mix {
    /// Nothing: its threads stay as they are.
    Silent,
    /// Levels 0 to 15 run with the shortest slice that Linux has and timers that are exact, 16 to 47 as the process was started, 48 to 63 under `SCHED_BATCH`, at nice 19
    /// where the process may leave that again: with `CAP_SYS_NICE`, or an `RLIMIT_NICE` of 20.
    #[default]
    Bands,
    /// The process promises that it has nothing but bulk work: its workers run under `SCHED_BATCH` at nice 19 from the beginning, whatever
    /// their levels. Needs no privileges, but cannot be undone without them.
    Bulk,
    /// As `Bands`; but levels 0 to 15 run under `SCHED_FIFO` where that is permitted (`CAP_SYS_NICE`, or an `RLIMIT_RTPRIO`), ahead of
    /// everything else on the machine. An urgent coroutine that does not end takes a processor away from all.
    RealTime,
}

/// A range of levels, as Linux is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Band {
    Urgent,
    Normal,
    Bulk,
}

impl Band {
    pub(crate) fn of(level: Priority) -> Self {
        match level.level() {
            0..16 => Self::Urgent,
            16..48 => Self::Normal,
            _ => Self::Bulk,
        }
    }

    fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Urgent,
            1 => Self::Normal,
            _ => Self::Bulk,
        }
    }
}

/// The shortest slice that Linux lets a thread have: what it wakes for, it begins at once.
const SHORTEST_SLICE: u64 = 100_000;
/// Below this a thread is as little urgent as it can be.
const NICEST: i32 = 19;

/// The threads of a process, and the band that they are in.
pub(crate) struct Bands {
    mix: Mix,
    /// Whether a thread may become as urgent again as it was.
    may_return: bool,
    /// As in the state; read without the lock.
    current: AtomicU8,
    state: Mutex<State>,
}

struct State {
    current: Band,
    threads: [Option<Thread>; WORKERS],
    /// For how many ticks a less urgent band would have done.
    calm: u32,
}

#[derive(Clone, Copy)]
struct Thread {
    id: linux::ThreadId,
    /// How it was when it became a worker.
    base: Settings,
}

/// A less urgent band is entered when it would have done for so many ticks.
const CALM: u32 = 2;

impl Bands {
    pub(crate) fn new(mix: Mix) -> Self {
        Self {
            mix,
            may_return: mix != Mix::Silent && linux::may_return_from_nice(NICEST),
            current: AtomicU8::new(Band::Normal as u8),
            state: Mutex::new(State {
                current: Band::Normal,
                threads: [None; WORKERS],
                calm: 0,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> Band {
        Band::from_number(self.current.load(Ordering::Relaxed))
    }

    /// The calling thread is a worker from now on.
    pub(crate) fn enter(&self, worker: usize) {
        if self.mix == Mix::Silent {
            return;
        }
        // One under another policy, such as a real-time one, was given that by somebody who knows better.
        let Some(base) = linux::own_settings() else {
            return;
        };
        let thread = Thread {
            id: linux::own_thread(),
            base,
        };
        let mut state = self.lock();
        state.threads[worker] = Some(thread);
        self.tell(thread, state.current);
    }

    /// The calling thread is a worker no more.
    pub(crate) fn leave(&self, worker: usize) {
        if let Some(thread) = self.lock().threads[worker].take() {
            linux::set(thread.id, thread.base);
        }
    }

    /// Work at this level begins. Says whether Linux puts the process's workers behind all others from now on.
    pub(crate) fn raise(&self, level: Priority) -> bool {
        self.raise_to(Band::of(level));
        match self.mix {
            Mix::Silent => false,
            Mix::Bulk => true,
            Mix::Bands | Mix::RealTime => self.may_return && self.current() == Band::Bulk,
        }
    }

    /// Whether Linux is told that the process is as urgent as can be.
    pub(crate) fn is_urgent(&self) -> bool {
        matches!(self.mix, Mix::Bands | Mix::RealTime) && self.current() == Band::Urgent
    }

    /// Something of unknown urgency comes for a worker that sleeps.
    pub(crate) fn raise_for_arrival(&self) {
        self.raise_to(Band::Normal);
    }

    fn raise_to(&self, band: Band) {
        if band < self.current() {
            self.move_to(&mut self.lock(), band);
        }
    }

    /// At each tick: the most urgent level that any worker has had something to do at lately.
    pub(crate) fn tick(&self, most_urgent: Option<Priority>) {
        let band = most_urgent.map_or(Band::Normal, Band::of);
        if band == self.current() {
            return;
        }
        let mut state = self.lock();
        if band < state.current {
            self.move_to(&mut state, band);
            return;
        }
        state.calm += 1;
        if state.calm >= CALM {
            self.move_to(&mut state, band);
        }
    }

    fn move_to(&self, state: &mut State, band: Band) {
        state.calm = 0;
        state.current = band;
        self.current.store(band as u8, Ordering::Relaxed);
        for thread in state.threads.into_iter().flatten() {
            self.tell(thread, band);
        }
    }

    fn tell(&self, thread: Thread, band: Band) {
        let base = thread.base;
        let bulk = Settings {
            policy: Policy::Batch,
            nice: NICEST.max(base.nice),
            slice: 0,
        };
        let settings = match (self.mix, band) {
            (Mix::Silent, _) => return,
            (Mix::Bulk, _) => bulk,
            (Mix::RealTime, Band::Urgent) if linux::set_real_time(thread.id) => return,
            (_, Band::Urgent) => Settings {
                slice: SHORTEST_SLICE,
                ..base
            },
            (_, Band::Normal) => base,
            (_, Band::Bulk) if self.may_return => bulk,
            (_, Band::Bulk) => Settings {
                policy: Policy::Batch,
                ..base
            },
        };
        linux::set(thread.id, settings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(level: u8) -> Priority {
        Priority::new(level).unwrap()
    }

    #[test]
    fn bands_are_ranges_of_levels() {
        let bands = [0, 15, 16, 32, 47, 48, 63].map(|at| Band::of(level(at)));
        use Band::{Bulk, Normal, Urgent};
        assert_eq!(bands, [Urgent, Urgent, Normal, Normal, Normal, Bulk, Bulk]);
    }

    /// What Linux says of a thread after each step, which is made from another thread.
    #[test]
    fn linux_is_told_of_urgency_at_once_and_of_calm_after_two_ticks() {
        let bands = Bands::new(Mix::Bands);
        bands.enter(0);
        let base = linux::own_settings().unwrap();
        let own = || linux::own_settings().unwrap();
        bands.raise(level(3));
        assert_eq!(own().slice, SHORTEST_SLICE);
        bands.tick(Some(level(50)));
        assert_eq!(own().slice, SHORTEST_SLICE, "once may be a gap");
        std::thread::scope(|scope| {
            scope.spawn(|| bands.tick(Some(level(50))));
        });
        assert_eq!(own().policy, Policy::Batch);
        assert_eq!(own().nice, if bands.may_return { 19 } else { base.nice });
        bands.raise(level(40));
        assert_eq!(own(), base);
        bands.tick(Some(level(50)));
        bands.tick(Some(level(50)));
        bands.leave(0);
        assert_eq!(own(), base);
    }

    #[test]
    fn who_sleeps_in_the_bulk_band_is_raised_when_something_comes() {
        let bands = Bands::new(Mix::Bands);
        bands.enter(0);
        let base = linux::own_settings().unwrap();
        bands.tick(Some(level(50)));
        bands.tick(Some(level(50)));
        bands.raise_for_arrival();
        assert_eq!(linux::own_settings().unwrap(), base);
    }

    #[test]
    fn a_silent_process_stays_as_it_is() {
        let bands = Bands::new(Mix::Silent);
        let base = linux::own_settings().unwrap();
        bands.enter(0);
        bands.raise(level(0));
        assert_eq!(linux::own_settings().unwrap(), base);
    }

    #[test]
    fn bulk_needs_no_privileges() {
        std::thread::spawn(|| {
            let bands = Bands::new(Mix::Bulk);
            bands.enter(0);
            bands.raise(level(0));
            assert_eq!(linux::own_settings().unwrap().nice, 19);
        })
        .join()
        .unwrap();
    }
}
