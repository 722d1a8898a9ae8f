//! Tests of fork, exec, wait, exit and kill.
use alloc::vec::Vec;
use core::sync::atomic::AtomicUsize;

use corank_abi::call;
use corank_abi::page::PAGE_SIZE;
use corank_user::information::ENDED;
use corank_user::process::{self, Fork};
use corank_user::{io, thread};

use crate::support::{self, exit_code, frames_free, kill_and_wait, pipe, tests};

tests![
    fork_copies_memory,
    fork_shares_what_is_not_written,
    fork_returns_to_both,
    exit_codes_are_returned_by_wait,
    exec_replaces_the_program,
    exec_passes_arguments,
    exec_keeps_descriptors,
    a_failed_exec_changes_nothing,
    wait_collects_the_named_child,
    wait_collects_each_child_once,
    waitpid_never_blocks,
    zombies_stay_until_waited_for,
    a_tree_of_processes_counts_itself,
    orphans_end_by_themselves,
    a_process_that_ends_is_always_listed,
    many_children_are_collected,
    fork_fails_when_memory_is_exhausted,
    a_spinning_process_is_killed,
    a_waiting_process_is_killed_in_any_call,
    a_process_kills_itself,
    signals_are_masks_or_numbers,
    fork_with_threads_is_refused,
    exit_of_the_main_thread_ends_all,
    a_sleep_lasts_its_time,
    time_advances,
];

fn fork_copies_memory() {
    let mut value = 1;
    let code = exit_code(|| {
        value += 1;
        value
    });
    assert_eq!((code, value), (2, 1));
}

/// Tests that a child takes fewer frames than the program has pages of code and constants.
///
/// The child and a child of its own run in these pages.
fn fork_shares_what_is_not_written() {
    /// The address where every program begins.
    const PROGRAM: usize = 0x10000;
    // It lies behind code and constants.
    static VARIABLE: AtomicUsize = AtomicUsize::new(0);
    let read_only = ((&raw const VARIABLE).addr() - PROGRAM) / PAGE_SIZE;
    let (gate, gatekeeper) = pipe();
    let before = frames_free();
    match process::fork().expect("a process") {
        Fork::Child => {
            drop(gatekeeper);
            let _ = gate.read(&mut [0]);
            process::exit(exit_code(|| 5));
        }
        Fork::Parent(pid) => {
            let taken = before - frames_free();
            assert!(
                taken < read_only,
                "{taken} frames for a child, {read_only} pages of code and constants"
            );
            drop(gatekeeper);
            assert_eq!(process::wait(pid).expect("the child").code, 5);
        }
    }
    assert_eq!(frames_free(), before);
}

fn fork_returns_to_both() {
    let parent = process::id();
    let (reader, writer) = pipe();
    match process::fork().expect("a process") {
        Fork::Child => {
            writer.write(&process::id().to_le_bytes()).expect("room");
            process::exit(i32::from(process::id() == parent));
        }
        Fork::Parent(pid) => {
            let mut bytes = [0; 8];
            assert_eq!(reader.read(&mut bytes), Ok(8));
            assert_eq!(usize::from_le_bytes(bytes), pid);
            assert_eq!(process::wait(pid).expect("the child").code, 0);
        }
    }
}

fn exit_codes_are_returned_by_wait() {
    for code in [0, 1, 42, 255, 256, -1, -100, i32::MAX, i32::MIN] {
        assert_eq!(exit_code(|| code), code);
    }
}

fn exec_replaces_the_program() {
    let code = exit_code(|| {
        process::exec("hello", &["hello", "from usertests"]);
        1
    });
    assert_eq!(code, 0);
}

/// Returns what `hello` prints when it is run with this argument.
fn greeting(name: &str) -> Vec<u8> {
    let (reader, writer) = pipe();
    let child = process::spawn(|| {
        // The child's console is the pipe.
        drop(io::OwnedFd::from_number(1));
        let console = writer
            .duplicate()
            .expect("the lowest descriptor is free")
            .into_number();
        assert_eq!(console, 1);
        process::exec("hello", &["hello", name]);
        1
    })
    .expect("a process");
    drop(writer);
    let mut text = Vec::with_capacity(64 + name.len());
    reader.fill(&mut text).expect("the pipe can be read");
    assert_eq!(process::wait(child).expect("the child").code, 0);
    text
}

fn exec_keeps_descriptors() {
    assert_eq!(greeting("pipe"), b"hello, pipe\n");
}

fn exec_passes_arguments() {
    assert_eq!(greeting(""), b"hello, \n");
    let long = "x".repeat(5000);
    assert_eq!(
        greeting(&long),
        alloc::format!("hello, {long}\n").into_bytes()
    );
    let too_long = "x".repeat(40_000);
    assert!(process::exec("hello", &["hello", &too_long]).is_some());
    let too_many = [""; 300];
    assert!(process::exec("hello", &too_many).is_some());
}

fn a_failed_exec_changes_nothing() {
    let code = exit_code(|| {
        let value = Vec::from([7]);
        assert!(process::exec("no such program", &["x"]).is_some());
        value[0]
    });
    assert_eq!(code, 7);
}

