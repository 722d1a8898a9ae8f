//! An allocator that fails on request.
//!
//! A test includes this file to have it. Its limit and its counts are per thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// How many more allocations of this thread succeed.
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
    /// Bytes that this thread has allocated and not freed.
    pub(crate) static LIVE: Cell<isize> = const { Cell::new(0) };
}

/// An allocator that fails on request, and keeps count.
struct Failing;

#[global_allocator]
static ALLOCATOR: Failing = Failing;

fn grant() -> bool {
    let left = LEFT.get();
    LEFT.set(left.saturating_sub(usize::from(left != usize::MAX)));
    left > 0
}

fn count(bytes: isize) {
    LIVE.set(LIVE.get() + bytes);
}

// SAFETY: the system's allocator does the work, and a null pointer is an answer that the trait
// allows.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !grant() {
            return std::ptr::null_mut();
        }
        count(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // A read of freed memory must not find what was there.
        // SAFETY: the caller's promise.
        unsafe {
            memory.write_bytes(0xdd, layout.size());
            System.dealloc(memory, layout);
        }
    }
}

/// A limit on this thread's allocations, as long as this exists.
#[must_use]
pub(crate) struct Scarcity(());

impl Scarcity {
    pub(crate) fn of(allocations: usize) -> Self {
        LEFT.set(allocations);
        Self(())
    }
}

impl Drop for Scarcity {
    fn drop(&mut self) {
        LEFT.set(usize::MAX);
    }
}

/// Runs with memory for so many allocations.
pub(crate) fn with_memory_for<R>(allocations: usize, run: impl FnOnce() -> R) -> R {
    let _scarcity = Scarcity::of(allocations);
    run()
}
