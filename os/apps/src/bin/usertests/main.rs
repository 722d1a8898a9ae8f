//! Tests of the system from a program's point of view, in the manner of xv6.
//!
//! `usertests` runs all, `usertests NAME...` those with these names, `usertests GROUP` a group. Each test runs in a process of its own and fails if it
//! panics, is ended by the kernel, exits with a code other than 0, or if the system has fewer (or more) frames of memory free
//! afterwards than before.
#![no_std]
#![no_main]

extern crate alloc;

mod arguments;
mod asynchronous;
mod batches;
mod calls;
mod cancel;
mod coroutines;
mod faults;
mod files;
mod image;
mod inheritance;
mod injected;
mod memory;
mod pipes;
mod preemption;
mod processes;
mod rings;
mod service;
mod support;
mod synchronisation;
mod threads;
mod upcalls;
mod urgency;

use corank_user::{println, process};
use support::Test;

corank_user::main!(main);

const GROUPS: &[(&str, &[Test])] = &[
    ("arguments", arguments::TESTS),
    ("faults", faults::TESTS),
    ("image", image::TESTS),
    ("processes", processes::TESTS),
    ("pipes", pipes::TESTS),
    ("threads", threads::TESTS),
    ("synchronisation", synchronisation::TESTS),
    ("memory", memory::TESTS),
    ("files", files::TESTS),
    ("rings", rings::TESTS),
    ("asynchronous", asynchronous::TESTS),
    ("batches", batches::TESTS),
    ("calls", calls::TESTS),
    ("cancel", cancel::TESTS),
    ("coroutines", coroutines::TESTS),
    ("urgency", urgency::TESTS),
    ("inheritance", inheritance::TESTS),
    ("injected", injected::TESTS),
    ("service", service::TESTS),
    ("upcalls", upcalls::TESTS),
    ("preemption", preemption::TESTS),
];

fn main() -> i32 {
    let chosen = |group: &&str, test: &Test| {
        let mut names = corank_user::arguments().skip(1).peekable();
        names.peek().is_none() || names.any(|name| name == *group || name == test.name)
    };
    touch_stack();
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

/// Runs one test in a process of its own and says how it went.
fn run(group: &str, test: &Test) -> bool {
    let before = process::frames_free();
    let child = process::spawn(|| {
        (test.run)();
        0
    });
    let ended = child.and_then(process::wait);
    // What a test leaves behind becomes a child of the first process, which is this one unless a shell has started it.
    while process::wait_any().is_ok() {}
    let after = process::frames_free();
    let name = test.name;
    match ended {
        Ok(exited) if exited.code != 0 => {
            println!("FAIL {group}::{name}: exit code {}", exited.code)
        }
        Ok(_) if after != before => {
            println!("FAIL {group}::{name}: {before} frames were free before, {after} after")
        }
        Ok(_) => {
            println!("ok   {group}::{name}");
            return true;
        }
        Err(error) => println!("FAIL {group}::{name}: {error}"),
    }
    false
}

/// The stack is mapped page by page as it is touched: that shall not count as a test's leak.
fn touch_stack() {
    core::hint::black_box([0_u8; 64 * 1024]);
}
