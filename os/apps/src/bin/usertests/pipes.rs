//! Tests of pipes.
use alloc::vec;
use alloc::vec::Vec;

use corank_abi::call::{READ, SBRK, WRITE};
use corank_abi::ring::Submission;
use corank_user::io::{OwnedFd, Pipe};
use corank_user::page::PAGE_SIZE;
use corank_user::{process, thread};

use crate::rings::{Rings, submission};
use crate::support::{
    BAD_ADDRESS, call, exit_code, expect_end, frames_free, one_hart, pipe, tests,
};

tests![
    bytes_come_out_in_order,
    a_read_waits_until_the_buffer_is_full,
    a_read_ends_when_the_last_writer_is_gone,
    an_empty_closed_pipe_reads_nothing,
    writing_without_a_reader_fails,
    a_full_pipe_makes_the_writer_wait,
    a_waiting_writer_learns_that_the_reader_is_gone,
    a_waiting_reader_learns_that_the_writer_is_gone,
    a_pipe_connects_processes,
    many_pipes_are_independent,
    unread_bytes_are_given_back,
    a_read_that_faults_makes_room_for_what_it_took,
    a_write_that_faults_wakes_the_reader_for_what_it_put,
    several_readers_share_what_comes,
    a_long_chain_of_processes_passes_every_byte,
    thousands_of_readers_are_woken_in_their_order,
    a_wake_of_all_readers_misses_none_while_others_arrive,
    an_urgent_reader_is_woken_before_those_in_front_of_it,
];

/// The number of bytes that a pipe holds.
const CAPACITY: usize = 64 << 10;

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index % 251) as u8).collect()
}

fn bytes_come_out_in_order() {
    let (reader, writer) = pipe();
    let data = pattern(10_000);
    // Pieces of all sizes, across the pages' ends.
    let mut sent = 0;
    let mut received = Vec::new();
    for size in (1..).take_while(|size| size * (size + 1) / 2 <= data.len()) {
        assert_eq!(writer.write(&data[sent..sent + size]), Ok(size));
        sent += size;
        let mut piece = vec![0; size];
        assert_eq!(reader.read(&mut piece), Ok(size));
        received.extend(piece);
    }
    assert!(sent > 9_000);
    assert_eq!(received, data[..sent]);
}

fn a_read_waits_until_the_buffer_is_full() {
    let (reader, writer) = pipe();
    let reading = thread::spawn(move || {
        let mut buffer = [0; 3];
        reader.read(&mut buffer).map(|count| (count, buffer))
    })
    .expect("a thread");
    for byte in [1, 2, 3] {
        assert_eq!(writer.write(&[byte]), Ok(1));
        thread::yield_now();
    }
    assert_eq!(reading.join(), Ok(Ok((3, [1, 2, 3]))));
}

fn a_read_ends_when_the_last_writer_is_gone() {
    let (reader, writer) = pipe();
    let second = writer.duplicate().expect("a descriptor");
    writer.write(&[1]).expect("room");
    drop(writer);
    let reading = thread::spawn(move || reader.read(&mut [0; 8])).expect("a thread");
    thread::yield_now();
    second.write(&[2]).expect("room");
    drop(second);
    assert_eq!(reading.join(), Ok(Ok(2)));
}

fn an_empty_closed_pipe_reads_nothing() {
    let (reader, writer) = pipe();
    drop(writer);
    assert_eq!(reader.read(&mut [0; 8]), Ok(0));
    assert_eq!(reader.read(&mut [0; 8]), Ok(0));
}

fn writing_without_a_reader_fails() {
    let (reader, writer) = pipe();
    writer.write(&[1]).expect("room");
    drop(reader);
    assert!(writer.write(&[2]).is_err());
}

fn a_full_pipe_makes_the_writer_wait() {
    let (reader, writer) = pipe();
    let data = pattern(300_000);
    let sent = data.clone();
    let writing = thread::spawn(move || writer.write(&sent)).expect("a thread");
    let mut received = Vec::with_capacity(data.len() + 1);
    assert_eq!(reader.fill(&mut received), Ok(data.len()));
    assert!(received == data);
    assert_eq!(writing.join(), Ok(Ok(data.len())));
}

fn a_waiting_writer_learns_that_the_reader_is_gone() {
    let (reader, writer) = pipe();
    let writing =
        thread::spawn(move || writer.write(&pattern(300_000)).is_err()).expect("a thread");
    reader.read(&mut [0; 10]).expect("the writer has begun");
    drop(reader);
    assert_eq!(writing.join(), Ok(true));
}

