//! Tests of tables of the kernel that have more entries than one segment has.
//!
//! Nothing in them moves when they grow.
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;

use corank_abi::call::*;
use corank_abi::information::ENDED;
use corank_abi::page::RING_BASE;
use corank_user::{information, process, thread, time};

use crate::rings::{Rings, submission};
use crate::support::{be_at, call, claim_nothing, exit_code, one_hart, pipe, tests};

tests![
    descriptors_are_told_apart_and_inherited,
    semaphores_are_told_apart,
    permits_go_in_order_to_the_remaining_waiters,
    keys_of_silent_calls_are_passed_over,
    keys_that_collide_are_found,
    many_threads_follow_their_level,
    many_threads_wake_at_the_same_time,
    children_that_have_ended_are_found_among_others,
];

/// More entries than three segments have room for.
const MANY: usize = 1600;

fn descriptors_are_told_apart_and_inherited() {
    let pipes: Vec<_> = (0..8).map(|_| pipe()).collect();
    let first = call(DUP, [0; 3]) as usize;
    // Each number stands for one of the pipes.
    for number in 0..MANY {
        let writer = pipes[number % 8].1.number();
        assert_eq!(call(DUP, [writer, 0, 0]), (first + 1 + number) as isize);
    }
    let closed = [510, 511, 512, 513, 1023, 1024, 1025, 1535, 1536].map(|number| first + number);
    for descriptor in closed {
        assert_eq!(call(CLOSE, [descriptor, 0, 0]), 0);
        assert_eq!(call(CLOSE, [descriptor, 0, 0]), FAILED);
    }
    let check = |number: usize| {
        let text = [number as u8];
        let address = text.as_ptr().expose_provenance();
        let written = call(WRITE, [first + 1 + number, address, 1]);
        if closed.contains(&(first + 1 + number)) {
            assert_eq!(written, FAILED);
            return;
        }
        let mut read = [0];
        assert_eq!(pipes[number % 8].0.read(&mut read), Ok(1));
        assert_eq!(read, text);
    };
    (0..MANY).for_each(check);
    let code = exit_code(|| {
        (0..MANY).for_each(check);
        // These are the lowest free numbers.
        for descriptor in closed {
            assert_eq!(call(DUP, [0; 3]), descriptor as isize);
        }
        assert_eq!(call(DUP, [0; 3]), (first + 1 + MANY) as isize);
        6
    });
    assert_eq!(code, 6);
    for descriptor in first..=first + MANY {
        call(CLOSE, [descriptor, 0, 0]);
    }
}

fn semaphores_are_told_apart() {
    let numbers = |kind: usize| {
        let make = move |permits: usize| call(kind, [permits % 3, 0, 0]) as usize;
        (0..MANY).map(make).collect::<Vec<_>>()
    };
    let semaphores = numbers(SEMAPHORE_CREATE);
    let mutexes = numbers(MUTEX_CREATE);
    let rings = Rings::new(8);
    for (permits, semaphore) in semaphores.iter().enumerate() {
        for _ in 0..permits % 3 {
            assert_eq!(call(SEMAPHORE_DOWN, [*semaphore, 0, 0]), 0);
        }
        if permits % 97 == 0 {
            rings.submit(submission(1, SEMAPHORE_DOWN, [*semaphore, 0, 0], 0));
            assert_eq!(rings.enter(0), 0, "it has {} permits", permits % 3);
            assert_eq!(call(SEMAPHORE_UP, [*semaphore, 0, 0]), 0);
            assert_eq!(rings.enter(1), 1);
            assert_eq!(rings.completion(), Some((1, 0)));
        }
    }
    for mutex in mutexes {
        assert_eq!(call(MUTEX_UNLOCK, [mutex, 0, 0]), FAILED);
        assert_eq!(call(MUTEX_LOCK, [mutex, 0, 0]), 0);
    }
}

