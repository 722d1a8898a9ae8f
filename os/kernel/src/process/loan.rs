//! The level that a thread lends to another one of its process: priority inheritance.
//!
//! ```text
//!   thread at level 10 ── finds a lock taken, YIELD_TO ──▶ its holder at level 50 runs at level 10
//!   the holder ── unlocks, YIELD ──▶ runs at level 50 again, and the thread at level 10 has the lock
//! ```
//! Without a loan a thread that yields until a less urgent one unlocks would have the hart again at
//! once, for ever. A loan ends when its thread yields or a tick interrupts it, so a program has no
//! more of it than until the next tick. A thread that still waits then lends its level again.
use super::{Process, Slot, State, Worker};
use crate::executor::{executor, priority};
use core::sync::atomic::{AtomicUsize, Ordering};

/// Which thread of a process has the level of another one: its number and 1, or 0.
///
/// Written under the process's own lock.
#[derive(Debug)]
pub(super) struct Loan(AtomicUsize);

impl Loan {
    pub(super) const fn none() -> Loan {
        Loan(AtomicUsize::new(0))
    }

    fn borrower(&self) -> Option<usize> {
        self.0.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Forgets the loan of a thread that has ended: another one may get its number.
    pub(super) fn forget(&self, tid: usize) {
        if self.borrower() == Some(tid) {
            self.0.store(0, Ordering::Relaxed);
        }
    }
}

impl Process {
    /// Lets a thread run at the level of `lender` until it comes to rest, unless it is as urgent.
    ///
    /// The loan of another thread ends. Returns false without such a thread.
    pub(crate) fn lend_level(&self, lender: &Worker, tid: usize) -> bool {
        let mut state = self.state.lock();
        let Some(Slot::Live(coroutine)) = state.threads.get(tid) else {
            return false;
        };
        let level = lender.level();
        if level < self.worker(state.worker_of(tid)).level() {
            let coroutine = *coroutine;
            if let Some(before) = self.loan.borrower().filter(|before| *before != tid) {
                state.take_own_level(self, before);
            }
            self.loan.0.store(tid + 1, Ordering::Relaxed);
            executor().reprioritize(coroutine, priority(level));
        }
        true
    }

    /// Ends the loan of a thread that comes to rest, if it has one.
    #[inline]
    pub(crate) fn end_loan(&self, tid: usize) {
        if self.loan.borrower() == Some(tid) {
            self.take_own_level(tid);
        }
    }

    #[cold]
    fn take_own_level(&self, tid: usize) {
        let mut state = self.state.lock();
        self.loan.forget(tid);
        state.take_own_level(self, tid);
    }
}

impl State {
    /// Gives a thread the level of its worker again.
    fn take_own_level(&mut self, process: &Process, tid: usize) {
        if let Some(Slot::Live(coroutine)) = self.threads.get(tid) {
            let level = process.worker(self.worker_of(tid)).level();
            executor().reprioritize(*coroutine, priority(level));
        }
    }
}
