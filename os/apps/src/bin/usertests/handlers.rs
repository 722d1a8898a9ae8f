//! Tests of processes that end, fork or run another program in an interrupt handler (rules S8 to
//! S11).
//!
//! The handler runs on a second stack, above a computation that was interrupted or that waits in a
//! call. `preemption.rs` has what handlers do otherwise.
use alloc::vec::Vec;

use corank_user::interrupt::{preemptible, stacks};
use corank_user::{block_on, process, ring, spawn};

use crate::interrupting::{ask_while_it_waits, is_too_early, level, on_a_byte, write_and_wait};
use crate::support::{KILL, exit_code, pipe, tests};

tests![
    a_process_killed_in_its_handler_leaves_nothing,
    a_process_killed_above_a_waiting_call_leaves_nothing,
    a_handler_may_exit,
    a_handler_may_fork,
    a_handler_may_exec,
    a_handler_may_exec_above_a_waiting_call,
];

fn in_it(deed: fn()) {
    assert_eq!(stacks().in_use, 1);
    deed();
}

/// Runs `deed` in a process of its own, in the handler, and returns the process's exit code.
///
/// The handler runs on a second stack, above a computation. With `call_waits` the computation waits
/// in a call.
fn in_the_handler(call_waits: bool, deed: fn()) -> i32 {
    exit_code(|| {
        block_on(async move {
            if !call_waits {
                let (writer, seen) = on_a_byte(5, move || in_it(deed));
                preemptible(|| write_and_wait(&writer));
                assert!(seen.get());
                return;
            }
            let (question, asked) = pipe();
            let (told, tells) = pipe();
            spawn(level(5), async move {
                loop {
                    let (count, _) = ring::read(&question, Vec::with_capacity(1)).await;
                    assert_eq!(count, Ok(1));
                    if !is_too_early(&tells).await {
                        in_it(deed);
                    }
                }
            })
            .expect("memory");
            process::spawn(|| {
                ask_while_it_waits(1, &asked, &told);
                0
            })
            .expect("a process");
            let (reader, _writer) = pipe();
            preemptible(|| reader.read(&mut [0])).expect("the handler ends the process");
        });
        3
    })
}

fn a_process_killed_in_its_handler_leaves_nothing() {
    assert_eq!(
        in_the_handler(false, || process::kill(process::id(), KILL).expect("alive")),
        -(KILL as i32)
    );
}

fn a_process_killed_above_a_waiting_call_leaves_nothing() {
    assert_eq!(
        in_the_handler(true, || process::kill(process::id(), KILL).expect("alive")),
        -(KILL as i32)
    );
}

fn a_handler_may_exit() {
    assert_eq!(in_the_handler(false, || process::exit(5)), 5);
    assert_eq!(in_the_handler(true, || process::exit(5)), 5);
}

fn a_handler_may_fork() {
    let fork = || assert_eq!(exit_code(|| 4), 4);
    assert_eq!(in_the_handler(false, fork), 3);
    let fork = || {
        assert_eq!(exit_code(|| 4), 4);
        process::exit(6);
    };
    assert_eq!(in_the_handler(true, fork), 6);
}

fn a_handler_may_exec() {
    let exec = || {
        panic!(
            "exec failed: {:?}",
            process::exec("hello", &["hello", "handler"])
        )
    };
    assert_eq!(in_the_handler(false, exec), 0);
}

fn a_handler_may_exec_above_a_waiting_call() {
    let exec = || {
        panic!(
            "exec failed: {:?}",
            process::exec("hello", &["hello", "handler"])
        )
    };
    assert_eq!(in_the_handler(true, exec), 0);
}
