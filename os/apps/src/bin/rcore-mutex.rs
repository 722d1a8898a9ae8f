//! Threads that add to one number under a mutex, of either kind.
#![no_std]
#![no_main]

#[path = "../rcore.rs"]
mod rcore;
use rcore::*;

use core::sync::atomic::{AtomicUsize, Ordering};

const THREADS: usize = 8;
const ROUNDS: usize = 50;

static NUMBER: AtomicUsize = AtomicUsize::new(0);

/// Adds to the number under the mutex, in two steps with a yield in between.
///
/// Without the mutex some additions would be lost.
extern "C" fn add(mutex: usize) -> ! {
    for _ in 0..ROUNDS {
        assert_eq!(mutex_lock(mutex), 0);
        let number = NUMBER.load(Ordering::Relaxed);
        yield_();
        NUMBER.store(number + 1, Ordering::Relaxed);
        assert_eq!(mutex_unlock(mutex), 0);
    }
    exit(0)
}

/// Runs the test.
#[unsafe(no_mangle)]
fn main() -> i32 {
    for (id, blocking) in [true, false].into_iter().enumerate() {
        NUMBER.store(0, Ordering::Relaxed);
        assert_eq!(mutex_create(blocking), id as isize);
        let threads = [id; THREADS].map(|mutex| thread_create(add, mutex));
        for tid in threads {
            assert_eq!(waittid(tid as usize), 0);
        }
        assert_eq!(NUMBER.load(Ordering::Relaxed), THREADS * ROUNDS);
    }
    println!("mutex passed!");
    0
}
