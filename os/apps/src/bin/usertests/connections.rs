//! Tests of reads that wait in their connection without a kernel coroutine.
//!
//! Further tests cover connections with smaller buffers, and memory that fails while connections
//! come.
use alloc::vec::Vec;
use core::future::poll_fn;
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;

use corank_abi::call::{FAULT_MEMORY, READ, RING_CANCEL, RING_CANCELLED, RING_REPRIORITIZE, WRITE};
use corank_abi::error::{INVALID, RESET, TIMED_OUT};
use corank_abi::ring::CLOSE_FILE;
use corank_user::net::{self, TcpListener, TcpStream};
use corank_user::{Error, JoinHandle, Priority, block_on, calls, information, spawn};

use crate::injected::at_every_step_by;
use crate::network::{at, code, footprint, listener, pair, until_sockets};
use crate::rings::{Rings, submission};
use crate::support::{BAD_ADDRESS, KERNEL, UNMAPPED, call, expect_end, tests};

tests![
    waiting_reads_take_no_coroutine,
    a_read_returns_what_arrives_first,
    the_end_and_a_reset_end_a_read,
    the_connection_is_closed_with_the_read,
    a_waiting_read_is_cancelled_by_its_key,
    a_level_reaches_the_socket,
    reads_of_one_connection_are_served_in_order,
    a_read_may_still_have_a_limit,
    a_bad_buffer_ends_the_process,
    connections_have_the_buffers_of_their_listener,
    connections_survive_failing_allocations,
];

/// Spawns a coroutine that reads at most `room` bytes, and waits until the kernel has taken the
/// call.
async fn reading(stream: TcpStream, room: usize) -> JoinHandle<(Result<usize, Error>, Vec<u8>)> {
    let read = async move { stream.read(Vec::with_capacity(room)).await };
    let task = spawn(Priority::DEFAULT, read).expect("memory");
    calls::sleep_async(0).await.expect("memory");
    task
}

fn waiting_reads_take_no_coroutine() {
    const CONNECTIONS: usize = 50;
    let coroutines = || information::system().expect("it is there").coroutines;
    block_on(async move {
        let mut near = Vec::new();
        let mut far = Vec::new();
        for (here, there) in (0..CONNECTIONS).map(|_| pair()) {
            near.push(here);
            far.push(there);
        }
        calls::sleep_async(0).await.expect("memory");
        let before = coroutines();
        let mut reads = Vec::new();
        for stream in far {
            reads.push(reading(stream, 8).await);
        }
        assert_eq!(coroutines(), before);
        for (number, stream) in near.iter().enumerate() {
            let written = stream.write_all(alloc::vec![number as u8; 3]).await;
            assert!(written.is_ok());
        }
        for (number, read) in reads.into_iter().enumerate() {
            let (count, data) = read.await.expect("it ends");
            assert_eq!((count, data), (Ok(3), alloc::vec![number as u8; 3]));
        }
    });
}

fn a_read_returns_what_arrives_first() {
    block_on(async {
        // Room for more bytes than come, for as many, and for fewer.
        for room in [8, 4, 3] {
            let (here, there) = pair();
            let there = alloc::rc::Rc::new(there);
            let reader = there.clone();
            let read = spawn(Priority::DEFAULT, async move {
                reader.read(Vec::with_capacity(room)).await
            })
            .expect("memory");
            calls::sleep_async(0).await.expect("memory");
            here.write_all(b"abcd".to_vec()).await.expect("open");
            let (count, data) = read.await.expect("it ends");
            assert_eq!(count, Ok(room.min(4)));
            assert_eq!(data, b"abcd"[..room.min(4)]);
            let rest = 4 - room.min(4);
            let (count, data) = there.read_exact(Vec::new(), rest).await;
            assert_eq!((count, &data[..]), (Ok(rest), &b"abcd"[4 - rest..]));
        }
    });
}

