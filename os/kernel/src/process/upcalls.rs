//! What the kernel remembers of a worker's user-level interrupts.
//!
//! `user::upcall` draws the states, and delivers the interrupts.
use super::{Process, Worker};
use crate::lock::Mutex;
use core::sync::atomic::{AtomicU8, Ordering};

/// A worker's user-level interrupts.
#[derive(Debug, Default)]
pub(crate) struct Upcalls {
    /// [`QUIET`], [`RAISED`] or [`DEFERRED`].
    pub state: AtomicU8,
    /// The thread that takes them, if one does.
    pub taker: Mutex<Option<Taker>>,
}

/// No interrupt is raised.
pub(crate) const QUIET: u8 = 0;
/// One is raised, and not delivered yet.
pub(crate) const RAISED: u8 = 1;
/// One was left to the program to find.
pub(crate) const DEFERRED: u8 = 2;

/// The thread that takes them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taker {
    pub tid: usize,
    /// Address of its handler.
    pub handler: usize,
    /// Address of its [`Block`](corank_abi::upcall::Block) in user memory; not checked.
    pub block: usize,
}

impl Upcalls {
    /// Tests whether an interrupt waits for the thread to go to user mode.
    #[inline]
    pub(crate) fn are_raised(&self) -> bool {
        self.state.load(Ordering::Relaxed) == RAISED
    }

    /// Tests whether an interrupt waits for this thread.
    pub(crate) fn are_raised_for(&self, tid: usize) -> bool {
        self.are_raised() && self.taker.lock().is_some_and(|taker| taker.tid == tid)
    }

    /// Takes an interrupt for the thread `tid`.
    ///
    /// Returns whether one was due that it had not taken yet. The thread has taken it then, and
    /// checks for what has arrived.
    pub(crate) fn take(&self, tid: usize) -> bool {
        self.state.load(Ordering::Relaxed) != QUIET
            && self.taker.lock().is_some_and(|taker| taker.tid == tid)
            && self.state.swap(QUIET, Ordering::Acquire) != QUIET
    }

    /// Removes the thread as the taker of interrupts.
    ///
    /// It has ended, or the process runs another program.
    pub(crate) fn forget(&self, tid: usize) {
        let mut taker = self.taker.lock();
        if taker.is_some_and(|taker| taker.tid == tid) {
            *taker = None;
            self.state.store(QUIET, Ordering::Relaxed);
        }
    }

    /// Copies the handler of `other`, for a thread that goes on in a child where that one was.
    pub(crate) fn copy_from(&self, other: &Upcalls) {
        *self.taker.lock() = *other.taker.lock();
    }
}

impl Process {
    /// Interrupts the worker, unless it checks for arrivals anyway.
    ///
    /// To be called after something was put where the worker checks for it.
    #[inline]
    pub(crate) fn notify(&self, worker: &Worker) {
        if worker.page().flag.raise() {
            self.raise(worker);
        }
    }

    /// Interrupts the worker: in user mode, in a call that waits, or in `ring_enter`.
    ///
    /// Returns false if it takes no interrupts.
    #[cold]
    pub(crate) fn raise(&self, worker: &Worker) -> bool {
        let Some(Taker { tid, .. }) = *worker.upcalls.taker.lock() else {
            return false;
        };
        worker.upcalls.state.store(RAISED, Ordering::Release);
        if let Some(ring) = worker.ring() {
            ring.check_again();
        }
        self.wake_thread(tid);
        self.interrupt_harts();
        true
    }
}
