//! Tests of reads that wait in their pipe, and of calls that take their file along.
//!
//! Bytes go from one buffer straight into another.
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::pin::pin;

use corank_abi::call::{
    CLOSE, FAILED, GETPID, READ, RING_CANCEL, RING_CANCELLED, RING_REPRIORITIZE, WRITE,
};
use corank_abi::ring::{CLOSE_FILE, LINK, SILENT};
use corank_user::corank::sync::Event;
use corank_user::io::OwnedFd;
use corank_user::runtime::{self, Global};
use corank_user::{JoinHandle, Priority, block_on, calls, information, process, ring, spawn};

use crate::rings::{Rings, submission};
use crate::support::{busy_elsewhere, call, expect_end, one_hart, pipe, tests};

tests![
    a_pending_read_takes_any_length,
    bytes_in_the_pipe_come_first,
    unread_bytes_stay_in_the_pipe,
    reads_are_served_in_order,
    the_file_is_closed_with_the_read,
    the_file_is_closed_with_a_read_that_is_dropped,
    the_file_is_closed_with_a_write_that_fails,
    a_file_is_closed_once,
    other_calls_close_no_file,
    linked_calls_begin_after_the_close,
    another_process_completes_a_pending_read,
    a_pending_read_ends_with_the_writing_process,
    a_pending_read_is_cancelled_by_its_key,
    a_read_and_a_write_share_one_buffer,
    a_bad_buffer_ends_the_process,
    a_thousand_reads_take_no_coroutine,
    a_less_urgent_read_does_not_go_first,
    a_read_follows_its_new_level,
];

/// Lets ready coroutines run, and the kernel take what has been submitted.
async fn kernel_sees() {
    calls::sleep_async(0).await.expect("memory");
    // The kernel may still be serving them on another hart.
    process::quiesce();
}

/// Spawns a coroutine that reads up to `room` bytes, with the file taken along.
///
/// The kernel has taken the call when this returns.
async fn reading(file: OwnedFd, room: usize) -> JoinHandle<(usize, Vec<u8>)> {
    let read = async move {
        let (count, bytes) = ring::read_and_close(file, Vec::with_capacity(room)).await;
        (count.expect("it can be read"), bytes)
    };
    let task = spawn(Priority::DEFAULT, read).expect("memory");
    kernel_sees().await;
    task
}

