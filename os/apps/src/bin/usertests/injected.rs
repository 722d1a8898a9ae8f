//! Tests with faults at every step in turn, in the manner of SQLite's tests.
//!
//! A process is killed before each step of the kernel's work for its asynchronous calls. Each
//! allocation of the kernel fails in turn. Afterwards everything is as it was before.
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::sync::atomic::{AtomicU8, Ordering};

use corank_abi::call::*;
use corank_abi::exit_code::KILLED;
use corank_abi::net::CLOSE_BY_RESET;
use corank_abi::ring::{LINK, SILENT};
use corank_user::information::SystemStatus;
use corank_user::{Priority, block_on, calls, process, ring, spawn, thread};

use crate::rings::{Rings, submission};
use crate::support::{call, exit_code, leave_calls, pipe, tests, without_sockets};

tests![
    each_leaked_object_changes_the_footprint,
    a_kill_at_any_step_of_raw_calls_leaves_nothing,
    a_kill_at_any_step_of_coroutines_leaves_nothing,
    calls_survive_each_failing_allocation,
    each_call_says_that_memory_fails,
    calls_are_cancelled_after_all_threads_are_gone,
    unknown_kinds_of_faults_are_refused,
];

/// Returns what must be the same before and after.
///
/// These are the kernel's coroutines, stacks, heap and free frames.
pub(crate) fn footprint() -> [u64; 4] {
    let SystemStatus {
        coroutines,
        stacks,
        heap_used,
        frames_free,
        ..
    } = without_sockets();
    [coroutines, stacks, heap_used, frames_free]
}

/// Tests that `footprint` shows whatever is kept.
///
/// Each figure shows one object more or less, so the tests below find whatever is left over.
fn each_leaked_object_changes_the_footprint() {
    let rings = Rings::new(8);
    let [(_one, first), (_other, second)] = [pipe(), pipe()];
    let create = || call(SEMAPHORE_CREATE, [0; 3]) as usize;
    // From here on the tables have room for one more. A thread that is served on a stack of its own
    // has that stack.
    let semaphore = create();
    first.write(b"x").expect("room");
    let [coroutines, stacks, heap, frames] = footprint();
    assert_eq!(footprint(), [coroutines, stacks, heap, frames]);
    create();
    let now = footprint();
    assert!(now[2] > heap, "a semaphore");
    assert_eq!([now[0], now[1], now[3]], [coroutines, stacks, frames]);
    second.write(b"x").expect("room");
    assert_eq!(footprint()[3], frames - 1, "a byte in a pipe");
    rings.submit(submission(1, SEMAPHORE_DOWN, [semaphore, 0, 0], 0));
    rings.enter(0);
    assert_eq!(footprint()[0], coroutines + 1, "a call that waits");
    leave_calls(1, 0);
}

/// Milliseconds after which what is left over is left for good.
const PATIENCE: usize = 2000;

/// Runs `scenario` once for every step at which a fault of this kind can come.
///
/// Each run is in a process of its own, and the last run has no fault. `may_end` says with which
/// exit codes `scenario` may end. Returns how many steps there are.
pub(crate) fn at_every_step(
    kind: usize,
    scenario: impl Fn() -> i32,
    may_end: impl Fn(i32) -> bool,
) -> usize {
    at_every_step_by(footprint, kind, scenario, may_end)
}

