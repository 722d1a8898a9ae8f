//! Tests of peers that fall silent.
//!
//! From one segment on, nothing of a connection arrives any more ([`FAULT_SILENCE`]). Whatever the
//! kernel keeps for such a peer, it keeps for a bounded time, and a waiter learns of it.
//!
//! Each limit is shortened to [`LIMIT`]. The tests wait until it has come, and no test expects it
//! by a certain time. [`PATIENCE`] only ends a test if its limit never comes.
use alloc::vec::Vec;
use core::pin::pin;
use core::time::Duration;

use corank_abi::call::{FAILED, FAULT, FAULT_SILENCE, SOCKET_SET};
use corank_abi::error::{INVALID, RESET, TIMED_OUT};
use corank_abi::net::{HANDSHAKE_LIMIT, ORPHAN_LIMIT, ORPHAN_MOST};
use corank_user::corank::time::timeout;
use corank_user::net::{self, TcpListener, TcpStream};
use corank_user::{Error, block_on, calls, time};

use crate::network::{at, begin, code, pair, sockets};
use crate::support::{call, tests, without_sockets};

tests![
    a_silent_process_leaves_nothing,
    an_unfinished_handshake_is_ended,
    a_connect_to_a_silent_server_times_out,
    unacknowledged_bytes_end_the_connection,
    a_write_that_waits_for_an_answer_times_out,
    an_unacknowledged_end_ends_the_connection,
    an_idle_connection_has_no_limit,
    a_closed_unanswered_connection_is_removed,
    a_connection_closed_by_one_side_is_removed,
    limits_out_of_range_are_refused,
];

const LIMIT: Duration = Duration::from_millis(100);
/// A time shorter than every limit of the kernel's own.
const PATIENCE: Duration = Duration::from_secs(10);

/// A fault by which nothing of a port's connections arrives any more until this is dropped.
struct Silence;

impl Silence {
    /// Begins with the loss of the segment with this number, counted from 1.
    fn from(segment: usize, port: u16) -> Self {
        assert_eq!(call(FAULT, [FAULT_SILENCE, segment, port.into()]), 0);
        Self
    }

    /// Begins now.
    fn now(stream: &TcpStream) -> Self {
        let status = net::status_of(***stream).expect("a socket");
        Self::from(1, status.local_port as u16)
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        // The silence has begun.
        assert_eq!(call(FAULT, [FAULT_SILENCE, 0, 0]), 0);
    }
}

/// Waits until `is_so` returns true, in turns of a clock tick or more.
fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..PATIENCE.as_millis() {
        if is_so() {
            return;
        }
        calls::sleep(1).expect("a call that works");
    }
    panic!("{what}: it never comes");
}

/// Returns the result of a call for which there is a limit.
async fn within_limits<T>(call: impl Future<Output = T>) -> T {
    let said = timeout(PATIENCE, call).await;
    said.expect("its limit never comes")
}

async fn read(stream: &TcpStream) -> Result<usize, Error> {
    within_limits(stream.read(Vec::with_capacity(1))).await.0
}

async fn write(stream: &TcpStream, length: usize) -> Result<usize, Error> {
    within_limits(stream.write(alloc::vec![7; length])).await.0
}

/// Returns whether a limit that began after `start` may have come.
fn limit_has_come(start: u64) -> bool {
    time::nanoseconds() - start >= LIMIT.as_nanos() as u64
}

fn a_silent_process_leaves_nothing() {
    let all = || {
        block_on(half_open());
        block_on(unanswered());
        orphan();
    };
    // The tables get as large as they will.
    all();
    let before = without_sockets();
    all();
    let after = without_sockets();
    assert_eq!(after.heap_used, before.heap_used);
    assert_eq!(after.coroutines, before.coroutines);
}

/// Runs a client that begins a handshake and is gone.
async fn half_open() {
    let listener = TcpListener::with_backlog(0, 1).expect("a port is free");
    listener.set_handshake_limit(LIMIT).expect("a listener");
    let port = listener.local_port().expect("it has one");
    let waiting = || net::status_of(**listener).expect("a socket").waiting;
    let before = sockets();
    let start = time::nanoseconds();
    // The client's first segment arrives.
    let silence = Silence::from(2, port);
    {
        let mut client = pin!(TcpStream::connect(at(port)));
        begin(client.as_mut()).await;
        until("the first segment", || waiting() == 1);
    }
    until("the end of the handshake", || waiting() == 0);
    assert!(limit_has_come(start));
    until("the end of both sockets", || sockets() == before);
    drop(silence);
    // The client's place is free again.
    let client = within_limits(TcpStream::connect(at(port))).await;
    let server = listener.accept().await.expect("it has knocked");
    client.expect("there is room").reset();
    assert_eq!(code(read(&server).await), RESET);
}

fn an_unfinished_handshake_is_ended() {
    block_on(half_open());
}

