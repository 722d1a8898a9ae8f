//! Wakers, and [`Remote`]: what reaches a coroutine from any thread, hart or interrupt handler.

use core::fmt;
use core::mem::ManuallyDrop;
use core::task::{RawWaker, RawWakerVTable, Waker};

use crate::block::{BlockRef, Flags};
use crate::context;
use crate::priority::Priority;
use crate::scheduler::Scheduler;
use crate::signals::{Released, Sent, Signal};

/// For coroutines of an executor of one thread.
static VTABLE: RawWakerVTable = RawWakerVTable::new(
    clone::<false>,
    wake::<false>,
    wake_by_ref::<false>,
    drop_waker,
);
/// For those of a shared one.
static SHARED_VTABLE: RawWakerVTable =
    RawWakerVTable::new(clone::<true>, wake::<true>, wake_by_ref::<true>, drop_waker);

#[inline]
fn vtable<const SHARED: bool>() -> &'static RawWakerVTable {
    if SHARED { &SHARED_VTABLE } else { &VTABLE }
}

/// The waker of `block` for the time of one poll. It holds no reference: the coroutine exists while
/// it is polled.
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

/// Whether `waker` wakes `block` and nothing else.
#[inline]
pub(crate) fn is_of(waker: &Waker, block: BlockRef) -> bool {
    waker.data() == block.as_data()
        && [&VTABLE, &SHARED_VTABLE]
            .into_iter()
            .any(|vtable| core::ptr::eq(waker.vtable(), vtable))
}

/// # Safety
/// `data` is that of one of our wakers, and alive.
unsafe fn clone<const SHARED: bool>(data: *const ()) -> RawWaker {
    // SAFETY: the caller's waker keeps the block alive.
    let block = unsafe { BlockRef::from_data(data) };
    // Never the first one into a table whose executor is gone: the caller's waker is one already.
    let _ = block.signals.acquire();
    RawWaker::new(data, vtable::<SHARED>())
}

/// # Safety
/// As `clone`; the waker is not used again.
unsafe fn wake<const SHARED: bool>(data: *const ()) {
    // SAFETY: the caller's promise.
    unsafe {
        wake_by_ref::<SHARED>(data);
        drop_waker(data);
    }
}

/// # Safety
/// As `clone`.
unsafe fn wake_by_ref<const SHARED: bool>(data: *const ()) {
    // SAFETY: the caller's waker keeps the block alive.
    let block = unsafe { BlockRef::from_data(data) };
    if SHARED {
        let scheduler = Scheduler::of(block);
        match context::seat_of(scheduler) {
            Some(seat) if seat.wakes_itself(block) => {}
            Some(_) => scheduler.held(|| scheduler.wake(block)),
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

/// # Safety
/// As `clone`; the waker is not used again.
unsafe fn drop_waker(data: *const ()) {
    // SAFETY: the caller's waker keeps the block alive until its reference is released, once, here.
    unsafe { release(BlockRef::from_data(data)) }
}

/// Sends a signal from outside; false if nobody is there to receive it.
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

/// Reaches one coroutine from any thread, hart or interrupt handler: wakes, cancels,
/// re-prioritises.
///
/// What it asks takes effect before the executor picks again; where that executor runs, as in one
/// of its coroutines, a wake and a new priority do at once. Made by
/// [`JoinHandle::remote`](crate::JoinHandle::remote); it keeps the coroutine's slot in the table,
/// not its future. Cost of each call: one atomic read-modify-write, and two more for the first
/// since the executor last looked (three if several workers serve it); where the executor runs,
/// what a waker costs there.
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

    /// Wakes the coroutine (rules W1 to W5). False if its handle and it, or its executor, are gone.
    pub fn wake(&self) -> bool {
        let Some(scheduler) = self.here() else {
            return send(self.block, Signal::Wake);
        };
        scheduler.held(|| scheduler.wake(self.block));
        !self.block.signals.is_refusing()
    }

    /// Cancels the coroutine (rules X1 to X4). False if it was certainly too late.
    pub fn cancel(&self) -> bool {
        send(self.block, Signal::Cancel)
    }

    /// Gives the coroutine a new base priority (rules R1 to R4). False if it was certainly too
    /// late. Of several calls before the executor looks, the last one counts.
    pub fn reprioritize(&self, priority: Priority) -> bool {
        match self.here() {
            // One that was asked for before must not come after this.
            Some(scheduler) if !self.block.signals.is_reprioritizing() => {
                scheduler.held(|| scheduler.reprioritize(self.block, priority))
            }
            _ => send(self.block, Signal::Reprioritize(priority)),
        }
    }

    /// The coroutine's scheduler, if it runs here.
    fn here(&self) -> Option<&Scheduler> {
        let scheduler = Scheduler::of(self.block);
        context::seat_of(scheduler).map(|_| scheduler)
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
