//! Producers and a consumer over a circular buffer of eight places, with three semaphores.
#![no_std]
#![no_main]

#[path = "../rcore.rs"]
mod rcore;
use rcore::*;

use core::sync::atomic::{AtomicUsize, Ordering};

const MUTEX: usize = 0;
const EMPTY: usize = 1;
const AVAILABLE: usize = 2;
const PLACES: usize = 8;
const PRODUCERS: usize = 4;
const ITEMS: usize = 100;

static BUFFER: [AtomicUsize; PLACES] = [const { AtomicUsize::new(0) }; PLACES];
static FRONT: AtomicUsize = AtomicUsize::new(0);
static TAIL: AtomicUsize = AtomicUsize::new(0);

extern "C" fn produce(number: usize) -> ! {
    for _ in 0..ITEMS {
        semaphore_down(EMPTY);
        semaphore_down(MUTEX);
        let tail = TAIL.load(Ordering::Relaxed);
        BUFFER[tail].store(number, Ordering::Relaxed);
        TAIL.store((tail + 1) % PLACES, Ordering::Relaxed);
        semaphore_up(MUTEX);
        semaphore_up(AVAILABLE);
    }
    exit(0)
}

extern "C" fn consume(_: usize) -> ! {
    let mut sum = 0;
    for _ in 0..PRODUCERS * ITEMS {
        semaphore_down(AVAILABLE);
        semaphore_down(MUTEX);
        let front = FRONT.load(Ordering::Relaxed);
        sum += BUFFER[front].load(Ordering::Relaxed);
        FRONT.store((front + 1) % PLACES, Ordering::Relaxed);
        semaphore_up(MUTEX);
        semaphore_up(EMPTY);
    }
    exit(sum as i32)
}

/// Runs the test.
#[unsafe(no_mangle)]
fn main() -> i32 {
    assert_eq!(semaphore_create(1), MUTEX as isize);
    assert_eq!(semaphore_create(PLACES), EMPTY as isize);
    assert_eq!(semaphore_create(0), AVAILABLE as isize);
    let producers = [1, 2, 3, 4].map(|number| thread_create(produce, number));
    let consumer = thread_create(consume, 0);
    for tid in producers {
        assert_eq!(waittid(tid as usize), 0);
    }
    assert_eq!(
        waittid(consumer as usize),
        (ITEMS * (1 + 2 + 3 + 4)) as isize
    );
    println!("semaphore passed!");
    0
}
