//! Pipes.
use alloc::vec;
use alloc::vec::Vec;

use corank_user::io::Pipe;
use corank_user::{process, thread};

use crate::support::{frames_free, pipe, tests};

tests![
    bytes_come_out_in_order,
    a_read_waits_until_the_buffer_is_full,
    a_read_ends_when_the_last_writer_is_gone,
    an_empty_closed_pipe_reads_nothing,
    writing_without_a_reader_fails,
    a_full_pipe_makes_the_writer_wait,
    a_waiting_writer_learns_that_the_reader_is_gone,
    a_waiting_reader_learns_that_the_writer_is_gone,
    between_processes,
    many_pipes,
    unread_bytes_are_given_back,
    several_readers_share_what_comes,
    a_long_chain,
];

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

fn between_processes() {
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

fn many_pipes() {
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

/// Each process passes on what it reads, as in experiment B.
fn a_long_chain() {
    let (mut reader, first) = pipe();
    let mut children = Vec::new();
    for _ in 0..20 {
        let (next, writer) = pipe();
        let child = process::spawn(|| {
            // The children hold write ends as well, so it is the number of bytes that ends the read.
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
