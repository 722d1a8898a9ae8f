//! The kernel's heap.
//!
//! It is one range of memory, set aside at boot, so that the number of free frames says nothing but
//! what programs use.
//!
//! A part of it is a reserve, from which small blocks come that find no place in the rest. So the
//! kernel goes on where the rest is full, or in pieces that are too small. Large blocks never come
//! from the reserve. What asks for one takes a refusal as an error.
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
    reserve_used: AtomicUsize::new(0),
    reserve_limit: AtomicUsize::new(0),
};

/// How much of the heap is set aside as the reserve at most, in bytes.
///
/// It is an eighth of the heap, if that is less. Programs' objects are refused while half of it is
/// in use, and each hart makes a few small blocks at most between asking and the end of the call.
/// So what was promised to a program is there, in whatever pieces the rest of the heap lies.
const RESERVE: usize = 4 << 20;

/// The largest block that may come from the reserve, in bytes.
///
/// A larger request may be refused.
const LARGEST_OF_RESERVE: usize = 64 << 10;

struct Heap {
    open: Part,
    reserve: Part,
    /// Where the reserve begins, behind the rest.
    boundary: AtomicUsize,
    /// Bytes of the reserve that are in use, as they were asked for.
    reserve_used: AtomicUsize,
    /// The same from which on programs' objects are refused.
    reserve_limit: AtomicUsize,
}

impl Heap {
    fn is_of_reserve(&self, block: *mut u8) -> bool {
        block.addr() >= self.boundary.load(Ordering::Relaxed)
    }

    #[cold]
    fn alloc_of_reserve(&self, layout: Layout) -> *mut u8 {
        if layout.size() > LARGEST_OF_RESERVE {
            return ptr::null_mut();
        }
        // SAFETY: the layout is not empty: it comes from `alloc`, whose caller promises that.
        let block = unsafe { self.reserve.alloc(layout) };
        if !block.is_null() {
            self.reserve_used
                .fetch_add(layout.size(), Ordering::Relaxed);
        }
        block
    }
}

// SAFETY: each block comes from one of two allocators, and goes back to the same: `is_of_reserve`
// tells them apart by their ranges.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = if fault::fills_heap() {
            ptr::null_mut()
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.open.alloc(layout) }
        };
        if block.is_null() {
            return self.alloc_of_reserve(layout);
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if self.is_of_reserve(block) {
            self.reserve_used
                .fetch_sub(layout.size(), Ordering::Relaxed);
            // SAFETY: the caller's promise, and it comes from this part.
            unsafe { self.reserve.dealloc(block, layout) }
        } else {
            // SAFETY: as above.
            unsafe { self.open.dealloc(block, layout) }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !self.is_of_reserve(block) && !fault::fills_heap() {
            // SAFETY: the caller's promise, and it comes from this part.
            let other = unsafe { self.open.realloc(block, layout, size) };
            if !other.is_null() {
                return other;
            }
        }
        // SAFETY: the caller's promise: the size is not 0, and not too large with this alignment.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: the same.
        let other = unsafe { self.alloc(wanted) };
        if !other.is_null() {
            // SAFETY: both blocks have so many bytes, and lie apart; the old one is the caller's to
            // give back.
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
    let reserve = RESERVE.min(range.len() / 8);
    HEAP.reserve_limit.store(reserve / 2, Ordering::Relaxed);
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

/// Tests whether so much of the reserve is left that programs' objects may be made.
///
/// Takes two loads.
pub(super) fn is_reserve_intact() -> bool {
    HEAP.reserve_used.load(Ordering::Relaxed) <= HEAP.reserve_limit.load(Ordering::Relaxed)
}

/// Returns the bytes outside of the reserve that are not in use.
pub(super) fn room() -> usize {
    HEAP.open.lock().counters().available_bytes
}

/// Returns the bytes of the heap, and how many of them are in use.
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