fn data(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

fn a_pending_read_takes_any_length() {
    block_on(async {
        for length in [0, 1, 8, 63, 64, 4095, 4096, 4097, 20_000, 65_535, 65_536] {
            for more in [1, 100, 0] {
                if length + more == 0 {
                    // Such a read waits for nothing.
                    continue;
                }
                let (reader, writer) = pipe();
                let read = reading(reader, length + more).await;
                let (count, _) = ring::write_and_close(writer, data(length)).await;
                assert_eq!(count, Ok(length));
                assert_eq!(read.await.expect("it ends"), (length, data(length)));
            }
        }
    });
}

fn bytes_in_the_pipe_come_first() {
    block_on(async {
        for room in [4, 5] {
            let (reader, writer) = pipe();
            let read = reading(reader, room).await;
            let (count, _) = ring::write(&writer, b"ab".to_vec()).await;
            assert_eq!(count, Ok(2));
            kernel_sees().await;
            assert!(!read.has_exited(), "two bytes are not enough");
            let (count, _) = ring::write_and_close(writer, b"cd".to_vec()).await;
            assert_eq!(count, Ok(2));
            assert_eq!(read.await.expect("it ends"), (4, b"abcd".to_vec()));
        }
    });
}

fn unread_bytes_stay_in_the_pipe() {
    block_on(async {
        let (reader, writer) = pipe();
        let read = reading(reader.duplicate().expect("a descriptor"), 2).await;
        let (count, _) = ring::write(&writer, b"abcde".to_vec()).await;
        assert_eq!(count, Ok(5));
        assert_eq!(read.await.expect("it ends").1, b"ab");
        let mut rest = [0; 3];
        assert_eq!(reader.read(&mut rest), Ok(3));
        assert_eq!(&rest, b"cde");
    });
}

fn reads_are_served_in_order() {
    // The reads are woken in order, and on several harts they go on at the same time.
    let _one = one_hart();
    block_on(async {
        let (reader, writer) = pipe();
        let mut reads = Vec::new();
        for _ in 0..4 {
            reads.push(reading(reader.duplicate().expect("a descriptor"), 1).await);
        }
        let (count, _) = ring::write(&writer, b"abcd".to_vec()).await;
        assert_eq!(count, Ok(4));
        for (read, byte) in reads.into_iter().zip(b"abcd") {
            assert_eq!(read.await.expect("it ends").1, [*byte]);
        }
    });
}

fn the_file_is_closed_with_the_read() {
    block_on(async {
        for waits in [false, true] {
            let (reader, writer) = pipe();
            let read = if waits {
                let read = reading(reader, 1).await;
                assert_eq!(writer.write(b"x"), Ok(1), "it is open until then");
                read
            } else {
                assert_eq!(writer.write(b"x"), Ok(1));
                reading(reader, 1).await
            };
            assert_eq!(read.await.expect("it ends").1, b"x");
            kernel_sees().await;
            assert!(writer.write(b"y").is_err(), "no read end is left");
        }
    });
}

fn the_file_is_closed_with_a_read_that_is_dropped() {
    block_on(async {
        for seen in [false, true] {
            let (reader, writer) = pipe();
            {
                let mut read = pin!(ring::read_and_close(reader, Vec::with_capacity(1)));
                core::future::poll_fn(|context| {
                    assert!(read.as_mut().poll(context).is_pending());
                    core::task::Poll::Ready(())
                })
                .await;
                if seen {
                    kernel_sees().await;
                }
            }
            kernel_sees().await;
            assert!(writer.write(b"y").is_err(), "no read end is left");
        }
        let (reader, writer) = pipe();
        drop(ring::read_and_close(reader, Vec::with_capacity(1)));
        assert!(writer.write(b"y").is_err(), "never polled, and closed");
    });
}

fn the_file_is_closed_with_a_write_that_fails() {
    let rings = Rings::new(8);
    let (reader, writer) = pipe();
    let file = writer.into_number();
    drop(reader);
    let text = c"x".as_ptr().expose_provenance();
    rings.submit(submission(1, WRITE, [file, text, 1], CLOSE_FILE));
    rings.enter(1);
    assert_eq!(rings.completions(), [(1, FAILED as i64)]);
    rings.enter(0);
    assert_eq!(call(CLOSE, [file, 0, 0]), FAILED, "it is closed already");
}

/// Tests that a file is closed once.
///
/// The number stands for another file by then.
fn a_file_is_closed_once() {
    let rings = Rings::new(8);
    let (reader, writer) = pipe();
    let (file, text) = (writer.into_number(), c"xyz".as_ptr().expose_provenance());
    rings.submit(submission(1, WRITE, [file, text, 3], CLOSE_FILE));
    rings.enter(1);
    let again = reader.duplicate().expect("a descriptor");
    assert_eq!(again.number(), file, "the lowest that is free");
    rings.enter(0);
    let mut bytes = [0; 4];
    assert_eq!(again.read(&mut bytes), Ok(3));
    assert_eq!(&bytes[..3], b"xyz");
    assert_eq!(rings.completions(), [(1, 3)]);
}

fn other_calls_close_no_file() {
    let rings = Rings::new(8);
    let (reader, _writer) = pipe();
    let arguments = [reader.number(), 0, 0];
    rings.submit(submission(1, GETPID, arguments, CLOSE_FILE));
    rings.enter(1);
    assert_eq!(rings.completions().len(), 1);
    drop(reader.duplicate().expect("it is open"));
}

/// Tests that linked calls come after the close.
///
/// This holds for a write that is served at once, for one that waits, and for a read.
fn linked_calls_begin_after_the_close() {
    let rings = Rings::new(16);
    for waits in [false, true] {
        let (reader, writer) = pipe();
        let mut room = alloc::vec![0_u8; 70 << 10];
        let buffer = room.as_mut_ptr().expose_provenance();
        let length = if waits { 66 << 10 } else { 3 };
        let bytes = data(length);
        let source = bytes.as_ptr().expose_provenance();
        let file = writer.into_number();
        let flags = CLOSE_FILE | LINK;
        rings.submit(submission(1, WRITE, [file, source, length], flags));
        rings.submit(submission(2, CLOSE, [file, 0, 0], LINK));
        rings.submit(submission(3, GETPID, [0; 3], 0));
        rings.enter(0);
        let ends = [reader.into_number(), buffer, room.len()];
        rings.submit(submission(4, READ, ends, flags));
        rings.submit(submission(5, CLOSE, [ends[0], 0, 0], 0));
        let mut results = [0; 6];
        for done in 0..5 {
            let completion = core::iter::repeat_with(|| {
                rings.enter(1);
                rings.completion()
            });
            let (key, result) = completion.flatten().next().expect("it comes");
            assert_eq!(
                results[key as usize], 0,
                "answer {done} to {key} is its first"
            );
            results[key as usize] = result;
        }
        let (length, pid) = (length as i64, process::id() as i64);
        assert_eq!(
            results,
            [0, length, FAILED as i64, pid, length, FAILED as i64]
        );
        assert_eq!(&room[..bytes.len()], &bytes);
    }
}

fn another_process_completes_a_pending_read() {
    block_on(async {
        let (reader, writer) = pipe();
        let read = reading(reader, 5000).await;
        let child = process::spawn(|| {
            block_on(async move {
                let (count, _) = ring::write(&writer, data(4000)).await;
                assert_eq!(count, Ok(4000));
                let (count, _) = ring::write_and_close(writer, data(1000)).await;
                assert_eq!(count, Ok(1000));
            });
            0
        });
        let child = child.expect("a process");
        let (count, bytes) = read.await.expect("it ends");
        assert_eq!(count, 5000);
        assert_eq!(&bytes[..4000], &data(4000));
        assert_eq!(&bytes[4000..], &data(1000));
        assert_eq!(process::wait(child).expect("the child").code, 0);
    });
}

/// Tests that the files of another process are closed when it ends.
fn a_pending_read_ends_with_the_writing_process() {
    block_on(async {
        let (reader, writer) = pipe();
        let read = reading(reader, 10).await;
        let child = process::spawn(|| i32::from(writer.write(b"last words") != Ok(10)));
        let child = child.expect("a process");
        assert_eq!(read.await.expect("it ends").1, b"last words");
        assert_eq!(process::wait(child).expect("the child").code, 0);
        let (reader, writer) = pipe();
        let read = reading(reader, 100).await;
        let child = process::spawn(move || i32::from(writer.write(b"few") != Ok(3)));
        let child = child.expect("a process");
        assert_eq!(process::wait(child).expect("the child").code, 0);
        assert_eq!(read.await.expect("it ends").1, b"few");
    });
}

fn a_pending_read_is_cancelled_by_its_key() {
    let rings = Rings::new(8);
    let (reader, writer) = pipe();
    let mut byte = [0_u8; 2];
    let buffer = byte.as_mut_ptr().expose_provenance();
    let file = reader.into_number();
    rings.submit(submission(1, READ, [file, buffer, 1], 0));
    rings.submit(submission(2, READ, [file, buffer + 1, 1], CLOSE_FILE));
    rings.enter(0);
    assert_eq!(call(RING_CANCEL, [1, 0, 0]), RING_CANCELLED);
    assert_eq!(call(RING_CANCEL, [1, 0, 0]), FAILED, "it is gone");
    assert_eq!(writer.write(b"b"), Ok(1));
    assert_eq!(rings.enter(1), 1);
    assert_eq!(rings.completions(), [(2, 1)]);
    rings.enter(0);
    assert!(writer.write(b"c").is_err(), "no read end is left");
    // SAFETY: the kernel is done with it.
    assert_eq!(unsafe { (&raw const byte).read_volatile() }, [0, b'b']);
}

/// Tests that a read gets what was written, wherever it comes to lie.
fn a_read_and_a_write_share_one_buffer() {
    let rings = Rings::new(8);
    for shift in [0, 1, 100, 4096] {
        let (reader, writer) = pipe();
        let mut room = data(12_000);
        let buffer = room.as_mut_ptr().expose_provenance();
        let read = [reader.number(), buffer + shift, 2000];
        rings.submit(submission(1, READ, read, 0));
        rings.enter(0);
        rings.submit(submission(2, WRITE, [writer.number(), buffer, 2000], 0));
        rings.enter(2);
        let mut completions = rings.completions();
        completions.sort_unstable();
        assert_eq!(completions, [(1, 2000), (2, 2000)]);
        // Overlapping bytes may come out in any way inside, but what is around them stays.
        assert_eq!(&room[6096..], &data(12_000)[6096..]);
    }
}

fn a_bad_buffer_ends_the_process() {
    use crate::support::{BAD_ADDRESS, KERNEL, UNMAPPED};
    for (to, from) in [(UNMAPPED, 0), (KERNEL, 0), (0, UNMAPPED), (0, KERNEL)] {
        expect_end(BAD_ADDRESS, || {
            let rings = Rings::new(4);
            let (reader, writer) = pipe();
            let mut room = [0_u8; 8];
            let own = room.as_mut_ptr().expose_provenance();
            let or_own = |address| if address == 0 { own } else { address };
            rings.submit(submission(1, READ, [reader.number(), or_own(to), 8], 0));
            rings.enter(0);
            rings.submit(submission(2, WRITE, [writer.number(), or_own(from), 8], 0));
            rings.enter(2);
        });
    }
}

fn a_thousand_reads_take_no_coroutine() {
    let coroutines = || information::system().expect("it is there").coroutines;
    block_on(async move {
        let pipes = ring::pipes(1000).await.expect("descriptors");
        kernel_sees().await;
        let before = coroutines();
        let mut reads = Vec::new();
        let mut writers = Vec::new();
        for pipe in pipes {
            let read = ring::read_and_close(pipe.reader, Vec::with_capacity(2));
            reads.push(spawn(Priority::DEFAULT, read).expect("memory"));
            writers.push(pipe.writer);
        }
        kernel_sees().await;
        assert_eq!(coroutines(), before);
        for writer in writers {
            let (count, _) = ring::write_and_close(writer, b"x".to_vec()).await;
            assert_eq!(count, Ok(1));
        }
        for read in reads {
            assert_eq!(read.await.expect("it ends").0, Ok(1));
        }
    });
}

fn level(level: u8) -> Priority {
    Priority::new(level).expect("below 64")
}

/// Tests that the kernel copies nothing for level 40 before level 30 has had its turn (rule I9).
///
/// This holds although level 20 has brought the bytes.
fn a_less_urgent_read_does_not_go_first() {
    order_of([20, 40, 30], &[30, 40]);
    order_of([20, 10, 30], &[10, 30]);
}

/// Checks the order in which two waiting reads are served.
///
/// One is at level `reader`, and its bytes come from level `writer`. The other is a call at level
/// `other` that is ready by then.
fn order_of([writer, reader, other]: [u8; 3], expected: &[u8]) {
    let _busy = busy_elsewhere(5);
    let order = Rc::new(Cell::new(Vec::new()));
    let seen = Rc::clone(&order);
    runtime::run(level(writer), Global::Relaxed, async move {
        let ((read_end, write_end), (other_read, other_write)) = (pipe(), pipe());
        let both = Rc::new(Event::new());
        let note = |at: u8, file: OwnedFd| {
            let (order, both) = (Rc::clone(&order), Rc::clone(&both));
            let read = async move {
                ring::read_and_close(file, Vec::with_capacity(1))
                    .await
                    .0
                    .expect("bytes");
                let mut noted = order.take();
                noted.push(at);
                if noted.len() == 2 {
                    both.set();
                }
                order.set(noted);
            };
            drop(spawn(level(at), read).expect("memory"));
        };
        note(reader, read_end);
        note(other, other_read);
        // This uses events, because a coroutine that awaits a handle would donate its own level.
        let taken = Rc::new(Event::new());
        let set = Rc::clone(&taken);
        let last = spawn(level(63), async move {
            kernel_sees().await;
            set.set();
        });
        drop(last.expect("memory"));
        taken.wait().await;
        let written = ring::write_and_close(write_end, b"a".to_vec()).await;
        assert_eq!(written.0, Ok(1));
        let written = ring::write_and_close(other_write, b"b".to_vec()).await;
        assert_eq!(written.0, Ok(1));
        both.wait().await;
    });
    assert_eq!(seen.take(), expected);
}

/// Tests that a read follows its new level, in a thread that runs at level 32.
fn a_read_follows_its_new_level() {
    let _busy = busy_elsewhere(5);
    let rings = Rings::new(8);
    for (level, is_at_once) in [(50, false), (32, true), (10, true)] {
        let (reader, writer) = pipe();
        let mut byte = [0_u8];
        let buffer = byte.as_mut_ptr().expose_provenance();
        rings.submit(submission(7, READ, [reader.number(), buffer, 1], 0));
        rings.enter(0);
        assert_eq!(call(RING_REPRIORITIZE, [7, level, 0]), 0);
        let text = c"x".as_ptr().expose_provenance();
        rings.submit(submission(8, WRITE, [writer.number(), text, 1], SILENT));
        rings.enter(0);
        assert_eq!(rings.completion(), is_at_once.then_some((7, 1)), "{level}");
        if !is_at_once {
            rings.enter(1);
            assert_eq!(rings.completion(), Some((7, 1)));
        }
    }
}
