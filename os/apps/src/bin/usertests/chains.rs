//! Long chains of linked calls, which the kernel takes out of their ring in pieces.
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use corank_abi::call::*;
use corank_abi::exit_code::KILLED;
use corank_abi::ring::LINK;
use corank_user::{process, thread};

use crate::injected::at_every_step;
use crate::rings::{Rings, submission};
use crate::support::{call, exit_code, tests};

tests![
    chains_of_every_length_are_served_in_order,
    a_failure_does_not_end_a_chain,
    linked_calls_are_cancelled_wherever_they_are,
    linked_calls_are_found_while_their_chain_is_taken,
    two_threads_serve_one_chain_in_order,
    a_process_ends_with_waiting_chains,
    a_process_killed_within_a_chain_leaves_nothing,
    a_chain_is_served_whichever_allocation_fails,
];

/// Lengths around the sizes of the pieces.
const LENGTHS: [u64; 10] = [1, 2, 3, 256, 257, 258, 512, 513, 514, 4096];

fn semaphore() -> usize {
    usize::try_from(call(SEMAPHORE_CREATE, [0; 3])).expect("a semaphore")
}

fn up(semaphore: usize) {
    assert_eq!(call(SEMAPHORE_UP, [semaphore, 0, 0]), 0);
}

/// Submits a chain of `length` calls with keys from 0 on, the first of which waits for `semaphore`.
fn submit(rings: &Rings, length: u64, semaphore: usize) {
    for key in 0..length {
        let flags = if key + 1 < length { LINK } else { 0 };
        rings.submit(match key {
            0 => submission(key, SEMAPHORE_DOWN, [semaphore, 0, 0], flags),
            _ => submission(key, GETPID, [0; 3], flags),
        });
    }
}

/// Expects the completions of a chain of `length` calls, except for those with the `missing` keys.
fn expect(rings: &Rings, length: u64, missing: &[u64]) {
    let expected: Vec<_> = (0..length)
        .filter(|key| !missing.contains(key))
        .map(|key| (key, if key == 0 { 0 } else { process::id() as i64 }))
        .collect();
    let mut completions = Vec::new();
    while completions.len() < expected.len() {
        assert!(rings.enter(1) > 0);
        completions.extend(rings.completions());
    }
    assert_eq!(completions, expected);
    assert_eq!(rings.enter(0), 0);
}

fn chains_of_every_length_are_served_in_order() {
    let (rings, semaphore) = (Rings::new(4096), semaphore());
    for length in LENGTHS {
        submit(&rings, length, semaphore);
        assert_eq!(rings.enter(0), 0, "all wait for the first of {length}");
        up(semaphore);
        expect(&rings, length, &[]);
    }
}

fn a_failure_does_not_end_a_chain() {
    const LENGTH: u64 = 600;
    let (rings, semaphore) = (Rings::new(1024), semaphore());
    for failing in [0, 1, 2, 255, 256, 257, 512, LENGTH - 1] {
        for key in 0..LENGTH {
            let flags = if key + 1 < LENGTH { LINK } else { 0 };
            let (number, argument) = match key {
                _ if key == failing => (READ, usize::MAX),
                0 => (SEMAPHORE_DOWN, semaphore),
                _ => (GETPID, 0),
            };
            rings.submit(submission(key, number, [argument, 0, 0], flags));
        }
        rings.enter(0);
        if failing > 0 {
            // Until then all calls wait for the first.
            up(semaphore);
        }
        let results = core::iter::repeat_with(|| {
            rings.enter(1);
            rings.completions()
        });
        let results: Vec<_> = results.flatten().take(LENGTH as usize).collect();
        let expected = (0..LENGTH).map(|key| match key {
            _ if key == failing => (key, FAILED as i64),
            0 => (key, 0),
            _ => (key, process::id() as i64),
        });
        assert!(expected.eq(results), "a failure at {failing}");
    }
}

fn cancel(key: u64) -> isize {
    call(RING_CANCEL, [key as usize, 0, 0])
}

fn linked_calls_are_cancelled_wherever_they_are() {
    const LENGTH: u64 = 1000;
    let (rings, semaphore) = (Rings::new(1024), semaphore());
    for first in [false, true] {
        submit(&rings, LENGTH, semaphore);
        assert_eq!(rings.enter(0), 0);
        let mut missing = Vec::from([1, 2, 255, 256, 257, 512, 998, 999]);
        for key in &missing {
            assert_eq!(cancel(*key), RING_CANCELLED, "call {key}");
            assert_eq!(cancel(*key), FAILED, "call {key} is gone");
        }
        if first {
            assert_eq!(cancel(0), RING_CANCELLED);
            missing.push(0);
        } else {
            up(semaphore);
        }
        expect(&rings, LENGTH, &missing);
    }
}