fn wait_collects_the_named_child() {
    let children: [_; 5] =
        core::array::from_fn(|code| process::spawn(|| code as i32).expect("a process"));
    for (code, pid) in children.into_iter().enumerate().rev() {
        let exited = process::wait(pid).expect("the child");
        assert_eq!((exited.pid, exited.code), (pid, code as i32));
    }
}

fn wait_collects_each_child_once() {
    let mut children: Vec<_> = (0..10)
        .map(|_| process::spawn(|| 0).expect("a process"))
        .collect();
    for _ in 0..10 {
        let pid = process::wait_any().expect("a child").pid;
        let place = children
            .iter()
            .position(|child| *child == pid)
            .expect("one of ours, once");
        children.remove(place);
    }
    assert!(process::wait_any().is_err());
}

fn waitpid_never_blocks() {
    let (reader, writer) = pipe();
    let child = process::spawn(|| {
        drop(writer.duplicate());
        let mut byte = [0];
        i32::from(reader.read(&mut byte) != Ok(1))
    })
    .expect("a process");
    assert_eq!(process::try_wait(child), Ok(None));
    writer.write(&[0]).expect("room");
    while process::try_wait(child) == Ok(None) {
        thread::yield_now();
    }
    assert!(process::try_wait(child).is_err(), "it has been waited for");
}

fn zombies_stay_until_waited_for() {
    let child = process::spawn(|| 5).expect("a process");
    while process::kill(child, 0).is_ok() {
        thread::yield_now();
    }
    assert_eq!(process::wait(child).expect("the zombie").code, 5);
    assert!(process::wait(child).is_err());
}

/// Tests a tree in which each process has two children down to depth 5.
///
/// Each process counts itself and what its children counted.
fn a_tree_of_processes_counts_itself() {
    fn count(depth: u32) -> i32 {
        if depth == 0 {
            return 1;
        }
        let children = [0, 1].map(|_| process::spawn(|| count(depth - 1)).expect("a process"));
        1 + children
            .map(|child| process::wait(child).expect("the child").code)
            .iter()
            .sum::<i32>()
    }
    assert_eq!(count(5), 63);
}

fn orphans_end_by_themselves() {
    let (reader, writer) = pipe();
    let (gate, gatekeeper) = pipe();
    let child = process::spawn(|| {
        let grandchild = process::spawn(|| {
            drop(gatekeeper.duplicate());
            let mut byte = [0];
            gate.read(&mut byte).expect("the gate can be read");
            writer.write(b"g").expect("room");
            0
        });
        i32::from(grandchild.is_err())
    })
    .expect("a process");
    drop(writer);
    assert_eq!(process::wait(child).expect("the child").code, 0);
    // The grandchild's parent is gone, so the grandchild may go on now.
    gatekeeper.write(&[0]).expect("room");
    let mut bytes = [0; 2];
    assert_eq!(
        reader.read(&mut bytes),
        Ok(1),
        "it writes, and its end closes the pipe"
    );
}

/// Tests that a listing of processes never misses one that ends.
///
/// A program that lists processes until none is left must not miss a process that moves from one
/// parent to another. The same holds for one that moves from the running processes to those that
/// have ended.
fn a_process_that_ends_is_always_listed() {
    const CHILDREN: usize = 30;
    for _ in 0..30 {
        let parent = process::spawn(|| {
            for _ in 0..CHILDREN {
                process::spawn(|| 0).expect("a process");
            }
            0
        });
        let pid = parent.expect("a process");
        while support::record(pid).state != ENDED {}
        assert_eq!(process::wait(pid).map(|ended| ended.code), Ok(0));
    }
}

fn many_children_are_collected() {
    for _ in 0..10 {
        let children: Vec<_> = (0..30)
            .map(|code| process::spawn(|| code).expect("a process"))
            .collect();
        for (code, pid) in (0..).zip(children) {
            assert_eq!(process::wait(pid).expect("the child").code, code);
        }
    }
}

/// Tests that failure is an answer, and that all memory comes back.
fn fork_fails_when_memory_is_exhausted() {
    let (gate, gatekeeper) = pipe();
    let mut ballast = Vec::new();
    ballast.resize(1 << 20, 1_u8);
    let mut children = Vec::with_capacity(4096);
    let before = frames_free();
    loop {
        match process::fork() {
            Ok(Fork::Child) => {
                drop(gatekeeper);
                let mut byte = [0];
                let _ = gate.read(&mut byte);
                process::exit(i32::from(ballast[12_345]) - 1);
            }
            Ok(Fork::Parent(pid)) => children.push(pid),
            Err(_) => break,
        }
        assert!(children.len() < 4096, "memory for ever");
    }
    assert!(children.len() > 5, "only {} children", children.len());
    drop(gatekeeper);
    for pid in children {
        assert_eq!(process::wait(pid).expect("the child").code, 0);
    }
    assert_eq!(frames_free(), before);
    assert_eq!(exit_code(|| 3), 3, "fork works again");
}

