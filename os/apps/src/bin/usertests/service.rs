//! Tests of kernel threads as the second model of serving calls.
//!
//! Everything that can wait works as it does with coroutines.
use alloc::vec::Vec;

use corank_abi::call::*;
use corank_abi::ring::SILENT;
use corank_user::{information, process};

use crate::rings::{Rings, submission};
use crate::support::{Test, call, exit_code, frames_free, pipe, quiesced, tests};
use crate::{
    asynchronous, batches, calls, cancel, connections, coroutines, file_coroutines, files,
    inheritance, injected, long_files, network, pending_reads, pipes, rings, synchronisation,
    threads, urgency,
};

tests![
    unknown_models_are_refused,
    the_model_is_inherited,
    pipes_by_threads,
    threads_by_threads,
    synchronisation_by_threads,
    rings_by_threads,
    asynchronous_by_threads,
    calls_by_threads,
    batches_by_threads,
    pending_reads_by_threads,
    cancel_by_threads,
    coroutines_by_threads,
    urgency_by_threads,
    inheritance_by_threads,
    injected_by_threads,
    files_by_threads,
    long_files_by_threads,
    file_coroutines_by_threads,
    network_by_threads,
    connections_by_threads,
    stacks_are_counted,
    calls_without_a_stack_fail,
];

fn serve_by_threads() {
    assert_eq!(
        call(SERVICE_MODEL, [BY_THREAD, 0, 0]),
        BY_COROUTINE as isize
    );
}

fn unknown_models_are_refused() {
    assert_eq!(call(SERVICE_MODEL, [2, 0, 0]), FAILED);
    assert_eq!(call(SERVICE_MODEL, [usize::MAX, 0, 0]), FAILED);
    serve_by_threads();
    let back = call(SERVICE_MODEL, [BY_COROUTINE, 0, 0]);
    assert_eq!(back, BY_THREAD as isize);
}

fn the_model_is_inherited() {
    serve_by_threads();
    let code = exit_code(|| call(SERVICE_MODEL, [BY_COROUTINE, 0, 0]) as i32);
    assert_eq!(code, BY_THREAD as i32);
}

/// Runs the tests of a group except `but`, each in a process that kernel threads serve.
fn all_by_threads(tests: &[Test], but: &[&str]) {
    for test in tests.iter().filter(|test| !but.contains(&test.name)) {
        let before = frames_free();
        let code = exit_code(|| {
            serve_by_threads();
            test.run_whole();
            0
        });
        assert_eq!(code, 0, "{} by kernel threads", test.name);
        while process::wait_any().is_ok() {}
        assert_eq!(frames_free(), before, "after {}", test.name);
    }
}

macro_rules! by_threads {
    ($($name:ident: $group:ident but $but:expr;)*) => {
        $(fn $name() {
            all_by_threads($group::TESTS, $but);
        })*
    };
}

by_threads! {
    // The excluded test counts frames, of which the thread's own stack takes some.
    pipes_by_threads: pipes but &["unread_bytes_are_given_back"];
    threads_by_threads: threads but &[];
    synchronisation_by_threads: synchronisation but &[];
    rings_by_threads: rings but &[];
    // There are fewer stacks than calls that may be under way.
    asynchronous_by_threads: asynchronous but &["calls_beyond_the_kernels_limit_wait_for_room"];
    calls_by_threads: calls but &[];
    batches_by_threads: batches but &[];
    // The excluded tests tell the two models apart.
    pending_reads_by_threads: pending_reads but &["a_thousand_reads_take_no_coroutine", "a_read_follows_its_new_level"];
    cancel_by_threads: cancel but &[];
    coroutines_by_threads: coroutines but &[];
    urgency_by_threads: urgency but &[];
    inheritance_by_threads: inheritance but &[];
    // The child's program there has its output refused for want of a stack, and still ends well.
    injected_by_threads: injected but &["each_call_says_that_memory_fails"];
    files_by_threads: files but &[];
    long_files_by_threads: long_files but &[];
    file_coroutines_by_threads: file_coroutines but &[];
    network_by_threads: network but &[];
    // The first two tests tell the two models apart. The level of a read that a kernel thread
    // serves reaches the socket when the read goes on. Two harts may serve two reads in either
    // order.
    connections_by_threads: connections but &[
        "waiting_reads_take_no_coroutine",
        "a_level_reaches_the_socket",
        "reads_of_one_connection_are_served_in_order",
    ];
}

/// Returns how many stacks of the kernel are in use.
fn stacks() -> u64 {
    quiesced(information::system).expect("it is there").stacks
}

/// Tests that stacks are counted.
///
/// A call that waits has a stack, and one that is done at once has none. A thread keeps its own
/// until it ends.
fn stacks_are_counted() {
    let before = stacks();
    let (reader, writer) = pipe();
    let rings = Rings::new(8);
    serve_by_threads();
    let mut bytes = [0_u8; 4];
    let address = bytes.as_mut_ptr().expose_provenance();
    for key in 0..4 {
        let arguments = [reader.number(), address + key as usize, 1];
        rings.submit(submission(key, READ, arguments, 0));
    }
    rings.submit(submission(9, GETPID, [0; 3], SILENT));
    assert_eq!(rings.enter(0), 0);
    assert_eq!(stacks(), before + 4);
    assert_eq!(call(RING_CANCEL, [2, 0, 0]), RING_CANCELLED);
    assert_eq!(stacks(), before + 3);
    writer.write(b"abc").expect("room");
    assert_eq!(rings.enter(3), 3);
    assert_eq!(
        stacks(),
        before + 1,
        "the write has waited on one, which the thread keeps"
    );
    writer.write(b"d").expect("room");
    assert_eq!(stacks(), before + 1, "the same for the next call");
}

/// Tests more calls than there can be stacks.
///
/// A call that finds no stack fails, and nothing else happens.
fn calls_without_a_stack_fail() {
    const CALLS: u64 = 12_000;
    const KEPT_FREE: usize = 1000;
    let code = exit_code(|| {
        let (reader, _writer) = pipe();
        let rings = Rings::new(4096);
        serve_by_threads();
        let before = stacks();
        let mut byte = [0_u8];
        let address = byte.as_mut_ptr().expose_provenance();
        let mut failed = Vec::new();
        for key in 0..CALLS {
            rings.submit(submission(key, READ, [reader.number(), address, 1], 0));
            if key % 1000 == 999 {
                rings.enter(0);
                process::quiesce();
                failed.extend(rings.completions());
            }
        }
        assert!(failed.iter().all(|(_, result)| *result == FAILED as i64));
        let waiting = stacks() - before;
        assert_eq!(
            waiting + failed.len() as u64,
            CALLS,
            "each has a stack or has failed"
        );
        assert!(waiting <= 4096);
        assert!(process::frames_free() < KEPT_FREE || waiting == 4096);
        let mut has_failed = alloc::vec![false; CALLS as usize];
        for (key, _) in &failed {
            has_failed[*key as usize] = true;
        }
        for (key, has_failed) in (0..).zip(has_failed) {
            let expected = if has_failed { FAILED } else { RING_CANCELLED };
            assert_eq!(call(RING_CANCEL, [key, 0, 0]), expected);
        }
        assert_eq!(stacks(), before);
        0
    });
    assert_eq!(code, 0);
}
