//! The scheduling classes by which Linux learns of the levels that a process runs.
//!
//! A process that becomes urgent must get a processor before it can show that it is. Until then
//! only Linux can help it. So the process sets the *scheduling class* of its most urgent work in
//! Linux. There are three classes, each a range of levels. All workers of a process are in the same
//! class, because they share the locks of one executor. A worker that Linux leaves aside must not
//! hold up a more urgent one.
//!
//! In the most urgent class the workers' timers are also exact. Each worker sets that itself.
//!
//! A class that is more urgent is entered at once, a less urgent one at a tick. So there are at
//! most two system calls per worker and tick.

use crate::linux::{self, Policy, Settings};
use corank::Priority;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::page::WORKERS;

/// Selects what Linux learns of a process's levels.
///
/// It depends on what the process may do without privileges, and on what it promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClassPolicy {
    /// Linux learns nothing. The threads stay as they are.
    Silent,
    /// Each level runs in the scheduling class of its range.
    ///
    /// Levels 0 to 15 run with the shortest slice that Linux has and timers that are exact. Levels
    /// 16 to 47 run as the process was started. Levels 48 to 63 run under `SCHED_BATCH`, and at
    /// nice 19 where the process may leave that again (with `CAP_SYS_NICE`, or an `RLIMIT_NICE` of
    /// 20).
    #[default]
    ByLevel,
    /// The process promises that it has nothing but bulk work.
    ///
    /// Its workers run under `SCHED_BATCH` at nice 19 from the beginning, whatever their levels.
    /// This needs no privileges, but cannot be undone without them.
    Bulk,
    /// As `ByLevel`, but levels 0 to 15 run under `SCHED_FIFO` where that is permitted
    /// (`CAP_SYS_NICE`, or an `RLIMIT_RTPRIO`), ahead of everything else on the machine.
    ///
    /// An urgent coroutine that does not end takes a processor away from all.
    RealTime,
}

/// A range of levels with the same settings in Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum SchedulingClass {
    Urgent,
    Normal,
    Bulk,
}