/// Runs `scenario` as [`at_every_step`] does, with another measure of what must be the same.
pub(crate) fn at_every_step_by(
    footprint: impl Fn() -> [u64; 4],
    kind: usize,
    scenario: impl Fn() -> i32,
    may_end: impl Fn(i32) -> bool,
) -> usize {
    let run = |step: usize| {
        let child = process::spawn(|| {
            call(FAULT, [kind, step, 0]);
            let code = scenario();
            // If the fault has come, nothing is left.
            let left = call(FAULT, [kind, 0, 0]);
            if step > 0 && left > 0 {
                100 + code
            } else {
                code
            }
        });
        process::wait(child.expect("a process"))
            .expect("the child")
            .code
    };
    // The kernel keeps tables for the next time. They grow here as large as they will, whatever
    // runs at the same time.
    assert_eq!(exit_code(many_threads), 0);
    for _ in 0..2 {
        assert_eq!(run(0), 0, "without a fault all goes well");
    }
    let before = footprint();
    for step in 1.. {
        let code = run(step);
        // Services of the kernel give some of it back when they have their turn.
        let mut now = footprint();
        for _ in 0..PATIENCE {
            if now == before {
                break;
            }
            calls::sleep(1).expect("a call that works");
            now = footprint();
        }
        assert_eq!(now, before, "after a fault at step {step}");
        if code == 100 {
            return step - 1;
        }
        assert!(
            may_end(code),
            "exit code {code} after a fault at step {step}"
        );
    }
    unreachable!("there are so many numbers");
}

/// Uses as many coroutines of the kernel at once as no scenario does.
fn many_threads() -> i32 {
    let (gate, gatekeeper) = pipe();
    let gate = Arc::new(gate);
    for _ in 0..64 {
        let gate = gate.clone();
        drop(thread::spawn(move || gate.read(&mut [0])));
    }
    drop(gatekeeper);
    0
}

/// Makes every call that can wait, by hand.
///
/// Each call waits, is cancelled, re-prioritised or allowed to go on. Returns 0, or 1 if the kernel
/// refused something for want of memory. Each submission has exactly one answer in any case.
fn raw_calls() -> i32 {
    let mut refused = 0;
    let mut made = |number: usize, arguments: [usize; 3]| {
        let result = call(number, arguments);
        refused |= i32::from(result < 0);
        result as usize
    };
    let Some(rings) = Rings::try_new(16) else {
        return 1;
    };
    let mut ends = [[usize::MAX; 2]; 2];
    for pair in &mut ends {
        made(PIPE, [pair.as_mut_ptr().expose_provenance(), 0, 0]);
    }
    let [[reader, writer], [full_reader, full_writer]] = ends;
    let semaphore = made(SEMAPHORE_CREATE, [0; 3]);
    let mutex = made(MUTEX_CREATE, [1, 0, 0]);
    let condition = made(CONDVAR_CREATE, [0; 3]);
    let guard = made(MUTEX_CREATE, [1, 0, 0]);
    made(MUTEX_LOCK, [mutex, 0, 0]);
    made(MUTEX_LOCK, [guard, 0, 0]);
    let mut bytes = [0_u8; 4];
    let buffer = bytes.as_mut_ptr().expose_provenance();
    let large = ZEROS.as_ptr().expose_provenance();
    let room = ROOM.as_ptr().expose_provenance();
    let calls = [
        submission(0, READ, [reader, buffer, 1], 0),
        submission(1, WRITE, [full_writer, large, ZEROS.len()], LINK),
        submission(99, CLOSE, [full_writer, 0, 0], SILENT),
        submission(2, SLEEP, [1, 0, 0], 0),
        submission(3, SEMAPHORE_DOWN, [semaphore, 0, 0], 0),
        submission(4, MUTEX_LOCK, [mutex, 0, 0], 0),
        submission(5, CONDVAR_WAIT, [condition, guard, 0], 0),
        submission(6, WAIT_PROCESS, [usize::MAX, 0, 0], 0),
        submission(7, READ, [reader, buffer + 1, 1], 0),
        submission(8, RING_REPRIORITIZE, [0, 5, 0], 0),
    ];
    for call in calls {
        rings.submit(call);
    }
    let mut answers = [0; 11];
    call(RING_ENTER, [0; 3]);
    // On several harts some calls may not have begun to wait, and the signal below finds only those
    // that wait. The call itself may be the one that has no memory.
    if made(QUIESCE, [0; 3]) == usize::MAX {
        call(QUIESCE, [0; 3]);
    }
    call(RING_REPRIORITIZE, [3, 7, 0]);
    if call(RING_CANCEL, [7, 0, 0]) == RING_CANCELLED {
        answers[7] += 1;
    }
    let more = [
        submission(9, WRITE, [writer, c"x".as_ptr().expose_provenance(), 1], 0),
        submission(99, SEMAPHORE_UP, [semaphore, 0, 0], SILENT),
        submission(99, MUTEX_UNLOCK, [mutex, 0, 0], SILENT),
        submission(99, CONDVAR_SIGNAL, [condition, 0, 0], SILENT),
        submission(10, READ, [full_reader, room, ROOM.len()], LINK),
        submission(99, CLOSE, [full_reader, 0, 0], SILENT),
        submission(99, CLOSE, [writer, 0, 0], SILENT),
    ];
    for call in more {
        rings.submit(call);
    }
    while answers.iter().sum::<i32>() < answers.len() as i32 {
        call(RING_ENTER, [1, 0, 0]);
        // Completions are taken one by one, because a vector would ask for memory.
        while let Some((key, result)) = rings.completion() {
            answers[key as usize] += 1;
            // There is no child to wait for.
            refused |= i32::from(result < 0 && key != 6);
        }
    }
    assert_eq!(answers, [1; 11]);
    refused
}

