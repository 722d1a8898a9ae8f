//! The kernel's heap: one range of memory, set aside at boot, so that the number of free frames says nothing but what
//! programs use.
use crate::fault;
use core::ops::Range;
use talc::{TalcLock, source::Manual};

#[global_allocator]
static HEAP: TalcLock<spin::Mutex<()>, Manual> = TalcLock::new(Manual);

/// What stays out of the reach of programs, in bytes: calls that create something in the kernel fail below it, so that
/// the kernel itself does not run out of memory. More than the largest table of a process needs when it grows (see the
/// limits in `process` and `ring`).
pub(crate) const RESERVE: usize = 4 << 20;

/// Makes `range` the heap.
///
/// # Safety
/// The memory exists, nothing else uses it, and it is mapped at its own address from now on.
pub(crate) unsafe fn init(range: Range<usize>) {
    // SAFETY: as promised by the caller.
    unsafe { HEAP.lock().claim(range.start as *mut u8, range.len()) }
        .expect("the kernel's heap is too small");
}

/// Whether a program's request may still be served from the heap.
pub(crate) fn has_room() -> bool {
    !fault::fails_allocation() && HEAP.lock().counters().available_bytes > RESERVE
}

/// Bytes of the heap, and how many of them are in use.
pub(crate) fn used() -> (usize, usize) {
    let heap = HEAP.lock();
    let counters = heap.counters();
    (
        counters.claimed_bytes,
        counters.claimed_bytes - counters.available_bytes,
    )
}
