//! Measures operations of threads and processes, in instructions of program and kernel together.
//!
//! The machine has to count instructions, one nanosecond each, on one hart:
//! `cargo xtask os --count 0 -- rcore-operations`. The program knows the interface of
//! rCore-Tutorial-v3 alone, so the same source measures that system. It fails if an operation costs
//! more than it does there.
#![no_std]
#![no_main]

#[path = "../rcore.rs"]
mod rcore;
use rcore::*;

use core::sync::atomic::{AtomicUsize, Ordering};

/// One operation.
struct Operation {
    name: &'static str,
    /// Instructions that it takes in rCore-Tutorial-v3.
    most: usize,
    /// Number of times that it is done.
    times: usize,
    /// Runs the operation this many times.
    run: fn(usize),
}

/// A clock of milliseconds adds at most one instruction in a hundred to each.
const OPERATIONS: [Operation; 4] = [
    Operation {
        name: "a round trip of two threads through two semaphores",
        most: 3_940,
        times: 40_000,
        run: by_semaphores,
    },
    Operation {
        name: "a round trip of two threads through two pipes",
        most: 6_250,
        times: 20_000,
        run: by_pipes_of_threads,
    },
    Operation {
        name: "a round trip of two processes through two pipes",
        most: 6_250,
        times: 20_000,
        run: by_pipes_of_processes,
    },
    Operation {
        name: "fork, exit and wait",
        most: 85_000,
        times: 1_500,
        run: by_fork,
    },
];

/// The heap that each program of rCore-Tutorial-v3 has: `fork` copies it.
static HEAP: [AtomicUsize; (16 << 10) / size_of::<usize>()] =
    [const { AtomicUsize::new(0) }; (16 << 10) / size_of::<usize>()];

static TIMES: AtomicUsize = AtomicUsize::new(0);
/// Semaphores, or the ends of pipes to read and to write, of the thread that answers.
static ASK: AtomicUsize = AtomicUsize::new(0);
static ANSWER: AtomicUsize = AtomicUsize::new(0);

extern "C" fn answer_by_semaphores(_: usize) -> ! {
    for _ in 0..TIMES.load(Ordering::Relaxed) {
        semaphore_down(ASK.load(Ordering::Relaxed));
        semaphore_up(ANSWER.load(Ordering::Relaxed));
    }
    exit(0)
}

fn by_semaphores(times: usize) {
    let (ask, answer) = (semaphore_create(0) as usize, semaphore_create(0) as usize);
    TIMES.store(times, Ordering::Relaxed);
    ASK.store(ask, Ordering::Relaxed);
    ANSWER.store(answer, Ordering::Relaxed);
    let other = thread_create(answer_by_semaphores, 0);
    for _ in 0..times {
        assert_eq!(semaphore_up(ask), 0);
        assert_eq!(semaphore_down(answer), 0);
    }
    assert_eq!(waittid(other as usize), 0);
}

fn answer_by_pipes(times: usize, from: usize, to: usize) {
    let mut byte = [0];
    for _ in 0..times {
        assert_eq!(read(from, &mut byte), 1);
        assert_eq!(write(to, &byte), 1);
    }
}

extern "C" fn answer_by_pipes_in_a_thread(_: usize) -> ! {
    answer_by_pipes(
        TIMES.load(Ordering::Relaxed),
        ASK.load(Ordering::Relaxed),
        ANSWER.load(Ordering::Relaxed),
    );
    exit(0)
}

fn ask_by_pipes(times: usize, to: usize, from: usize) {
    let mut byte = [0];
    for time in 0..times {
        assert_eq!(write(to, &[time as u8]), 1);
        assert_eq!(read(from, &mut byte), 1);
        assert_eq!(byte[0], time as u8);
    }
}

/// Returns the ends of two new pipes: those of the first, then those of the second.
fn two_pipes() -> [[usize; 2]; 2] {
    let mut pipes = [[0; 2]; 2];
    for ends in &mut pipes {
        assert_eq!(pipe(ends), 0);
    }
    pipes
}

fn by_pipes_of_threads(times: usize) {
    let [ask, answer] = two_pipes();
    TIMES.store(times, Ordering::Relaxed);
    ASK.store(ask[0], Ordering::Relaxed);
    ANSWER.store(answer[1], Ordering::Relaxed);
    let other = thread_create(answer_by_pipes_in_a_thread, 0);
    ask_by_pipes(times, ask[1], answer[0]);
    assert_eq!(waittid(other as usize), 0);
    for end in ask.into_iter().chain(answer) {
        assert_eq!(close(end), 0);
    }
}

fn by_pipes_of_processes(times: usize) {
    let [ask, answer] = two_pipes();
    let child = fork();
    if child == 0 {
        answer_by_pipes(times, ask[0], answer[1]);
        exit(0);
    }
    ask_by_pipes(times, ask[1], answer[0]);
    let mut code = -1;
    assert_eq!((waitpid(child, &mut code), code), (child, 0));
    for end in ask.into_iter().chain(answer) {
        assert_eq!(close(end), 0);
    }
}

fn by_fork(times: usize) {
    for _ in 0..times {
        let child = fork();
        if child == 0 {
            exit(7);
        }
        let mut code = -1;
        assert_eq!((waitpid(child, &mut code), code), (child, 7));
    }
}

/// Measures each operation.
#[unsafe(no_mangle)]
fn main() -> i32 {
    core::hint::black_box(&HEAP);
    let mut dear = 0;
    for operation in &OPERATIONS {
        // Starts at the beginning of a millisecond.
        let before = get_time();
        let mut start = before;
        while start == before {
            start = get_time();
        }
        (operation.run)(operation.times);
        let milliseconds = (get_time() - start) as usize;
        let cost = milliseconds * 1_000_000 / operation.times;
        println!(
            "{}: {cost} instructions, {} in rCore-Tutorial-v3",
            operation.name, operation.most
        );
        dear += i32::from(cost > operation.most);
    }
    dear
}