/// More bytes than a pipe holds.
static ZEROS: [u8; 80 << 10] = [0; 80 << 10];
/// The memory into which these bytes are read.
static ROOM: [AtomicU8; 80 << 10] = [const { AtomicU8::new(0) }; 80 << 10];

fn a_kill_at_any_step_of_raw_calls_leaves_nothing() {
    let steps = at_every_step(FAULT_END, raw_calls, |code| code == KILLED);
    assert!(steps > 50, "only {steps} steps");
}

/// Makes calls through the library, with coroutines cancelled and re-prioritised in the middle.
fn coroutines() -> i32 {
    block_on(async {
        let pipes = ring::pipes(4).await.expect("descriptors");
        let done = alloc::rc::Rc::new(RefCell::new(0));
        let mut tasks = Vec::new();
        for pipe in &pipes {
            let (file, done) = (pipe.reader.number(), alloc::rc::Rc::clone(&done));
            let task = async move {
                let _ = calls::read_async(file, Vec::with_capacity(1)).await;
                *done.borrow_mut() += 1;
            };
            tasks.push(spawn(Priority::LEAST_URGENT, task).expect("memory"));
        }
        let sleeper = calls::sleep_async(1);
        let other = thread::spawn(|| process::exit(3)).expect("a thread").id();
        let waits = calls::waittid_async(other);
        sleeper.await.expect("memory");
        waits.await.expect("it ends");
        tasks[0].reprioritize(Priority::MOST_URGENT);
        tasks.pop().expect("four").cancel();
        for pipe in &pipes[..3] {
            let (count, _) = ring::write(&pipe.writer, b"x".to_vec()).await;
            assert_eq!(count, Ok(1));
        }
        for task in tasks {
            task.await.expect("it ends");
        }
        assert_eq!(*done.borrow(), 3);
    });
    0
}

fn a_kill_at_any_step_of_coroutines_leaves_nothing() {
    let steps = at_every_step(FAULT_END, coroutines, |code| code == KILLED);
    // The number varies a little, as the sleeper and the other thread end before or after they are
    // waited for.
    assert!(steps > 30, "only {steps} steps");
}

fn calls_survive_each_failing_allocation() {
    let steps = at_every_step(FAULT_MEMORY, raw_calls, |code| code == 1);
    assert!(steps > 10, "only {steps} allocations");
}