fn a_waiting_reader_learns_that_the_writer_is_gone() {
    let (reader, writer) = pipe();
    let (ready, signal) = pipe();
    let reading = thread::spawn(move || {
        signal.write(&[1]).expect("room");
        reader.read(&mut [0])
    })
    .expect("a thread");
    ready.read(&mut [0]).expect("the thread runs");
    thread::yield_now();
    drop(writer);
    assert_eq!(reading.join(), Ok(Ok(0)));
}

fn a_pipe_connects_processes() {
    let (reader, writer) = pipe();
    let data = pattern(100_000);
    let child =
        process::spawn(|| i32::from(writer.write(&data) != Ok(data.len()))).expect("a process");
    drop(writer);
    let mut received = Vec::with_capacity(data.len() + 1);
    assert_eq!(reader.fill(&mut received), Ok(data.len()));
    assert!(received == data);
    assert_eq!(process::wait(child).expect("the child").code, 0);
}

fn many_pipes_are_independent() {
    let pipes: Vec<Pipe> = (0..5000).map(|_| Pipe::new().expect("a pipe")).collect();
    for (number, pipe) in pipes.iter().enumerate() {
        assert_eq!(pipe.writer.write(&number.to_le_bytes()), Ok(8));
    }
    for (number, pipe) in pipes.iter().enumerate() {
        let mut bytes = [0; 8];
        assert_eq!(pipe.reader.read(&mut bytes), Ok(8));
        assert_eq!(usize::from_le_bytes(bytes), number);
    }
}

fn unread_bytes_are_given_back() {
    let before = frames_free();
    for _ in 0..10 {
        let (reader, writer) = pipe();
        assert_eq!(writer.write(&[1; 50_000]), Ok(50_000));
        assert!(frames_free() < before, "the bytes lie somewhere");
        drop((reader, writer));
        assert_eq!(frames_free(), before);
    }
}

/// Returns the address of the last page of this process's heap, with none behind it.
///
/// The process must allocate nothing from here on.
fn last_page() -> usize {
    // Two pages, so that a whole one is among them.
    let end = call(SBRK, [2 * PAGE_SIZE, 0, 0]) as usize + 2 * PAGE_SIZE;
    (end - 1) / PAGE_SIZE * PAGE_SIZE
}

fn a_read_that_faults_makes_room_for_what_it_took() {
    let _one = one_hart();
    let (reader, writer) = pipe();
    writer.write(&vec![1; CAPACITY]).expect("room");
    let writing = process::spawn(|| i32::from(writer.write(&[1]) != Ok(1))).expect("a process");
    // The writer finds the pipe full.
    process::quiesce();
    // More than what is done without waiting.
    let bytes = CAPACITY + 1;
    expect_end(BAD_ADDRESS, || {
        call(READ, [reader.number(), last_page(), bytes]);
    });
    assert_eq!(process::wait(writing).expect("the writer").code, 0);
}

fn a_write_that_faults_wakes_the_reader_for_what_it_put() {
    let _one = one_hart();
    let (reader, writer) = pipe();
    let read = || i32::from(reader.read(&mut [0; PAGE_SIZE]) != Ok(PAGE_SIZE));
    let reading = process::spawn(read).expect("a process");
    // The reader finds the pipe empty.
    process::quiesce();
    // More than what is done without waiting.
    let bytes = CAPACITY + 1;
    expect_end(BAD_ADDRESS, || {
        call(WRITE, [writer.number(), last_page(), bytes]);
    });
    // This process could still write, so the read does not end for want of a writer.
    assert_eq!(process::wait(reading).expect("the reader").code, 0);
    drop(writer);
}

fn several_readers_share_what_comes() {
    let (reader, writer) = pipe();
    let readers: Vec<_> = (0..8)
        .map(|_| {
            let reader = reader.duplicate().expect("a descriptor");
            thread::spawn(move || {
                let mut sum = 0;
                let mut byte = [0];
                while reader.read(&mut byte) == Ok(1) {
                    sum += u32::from(byte[0]);
                }
                sum
            })
            .expect("a thread")
        })
        .collect();
    for byte in 1..=200 {
        writer.write(&[byte]).expect("readers are there");
    }
    drop(writer);
    let sum: u32 = readers
        .into_iter()
        .map(|reader| reader.join().expect("a sum"))
        .sum();
    assert_eq!(sum, 200 * 201 / 2);
}

