//! Threads: the kernel's own, each with a stack.
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

use corank_abi::call;

use crate::local::{self, ThreadBlock};
use crate::raw::{Error, number_call};
use crate::ring::Ring;

/// Number of a thread inside its process; the main thread is 0.
pub type Tid = usize;

/// Yields the rest of the turn.
#[inline]
pub fn yield_now() {
    let _ = number_call(call::YIELD, [0; 3]);
}

/// Yields as [`yield_now`] does, and lends the caller's level to another thread of this process.
///
/// For a lock whose holder is known and may be less urgent than the caller: with [`yield_now`] a
/// hart would run the caller again at once. The other thread has the level until it yields, or at
/// most until the next tick of the clock. So the one that unlocks yields if another one waits, and
/// the one that waits tries again. A process has one loan at a time: the last one.
///
/// # Errors
/// There is no such thread, it has ended, or it is the caller. The caller has yielded even so.
pub fn yield_to(thread: Tid) -> Result<(), Error> {
    number_call(call::YIELD_TO, [thread, 0, 0]).map(drop)
}

/// Returns the calling thread's number.
#[inline]
#[must_use]
pub fn id() -> Tid {
    local::block().tid
}

/// Whether this process has ever started a thread beside its main one.
static OTHERS_STARTED: AtomicBool = AtomicBool::new(false);

/// Tests whether a thread other than the main one may exist.
///
/// Then wakes may come from outside the executor's thread.
pub(crate) fn others_started() -> bool {
    OTHERS_STARTED.load(Ordering::Acquire)
}

/// Where a thread leaves its result for the one that joins it.
struct Packet<T> {
    /// Set when the result is there. What the kernel returns for the thread is no proof of that,
    /// because it refuses a call also for want of memory.
    is_filled: AtomicBool,
    result: UnsafeCell<Option<T>>,
}

// SAFETY: the thread writes before it sets `is_filled`, the joiner reads after it has seen that:
// never both at once.
unsafe impl<T: Send> Sync for Packet<T> {}

impl<T> Packet<T> {
    fn new() -> Self {
        Self {
            is_filled: AtomicBool::new(false),
            result: UnsafeCell::new(None),
        }
    }

    /// Stores the result.
    ///
    /// # Safety
    /// The caller is the thread, and calls this once.
    unsafe fn fill(&self, result: T) {
        // SAFETY: the joiner does not read yet.
        unsafe { *self.result.get() = Some(result) };
        self.is_filled.store(true, Ordering::Release);
    }

    /// Takes the result, or returns `None` if the thread has not stored it yet.
    ///
    /// # Safety
    /// The caller is the one that joins.
    unsafe fn take(&self) -> Option<T> {
        if !self.is_filled.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: the thread does not write any more.
        unsafe { (*self.result.get()).take() }
    }
}

/// A running thread.
///
/// Dropping it lets the thread run on; the kernel keeps its exit code until the process ends.
#[derive(Debug)]
pub struct JoinHandle<T> {
    tid: Tid,
    packet: Arc<Packet<T>>,
}

impl<T> core::fmt::Debug for Packet<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Packet").finish_non_exhaustive()
    }
}

/// The thread ended without a result: it called [`process::exit`](crate::process::exit) or
/// panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoResult {
    /// Its exit code.
    pub code: isize,
}

/// Starts a thread that runs `body`.
///
/// One kernel entry and two small allocations.
///
/// # Errors
/// The kernel has no memory for its stack. `body` has been dropped then.
pub fn spawn<T, F>(body: F) -> Result<JoinHandle<T>, Error>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    OTHERS_STARTED.store(true, Ordering::Release);
    let packet = Arc::new(Packet::new());
    let start = Box::into_raw(Box::new(Start {
        body,
        packet: Arc::clone(&packet),
    }));
    let entry = trampoline::<T, F> as extern "C" fn(*mut Start<T, F>, Tid) -> !;
    match number_call(
        call::THREAD_CREATE,
        [entry as usize, start.expose_provenance(), 0],
    ) {
        Ok(tid) => Ok(JoinHandle { tid, packet }),
        Err(error) => {
            // SAFETY: no thread has started, so the box is still ours.
            drop(unsafe { Box::from_raw(start) });
            Err(error)
        }
    }
}

struct Start<T, F> {
    body: F,
    packet: Arc<Packet<T>>,
}

extern "C" fn trampoline<T, F: FnOnce() -> T>(start: *mut Start<T, F>, tid: Tid) -> ! {
    let block = ThreadBlock::new(tid);
    // SAFETY: it lies in this thread's first stack frame, which is never left.
    unsafe { block.install() };
    // SAFETY: `spawn` has made the box for this thread alone.
    let Start { body, packet } = *unsafe { Box::from_raw(start) };
    let result = body();
    // SAFETY: this is the thread, and there is one result.
    unsafe { packet.fill(result) };
    drop(packet);
    Ring::leave();
    crate::process::exit(0)
}

impl<T> JoinHandle<T> {
    /// Returns the thread's number.
    #[must_use]
    pub fn id(&self) -> Tid {
        self.tid
    }

    /// Waits in the kernel until the thread has ended, and returns its result.
    ///
    /// # Errors
    /// It ended without one.
    pub fn join(self) -> Result<T, NoResult> {
        match crate::calls::waittid(self.tid) {
            // It has ended with this code, or the kernel has no memory to wait.
            Err(error) if error.code() == call::FAILED => self.join_yielding(),
            code => self.result(code),
        }
    }

    /// Waits as [`join`](Self::join) does, but polls and yields in between, as the programs of
    /// AsyncOS do (section 3).
    ///
    /// # Errors
    /// It ended without a result.
    pub fn join_yielding(self) -> Result<T, NoResult> {
        loop {
            match number_call(call::WAITTID, [self.tid, 0, 0]) {
                Err(error) if error.code() == call::STILL_RUNNING => yield_now(),
                code => return self.result(code),
            }
        }
    }

    fn result(self, code: Result<usize, Error>) -> Result<T, NoResult> {
        let code = code.map_or_else(Error::code, |code| code as isize);
        // SAFETY: there is one handle, and it is consumed.
        unsafe { self.packet.take() }.ok_or(NoResult { code })
    }
}
