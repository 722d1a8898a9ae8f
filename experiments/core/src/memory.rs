//! Counts the bytes that the program has allocated and not freed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static IN_USE: AtomicUsize = AtomicUsize::new(0);

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts a change of the bytes in use, by a load and a store.
///
/// Everything here runs on one thread, so these count well enough. They cost the measured executors
/// next to nothing, unlike a locked addition at each allocation.
fn count(change: isize) {
    let in_use = IN_USE.load(Ordering::Relaxed);
    IN_USE.store(in_use.wrapping_add_signed(change), Ordering::Relaxed);
}

// SAFETY: `System` does all the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(memory, layout, size) }
    }
}

/// Returns the bytes in use now.
fn in_use() -> usize {
    IN_USE.load(Ordering::Relaxed)
}

/// Returns the bytes per coroutine that `spawn`ing `n` of them on `executor` costs beyond
/// `future_size` each.
pub(crate) fn beside_future<E>(
    n: usize,
    future_size: usize,
    executor: E,
    spawn: impl Fn(&E, usize),
) -> f64 {
    let before = in_use();
    for number in 0..n {
        spawn(&executor, number);
    }
    (in_use() - before) as f64 / n as f64 - future_size as f64
}