/// Tests a chain of processes, each of which passes on what it reads, as in experiment B.
fn a_long_chain_of_processes_passes_every_byte() {
    let (mut reader, first) = pipe();
    let mut children = Vec::new();
    for _ in 0..20 {
        let (next, writer) = pipe();
        let child = process::spawn(|| {
            // The children also hold write ends, so it is the number of bytes that ends the read.
            let mut data = vec![0; 1000];
            let count = reader.read(&mut data);
            i32::from(count != Ok(1000) || writer.write(&data) != Ok(1000))
        });
        children.push(child.expect("a process"));
        reader = next;
    }
    let data = pattern(1000);
    first.write(&data).expect("room");
    let mut received = vec![0; 1000];
    assert_eq!(reader.read(&mut received), Ok(1000));
    assert!(received == data);
    for child in children {
        assert_eq!(process::wait(child).expect("the child").code, 0);
    }
}

/// Number of asynchronous reads that wait for one pipe.
const MANY: u64 = 3000;

/// Runs a test with rings in a process of its own, on one hart.
fn with_rings(test: impl FnOnce(&Rings)) {
    let _one = one_hart();
    let code = exit_code(|| {
        test(&Rings::new(4096));
        0
    });
    assert_eq!(code, 0);
}

/// Reads of one byte each that wait for a pipe.
struct Reads<'a> {
    rings: &'a Rings,
    reader: OwnedFd,
    byte: [u8; 1],
}

impl Reads<'_> {
    /// Puts a read with this key and level into the ring.
    fn submit(&mut self, key: u64, level: u8) {
        let address = self.byte.as_mut_ptr().expose_provenance();
        self.rings.submit(Submission {
            level,
            ..submission(key, READ, [self.reader.number(), address, 1], 0)
        });
    }

    /// Returns the first `count` completions in their order.
    fn completions(&self, count: u64) -> Vec<(u64, i64)> {
        let mut all = Vec::new();
        while (all.len() as u64) < count {
            self.rings.enter(1);
            all.extend(self.rings.completions());
        }
        assert_eq!(all.len() as u64, count);
        all
    }
}

fn thousands_of_readers_are_woken_in_their_order() {
    // Several harts complete calls in any order.
    let _one = one_hart();
    with_rings(|rings| {
        for bytes in [MANY as usize, 0] {
            let (reader, writer) = pipe();
            let byte = [0];
            let mut reads = Reads {
                rings,
                reader,
                byte,
            };
            (0..MANY).for_each(|key| reads.submit(key, 32));
            rings.enter(0);
            process::quiesce();
            assert_eq!(writer.write(&vec![1; bytes]), Ok(bytes));
            // Those that the write has woken run now. A write of nothing wakes none: the first of
            // them would wait again, and be woken behind others.
            thread::yield_now();
            drop(writer);
            let all = reads.completions(MANY);
            let read = i64::from(bytes > 0);
            assert!(all.iter().all(|(_, result)| *result == read));
            // The first waits in the pipe itself, and those behind it in a queue.
            let in_queue = all.into_iter().map(|(key, _)| key).filter(|key| *key != 0);
            assert!(in_queue.eq(1..MANY), "{bytes} bytes");
        }
    });
}

fn a_wake_of_all_readers_misses_none_while_others_arrive() {
    with_rings(|rings| {
        let (reader, writer) = pipe();
        let byte = [0];
        let mut reads = Reads {
            rings,
            reader,
            byte,
        };
        (0..MANY).for_each(|key| reads.submit(key, 32));
        rings.enter(0);
        process::quiesce();
        // Fewer bytes than reads. Most reads that are woken wait again, with others beside them.
        let mut key = MANY;
        for _ in 0..10 {
            assert_eq!(writer.write(&[1; 20]), Ok(20));
            for _ in 0..30 {
                reads.submit(key, 32);
                key += 1;
            }
            rings.enter(0);
        }
        drop(writer);
        let mut all = reads.completions(key);
        assert_eq!(all.iter().filter(|(_, read)| *read == 1).count(), 200);
        all.sort_unstable();
        assert!(all.iter().map(|(key, _)| *key).eq(0..key), "each once");
    });
}

fn an_urgent_reader_is_woken_before_those_in_front_of_it() {
    const URGENT: u64 = 100;
    // Several harts complete calls in any order.
    let _one = one_hart();
    with_rings(|rings| {
        let (reader, writer) = pipe();
        let byte = [0];
        let mut reads = Reads {
            rings,
            reader,
            byte,
        };
        (0..URGENT).for_each(|key| reads.submit(key, 40));
        reads.submit(URGENT, 5);
        rings.enter(0);
        process::quiesce();
        drop(writer);
        assert_eq!(reads.completions(URGENT + 1)[0], (URGENT, 0));
    });
}