fn a_connect_to_a_silent_server_times_out() {
    let listener = TcpListener::bind(0).expect("a port is free");
    let port = listener.local_port().expect("it has one");
    let before = sockets();
    let start = time::nanoseconds();
    let silence = Silence::from(1, port);
    let to = *at(port).ip();
    let connecting = calls::tcp_connect_async(
        to.to_bits() as usize,
        port.into(),
        LIMIT.as_millis() as usize,
    );
    let connected = block_on(within_limits(connecting));
    assert_eq!(code(connected), TIMED_OUT);
    assert!(limit_has_come(start));
    until("the end of the socket", || sockets() == before);
    let connected = TcpStream::connect_blocking_within(at(port), LIMIT);
    assert_eq!(code(connected), TIMED_OUT);
    drop(silence);
    TcpStream::connect_blocking_within(at(port), PATIENCE)
        .expect("it listens")
        .reset();
}

/// Sends bytes that are not answered.
async fn unanswered() {
    let (here, there) = pair();
    here.set_answer_limit(Some(LIMIT)).expect("a connection");
    let start = time::nanoseconds();
    let silence = Silence::now(&here);
    // The kernel takes the bytes, and learns later that there is no peer.
    assert_eq!(write(&here, 3).await, Ok(3));
    assert_eq!(code(read(&here).await), TIMED_OUT);
    assert!(limit_has_come(start));
    assert_eq!(code(write(&here, 1).await), TIMED_OUT);
    assert_eq!(code(here.shutdown()), TIMED_OUT);
    // The other side has received nothing about it. It learns that there is no such connection as
    // soon as it sends something.
    drop(silence);
    assert_eq!(write(&there, 1).await, Ok(1));
    assert_eq!(code(read(&there).await), RESET);
}

fn unacknowledged_bytes_end_the_connection() {
    block_on(unanswered());
}

fn a_write_that_waits_for_an_answer_times_out() {
    // More data than the two sides have room for.
    const LENGTH: usize = 64 << 10;
    block_on(async {
        let (here, there) = pair();
        here.set_answer_limit(Some(LIMIT)).expect("a connection");
        let _silence = Silence::now(&here);
        let written = write(&here, LENGTH).await.expect("there is some room");
        assert!(written > 0 && written < LENGTH, "{written}");
        assert_eq!(code(write(&here, LENGTH).await), TIMED_OUT);
        there.reset();
    });
}

fn an_unacknowledged_end_ends_the_connection() {
    block_on(async {
        let (here, there) = pair();
        here.set_answer_limit(Some(LIMIT)).expect("a connection");
        let start = time::nanoseconds();
        let _silence = Silence::now(&here);
        here.shutdown().expect("it is open");
        assert_eq!(code(read(&here).await), TIMED_OUT);
        assert!(limit_has_come(start));
        there.reset();
    });
}

/// Tests that silence means nothing if nothing is under way.
fn an_idle_connection_has_no_limit() {
    block_on(async {
        let (here, there) = pair();
        for stream in [&here, &there] {
            stream.set_answer_limit(Some(LIMIT)).expect("a connection");
        }
        calls::sleep_async(3 * LIMIT.as_millis() as usize)
            .await
            .expect("memory");
        // From here on the exchange may take longer than the limit.
        for stream in [&here, &there] {
            stream.set_answer_limit(None).expect("a connection");
        }
        assert_eq!(write(&here, 1).await, Ok(1));
        assert_eq!(read(&there).await, Ok(1));
    });
}

/// Tests an orphan, which its program has closed and which has lost its other side.
fn orphan() {
    let (here, there) = pair();
    here.set_orphan_limit(LIMIT).expect("a connection");
    let orphans = || net::status().expect("memory").orphans;
    let before = sockets();
    let start = time::nanoseconds();
    let silence = Silence::now(&here);
    here.write_blocking(b"last").expect("it is open");
    drop(here);
    assert_eq!(sockets(), before);
    until("the end of the orphan", || orphans() == 0);
    assert!(limit_has_come(start));
    assert_eq!(sockets(), before - 1);
    there.reset();
    drop(silence);
}

fn a_closed_unanswered_connection_is_removed() {
    orphan();
}

/// Tests a connection that one side alone closes.
///
/// The other side is there, and takes the end. It never ends its own direction.
fn a_connection_closed_by_one_side_is_removed() {
    let (here, there) = pair();
    here.set_orphan_limit(LIMIT).expect("a connection");
    let start = time::nanoseconds();
    drop(here);
    assert_eq!(there.read_blocking(&mut [0]), Ok(0));
    until("the end of the orphan", || {
        net::status().expect("memory").orphans == 0
    });
    assert!(limit_has_come(start));
    until("the reset", || code(there.read_blocking(&mut [0])) == RESET);
}

fn limits_out_of_range_are_refused() {
    let (here, _there) = pair();
    let listener = TcpListener::bind(0).expect("a port is free");
    let [here, listener] = [here.number(), listener.number()];
    for arguments in [
        [here, ORPHAN_LIMIT, 0],
        [here, ORPHAN_LIMIT, ORPHAN_MOST + 1],
        [here, ORPHAN_LIMIT, u32::MAX as usize],
        [here, HANDSHAKE_LIMIT, 1],
        [listener, HANDSHAKE_LIMIT, 0],
        [listener, ORPHAN_LIMIT, 1],
    ] {
        assert_eq!(call(SOCKET_SET, arguments), INVALID, "{arguments:?}");
    }
    assert_eq!(call(SOCKET_SET, [here, ORPHAN_LIMIT, ORPHAN_MOST]), 0);
    assert_eq!(call(FAULT, [FAULT_SILENCE, 1, 65_536]), FAILED);
}
