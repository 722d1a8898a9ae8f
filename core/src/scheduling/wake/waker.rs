//! Wakers, and [`Remote`], which reach a coroutine from any thread, hart or interrupt handler.

use core::fmt;
use core::mem::ManuallyDrop;
use core::task::{RawWaker, RawWakerVTable, Waker};

use crate::priority::Priority;
use crate::scheduling::scheduler::Scheduler;
use crate::scheduling::table::block::{BlockRef, Flags};
use crate::scheduling::wake::signals::{Released, Sent, Signal};
use crate::scheduling::workers::context;

/// The functions of wakers for coroutines of an executor of one thread.
static VTABLE: RawWakerVTable = RawWakerVTable::new(
    clone::<false>,
    wake::<false>,
    wake_by_ref::<false>,
    drop_waker,
);
/// The functions of wakers for coroutines of a shared executor.
static SHARED_VTABLE: RawWakerVTable =
    RawWakerVTable::new(clone::<true>, wake::<true>, wake_by_ref::<true>, drop_waker);

#[inline]
fn vtable<const SHARED: bool>() -> &'static RawWakerVTable {
    if SHARED { &SHARED_VTABLE } else { &VTABLE }
}

/// Makes the waker of `block` for the time of one poll.
///
/// It holds no reference: the coroutine exists while it is polled.
#[inline]
pub(crate) fn borrowed(block: BlockRef, shared: bool) -> ManuallyDrop<Waker> {
    // Without a heap no scheduler is shared.
    let vtable = if cfg!(feature = "heap") && shared {
        vtable::<true>()
    } else {
        vtable::<false>()
    };
    // SAFETY: the functions of the table uphold the contract of `RawWakerVTable`: all are
    // thread-safe, and a clone counts a reference that its drop or wake gives back.
    ManuallyDrop::new(unsafe { Waker::from_raw(RawWaker::new(block.as_data(), vtable)) })
}

/// Tests whether `waker` wakes `block` and nothing else.
#[inline]
pub(crate) fn is_of(waker: &Waker, block: BlockRef) -> bool {
    waker.data() == block.as_data()
        && [&VTABLE, &SHARED_VTABLE]
            .into_iter()
            .any(|vtable| core::ptr::eq(waker.vtable(), vtable))
}

/// Counts another reference, and returns a waker for it.
///
/// # Safety
/// `data` is that of one of our wakers, and alive.
unsafe fn clone<const SHARED: bool>(data: *const ()) -> RawWaker {
    // SAFETY: the caller's waker keeps the block alive.
    let block = unsafe { BlockRef::from_data(data) };
    // Never the first one into a table whose executor is gone: the caller's waker is one already.
    let _ = block.signals.acquire();
    RawWaker::new(data, vtable::<SHARED>())
}

/// Wakes the coroutine, and drops the waker.
///
/// # Safety
/// As `clone`; the waker is not used again.
unsafe fn wake<const SHARED: bool>(data: *const ()) {
    // SAFETY: the caller's promise.
    unsafe {
        wake_by_ref::<SHARED>(data);
        drop_waker(data);
    }
}

/// Wakes the coroutine, and keeps the waker.
///
/// # Safety
/// As `clone`.
unsafe fn wake_by_ref<const SHARED: bool>(data: *const ()) {
    // SAFETY: the caller's waker keeps the block alive.
    let block = unsafe { BlockRef::from_data(data) };
    if SHARED {
        let scheduler = Scheduler::of(block);
        match context::worker_context_of(scheduler) {
            Some(worker_context) if worker_context.wakes_itself(block) => {}
            Some(_) => scheduler.locked(|| scheduler.wake(block)),
            None => {
                send(block, Signal::Wake);
            }
        }
    } else if context::current() == Some(block) {
        // The coroutine wakes itself: it yields.
        block.insert(Flags::WOKEN);
    } else if Scheduler::of(block).is_here() {
        Scheduler::of(block).wake(block);
    } else {
        send(block, Signal::Wake);
    }
}

