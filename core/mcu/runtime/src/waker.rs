//! Wakers: the pointer to a task.
//!
//! A waker is good for ever, since tasks are static. One that is kept beyond the exit of its task
//! wakes the task that has its memory then, if any: a spurious wake (rule W7).

use core::mem::ManuallyDrop;
use core::task::{RawWaker, RawWakerVTable, Waker};

use crate::critical;
use crate::task::Header;

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake, |_| {});

unsafe fn clone(task: *const ()) -> RawWaker {
    RawWaker::new(task, &VTABLE)
}

#[inline]
unsafe fn wake(task: *const ()) {
    let task = task.cast::<Header>();
    // SAFETY: the pointer of a waker is that of a task, which is static.
    let scheduler = unsafe { (*task).scheduler() };
    if !scheduler.note_wake_of_running(task) {
        // SAFETY: as above.
        wake_other(unsafe { &*task });
    }
}

/// Wakes a task that does not run.
#[inline(never)]
fn wake_other(task: &Header) {
    critical(|| task.scheduler().wake(task));
}

/// Returns the waker of a task. It needs no drop.
///
/// # Safety
/// The task was spawned, and the pointer reaches the whole of its storage.
#[inline(always)]
pub(crate) unsafe fn borrowed(task: *const Header) -> ManuallyDrop<Waker> {
    // SAFETY: the functions of the table do what wakers must do, from any context.
    ManuallyDrop::new(unsafe { Waker::from_raw(RawWaker::new(task.cast(), &VTABLE)) })
}