/// Tests that another thread finds linked calls while the kernel takes their chain.
///
/// It cancels calls of the chain and moves others to other levels.
fn linked_calls_are_found_while_their_chain_is_taken() {
    const LENGTH: u64 = 4096;
    static ENTERED: AtomicBool = AtomicBool::new(false);
    let rings = Rings::new(LENGTH as u32);
    for _ in 0..6 {
        let semaphore = semaphore();
        ENTERED.store(false, Ordering::Release);
        let other = thread::spawn(|| {
            while !ENTERED.load(Ordering::Acquire) {
                thread::yield_now();
            }
            let mut cancelled = Vec::new();
            for key in [4095, 3000, 2000, 1000, 500, 1, 0] {
                call(RING_REPRIORITIZE, [key as usize, 33, 0]);
                match cancel(key) {
                    RING_CANCELLED => cancelled.push(key),
                    // The kernel has not taken this call.
                    FAILED => {}
                    result => panic!("{result}"),
                }
            }
            cancelled
        });
        let other = other.expect("a thread");
        submit(&rings, LENGTH, semaphore);
        ENTERED.store(true, Ordering::Release);
        rings.enter(0);
        let cancelled = other.join().expect("it returns");
        if !cancelled.contains(&0) {
            up(semaphore);
        }
        expect(&rings, LENGTH, &cancelled);
    }
}

/// Tests two threads that enter the kernel with one chain.
///
/// The thread that comes second goes on where the first one is. It takes no call that is linked to
/// one that the first has just taken.
fn two_threads_serve_one_chain_in_order() {
    const SHORT: u64 = 3;
    const LONG: u64 = 2000;
    const ROUNDS: usize = 300;
    static SUBMITTED: AtomicUsize = AtomicUsize::new(0);
    static ENTERED: AtomicUsize = AtomicUsize::new(0);
    let rings = Rings::new(4096);
    let semaphore = semaphore();
    let other = thread::spawn(|| {
        for round in 1..=ROUNDS {
            while SUBMITTED.load(Ordering::Acquire) < round {
                thread::yield_now();
            }
            assert_eq!(call(RING_ENTER, [0; 3]), 0, "all wait for the first");
            ENTERED.store(round, Ordering::Release);
        }
    });
    let other = other.expect("a thread");
    for round in 1..=ROUNDS {
        let length = if round % 50 == 0 { LONG } else { SHORT };
        submit(&rings, length, semaphore);
        SUBMITTED.store(round, Ordering::Release);
        assert_eq!(rings.enter(0), 0, "all wait for the first");
        while ENTERED.load(Ordering::Acquire) < round {
            thread::yield_now();
        }
        up(semaphore);
        expect(&rings, length, &[]);
    }
    assert_eq!(other.join(), Ok(()));
}

fn a_process_ends_with_waiting_chains() {
    for length in LENGTHS {
        let code = exit_code(|| {
            let (rings, semaphore) = (Rings::new(4096), semaphore());
            submit(&rings, length, semaphore);
            assert_eq!(rings.enter(0), 0);
            5
        });
        assert_eq!(code, 5);
    }
}

fn a_process_killed_within_a_chain_leaves_nothing() {
    let wait = || {
        let (rings, semaphore) = (Rings::new(2048), semaphore());
        submit(&rings, 2000, semaphore);
        rings.enter(0);
        0
    };
    let steps = at_every_step(FAULT_END, wait, |code| code == KILLED);
    assert!(steps > 7, "only {steps} steps");
}

/// Tests that a chain is served whichever allocation fails.
///
/// Without memory for what serves a chain, its first call fails, and the others are still served.
fn a_chain_is_served_whichever_allocation_fails() {
    const LENGTH: u64 = 600;
    let serve = || {
        let semaphore = call(SEMAPHORE_CREATE, [0; 3]);
        let rings = Rings::try_new(1024);
        let (Ok(semaphore), Some(rings)) = (usize::try_from(semaphore), rings) else {
            return 1;
        };
        submit(&rings, LENGTH, semaphore);
        rings.enter(0);
        up(semaphore);
        let (mut next, mut refused) = (0, 0);
        while next < LENGTH {
            assert!(rings.enter(1) > 0);
            while let Some((key, result)) = rings.completion() {
                assert_eq!(key, next);
                let is_refused = result == FAILED as i64;
                assert!(!is_refused || key == 0);
                refused |= i32::from(is_refused);
                next += 1;
            }
        }
        refused
    };
    let steps = at_every_step(FAULT_MEMORY, serve, |code| code == 1);
    assert!(steps > 5, "only {steps} allocations");
}