/// Tests the order of permits while waiters leave the queue at its ends and in its middle.
fn permits_go_in_order_to_the_remaining_waiters() {
    const COUNT: u64 = 1500;
    // Several harts would serve them at once.
    let _one = one_hart();
    let rings = Rings::new(2048);
    let semaphore = call(SEMAPHORE_CREATE, [0; 3]) as usize;
    for key in 0..COUNT {
        rings.submit(submission(key, SEMAPHORE_DOWN, [semaphore, 0, 0], 0));
    }
    assert_eq!(rings.enter(0), 0);
    let is_cancelled = |key: &u64| key.is_multiple_of(3) || *key >= COUNT - 5;
    for key in (0..COUNT).filter(is_cancelled) {
        assert_eq!(call(RING_CANCEL, [key as usize, 0, 0]), RING_CANCELLED);
    }
    let left: Vec<u64> = (0..COUNT).filter(|key| !is_cancelled(key)).collect();
    for _ in &left {
        assert_eq!(call(SEMAPHORE_UP, [semaphore, 0, 0]), 0);
    }
    // The permit is there for a later call.
    assert_eq!(call(SEMAPHORE_UP, [semaphore, 0, 0]), 0);
    let mut keys = Vec::new();
    while keys.len() < left.len() {
        assert!(rings.enter(1) > 0);
        keys.extend(rings.completions().iter().map(|completion| completion.0));
    }
    assert_eq!(keys, left);
    assert_eq!(call(SEMAPHORE_DOWN, [semaphore, 0, 0]), 0);
}

/// Submits calls that wait for this semaphore, as many as there are keys.
fn wait_with_keys(rings: &Rings, semaphore: usize, keys: impl Iterator<Item = u64>, flags: u8) {
    for key in keys {
        rings.submit(submission(key, SEMAPHORE_DOWN, [semaphore, 0, 0], flags));
    }
    assert_eq!(rings.enter(0), 0);
}

fn keys_of_silent_calls_are_passed_over() {
    let rings = Rings::new(4096);
    let semaphore = call(SEMAPHORE_CREATE, [0; 3]) as usize;
    let silent = corank_abi::ring::SILENT;
    wait_with_keys(&rings, semaphore, (0..3000).map(|_| 7), silent);
    wait_with_keys(&rings, semaphore, (0..3).map(|_| 7), 0);
    let cancel = || call(RING_CANCEL, [7, 0, 0]);
    assert_eq!([(); 4].map(|()| cancel()), [0, 0, 0, FAILED]);
    for _ in 0..3000 {
        assert_eq!(call(SEMAPHORE_UP, [semaphore, 0, 0]), 0);
    }
    thread::yield_now();
    assert_eq!(rings.enter(0), 0);
}

/// Tests keys that a table of 4,096 places could have in one bucket.
///
/// Their products with the factor differ in the lower half alone.
fn keys_that_collide_are_found() {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    // The inverse modulo 2^64, by Newton's iteration.
    let mut inverse = FACTOR;
    for _ in 0..6 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(FACTOR.wrapping_mul(inverse)));
    }
    let key = |number: u64| number.wrapping_mul(inverse);
    const COUNT: u64 = 3000;
    let rings = Rings::new(4096);
    let semaphore = call(SEMAPHORE_CREATE, [0; 3]) as usize;
    wait_with_keys(&rings, semaphore, (0..COUNT).map(key), 0);
    let cancel = |number| call(RING_CANCEL, [key(number) as usize, 0, 0]);
    assert_eq!(cancel(COUNT), FAILED);
    for number in (0..COUNT).map(|turn| turn * 389 % COUNT) {
        assert_eq!(cancel(number), RING_CANCELLED, "call {number}");
        assert_eq!(cancel(number), FAILED, "call {number}");
    }
}

static DONE: AtomicUsize = AtomicUsize::new(0);

/// Ends the thread after the call with this number, and counts that.
fn end_behind(number: usize, argument: usize) -> ! {
    let _ = call(number, [argument, 0, 0]);
    DONE.fetch_add(1, Ordering::Relaxed);
    let _ = call(EXIT, [0; 3]);
    unreachable!("the thread has ended")
}

extern "C" fn wait_in_line(semaphore: usize) -> ! {
    end_behind(SEMAPHORE_DOWN, semaphore)
}