fn the_end_and_a_reset_end_a_read() {
    block_on(async {
        let (here, there) = pair();
        let read = reading(there, 4).await;
        here.shutdown().expect("open");
        assert_eq!(read.await.expect("it ends").0, Ok(0));
        let (here, there) = pair();
        let read = reading(there, 4).await;
        here.reset();
        assert_eq!(code(read.await.expect("it ends").0), RESET);
    });
    until_sockets(0);
}

fn the_connection_is_closed_with_the_read() {
    let rings = Rings::new(8);
    let mut byte = [0_u8];
    let buffer = byte.as_mut_ptr().expose_provenance();
    for comes in [true, false] {
        let (here, there) = pair();
        // The read takes the descriptor with it.
        let file = core::mem::ManuallyDrop::new(there).number();
        rings.submit(submission(7, READ, [file, buffer, 1], CLOSE_FILE));
        rings.enter(0);
        if comes {
            here.write_blocking(b"x").expect("open");
            rings.enter(1);
            assert_eq!(rings.completion(), Some((7, 1)));
        } else {
            assert_eq!(call(RING_CANCEL, [7, 0, 0]), RING_CANCELLED);
        }
        assert_eq!(here.read_blocking(&mut [0]), Ok(0));
    }
    until_sockets(0);
}

fn a_waiting_read_is_cancelled_by_its_key() {
    let rings = Rings::new(8);
    let (here, there) = pair();
    let mut bytes = [0_u8; 2];
    let buffer = bytes.as_mut_ptr().expose_provenance();
    rings.submit(submission(7, READ, [there.number(), buffer, 2], 0));
    rings.enter(0);
    assert_eq!(call(RING_CANCEL, [7, 0, 0]), RING_CANCELLED);
    // The cancelled read takes none of the bytes that come then.
    rings.submit(submission(8, READ, [there.number(), buffer, 2], 0));
    rings.enter(0);
    let text = c"ab".as_ptr().expose_provenance();
    rings.submit(submission(9, WRITE, [here.number(), text, 2], 0));
    rings.enter(2);
    let mut done = [rings.completion(), rings.completion()];
    done.sort_unstable();
    assert_eq!(done, [Some((8, 2)), Some((9, 2))]);
    assert_eq!(&bytes, b"ab");
}

fn a_level_reaches_the_socket() {
    let rings = Rings::new(8);
    let (_here, there) = pair();
    let mut byte = [0_u8];
    let buffer = byte.as_mut_ptr().expose_provenance();
    rings.submit(submission(7, READ, [there.number(), buffer, 1], 0));
    rings.enter(0);
    let level = || net::status_of(**there).expect("a socket").level;
    for new in [50, 3, 20] {
        assert_eq!(call(RING_REPRIORITIZE, [7, new, 0]), 0);
        assert_eq!(level(), new as u64);
    }
    assert_eq!(call(RING_CANCEL, [7, 0, 0]), RING_CANCELLED);
}

fn reads_of_one_connection_are_served_in_order() {
    let rings = Rings::new(8);
    let (here, there) = pair();
    let mut bytes = [[0_u8]; 2];
    for (key, byte) in (1..).zip(&mut bytes) {
        let buffer = byte.as_mut_ptr().expose_provenance();
        rings.submit(submission(key, READ, [there.number(), buffer, 1], 0));
    }
    rings.enter(0);
    let text = c"ab".as_ptr().expose_provenance();
    rings.submit(submission(3, WRITE, [here.number(), text, 2], 0));
    rings.enter(3);
    let mut done = [(); 3].map(|()| rings.completion());
    done.sort_unstable();
    assert_eq!(done, [Some((1, 1)), Some((2, 1)), Some((3, 2))]);
    // The read that waits in the connection comes first.
    assert_eq!(bytes, [*b"a", *b"b"]);
}