impl SchedulingClass {
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

/// The shortest slice that Linux lets a thread have.
///
/// With it a thread begins at once what it wakes for.
const SHORTEST_SLICE: u64 = 100_000;
/// The greatest niceness, at which a thread is as little urgent as it can be.
const NICEST: i32 = 19;

/// The threads of a process, and the class that they are in.
pub(crate) struct SchedulingClasses {
    class_policy: ClassPolicy,
    /// Whether a thread may become as urgent again as it was.
    may_return: bool,
    /// The same class as in the state, to be read without the lock.
    current: AtomicU8,
    state: Mutex<State>,
}

struct State {
    current: SchedulingClass,
    threads: [Option<Thread>; WORKERS],
    /// The number of ticks for which a less urgent class would have sufficed.
    calm: u32,
}

#[derive(Clone, Copy)]
struct Thread {
    id: linux::ThreadId,
    /// Its settings when it became a worker.
    base: Settings,
}

/// The number of ticks for which a less urgent class must have sufficed before it is entered.
const CALM: u32 = 2;

impl SchedulingClasses {
    pub(crate) fn new(class_policy: ClassPolicy) -> Self {
        Self {
            class_policy,
            may_return: class_policy != ClassPolicy::Silent && linux::may_return_from_nice(NICEST),
            current: AtomicU8::new(SchedulingClass::Normal as u8),
            state: Mutex::new(State {
                current: SchedulingClass::Normal,
                threads: [None; WORKERS],
                calm: 0,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> SchedulingClass {
        SchedulingClass::from_number(self.current.load(Ordering::Relaxed))
    }

    /// Makes the calling thread a worker from now on.
    pub(crate) fn enter(&self, worker: usize) {
        if self.class_policy == ClassPolicy::Silent {
            return;
        }
        // A thread under another policy, such as a real-time one, was given that on purpose, and
        // keeps it.
        let Some(base) = linux::own_settings() else {
            return;
        };
        let thread = Thread {
            id: linux::own_thread(),
            base,
        };
        let mut state = self.lock();
        state.threads[worker] = Some(thread);
        self.apply(thread, state.current);
    }

    /// Ends the worker's registration and restores its thread's settings.
    pub(crate) fn leave(&self, worker: usize) {
        if let Some(thread) = self.lock().threads[worker].take() {
            linux::set(thread.id, thread.base);
        }
    }

    /// Enters the class of this level, because work at it begins.
    ///
    /// Returns whether Linux puts the process's workers behind all others from now on.
    pub(crate) fn raise(&self, level: Priority) -> bool {
        self.raise_to(SchedulingClass::of(level));
        match self.class_policy {
            ClassPolicy::Silent => false,
            ClassPolicy::Bulk => true,
            ClassPolicy::ByLevel | ClassPolicy::RealTime => {
                self.may_return && self.current() == SchedulingClass::Bulk
            }
        }
    }

    /// Tests whether the process is in the most urgent class in Linux.
    pub(crate) fn is_urgent(&self) -> bool {
        matches!(
            self.class_policy,
            ClassPolicy::ByLevel | ClassPolicy::RealTime
        ) && self.current() == SchedulingClass::Urgent
    }

    /// Enters the normal class, because something of unknown urgency comes for a worker that
    /// sleeps.
    pub(crate) fn raise_for_arrival(&self) {
        self.raise_to(SchedulingClass::Normal);
    }

    fn raise_to(&self, class: SchedulingClass) {
        if class < self.current() {
            self.move_to(&mut self.lock(), class);
        }
    }

    /// Updates the class at each tick.
    ///
    /// `most_urgent` is the most urgent level that any worker has had something to do at lately.
    pub(crate) fn tick(&self, most_urgent: Option<Priority>) {
        let class = most_urgent.map_or(SchedulingClass::Normal, SchedulingClass::of);
        if class == self.current() {
            return;
        }
        let mut state = self.lock();
        if class < state.current {
            self.move_to(&mut state, class);
            return;
        }
        state.calm += 1;
        if state.calm >= CALM {
            self.move_to(&mut state, class);
        }
    }

    fn move_to(&self, state: &mut State, class: SchedulingClass) {
        state.calm = 0;
        state.current = class;
        self.current.store(class as u8, Ordering::Relaxed);
        for thread in state.threads.into_iter().flatten() {
            self.apply(thread, class);
        }
    }

    fn apply(&self, thread: Thread, class: SchedulingClass) {
        let base = thread.base;
        let bulk = Settings {
            policy: Policy::Batch,
            nice: NICEST.max(base.nice),
            slice: 0,
        };
        let settings = match (self.class_policy, class) {
            (ClassPolicy::Silent, _) => return,
            (ClassPolicy::Bulk, _) => bulk,
            (ClassPolicy::RealTime, SchedulingClass::Urgent) if linux::set_real_time(thread.id) => {
                return;
            }
            (_, SchedulingClass::Urgent) => Settings {
                slice: SHORTEST_SLICE,
                ..base
            },
            (_, SchedulingClass::Normal) => base,
            (_, SchedulingClass::Bulk) if self.may_return => bulk,
            (_, SchedulingClass::Bulk) => Settings {
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
    fn scheduling_classes_are_ranges_of_levels() {
        let classes = [0, 15, 16, 32, 47, 48, 63].map(|at| SchedulingClass::of(level(at)));
        use SchedulingClass::{Bulk, Normal, Urgent};
        assert_eq!(
            classes,
            [Urgent, Urgent, Normal, Normal, Normal, Bulk, Bulk]
        );
    }

    /// Compares what Linux reports of a thread after each step, which is made from another thread.
    #[test]
    fn linux_learns_of_urgency_at_once_and_of_its_end_after_two_ticks() {
        let classes = SchedulingClasses::new(ClassPolicy::ByLevel);
        classes.enter(0);
        let base = linux::own_settings().unwrap();
        let own = || linux::own_settings().unwrap();
        classes.raise(level(3));
        assert_eq!(own().slice, SHORTEST_SLICE);
        classes.tick(Some(level(50)));
        assert_eq!(own().slice, SHORTEST_SLICE, "once may be a gap");
        std::thread::scope(|scope| {
            scope.spawn(|| classes.tick(Some(level(50))));
        });
        assert_eq!(own().policy, Policy::Batch);
        assert_eq!(own().nice, if classes.may_return { 19 } else { base.nice });
        classes.raise(level(40));
        assert_eq!(own(), base);
        classes.tick(Some(level(50)));
        classes.tick(Some(level(50)));
        classes.leave(0);
        assert_eq!(own(), base);
    }

    #[test]
    fn an_arrival_raises_a_sleeper_from_the_bulk_class() {
        let classes = SchedulingClasses::new(ClassPolicy::ByLevel);
        classes.enter(0);
        let base = linux::own_settings().unwrap();
        classes.tick(Some(level(50)));
        classes.tick(Some(level(50)));
        classes.raise_for_arrival();
        assert_eq!(linux::own_settings().unwrap(), base);
    }

    #[test]
    fn a_silent_process_stays_as_it_is() {
        let classes = SchedulingClasses::new(ClassPolicy::Silent);
        let base = linux::own_settings().unwrap();
        classes.enter(0);
        classes.raise(level(0));
        assert_eq!(linux::own_settings().unwrap(), base);
    }

    #[test]
    fn bulk_needs_no_privileges() {
        std::thread::spawn(|| {
            let classes = SchedulingClasses::new(ClassPolicy::Bulk);
            classes.enter(0);
            classes.raise(level(0));
            assert_eq!(linux::own_settings().unwrap().nice, 19);
        })
        .join()
        .unwrap();
    }
}
