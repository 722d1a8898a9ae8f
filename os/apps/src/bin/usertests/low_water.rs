//! Tests of the low-water mark of connections, in both forms of the calls and in both service
//! models.
//!
//! A read waits for as many bytes as the mark says.
use alloc::sync::Arc;
use alloc::vec::Vec;

use corank_abi::call::{BY_COROUTINE, BY_THREAD, SERVICE_MODEL, SOCKET_SET};
use corank_abi::error::{INVALID, RESET};
use corank_abi::net::{BUFFER_MOST, LOW_WATER};
use corank_user::net::{self, TcpStream};
use corank_user::ring::Transferred;
use corank_user::{JoinHandle, Priority, block_on, calls, process, spawn, thread};

use crate::network::{code, listener, pair};
use crate::support::{call, tests};

tests![
    a_read_waits_for_the_mark,
    a_shorter_read_waits_for_what_it_asks_for,
    a_closed_connection_ends_the_wait_for_the_mark,
    a_reset_ends_the_wait_for_the_mark,
    a_full_buffer_is_read_below_the_mark,
    a_thread_waits_for_the_mark,
    a_lowered_mark_admits_the_bytes_that_wait,
    marks_out_of_range_are_refused,
];

/// Runs `run` with calls served by coroutines of the kernel, and then by its threads.
fn in_both_models(run: fn()) {
    run();
    assert_eq!(
        call(SERVICE_MODEL, [BY_THREAD, 0, 0]),
        BY_COROUTINE as isize
    );
    run();
}

/// Returns a connection that has this mark at its second end.
fn pair_with(mark: usize) -> (TcpStream, Arc<TcpStream>) {
    let (here, there) = pair();
    there.set_low_water(mark).expect("it is in range");
    (here, Arc::new(there))
}

fn waiting(stream: &TcpStream) -> u64 {
    net::status_of(***stream).expect("a socket").waiting
}

/// Waits until `bytes` bytes have come, and expects that nothing takes them.
async fn stay(stream: &TcpStream, bytes: u64) {
    while waiting(stream) != bytes {
        calls::sleep_async(1).await.expect("memory");
    }
    // Everything that they woke has run.
    process::quiesce();
    calls::sleep_async(0).await.expect("memory");
    assert_eq!(waiting(stream), bytes);
}

/// Spawns a coroutine that reads at most `room` bytes.
fn reading(stream: &Arc<TcpStream>, room: usize) -> JoinHandle<Transferred> {
    let reader = stream.clone();
    let read = async move { reader.read(Vec::with_capacity(room)).await };
    spawn(Priority::DEFAULT, read).expect("memory")
}

/// Writes the pieces one by one, the last one when the others have come.
///
/// Returns what one read of at most `room` bytes gets, which waits from the beginning.
fn read_of(mark: usize, room: usize, pieces: [&'static [u8]; 2]) -> Vec<u8> {
    block_on(async move {
        let (here, there) = pair_with(mark);
        let read = reading(&there, room);
        calls::sleep_async(0).await.expect("memory");
        here.write_all(pieces[0].to_vec()).await.expect("open");
        stay(&there, pieces[0].len() as u64).await;
        assert!(!read.has_exited(), "that is not enough");
        here.write_all(pieces[1].to_vec()).await.expect("open");
        let (count, data) = read.await.expect("it does not panic");
        assert_eq!(count, Ok(data.len()));
        data
    })
}

fn a_read_waits_for_the_mark() {
    in_both_models(|| {
        assert_eq!(read_of(4, 8, [b"abc", b"d"]), b"abcd");
        assert_eq!(read_of(4, 4, [b"abc", b"de"]), b"abcd");
        assert_eq!(read_of(4, 8, [b"a", b"bcdefg"]), b"abcdefg");
    });
}

fn a_shorter_read_waits_for_what_it_asks_for() {
    in_both_models(|| assert_eq!(read_of(8, 3, [b"ab", b"cd"]), b"abc"));
}

fn a_closed_connection_ends_the_wait_for_the_mark() {
    in_both_models(|| {
        block_on(async {
            let (here, there) = pair_with(8);
            let read = reading(&there, 8);
            here.write_all(b"abc".to_vec()).await.expect("open");
            stay(&there, 3).await;
            here.shutdown().expect("open");
            let (count, data) = read.await.expect("it does not panic");
            assert_eq!((count, &data[..]), (Ok(3), &b"abc"[..]));
            // This read begins after the end.
            there.write_all(b"x".to_vec()).await.expect("open");
            assert_eq!(there.read(Vec::with_capacity(8)).await.0, Ok(0));
        });
    });
}

fn a_reset_ends_the_wait_for_the_mark() {
    in_both_models(|| {
        block_on(async {
            let (here, there) = pair_with(8);
            let read = reading(&there, 8);
            here.write_all(b"abc".to_vec()).await.expect("open");
            stay(&there, 3).await;
            here.reset();
            // What came before the reset is read first.
            assert_eq!(read.await.expect("it does not panic").0, Ok(3));
            let (count, _) = there.read(Vec::with_capacity(8)).await;
            assert_eq!(code(count), RESET);
        });
    });
}

/// Tests that a full buffer is read, as otherwise both sides would wait for ever.
fn a_full_buffer_is_read_below_the_mark() {
    in_both_models(|| {
        block_on(async {
            let (listener, address) = listener();
            listener.set_buffer(512).expect("it is in range");
            let here = TcpStream::connect(address).await.expect("it listens");
            let there = listener.accept().await.expect("it knocks");
            there.set_low_water(BUFFER_MOST).expect("it is in range");
            let sent: Vec<u8> = (0..5_000).map(|place| (place % 251) as u8).collect();
            let expected = sent.clone();
            let write = spawn(Priority::DEFAULT, async move { here.write_all(sent).await });
            let (count, received) = there.read_exact(Vec::new(), expected.len()).await;
            assert_eq!((count, received), (Ok(expected.len()), expected));
            let written = write.expect("memory").await.expect("it does not panic");
            assert!(written.is_ok());
        });
    });
}

fn a_thread_waits_for_the_mark() {
    in_both_models(|| {
        let (here, there) = pair_with(4);
        let reader = there.clone();
        let read = thread::spawn(move || {
            let mut buffer = [0; 8];
            let count = reader.read_blocking(&mut buffer).expect("it is open");
            assert_eq!(&buffer[..count], b"abcd");
        });
        block_on(async move {
            here.write_all(b"abc".to_vec()).await.expect("open");
            stay(&there, 3).await;
            here.write_all(b"d".to_vec()).await.expect("open");
        });
        read.expect("memory").join().expect("it does not panic");
    });
}

/// Tests that bytes that were too few are enough for the next read.
fn a_lowered_mark_admits_the_bytes_that_wait() {
    in_both_models(|| {
        let (here, there) = pair_with(8);
        assert_eq!(here.write_blocking(b"abc"), Ok(3));
        block_on({
            let there = there.clone();
            async move { stay(&there, 3).await }
        });
        there.set_low_water(2).expect("it is in range");
        let mut buffer = [0; 8];
        assert_eq!(there.read_blocking(&mut buffer), Ok(3));
        assert_eq!(&buffer[..3], b"abc");
    });
}

fn marks_out_of_range_are_refused() {
    let (_here, there) = pair();
    let (listener, _) = listener();
    for wrong in [0, BUFFER_MOST + 1, usize::MAX] {
        assert_eq!(code(there.set_low_water(wrong)), INVALID);
    }
    assert_eq!(call(SOCKET_SET, [listener.number(), LOW_WATER, 1]), INVALID);
}