fn a_read_may_still_have_a_limit() {
    block_on(async {
        let (_here, there) = pair();
        net::set_wait_limit(**there, Some(Duration::from_millis(2))).expect("a socket");
        let (count, _) = there.read(Vec::with_capacity(1)).await;
        assert_eq!(code(count), TIMED_OUT);
    });
}

fn a_bad_buffer_ends_the_process() {
    for address in [UNMAPPED, KERNEL] {
        expect_end(BAD_ADDRESS, || {
            let rings = Rings::new(4);
            let (here, there) = pair();
            rings.submit(submission(1, READ, [there.number(), address, 8], 0));
            rings.enter(0);
            here.write_blocking(b"x").expect("open");
            rings.enter(1);
        });
    }
    until_sockets(0);
}

fn connections_have_the_buffers_of_their_listener() {
    let (listener, address) = listener();
    for wrong in [0, 511, (64 << 10) + 1, usize::MAX] {
        assert_eq!(code(listener.set_buffer(wrong)), INVALID);
    }
    let heap = || information::system().expect("it is there").heap_used;
    let mut taken = Vec::new();
    // The first connection makes tables grow.
    let pairs = [512, 512, 64 << 10].map(|bytes| {
        listener.set_buffer(bytes).expect("it is in range");
        let before = heap();
        let here = TcpStream::connect_blocking(address).expect("it listens");
        let there = listener.accept_blocking().expect("it knocks");
        taken.push(heap() - before);
        (here, there)
    });
    for (here, there) in pairs {
        let sent: Vec<u8> = (0..20_000).map(|place| (place % 251) as u8).collect();
        let expected = sent.clone();
        block_on(async move {
            let writing = spawn(
                Priority::DEFAULT,
                async move { there.write_all(sent).await },
            );
            let (count, received) = here.read_exact(Vec::new(), expected.len()).await;
            assert_eq!((count, received), (Ok(expected.len()), expected));
            let written = writing.expect("memory").await.expect("it does not panic");
            assert!(written.is_ok());
        });
    }
    // Two buffers differ. Other allocations, such as those for timers, come to little.
    let more = taken[2] - taken[1];
    assert!(more.abs_diff(2 * ((64 << 10) - 512)) < 4096, "{taken:?}");
}

/// Uses a connection from its beginning on, in both forms of the calls.
///
/// Returns -1 if one of them fails. Each step waits for the one before, so that no step waits for
/// what never comes. A frame that found no memory comes again.
fn scenario() -> i32 {
    let blocking = || -> Result<(), Error> {
        let listener = TcpListener::bind(0)?;
        let here = TcpStream::connect_blocking(at(listener.local_port()?))?;
        let there = listener.accept_blocking()?;
        here.write_blocking(b"abc")?;
        there.read_blocking(&mut [0; 3])?;
        here.reset();
        Ok(())
    };
    let asynchronous = async || -> Result<(), Error> {
        let listener = TcpListener::bind(0)?;
        let here = TcpStream::connect(at(listener.local_port()?)).await?;
        let there = listener.accept().await?;
        let mut read = pin!(there.read(Vec::with_capacity(4)));
        let early = poll_fn(|context| Poll::Ready(read.as_mut().poll(context))).await;
        calls::sleep_async(0).await?;
        here.write(b"abcd".to_vec()).await.0?;
        match early {
            Poll::Ready((count, _)) => count?,
            Poll::Pending => read.await.0?,
        };
        here.reset();
        Ok(())
    };
    match blocking().and_then(|()| block_on(async move { asynchronous().await })) {
        Ok(()) => 0,
        Err(_) => -1,
    }
}

fn connections_survive_failing_allocations() {
    let steps = at_every_step_by(footprint, FAULT_MEMORY, scenario, |code| {
        matches!(code, 0 | -1)
    });
    // Listening, connecting, answering, accepting and opening take a step each, twice.
    assert!(steps >= 10, "only {steps} steps");
}
