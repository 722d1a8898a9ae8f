//! Tests of the system from a program's point of view, in the manner of xv6.
//!
//! `usertests` runs all tests, `usertests NAME...` those with these names, `usertests GROUP` a
//! group. Each test runs in a process of its own. It fails if it panics, is ended by the kernel, or
//! exits with a code other than 0. It fails if it has asynchronous calls left at its end, or leaves
//! processes behind. Afterwards the system must have exactly as many free frames, processes, kernel
//! coroutines, open files and free blocks on the disk as before.
#![no_std]
#![no_main]

extern crate alloc;

mod accounts;
mod arguments;
mod asynchronous;
mod batches;
mod calls;
mod cancel;
mod chains;
mod computations;
mod connections;
mod coroutines;
mod faults;
mod file_coroutines;
mod files;
mod grants;
mod handlers;
mod hardening;
mod harts;
mod image;
mod inheritance;
mod injected;
mod interrupting;
mod loans;
mod long_files;
mod low_water;
mod memory;
mod nesting;
mod network;
mod pending_reads;
mod pipes;
mod preemption;
mod processes;
mod programs;
mod rights;
mod rings;
mod service;
mod silence;
mod support;
mod synchronisation;
mod tables;
mod threads;
mod timers;
mod upcalls;
mod urgency;
mod workers;

use core::time::Duration;

use corank_abi::call::{FAULT, NOT_IMPLEMENTED};
use corank_user::information::{self, ProcessRecord, RUNNING};
use corank_user::process::{self, Pid};
use corank_user::{fs, println, time};
use support::{KILL, Test, quiesced, record};

corank_user::main!(main);

const GROUPS: &[(&str, &[Test])] = &[
    ("arguments", arguments::TESTS),
    ("faults", faults::TESTS),
    ("image", image::TESTS),
    ("processes", processes::TESTS),
    ("rights", rights::TESTS),
    ("programs", programs::TESTS),
    ("pipes", pipes::TESTS),
    ("threads", threads::TESTS),
    ("synchronisation", synchronisation::TESTS),
    ("tables", tables::TESTS),
    ("memory", memory::TESTS),
    ("accounts", accounts::TESTS),
    ("long_files", long_files::TESTS),
    ("files", files::TESTS),
    ("file_coroutines", file_coroutines::TESTS),
    ("rings", rings::TESTS),
    ("asynchronous", asynchronous::TESTS),
    ("batches", batches::TESTS),
    ("chains", chains::TESTS),
    ("calls", calls::TESTS),
    ("pending_reads", pending_reads::TESTS),
    ("cancel", cancel::TESTS),
    ("coroutines", coroutines::TESTS),
    ("workers", workers::TESTS),
    ("loans", loans::TESTS),
    ("urgency", urgency::TESTS),
    ("timers", timers::TESTS),
    ("harts", harts::TESTS),
    ("grants", grants::TESTS),
    ("inheritance", inheritance::TESTS),
    ("injected", injected::TESTS),
    ("service", service::TESTS),
    ("upcalls", upcalls::TESTS),
    ("preemption", preemption::TESTS),
    ("computations", computations::TESTS),
    ("handlers", handlers::TESTS),
    ("nesting", nesting::TESTS),
    ("hardening", hardening::TESTS),
    // These groups are last, because connections that are over keep their buffers for a while.
    // Tests that count the kernel's heap would wait for that.
    ("silence", silence::TESTS),
    ("network", network::TESTS),
    ("connections", connections::TESTS),
    ("low_water", low_water::TESTS),
];

