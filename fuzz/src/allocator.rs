//! An allocator that fails on request.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// How many more allocations of this thread succeed.
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
}

struct Failing;

#[global_allocator]
static ALLOCATOR: Failing = Failing;

/// Lets so many more allocations of this thread succeed, or all again.
pub(crate) fn limit(allocations: Option<usize>) {
    LEFT.set(allocations.unwrap_or(usize::MAX));
}

// SAFETY: the system's allocator does the work, and a null pointer is an answer that the trait
// allows.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let left = LEFT.get();
        if left == 0 {
            return std::ptr::null_mut();
        }
        LEFT.set(left.saturating_sub(usize::from(left != usize::MAX)));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}