/// Makes every call that creates something in the kernel, one after the other.
///
/// Returns 0, or 1 if the kernel refused something.
fn calls_that_make_something() -> i32 {
    let refused = Cell::new(0);
    let made = |number: usize, arguments: [usize; 3]| {
        let result = call(number, arguments);
        refused.set(refused.get() | i32::from(result < 0));
        result as usize
    };
    let buffer = ROOM.as_ptr().expose_provenance();
    let name = c"hello".as_ptr().expose_provenance();
    let child = made(FORK, [0; 3]);
    if child == 0 {
        call(EXEC, [name, 0, 0]);
        // The program itself ends with 0.
        call(EXIT, [1, 0, 0]);
    }
    if child != usize::MAX {
        if made(WAIT_PROCESS, [child, buffer, 0]) == usize::MAX {
            // Otherwise the child's record would stay with the first process.
            call(WAIT_PROCESS, [child, buffer, 0]);
        }
        let ended_well = ROOM[0].load(Ordering::Relaxed) == 0;
        refused.set(refused.get() | i32::from(!ended_well));
    }
    let ends = extern_end as extern "C" fn(usize) -> ! as usize;
    // More objects than the tables have room for at first.
    for _ in 0..5 {
        let thread = made(THREAD_CREATE, [ends, 0, 0]);
        if thread != usize::MAX {
            made(WAIT_THREAD, [thread, 0, 0]);
        }
        made(DUP, [1, 0, 0]);
        made(SEMAPHORE_CREATE, [0; 3]);
        made(MUTEX_CREATE, [0; 3]);
        made(CONDVAR_CREATE, [0; 3]);
    }
    made(PIPE, [buffer, 0, 0]);
    made(WORKER, [0; 3]);
    made(RING_SETUP, [4, 0, 0]);
    made(SBRK, [1 << 16, 0, 0]);
    made(PROCESS_LIST, [buffer, 1, 0]);
    made(FILE_OPEN, [name, 0, 0]);
    made(UDP_CONNECT, [0x7f00_0001, 4000, 4001]);
    let listener = made(TCP_LISTEN, [4002, 1, 0]);
    made(SERVICE_MODEL, [BY_THREAD, 0, 0]);
    made(SLEEP, [1, 0, 0]);
    made(SERVICE_MODEL, [BY_COROUTINE, 0, 0]);
    let connection = made(TCP_CONNECT, [0x7f00_0001, 4002, 50]);
    if connection as isize >= 0 {
        made(SOCKET_SET, [connection, CLOSE_BY_RESET, 1]);
        let accepted = made(ACCEPT, [listener, 0, 0]);
        made(SOCKET_SET, [accepted, CLOSE_BY_RESET, 1]);
    }
    made(QUIESCE, [0; 3]);
    refused.get()
}

extern "C" fn extern_end(_: usize) -> ! {
    call(EXIT, [0; 3]);
    unreachable!("it has ended")
}

fn each_call_says_that_memory_fails() {
    let steps = at_every_step(FAULT_MEMORY, calls_that_make_something, |code| code == 1);
    assert!(steps > 60, "only {steps} allocations");
}

/// Tests that calls are cancelled although all threads of the process are gone before that.
///
/// Whatever ends the process is overtaken. Then the threads that find that they are the last cancel
/// the calls.
fn calls_are_cancelled_after_all_threads_are_gone() {
    if process::harts() == 1 {
        return;
    }
    let run = || {
        let ended = exit_code(|| {
            let rings = Rings::new(8);
            let semaphore = call(SEMAPHORE_CREATE, [0; 3]) as usize;
            rings.submit(submission(1, SEMAPHORE_DOWN, [semaphore, 0, 0], 0));
            rings.enter(0);
            process::quiesce();
            // The steps are the entry, the submission, and the first poll of the coroutine that
            // serves it. That coroutine ends the process, and meanwhile this thread goes on
            // elsewhere.
            rings.submit(submission(2, SLEEP, [usize::MAX, 0, 0], 0));
            call(FAULT, [FAULT_SLOW_END, 3, 0]);
            rings.enter(0);
            loop {
                core::hint::spin_loop();
            }
        });
        assert_eq!(ended, KILLED);
    };
    // The kernel's tables get as large as they will.
    run();
    let before = footprint();
    run();
    assert_eq!(footprint(), before, "the call that waits is gone as well");
}

fn unknown_kinds_of_faults_are_refused() {
    assert_eq!(call(FAULT, [7, 1, 0]), FAILED);
    assert_eq!(call(FAULT, [FAULT_END, 1000, 0]), 0);
    assert_eq!(call(FAULT, [FAULT_END, 0, 0]), 999, "that call was a step");
}