extern "C" fn wait_in_ring(_: usize) -> ! {
    end_behind(RING_ENTER, 1)
}

fn threads(count: usize, entry: extern "C" fn(usize) -> !, argument: usize) -> Vec<usize> {
    let make = || call(THREAD_CREATE, [entry as *const () as usize, argument, 0]);
    let made: Vec<_> = (0..count).map(|_| make()).collect();
    assert!(!made.contains(&FAILED), "memory for threads");
    made.into_iter().map(|tid| tid as usize).collect()
}

fn join(threads: &[usize]) {
    for tid in threads {
        assert_eq!(call(WAIT_THREAD, [*tid, 0, 0]), 0);
    }
}

/// Tests that many threads follow their level.
///
/// The main thread stays ready, on the only hart. The others still end, as all of them are at its
/// level.
fn many_threads_follow_their_level() {
    const COUNT: usize = 300;
    let _one = one_hart();
    let semaphore = call(SEMAPHORE_CREATE, [0; 3]) as usize;
    for level in [10, 15] {
        DONE.store(0, Ordering::Relaxed);
        be_at(40);
        let threads = threads(COUNT, wait_in_line, semaphore);
        (0..10).for_each(|_| thread::yield_now());
        be_at(level);
        for _ in 0..COUNT {
            assert_eq!(call(SEMAPHORE_UP, [semaphore, 0, 0]), 0);
        }
        for _ in 0..100 {
            thread::yield_now();
        }
        assert_eq!(DONE.load(Ordering::Relaxed), COUNT, "at level {level}");
        join(&threads);
    }
    claim_nothing();
}

fn many_threads_wake_at_the_same_time() {
    const COUNT: usize = 300;
    let _rings = Rings::new(8);
    // SAFETY: the kernel has mapped the rings there, until the process ends.
    let header: &corank_abi::ring::RingHeader =
        unsafe { &*core::ptr::with_exposed_provenance(RING_BASE) };
    let deadline = time::ticks() + time::ticks_in(Duration::from_millis(300));
    header.deadline.store(deadline, Ordering::Relaxed);
    let threads = threads(COUNT, wait_in_ring, 0);
    join(&threads);
    assert!(time::ticks() >= deadline);
    assert_eq!(DONE.load(Ordering::Relaxed), COUNT);
}

fn children_that_have_ended_are_found_among_others() {
    const COUNT: usize = 24;
    let (gate, gatekeeper) = pipe();
    let spawn = |number: usize| {
        let child = process::spawn(|| {
            if number % 2 == 1 {
                let _ = gate.read(&mut [0]);
            }
            number as i32
        });
        child.expect("a process")
    };
    let children: Vec<_> = (0..COUNT).map(spawn).collect();
    let have_ended = || {
        let records = information::processes().expect("a list");
        let ended = |pid: &usize| {
            let mut own = records.iter().filter(|record| record.pid == *pid as u64);
            let record = own.next().expect("each child has a record");
            assert!(own.next().is_none(), "one record for a child");
            record.state == ENDED
        };
        children.iter().filter(|pid| ended(pid)).count()
    };
    while have_ended() < COUNT / 2 {
        thread::yield_now();
    }
    assert_eq!(process::try_wait(children[1]), Ok(None));
    // This takes one child by its number, and the others as they come.
    let wait = process::wait;
    assert_eq!(wait(children[6]).expect("a child").code, 6);
    assert!(process::wait(children[6]).is_err());
    let others: usize = (1..COUNT / 2)
        .map(|_| {
            let ended = process::try_wait_any().expect("children");
            ended.expect("one that has ended").code as usize
        })
        .sum();
    assert_eq!(others, (0..COUNT).step_by(2).sum::<usize>() - 6);
    assert_eq!(process::try_wait_any(), Ok(None), "the others still run");
    gatekeeper.write(&[0; COUNT]).expect("room");
    for number in (1..COUNT).step_by(2) {
        assert_eq!(wait(children[number]).expect("a child").code, number as i32);
    }
    assert!(process::try_wait_any().is_err());
}
