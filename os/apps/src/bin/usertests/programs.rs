//! Tests of programs that must succeed, and of programs that must fail with a known exit code.
//!
//! Each is run as a program of its own.
use corank_user::io::OwnedFd;
use corank_user::process;

use crate::support::{exit_code, pipe, tests};

tests![
    programs_that_succeed_exit_with_0,
    programs_that_fail_exit_with_their_code,
    faulting_programs_are_ended_by_the_kernel,
];

/// Runs a program without reading its output, and expects this exit code.
fn expect(command: &[&str], code: i32) {
    // The pipe is large enough for all that the program writes.
    let (reader, writer) = pipe();
    let ended = exit_code(|| {
        for number in [1, 2] {
            drop(OwnedFd::from_number(number));
            let copy = writer.duplicate().expect("a descriptor");
            assert_eq!(copy.into_number(), number);
        }
        // The program finds no other descriptors open.
        for number in [reader.number(), writer.number()] {
            drop(OwnedFd::from_number(number));
        }
        process::exec(command[0], command);
        -1000
    });
    assert_eq!(ended, code, "{command:?}");
}

fn programs_that_succeed_exit_with_0() {
    for command in [
        &["hello"][..],
        &["hello", "you"],
        &["hello-async"],
        &["true"],
        &["echo", "a", "b"],
        &["sh", "-c", "echo a | cat | wc && true"],
        &["ps"],
        &["top", "-n", "1"],
        &["rcore-condvar"],
        &["rcore-forktest"],
        &["rcore-mutex"],
        &["rcore-pipetest"],
        &["rcore-semaphore"],
        &["rcore-sleep"],
        &["rcore-threads"],
        &["rcore-yield"],
    ] {
        expect(command, 0);
    }
}

fn programs_that_fail_exit_with_their_code() {
    for (command, code) in [
        (&["false"][..], 1),
        (&["cat", "/missing"], 1),
        (&["ls", "-x"], 2),
        (&["sh", "-c", "kill"], 2),
        (&["sh", "-c", "exit 42"], 42),
        (&["sh", "-c", "missing"], 127),
        (&["sh", "-c", "'"], 2),
        (&["experiment-a", "--bad"], 2),
        (&["usertests", "no such test"], 1),
        (&["misbehave"], 2),
    ] {
        expect(command, code);
    }
}

fn faulting_programs_are_ended_by_the_kernel() {
    for (how, code) in [
        ("load", -11),
        ("store", -11),
        ("jump", -11),
        ("stack", -11),
        ("pointer", -11),
        ("illegal", -4),
        ("privileged", -4),
        ("breakpoint", -6),
        ("abort", -6),
        ("panic", 101),
        ("overflow", 101),
    ] {
        expect(&["misbehave", how], code);
        // The shell passes the code on.
        let script = alloc::format!("misbehave {how}; exit $?");
        expect(&["sh", "-c", &script], code);
    }
}
