//! The kernel's heap: one range of memory, set aside at boot, so that the number of free frames says nothing but what
//! programs use.
//!
//! A part of it is a reserve, from which comes what finds no place in the rest: so the kernel goes on, also where that is full, or in pieces
//! that are too small for a table that grows.
use crate::fault;
use crate::lock::RawLock;
use core::alloc::{GlobalAlloc, Layout};
use core::ops::Range;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};
use talc::{TalcLock, source::Manual};

type Part = TalcLock<RawLock, Manual>;

#[global_allocator]
static HEAP: Heap = Heap {
    open: TalcLock::new(Manual),
    reserve: TalcLock::new(Manual),
    boundary: AtomicUsize::new(0),
};

/// What stays out of the reach of programs, in bytes: calls that create something in the kernel fail below it, so that
/// the kernel itself does not run out of memory. More than the largest table of a process needs when it grows (see the
/// limits in `process` and `ring`).
pub(crate) const RESERVE: usize = 4 << 20;

/// The reserve is larger: what lies there does not keep programs from going on before it is as much as the difference.
const SET_ASIDE: usize = RESERVE + (2 << 20);

/// Programs' requests are refused where the rest of the heap has no more than this.
const LEAST: usize = 1 << 20;

struct Heap {
    open: Part,
    reserve: Part,
    /// Where the reserve begins, behind the rest.
    boundary: AtomicUsize,
}

impl Heap {
    /// The part that a block lies in.
    fn part(&self, block: *mut u8) -> &Part {
        if block.addr() < self.boundary.load(Ordering::Relaxed) {
            &self.open
        } else {
            &self.reserve
        }
    }
}

// SAFETY: each block comes from one of two allocators, and goes back to the same: `part` tells them apart by their ranges.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let block = unsafe { self.open.alloc(layout) };
        if block.is_null() {
            // SAFETY: the same.
            return unsafe { self.reserve.alloc(layout) };
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, and it comes from this part.
        unsafe { self.part(block).dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise, and it comes from this part.
        let other = unsafe { self.part(block).realloc(block, layout, size) };
        if !other.is_null() {
            return other;
        }
        // SAFETY: the caller's promise: the size is not 0, and not too large with this alignment.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: the same.
        let other = unsafe { self.alloc(wanted) };
        if !other.is_null() {
            // SAFETY: both blocks have so many bytes, and lie apart; the old one is the caller's to give back.
            unsafe {
                ptr::copy_nonoverlapping(block, other, layout.size().min(size));
                self.dealloc(block, layout);
            }
        }
        other
    }
}

/// Makes `range` the heap.
///
/// # Safety
/// The memory exists, nothing else uses it, and it is mapped at its own address from now on.
pub(crate) unsafe fn init(range: Range<usize>) {
    let reserve = SET_ASIDE.min(range.len() / 2);
    let boundary = range.end - reserve;
    HEAP.boundary.store(boundary, Ordering::Relaxed);
    for (part, start, size) in [
        (&HEAP.open, range.start, range.len() - reserve),
        (&HEAP.reserve, boundary, reserve),
    ] {
        // SAFETY: as promised by the caller; the two do not overlap.
        unsafe { part.lock().claim(start as *mut u8, size) }
            .expect("the kernel's heap is too small");
    }
}

/// Whether a program's request may still be served from the heap.
pub(crate) fn has_room() -> bool {
    !fault::fails_allocation()
        && HEAP.open.lock().counters().available_bytes > LEAST
        && HEAP.reserve.lock().counters().available_bytes >= RESERVE
}

/// Bytes of the heap, and how many of them are in use.
pub(crate) fn used() -> (usize, usize) {
    [&HEAP.open, &HEAP.reserve]
        .into_iter()
        .fold((0, 0), |(claimed, used), part| {
            let part = part.lock();
            let counters = part.counters();
            let in_use = counters.claimed_bytes - counters.available_bytes;
            (claimed + counters.claimed_bytes, used + in_use)
        })
}
