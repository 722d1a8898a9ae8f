//! The timers of a process's own coroutines, while the worker that has them does not run (rule T9).
//!
//! ```text
//!   a thread comes to rest ──▶ read the page ──▶ due: an arrival at each such level, as if a call had ended there
//!          (yields, or waits)         ▲      └────▶ not yet: an alarm at the earliest
//!                                     └────────────────┘ when that is due
//! ```
//! The page has a lower bound for each level (`corank::Deadlines`). While a process runs it checks
//! its clock itself. When it stops, the hart that it ran on sees all that it has written. So
//! nothing is late. A bound that is too early costs one check.
//!
//! A program may write anything there, at any time and from another hart. The words are compared
//! and no more. Between two times that a thread of the process comes to rest each level counts
//! once, so there are at most 64 alarms. What counts is what the process might as well claim in its
//! bitmap (rules U2 and U3).
use super::{Process, Worker, table};
use crate::clock::{self, Alarm};
use corank::{Deadlines, Levels};
use corank_abi::page::{self, WORKERS};
use core::mem::{offset_of, size_of};
use core::ptr;
use core::sync::atomic::Ordering;
use core::task::{RawWaker, RawWakerVTable, Waker};

/// What the kernel remembers of a worker's timers.
#[derive(Debug, Default)]
pub(super) struct Watch {
    alarm: Alarm,
    /// The levels that have counted since a thread came to rest.
    counted: u64,
}

impl Worker {
    /// Makes the kernel count the worker's timers from now on, because a thread of it comes to
    /// rest.
    #[inline]
    pub(crate) fn watch_timers(&self, process: &Process) {
        if self.page().deadlines.levels.load(Ordering::Relaxed) != 0 {
            self.check_timers(process, true);
        }
    }

    /// Makes the worker count by what it says of its coroutines and their timers, because a thread
    /// of it yields.
    #[inline]
    pub(crate) fn come_to_rest(&self, process: &Process) {
        self.watch_timers(process);
        self.follow_level(process);
    }

    #[cold]
    fn check_timers(&self, process: &Process, comes_to_rest: bool) {
        // Checked under the lock, so that of two harts the one that comes second sets the alarm by
        // what it sees then.
        let mut watch = self.watch.lock();
        if comes_to_rest {
            watch.counted = 0;
        }
        let found = self
            .deadlines()
            .check(clock::nanoseconds(), Levels::from_bits(watch.counted));
        let due = found.levels.bits();
        watch.counted |= due;
        let next = found.next.map_or(u64::MAX, clock::at_nanoseconds);
        // The level of the most urgent timer, due or not.
        let levels = self.page().deadlines.levels.load(Ordering::Relaxed);
        let level = process.allowed(levels.trailing_zeros() as u8);
        let sleeper = || waker(process.pid, self.number);
        watch.alarm.set(next, level, sleeper);
        drop(watch);
        if due != 0 {
            self.page().arriving.fetch_or(due, Ordering::AcqRel);
            self.follow_level(process);
            process.notify(self);
        }
    }

    fn deadlines(&self) -> &Deadlines {
        const {
            assert!(
                size_of::<page::Deadlines>() == size_of::<Deadlines>()
                    && align_of::<page::Deadlines>() == align_of::<Deadlines>()
                    && offset_of!(page::Deadlines, levels) == 0
            );
        };
        // SAFETY: both are the same words, all of them atomic.
        unsafe { &*ptr::from_ref(&self.page().deadlines).cast() }
    }
}

/// Returns a waker that checks the timers of this worker of the process with this number.
///
/// Both numbers are its data. By the time it is called, another process may have the number.
fn waker(pid: usize, worker: usize) -> Waker {
    const TABLE: RawWakerVTable =
        RawWakerVTable::new(|data| RawWaker::new(data, &TABLE), due, due, |_| ());
    // SAFETY: the data is no pointer to anything; the functions may be called on every hart.
    unsafe { Waker::new(ptr::without_provenance(pid * WORKERS + worker), &TABLE) }
}

fn due(data: *const ()) {
    if let Some(process) = table::find(data.addr() / WORKERS)
        && let Some(worker) = process.find_worker(data.addr() % WORKERS)
    {
        worker.check_timers(&process, false);
    }
}
