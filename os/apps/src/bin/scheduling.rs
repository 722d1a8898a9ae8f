//! Shows what the shared scheduler's image decides, for the tests that boot with different ones.
//!
//! It shows in which order coroutines of a process and threads of two processes run when one is
//! more urgent, and how much memory a process takes.
//!
//! `scheduling counted` shows which policy each scheduler of a process has, of one that was forked
//! from it, and of one that runs a program of its own. There is an image with which that depends on
//! how many schedulers the address space has had.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;

use corank_user::io::{OwnedFd, Pipe};
use corank_user::process::{self, Pid};
use corank_user::runtime::{self, Global};
use corank_user::{Priority, println, ring, spawn, thread, yield_now};

corank_user::main!(main);

/// Levels of the urgent one and of the other.
const LEVELS: [u8; 2] = [10, 40];
const TURNS: usize = 32;

fn main() {
    match corank_user::arguments().nth(1) {
        None => {}
        Some("counted") => return counted(),
        Some(name) => return println!("{name}: {}", policy()),
    }
    println!("memory: {}", process::frames_free());
    println!("process: {:?}", inside_a_process());
    println!("kernel: {:?}", between_processes());
    println!("child: {}", frames_of_a_child());
}

fn priority(level: u8) -> Priority {
    Priority::new(level).expect("below 64")
}

/// Returns the policy of one more scheduler, judged by what it does.
fn policy() -> &'static str {
    if inside_a_process().is_sorted() {
        "strict"
    } else {
        "alike"
    }
}

fn counted() {
    println!("first: {}", policy());
    child(|| {
        println!("forked: {}", policy());
        0
    });
    println!("second: {}", policy());
    println!("third: {}", policy());
    child(|| {
        let why = process::exec("scheduling", &["scheduling", "started"]);
        println!("this program cannot be started: {why:?}");
        127
    });
}

/// Runs a child to its end.
fn child(run: impl FnOnce() -> i32) {
    let ended = process::spawn(run).and_then(process::wait);
    assert_eq!(ended.map(|ended| ended.code), Ok(0));
}

/// Runs two coroutines that yield again and again, and returns the order of their turns.
fn inside_a_process() -> Vec<u8> {
    let order = Rc::new(RefCell::new(Vec::new()));
    let log = order.clone();
    runtime::block_on(async move {
        let mut both = Vec::new();
        for level in LEVELS.into_iter().rev() {
            let log = log.clone();
            let turns = async move {
                for _ in 0..TURNS {
                    log.borrow_mut().push(level);
                    yield_now().await;
                }
            };
            both.push(spawn(priority(level), turns).expect("memory"));
        }
        // The main coroutine waits only when both are there.
        for handle in both {
            handle.await.expect("it ends by itself");
        }
    });
    order.take()
}

/// Runs two processes that yield again and again, and returns the order of their turns.
fn between_processes() -> Vec<u8> {
    let pipe = || Pipe::new().expect("a pipe");
    let (gate, book, ready) = (pipe(), pipe(), pipe());
    let children = LEVELS.map(|level| competitor(level, &gate.reader, &book.writer, &ready.writer));
    let mut both = [0; LEVELS.len()];
    assert_eq!(ready.reader.read(&mut both), Ok(both.len()));
    // Each process has reported that it is ready, and goes to wait at the gate.
    corank_user::time::sleep(core::time::Duration::from_millis(50));
    assert_eq!(gate.writer.write(&both), Ok(both.len()));
    let mut order = alloc::vec![0; LEVELS.len() * TURNS];
    assert_eq!(book.reader.read(&mut order), Ok(order.len()));
    for child in children {
        assert_eq!(process::wait(child).map(|ended| ended.code), Ok(0));
    }
    order
}

fn competitor(level: u8, gate: &OwnedFd, book: &OwnedFd, ready: &OwnedFd) -> Pid {
    let child = || {
        let [gate, book, ready] =
            [gate, book, ready].map(|end| end.duplicate().expect("a descriptor"));
        runtime::run(priority(level), Global::Relaxed, async move {
            ready.write(&[level]).expect("room");
            let (count, _) = ring::read(&gate, Vec::with_capacity(1)).await;
            assert_eq!(count, Ok(1));
            for _ in 0..TURNS {
                book.write(&[level]).expect("room");
                thread::yield_now();
            }
        });
        0
    };
    process::spawn(child).expect("a process")
}

/// Returns the number of frames that a child takes which only waits.
fn frames_of_a_child() -> usize {
    let pipe = || Pipe::new().expect("a pipe");
    let (gate, ready) = (pipe(), pipe());
    // Other harts may still free what earlier children had.
    process::quiesce();
    let before = process::frames_free();
    let child = process::spawn(|| {
        ready.writer.write(&[1]).expect("room");
        // Until the parent has counted.
        i32::from(gate.reader.read(&mut [0]) != Ok(1))
    });
    // The child has touched its stack then, on whatever hart.
    assert_eq!(ready.reader.read(&mut [0]), Ok(1));
    process::quiesce();
    let frames = before - process::frames_free();
    gate.writer.write(&[1]).expect("room");
    assert_eq!(
        process::wait(child.expect("a process")).map(|ended| ended.code),
        Ok(0)
    );
    frames
}