fn a_spinning_process_is_killed() {
    let child = process::spawn(|| {
        loop {
            core::hint::spin_loop();
        }
    });
    kill_and_wait(child.expect("a process"));
}

/// Tests that a process can be killed in every call that waits.
fn a_waiting_process_is_killed_in_any_call() {
    let waits: [fn(); 9] = [
        || {
            let (reader, _writer) = pipe();
            let _ = reader.read(&mut [0]);
        },
        || {
            let (_reader, writer) = pipe();
            let _ = writer.write(&[0; 1 << 20]);
        },
        || corank_user::time::sleep(core::time::Duration::from_secs(1000)),
        || {
            corank_user::sync::Semaphore::new(0)
                .expect("a semaphore")
                .down()
        },
        || {
            let mutex = corank_user::sync::Mutex::new(()).expect("a mutex");
            let _first = mutex.lock();
            let _second = mutex.lock();
        },
        || {
            let mutex = corank_user::sync::Mutex::new(()).expect("a mutex");
            let _guard = corank_user::sync::Condvar::new()
                .expect("a condition variable")
                .wait(mutex.lock());
        },
        || {
            let child = process::spawn(|| {
                corank_user::time::sleep(core::time::Duration::from_millis(30));
                0
            });
            // The parent of the child below ends first.
            let _ = child.and_then(process::wait);
            corank_user::time::sleep(core::time::Duration::from_secs(1000));
        },
        || {
            let thread =
                thread::spawn(|| corank_user::time::sleep(core::time::Duration::from_secs(1000)));
            let _ = thread.expect("a thread").join();
        },
        || {
            corank_user::block_on(async {
                let (reader, _writer) = pipe();
                let _ = corank_user::ring::read(&reader, Vec::with_capacity(1)).await;
            });
        },
    ];
    for wait in waits {
        let (reader, writer) = pipe();
        let child = process::spawn(|| {
            writer.write(&[1]).expect("room");
            wait();
            0
        })
        .expect("a process");
        assert_eq!(reader.read(&mut [0]), Ok(1));
        // Once the child only waits, other processes have their turn again.
        support::spin_for_ticks(2);
        kill_and_wait(child);
    }
}

fn a_process_kills_itself() {
    let code = exit_code(|| {
        let _ = process::kill(process::id(), 15);
        0
    });
    assert_eq!(code, -15);
    // The library's signals are numbers.
    for signal in 1..=31 {
        support::expect_end(-signal, || {
            let _ = process::kill(process::id(), signal as u32);
        });
    }
}

/// Tests the signals that rCore-Tutorial-v3's programs pass.
///
/// These are masks from chapter 8 on, and numbers in chapter 7.
fn signals_are_masks_or_numbers() {
    const INTERRUPT: usize = 1 << 2;
    let masks = [2, 4, 6, 8, 11].map(|signal| (1 << signal, -signal));
    let several = [
        (INTERRUPT | 1 << 4, -2),
        (INTERRUPT | 1 << 11, -2),
        (1 << 6 | 1 << 8 | 1 << 11, -6),
    ];
    let numbers =
        [1, 2, 3, 5, 6, 8, 9, 10, 11, 15, 17, 31].map(|signal| (signal as usize, -signal));
    let others = [5, 9, 15, 16, 31].map(|signal| (1 << signal, -signal));
    let all = masks.iter().chain(&several).chain(&numbers).chain(&others);
    for &(asked, code) in all {
        support::expect_end(code, || {
            support::call(call::KILL, [process::id(), asked, 0]);
        });
    }
    for asked in [
        32 | 4,
        33,
        1 << 5 | 1 << 9,
        1 << 32,
        u32::MAX as usize,
        usize::MAX,
    ] {
        assert_eq!(
            support::call(call::KILL, [process::id(), asked, 0]),
            call::FAILED
        );
    }
}

fn fork_with_threads_is_refused() {
    let (reader, writer) = pipe();
    let thread = thread::spawn(move || reader.read(&mut [0]).is_ok()).expect("a thread");
    assert!(process::fork().is_err());
    drop(writer);
    assert_eq!(thread.join(), Ok(true));
    assert_eq!(exit_code(|| 1), 1, "alone again, it may");
}

fn exit_of_the_main_thread_ends_all() {
    let code = exit_code(|| {
        for _ in 0..30 {
            let spinning = thread::spawn(|| {
                loop {
                    core::hint::spin_loop();
                }
            });
            drop(spinning.expect("a thread"));
        }
        12
    });
    assert_eq!(code, 12);
}

fn a_sleep_lasts_its_time() {
    let start = corank_user::time::ticks();
    assert_eq!(support::call(call::SLEEP, [25, 0, 0]), 0);
    let slept = corank_user::time::duration(corank_user::time::ticks() - start);
    assert!(slept.as_millis() >= 25, "slept {slept:?}");
}

fn time_advances() {
    let start = corank_user::time::uptime_milliseconds();
    let ticks = corank_user::time::ticks();
    support::spin_for_ticks(3);
    assert!(corank_user::time::ticks() > ticks);
    assert!(
        corank_user::time::uptime_milliseconds() >= start + 20,
        "three ticks are at least 20 ms apart"
    );
}
