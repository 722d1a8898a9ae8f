//! One thread waits for a condition that another one makes true.
#![no_std]
#![no_main]

#[path = "../rcore.rs"]
mod rcore;
use rcore::*;

use core::sync::atomic::{AtomicUsize, Ordering};

const CONDVAR: usize = 0;
const MUTEX: usize = 0;

static A: AtomicUsize = AtomicUsize::new(0);

extern "C" fn first(_: usize) -> ! {
    sleep(10);
    mutex_lock(MUTEX);
    A.store(1, Ordering::Relaxed);
    condvar_signal(CONDVAR);
    mutex_unlock(MUTEX);
    exit(0)
}

extern "C" fn second(_: usize) -> ! {
    mutex_lock(MUTEX);
    while A.load(Ordering::Relaxed) == 0 {
        assert_eq!(condvar_wait(CONDVAR, MUTEX), 0);
    }
    mutex_unlock(MUTEX);
    exit(7)
}

/// Runs the test.
#[unsafe(no_mangle)]
fn main() -> i32 {
    assert_eq!(condvar_create(), CONDVAR as isize);
    assert_eq!(mutex_create(true), MUTEX as isize);
    let threads = [thread_create(first, 0), thread_create(second, 0)];
    assert_eq!(waittid(threads[0] as usize), 0);
    assert_eq!(waittid(threads[1] as usize), 7);
    println!("condvar passed!");
    0
}