fn main() -> i32 {
    let chosen = |group: &&str, test: &Test| {
        let mut names = corank_user::arguments().skip(1).peekable();
        names.peek().is_none() || names.any(|name| name == *group || name == test.name)
    };
    touch_stack();
    if support::call(FAULT, [usize::MAX, 0, 0]) == NOT_IMPLEMENTED {
        println!("this needs a kernel that knows faults: cargo xtask os --faults");
        return 2;
    }
    let (mut passed, mut failed) = (0, 0);
    for (group, tests) in GROUPS {
        for test in tests.iter().filter(|test| chosen(group, test)) {
            if run(group, test) {
                passed += 1
            } else {
                failed += 1
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    i32::from(failed > 0 || passed == 0)
}

/// What must be the same before and after each test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    frames_free: u64,
    processes: u64,
    kernel_coroutines: u64,
    /// Open files of this process.
    files: u64,
    /// Free blocks of the disk, if there is one.
    disk_free: Option<u64>,
}

impl Counts {
    fn now() -> Counts {
        let disk_free = fs::space().map(|space| space.free).ok();
        // This comes before the frames are counted, because it takes memory.
        let files = record(process::id()).files;
        let system = quiesced(information::system).expect("it is there");
        Counts {
            frames_free: system.frames_free,
            processes: system.processes,
            kernel_coroutines: system.coroutines,
            files,
            disk_free,
        }
    }
}

/// Limits the harts, which requires all levels.
///
/// This process was granted them.
fn limit_harts(harts: usize) {
    process::limit_harts(harts).expect("all levels are granted");
}

/// The time above which a test's line says how long it took.
const SLOW: Duration = Duration::from_millis(500);

/// Runs one test in a process of its own, and prints how it went.
fn run(group: &str, test: &Test) -> bool {
    let before = Counts::now();
    let harts = process::harts();
    let begun = time::ticks();
    let child = process::spawn(|| {
        test.run_whole();
        0
    });
    let ended = child.and_then(process::wait);
    let left = end_left_behind();
    // This also covers a test that has limited them and ended before it could undo that.
    limit_harts(harts);
    let took = time::duration(time::ticks() - begun);
    let after = Counts::now();
    let name = test.name;
    match ended {
        Ok(exited) if exited.code != 0 => {
            println!("FAIL {group}::{name}: exit code {}", exited.code)
        }
        Ok(_) if left > 0 => println!("FAIL {group}::{name}: left {left} processes behind"),
        Ok(_) if after != before => {
            println!("FAIL {group}::{name}: before and after: {before:?}, {after:?}")
        }
        Ok(_) => {
            if took < SLOW {
                println!("ok   {group}::{name}");
            } else {
                println!("ok   {group}::{name} ({:.1} s)", took.as_secs_f64());
            }
            return true;
        }
        Err(error) => println!("FAIL {group}::{name}: {error}"),
    }
    false
}

/// Ends the processes that a test has left behind, after its own process's end.
///
/// Returns how many there were. Processes that were ending already do not count.
///
/// A process without a living parent becomes a child of the first process, which is this one. If a
/// shell is the first process, this finds none. The test still fails then, because processes are
/// counted.
fn end_left_behind() -> usize {
    let mut count = 0;
    loop {
        match process::try_wait_any() {
            Ok(Some(_)) => {}
            Ok(None) => {
                count += kill_children();
                // One of them ends. What it has forked by then is found in the next turn.
                let _ = process::wait_any();
            }
            Err(_) => return count,
        }
    }
}

/// Kills all children that would go on, and returns how many there were, up to 100.
///
/// This runs in a process of its own, because the list of them may be long. The memory that it
/// takes would count as the test's.
fn kill_children() -> usize {
    let parent = process::id() as u64;
    let killer = process::spawn(|| {
        let here = process::id() as u64;
        let goes_on = |process: &&ProcessRecord| {
            process.state == RUNNING && process.parent == parent && process.pid != here
        };
        let processes = information::processes().expect("a list");
        let killed = processes
            .iter()
            .filter(goes_on)
            .filter(|process| process::kill(process.pid as Pid, KILL).is_ok());
        killed.count().min(100) as i32
    });
    let killer = killer.expect("memory for a process");
    process::wait(killer).expect("the child").code as usize
}

/// Touches the stack, which is mapped page by page, so that it does not count as a test's leak.
///
/// It is not inlined: then the array would be a part of its caller's frame, and the tests would run
/// on the stack below, which nothing has touched.
#[inline(never)]
fn touch_stack() {
    core::hint::black_box([0_u8; 64 * 1024]);
}