/// Gives back the waker's reference.
///
/// # Safety
/// As `clone`; the waker is not used again.
unsafe fn drop_waker(data: *const ()) {
    // SAFETY: the caller's waker keeps the block alive until its reference is released, once, here.
    unsafe { release(BlockRef::from_data(data)) }
}

/// Sends a signal from outside; returns false if the coroutine or the executor is gone.
#[inline(never)]
fn send(block: BlockRef, signal: Signal) -> bool {
    match block.signals.send(signal) {
        Sent::Push => Scheduler::of(block).push_inbox(block),
        Sent::Pending => {}
        Sent::Refused => return false,
    }
    true
}

/// Gives back a counted reference.
///
/// # Safety
/// The caller owns one and does not use `block` again.
unsafe fn release(block: BlockRef) {
    match block.signals.release(false) {
        Released::Done => {}
        Released::Orphan => Scheduler::unanchor(block.scheduler()),
        Released::Anchor => {
            let scheduler = block.scheduler();
            Scheduler::of(block).anchor();
            match block.signals.release(true) {
                Released::Push => Scheduler::of(block).push_inbox(block),
                Released::Orphan => Scheduler::unanchor(scheduler),
                Released::Done | Released::Anchor => {}
            }
            Scheduler::unanchor(scheduler);
        }
        Released::Push => unreachable!("only an anchored release pushes"),
    }
}

/// A reference to one coroutine, from any thread, hart or interrupt handler: wakes, cancels,
/// re-prioritises.
///
/// A request takes effect before the executor picks again. Where that executor runs, as in one of
/// its coroutines, a wake and a new priority take effect at once. A `Remote` is made by
/// [`JoinHandle::remote`](crate::JoinHandle::remote); it keeps the coroutine's slot in the table,
/// not its future.
///
/// Cost of each call: one atomic read-modify-write, and two more for the first since the executor
/// last drained its inbox (three if several workers serve it). Where the executor runs, a call
/// costs what a waker costs there.
pub struct Remote {
    block: BlockRef,
}

// SAFETY: a `Remote` touches nothing of the block but its atomic fields, and the scheduler's inbox,
// which is made for it.
unsafe impl Send for Remote {}
// SAFETY: as above.
unsafe impl Sync for Remote {}

impl Remote {
    pub(crate) fn new(block: BlockRef) -> Self {
        if block.signals.acquire() {
            // The handle's own anchor keeps the table until here.
            Scheduler::of(block).anchor();
        }
        Self { block }
    }

    /// Wakes the coroutine (rules W1 to W5).
    ///
    /// Returns false if its handle and it, or its executor, are gone.
    pub fn wake(&self) -> bool {
        let Some(scheduler) = self.here() else {
            return send(self.block, Signal::Wake);
        };
        scheduler.locked(|| scheduler.wake(self.block));
        !self.block.signals.is_refusing()
    }

    /// Cancels the coroutine (rules X1 to X4). Returns false if it was certainly too late.
    pub fn cancel(&self) -> bool {
        send(self.block, Signal::Cancel)
    }

    /// Gives the coroutine a new base priority (rules R1 to R4).
    ///
    /// Returns false if it was certainly too late. Of several calls before the executor drains its
    /// inbox, the last one counts.
    pub fn reprioritize(&self, priority: Priority) -> bool {
        match self.here() {
            // A priority that was asked for before must not come after this.
            Some(scheduler) if !self.block.signals.is_reprioritizing() => {
                scheduler.locked(|| scheduler.reprioritize(self.block, priority))
            }
            _ => send(self.block, Signal::Reprioritize(priority)),
        }
    }

    /// Returns the coroutine's scheduler, if it runs here.
    fn here(&self) -> Option<&Scheduler> {
        let scheduler = Scheduler::of(self.block);
        context::worker_context_of(scheduler).map(|_| scheduler)
    }
}

impl Clone for Remote {
    fn clone(&self) -> Self {
        Self::new(self.block)
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // SAFETY: `new` acquired a reference.
        unsafe { release(self.block) }
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").finish_non_exhaustive()
    }
}
