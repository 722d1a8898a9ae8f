//! Memory of coroutines that are gone goes back to the allocator.
//!
//! A test program of its own, because its allocator counts for the whole process.

#![cfg(not(loom))]

#[path = "../../core/tests/common/asserts.rs"]
mod asserts;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use corank_linux::time::sleep;
use corank_linux::{Builder, Priority};

/// Bounds the waits of a failing test; long enough for any machine.
const LONG: Duration = Duration::from_secs(60);
const SLEEPERS: usize = 100_000;
/// The control block of each coroutine stays, for the next ones, and the directory of the blocks.
const BYTES_THAT_STAY: usize = 64;

/// Bytes that are allocated.
static LIVE: AtomicUsize = AtomicUsize::new(0);

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Many coroutines sleep at once and are cancelled. While the runtime has nothing to do, all memory
/// of their futures goes back; what stays is the table.
#[test]
fn memory_of_many_sleepers_goes_back() {
    let runtime = Builder::new().workers(2).build().unwrap();
    let before = LIVE.load(Ordering::Relaxed);
    let sleepers = runtime.handle().clone();
    let at_work = runtime.block_on(async move {
        let sleeping = (0..SLEEPERS).map(|_| {
            // None of them ends before all have begun.
            sleepers.spawn(Priority::DEFAULT, sleep(LONG)).unwrap()
        });
        let sleeping: Vec<_> = sleeping.collect();
        let at_work = LIVE.load(Ordering::Relaxed) - before - size_of_val(&sleeping[..]);
        for handle in sleeping {
            assert!(handle.cancel());
            assert!(handle.await.is_err());
        }
        at_work
    });
    assert!(at_work > SLEEPERS * (BYTES_THAT_STAY + 64), "{at_work}");
    let began = Instant::now();
    loop {
        let left = LIVE.load(Ordering::Relaxed).saturating_sub(before);
        if left < SLEEPERS * BYTES_THAT_STAY {
            break;
        }
        let text = "of the futures' memory nothing goes back";
        assert!(began.elapsed() < LONG, "{text}: {left} of {at_work} bytes");
        thread::sleep(Duration::from_millis(10));
    }
    // When all is given back, idle workers sleep without a limit, and coroutines still run.
    assert_eq!(runtime.block_on(async { 7 }), 7);
}
