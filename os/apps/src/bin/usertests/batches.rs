//! Tests of how many kernel entries asynchronous calls take, counted by the kernel.
use alloc::vec::Vec;

use corank_abi::call::{CALLS_MADE, GETPID, RING_ENTER};
use corank_user::{Priority, block_on, calls, ring, spawn, yield_now};

use crate::rings::{Rings, submission};
use crate::support::{call, pipe, tests};

tests![
    the_count_counts_calls,
    a_batch_takes_one_entry,
    coroutines_share_one_entry,
    a_call_that_is_taken_back_takes_none,
    a_chain_takes_one_entry,
];

/// Returns how many system calls this process has made, without this one.
fn made() -> isize {
    call(CALLS_MADE, [0; 3]) - 1
}

/// Returns how many system calls `deed` makes.
fn entries_of(deed: impl FnOnce()) -> isize {
    let before = made();
    deed();
    // The first count is itself one of them.
    made() - before - 1
}

fn the_count_counts_calls() {
    assert_eq!(entries_of(|| ()), 0);
    let three = || {
        for _ in 0..3 {
            call(GETPID, [0; 3]);
        }
    };
    assert_eq!(entries_of(three), 3);
}

/// Tests that a batch of as many calls as a ring can have takes one entry.
fn a_batch_takes_one_entry() {
    let rings = Rings::new(4096);
    for key in 0..4096 {
        rings.submit(submission(key, GETPID, [0; 3], 0));
    }
    let enter = || assert_eq!(call(RING_ENTER, [4096, 0, 0]), 4096);
    assert_eq!(entries_of(enter), 1);
    assert_eq!(rings.completions().len(), 4096);
}

/// Tests that sixty coroutines that wait for a call each share one entry.
///
/// The entry takes all calls to the kernel and brings all results back.
fn coroutines_share_one_entry() {
    block_on(async {
        let (reader, writer) = pipe();
        writer.write(&[7; 60]).expect("room");
        let file = reader.number();
        // From here on the rings and the nodes of calls exist.
        calls::sleep_async(0).await.expect("memory");
        let tasks: Vec<_> = (0..60)
            .map(|_| {
                let read = async move {
                    let (count, _) = calls::read_async(file, Vec::with_capacity(1)).await;
                    assert_eq!(count, Ok(1));
                };
                spawn(Priority::DEFAULT, read).expect("memory")
            })
            .collect();
        let before = made();
        for task in tasks {
            task.await.expect("it ends");
        }
        assert_eq!(made() - before - 1, 1);
    });
}

fn a_call_that_is_taken_back_takes_none() {
    block_on(async {
        let (reader, _writer) = pipe();
        let file = reader.number();
        calls::sleep_async(0).await.expect("memory");
        let before = made();
        for _ in 0..10 {
            let task = spawn(
                Priority::DEFAULT,
                calls::read_async(file, Vec::with_capacity(1)),
            );
            let task = task.expect("memory");
            yield_now().await;
            assert!(task.cancel());
        }
        assert_eq!(made() - before - 1, 0);
    });
}

/// Tests that a chain of calls takes one entry.
///
/// One task of experiment B does this in the middle of its chain. It closes one pipe, reads the
/// next one, writes and closes.
fn a_chain_takes_one_entry() {
    block_on(async {
        let (reader, writer) = pipe();
        calls::sleep_async(0).await.expect("memory");
        let before = made();
        let (count, _) = ring::write_and_close(writer, b"data".to_vec()).await;
        assert_eq!(count, Ok(4));
        assert_eq!(made() - before - 1, 1, "the write and the close");
        let before = made();
        let (count, _) = ring::read(&reader, Vec::with_capacity(100)).await;
        assert_eq!(count, Ok(4));
        ring::close(reader);
        assert_eq!(made() - before - 1, 1, "the close goes with the next");
    });
}
