//! Tests of sockets between programs of this machine, which need no other machine.
//!
//! Each connection has both its ends here.
use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddrV4};
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;

use corank_abi::call::*;
use corank_abi::error::*;
use corank_abi::exit_code::KILLED;
use corank_abi::net::CLOSE_BY_RESET;
use corank_user::net::{self, TcpListener, TcpStream, UdpSocket};
use corank_user::{Error, Priority, block_on, calls, information, process, ring, spawn};

use crate::injected::at_every_step_by;
use crate::support::{call, kill_and_wait, pipe, quiesced, record, tests, without_sockets};

tests![
    the_network_is_not_polled_while_idle,
    bytes_go_both_ways,
    each_direction_ends_by_itself,
    a_reset_reaches_the_other_side,
    unread_bytes_are_not_taken_for_read,
    a_connect_without_a_listener_is_refused,
    a_port_has_one_listener,
    the_backlog_is_bounded,
    a_closed_listener_resets_its_backlog,
    many_bytes_arrive_as_they_were,
    several_hundred_connections_at_once,
    the_number_of_sockets_is_bounded,
    a_time_limit_ends_each_waiting_call,
    a_cancelled_read_takes_nothing,
    a_cancelled_accept_takes_nothing,
    a_cancelled_connect_leaves_nothing,
    an_unclaimed_connection_is_closed,
    a_killed_process_leaves_no_socket,
    a_kill_at_any_step_leaves_nothing,
    the_network_survives_each_failing_allocation,
    datagrams_are_carried_whole,
    network_calls_of_rcore_behave_as_there,
    network_calls_with_bad_arguments_are_refused,
    a_socket_is_as_urgent_as_its_waiters,
];

pub(crate) fn at(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)
}

pub(crate) fn listener() -> (TcpListener, SocketAddrV4) {
    let listener = TcpListener::bind(0).expect("a port is free");
    let port = listener.local_port().expect("it has one");
    (listener, at(port))
}

/// Returns both ends of a connection.
pub(crate) fn pair() -> (TcpStream, TcpStream) {
    let (listener, address) = listener();
    let here = TcpStream::connect_blocking(address).expect("a listener");
    let there = listener.accept_blocking().expect("a connection");
    (here, there)
}

pub(crate) fn code<T>(result: Result<T, Error>) -> isize {
    result.map_or_else(Error::code, |_| 0)
}

/// Returns how many sockets are not at their end.
pub(crate) fn sockets() -> u64 {
    let status = net::status().expect("memory");
    status.sockets - status.fading
}

/// Waits until there are `expected` sockets.
///
/// The test's time limit ends it if that never comes.
pub(crate) fn until_sockets(expected: u64) {
    while sockets() != expected {
        corank_user::calls::sleep(1).expect("a call that works");
    }
}

/// Reads until the buffer is full or the end has come.
fn read_all(stream: &TcpStream, buffer: &mut [u8]) -> Result<usize, Error> {
    let mut count = 0;
    while count < buffer.len() {
        match stream.read_blocking(&mut buffer[count..])? {
            0 => break,
            more => count += more,
        }
    }
    Ok(count)
}

/// Returns the byte at a place of a long message.
fn byte(place: usize) -> u8 {
    (place.wrapping_mul(2_654_435_761) >> 16) as u8
}

/// Tests that the network's coroutine does not poll by itself.
///
/// It waits for frames and for its sockets' timers. This also holds for a connection on which a
/// reader waits for bytes.
fn the_network_is_not_polled_while_idle() {
    without_sockets();
    block_on(async {
        let (here, there) = pair();
        let mut read = pin!(here.read(Vec::with_capacity(1)));
        begin(read.as_mut()).await;
        // The rest of the connection's beginning, such as an answer that may be late, is done once.
        let is_quiet = || {
            let before = net::status().expect("memory").polls;
            calls::sleep(200).expect("a call that works");
            net::status().expect("memory").polls == before
        };
        assert!(
            (0..5).any(|_| is_quiet()),
            "the network's coroutine is polled on and on"
        );
        there.write_all(b"x".to_vec()).await.expect("open");
        assert_eq!(read.await, (Ok(1), b"x".to_vec()));
    });
}

fn bytes_go_both_ways() {
    let (here, there) = pair();
    let mut buffer = [0; 16];
    assert_eq!(here.write_blocking(b"question"), Ok(8));
    assert_eq!(there.read_blocking(&mut buffer), Ok(8));
    assert_eq!(&buffer[..8], b"question");
    assert_eq!(there.write_blocking(b"answer"), Ok(6));
    assert_eq!(here.read_blocking(&mut buffer[..4]), Ok(4));
    assert_eq!(here.read_blocking(&mut buffer[4..]), Ok(2));
    assert_eq!(&buffer[..6], b"answer");
    let peer = here.peer().expect("it has one");
    assert_eq!(peer.ip(), &Ipv4Addr::LOCALHOST);
}

fn each_direction_ends_by_itself() {
    let (here, there) = pair();
    let mut buffer = [0; 8];
    here.write_blocking(b"last").expect("it is open");
    here.shutdown().expect("it is open");
    assert_eq!(code(here.write_blocking(b"more")), SHUT_DOWN);
    assert_eq!(code(here.shutdown()), SHUT_DOWN);
    assert_eq!(read_all(&there, &mut buffer), Ok(4));
    assert_eq!(there.read_blocking(&mut buffer), Ok(0));
    assert_eq!(there.read_blocking(&mut buffer), Ok(0));
    // The other direction is still open.
    assert_eq!(there.write_blocking(b"reply"), Ok(5));
    drop(there);
    assert_eq!(read_all(&here, &mut buffer), Ok(5));
    assert_eq!(&buffer[..5], b"reply");
    assert_eq!(here.read_blocking(&mut buffer), Ok(0));
}

fn a_reset_reaches_the_other_side() {
    let (here, there) = pair();
    there.write_blocking(b"before").expect("it is open");
    let mut buffer = [0; 8];
    assert_eq!(here.read_blocking(&mut buffer[..1]), Ok(1));
    there.reset();
    // What came before the reset is read first.
    assert_eq!(here.read_blocking(&mut buffer), Ok(5));
    assert_eq!(code(here.read_blocking(&mut buffer)), RESET);
    assert_eq!(code(here.write_blocking(b"x")), RESET);
    assert_eq!(code(here.shutdown()), RESET);
}

fn unread_bytes_are_not_taken_for_read() {
    let (here, there) = pair();
    here.write_blocking(b"unread").expect("it is open");
    let mut one = [0; 1];
    assert_eq!(there.read_blocking(&mut one), Ok(1));
    drop(there);
    assert_eq!(code(here.read_blocking(&mut one)), RESET);
    // Nor are late bytes taken for read, which come when no reader is left.
    let (here, there) = pair();
    drop(there);
    assert_eq!(here.read_blocking(&mut one), Ok(0));
    let refused = loop {
        if let Err(error) = here.write_blocking(b"late") {
            break error.code();
        }
        calls::sleep(1).expect("a call that works");
    };
    assert_eq!(refused, RESET);
}

fn a_connect_without_a_listener_is_refused() {
    let (listener, address) = listener();
    drop(listener);
    assert_eq!(code(TcpStream::connect_blocking(address)), REFUSED);
    let refused = block_on(TcpStream::connect(address));
    assert_eq!(code(refused), REFUSED);
    let nowhere = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 1);
    assert_eq!(code(TcpStream::connect_blocking(nowhere)), UNREACHABLE);
    assert_eq!(code(TcpStream::connect_blocking(at(0))), UNREACHABLE);
    if net::status().expect("memory").card == 0 {
        let away = SocketAddrV4::new(Ipv4Addr::new(10, 0, 2, 2), 1);
        assert_eq!(code(TcpStream::connect_blocking(away)), UNREACHABLE);
    }
}

fn a_port_has_one_listener() {
    let (listener, address) = listener();
    assert_eq!(code(TcpListener::bind(address.port())), PORT_IN_USE);
    drop(listener);
    TcpListener::bind(address.port()).expect("it is free again");
}

fn the_backlog_is_bounded() {
    let listener = TcpListener::with_backlog(0, 2).expect("a port is free");
    let address = at(listener.local_port().expect("it has one"));
    let waiting = || net::status_of(**listener).expect("a socket").waiting;
    let first = TcpStream::connect_blocking(address).expect("there is room");
    let second = TcpStream::connect_blocking(address).expect("there is room");
    assert_eq!(waiting(), 2);
    let before = net::status().expect("memory").received;
    let child = process::spawn(|| {
        let third = TcpStream::connect_blocking(address).expect("when there is room");
        assert_eq!(third.write_blocking(b"3"), Ok(1));
        assert_eq!(third.read_blocking(&mut [0]), Ok(0));
        0
    })
    .expect("a process");
    // The third connection attempt arrives, and gets no answer.
    while net::status().expect("memory").received == before {
        calls::sleep(1).expect("a call that works");
    }
    assert_eq!(waiting(), 2);
    let accepted = [(); 2].map(|()| listener.accept_blocking().expect("one waits"));
    let third = listener.accept_blocking().expect("it knocks again");
    assert_eq!(third.read_blocking(&mut [0]), Ok(1));
    drop((third, accepted, first, second));
    assert_eq!(process::wait(child).expect("the child").code, 0);
}

fn a_closed_listener_resets_its_backlog() {
    let (listener, address) = listener();
    let waiting = TcpStream::connect_blocking(address).expect("a listener");
    drop(listener);
    assert_eq!(code(waiting.read_blocking(&mut [0])), RESET);
}

fn many_bytes_arrive_as_they_were() {
    const LENGTH: usize = 1 << 20;
    // Pieces of awkward lengths, some larger and some smaller than the kernel's buffers.
    const PIECE: usize = 30_011;
    let (listener, address) = listener();
    let child = process::spawn(|| {
        let stream = TcpStream::connect_blocking(address).expect("a listener");
        let data: Vec<u8> = (0..LENGTH).map(byte).collect();
        for piece in data.chunks(PIECE) {
            assert_eq!(stream.write_blocking(piece), Ok(piece.len()));
        }
        0
    })
    .expect("a process");
    let stream = listener.accept_blocking().expect("a connection");
    let mut place = 0;
    let mut buffer = alloc::vec![0; 9_001];
    loop {
        let count = stream.read_blocking(&mut buffer).expect("it is open");
        if count == 0 {
            break;
        }
        for found in &buffer[..count] {
            assert_eq!(*found, byte(place), "byte {place}");
            place += 1;
        }
    }
    assert_eq!(place, LENGTH);
    assert_eq!(process::wait(child).expect("the child").code, 0);
}

fn several_hundred_connections_at_once() {
    const CONNECTIONS: usize = 300;
    block_on(async {
        let listener = TcpListener::with_backlog(0, CONNECTIONS).expect("a port is free");
        let address = at(listener.local_port().expect("it has one"));
        let clients: Vec<_> = (0..CONNECTIONS)
            .map(|number| {
                let client = async move {
                    let stream = TcpStream::connect(address).await.expect("room");
                    let question = alloc::vec![number as u8; 100];
                    let question = stream.write_all(question).await.expect("it is open");
                    let (count, answer) = stream.read_exact(Vec::new(), 100).await;
                    assert_eq!(count, Ok(100));
                    assert_eq!(answer, question);
                };
                spawn(Priority::DEFAULT, client).expect("memory")
            })
            .collect();
        let mut open = Vec::new();
        for _ in 0..CONNECTIONS {
            open.push(listener.accept().await.expect("room for a file"));
        }
        assert!(sockets() >= 2 * CONNECTIONS as u64);
        for stream in &open {
            let (count, question) = stream.read_exact(Vec::new(), 100).await;
            assert_eq!(count, Ok(100));
            stream.write_all(question).await.expect("it is open");
        }
        for client in clients {
            client.await.expect("it does not panic");
        }
    });
    until_sockets(0);
}

fn the_number_of_sockets_is_bounded() {
    // Fading sockets make room, however many there are.
    for _ in 0..20 {
        let (here, there) = pair();
        drop(here);
        drop(there);
    }
    let most = net::status().expect("memory").most_sockets;
    let listener = TcpListener::with_backlog(0, most as usize).expect("a port is free");
    listener.set_buffer(512).expect("it is in range");
    let address = at(listener.local_port().expect("it has one"));
    // Each connection takes two sockets.
    let streams: Vec<_> = (0..most / 2)
        .map(|_| TcpStream::connect_blocking(address).expect("there is room"))
        .collect();
    assert_eq!(sockets(), most);
    assert_eq!(code(TcpStream::connect_blocking(address)), NO_SOCKETS);
    assert_eq!(code(block_on(TcpStream::connect(address))), NO_SOCKETS);
    assert_eq!(code(UdpSocket::connect(7, at(8))), FAILED);
    for stream in streams {
        stream.reset();
    }
    drop(listener);
    until_sockets(0);
    drop(pair());
}

fn a_time_limit_ends_each_waiting_call() {
    let limit = Some(Duration::from_millis(2));
    let (here, _there) = pair();
    net::set_wait_limit(**here, limit).expect("a socket");
    assert_eq!(code(here.read_blocking(&mut [0])), TIMED_OUT);
    // More data than the two sides have room for.
    let data = alloc::vec![1; 64 << 10];
    let written = here.write_blocking(&data).expect("there is some room");
    assert!(written > 0 && written < data.len(), "{written}");
    let (listener, _) = listener();
    net::set_wait_limit(**listener, limit).expect("a socket");
    assert_eq!(code(listener.accept_blocking()), TIMED_OUT);
}

/// Polls a future once, and expects that it has to wait.
pub(crate) async fn begin<T>(mut future: core::pin::Pin<&mut impl Future<Output = T>>) {
    core::future::poll_fn(|context| {
        assert!(future.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
    // The kernel takes the call.
    calls::sleep_async(1).await.expect("memory");
}

fn a_cancelled_read_takes_nothing() {
    block_on(async {
        let (here, there) = pair();
        {
            let mut read = pin!(there.read(Vec::with_capacity(8)));
            begin(read.as_mut()).await;
        }
        here.write_all(b"kept".to_vec()).await.expect("open");
        let (count, data) = there.read_exact(Vec::new(), 4).await;
        assert_eq!((count, data.as_slice()), (Ok(4), &b"kept"[..]));
    });
}

fn a_cancelled_accept_takes_nothing() {
    block_on(async {
        let (listener, address) = listener();
        {
            let mut accept = pin!(listener.accept());
            begin(accept.as_mut()).await;
        }
        let here = TcpStream::connect(address).await.expect("it listens");
        let there = listener.accept().await.expect("it waits");
        here.write_all(b"x".to_vec()).await.expect("open");
        let (count, _) = there.read(Vec::with_capacity(1)).await;
        assert_eq!(count, Ok(1));
    });
}

fn a_cancelled_connect_leaves_nothing() {
    block_on(async {
        // The first connection fills the backlog, and the second is not answered.
        let listener = TcpListener::with_backlog(0, 1).expect("a port is free");
        let address = at(listener.local_port().expect("it has one"));
        let first = TcpStream::connect(address).await.expect("there is room");
        let before = sockets();
        {
            let mut second = pin!(TcpStream::connect(address));
            begin(second.as_mut()).await;
            assert_eq!(sockets(), before + 1);
        }
        until_sockets(before);
        let accepted = listener.accept().await.expect("the first");
        drop((first, accepted));
    });
    until_sockets(0);
}

fn an_unclaimed_connection_is_closed() {
    block_on(async {
        let (listener, address) = listener();
        let files = files();
        let here = {
            let mut accept = pin!(listener.accept());
            begin(accept.as_mut()).await;
            let here = TcpStream::connect(address).await.expect("it listens");
            // The kernel has accepted the connection by now, but nothing polls the future.
            calls::sleep_async(1).await.expect("memory");
            assert_eq!(self::files(), files + 2);
            here
        };
        assert_eq!(self::files(), files + 1);
        let (count, _) = here.read(Vec::with_capacity(1)).await;
        assert_eq!(count, Ok(0));
    });
}

fn files() -> u64 {
    record(process::id()).files
}

fn a_killed_process_leaves_no_socket() {
    let (listener, address) = listener();
    let (begun, begins) = pipe();
    let child = process::spawn(move || {
        block_on(async move {
            let (own, own_address) = self::listener();
            let mut open = Vec::new();
            for number in 0..20 {
                let stream = TcpStream::connect(address).await.expect("it listens");
                stream.write_all(alloc::vec![1; 100]).await.expect("open");
                if number % 3 == 0 {
                    stream.shutdown().expect("open");
                }
                open.push(stream);
            }
            // One connection waits to be accepted, and others wait for what never comes.
            let unaccepted = TcpStream::connect(own_address).await.expect("it listens");
            let waits = spawn(Priority::DEFAULT, async move {
                let (_, _) = unaccepted.read(Vec::with_capacity(1)).await;
            });
            begins.write(&[1]).expect("room");
            let (_, _) = open[0].read(Vec::with_capacity(1)).await;
            drop((own, waits));
        });
        0
    })
    .expect("a process");
    let accepted: Vec<_> = (0..20)
        .map(|_| listener.accept_blocking().expect("it knocks"))
        .collect();
    assert_eq!(begun.read(&mut [0]), Ok(1));
    kill_and_wait(child);
    for stream in &accepted {
        let mut buffer = [0; 200];
        assert_eq!(read_all(stream, &mut buffer), Ok(100));
    }
    drop((accepted, listener));
    until_sockets(0);
}

/// Returns what must be the same before and after a fault, once its sockets have come to their end.
pub(crate) fn footprint() -> [u64; 4] {
    until_sockets(0);
    let system = quiesced(information::system).expect("it is there");
    [system.coroutines, system.stacks, system.frames_free, 0]
}

/// Uses both ends of connections, in both forms of the calls.
///
/// Returns -1 if one of them fails.
fn scenario() -> i32 {
    let blocking = || -> Result<(), Error> {
        let listener = TcpListener::bind(0)?;
        let here = TcpStream::connect_blocking(at(listener.local_port()?))?;
        let there = listener.accept_blocking()?;
        call(SOCKET_SET, [here.number(), CLOSE_BY_RESET, 1]);
        here.write_blocking(b"abc")?;
        there.read_blocking(&mut [0; 2])?;
        there.shutdown()?;
        here.read_blocking(&mut [0; 2]).map(|_| ())
    };
    let asynchronous = async || -> Result<(), Error> {
        let listener = TcpListener::bind(0)?;
        let address = at(listener.local_port()?);
        let connecting = spawn(Priority::DEFAULT, TcpStream::connect(address));
        let there = listener.accept().await?;
        let here = match connecting {
            Ok(connecting) => connecting.await.expect("it does not panic")?,
            Err(_) => return Ok(()),
        };
        let reading = spawn(Priority::DEFAULT, async move {
            there.read(Vec::with_capacity(4)).await.0
        });
        here.write(b"abcd".to_vec()).await.0?;
        drop(reading);
        here.reset();
        Ok(())
    };
    match blocking().and_then(|()| block_on(async move { asynchronous().await })) {
        Ok(()) => 0,
        Err(_) => -1,
    }
}

fn a_kill_at_any_step_leaves_nothing() {
    let steps = at_every_step_by(footprint, FAULT_END, scenario, |code| code == KILLED);
    assert!(steps > 20, "only {steps} steps");
}

fn the_network_survives_each_failing_allocation() {
    // A call fails, or takes another path.
    let scenario = || {
        let listener = TcpListener::bind(0).and_then(|listener| {
            net::set_wait_limit(**listener, Some(Duration::from_millis(50)))?;
            let here = UdpSocket::connect(70, at(71))?;
            here.write(b"x")?;
            Ok(listener)
        });
        if listener.is_ok() { 0 } else { -1 }
    };
    let steps = at_every_step_by(footprint, FAULT_MEMORY, scenario, |code| {
        matches!(code, 0 | -1)
    });
    assert!(steps >= 2, "only {steps} steps");
}

fn datagrams_are_carried_whole() {
    let here = UdpSocket::connect(7000, at(7001)).expect("the port is free");
    let there = UdpSocket::connect(7001, at(7000)).expect("the port is free");
    assert_eq!(code(UdpSocket::connect(7000, at(7002))), FAILED);
    assert_eq!(here.write(b"first"), Ok(5));
    assert_eq!(here.write(b"second"), Ok(6));
    let mut buffer = [0; 4];
    // Datagrams come one at a time, and the part that does not fit is lost.
    assert_eq!(there.read(&mut buffer), Ok(4));
    assert_eq!(&buffer, b"firs");
    assert_eq!(there.read(&mut buffer), Ok(4));
    assert_eq!(&buffer, b"seco");
    assert_eq!(code(here.write(&[0; 3000])), INVALID);
    // A datagram from another socket does not arrive.
    let stranger = UdpSocket::connect(7003, at(7001)).expect("the port is free");
    assert_eq!(stranger.write(b"hello"), Ok(5));
    net::set_wait_limit(**there, Some(Duration::from_millis(2))).expect("a socket");
    assert_eq!(code(there.read(&mut buffer)), TIMED_OUT);
    block_on(async move {
        let (count, _) = ring::write(&there, b"back".to_vec()).await;
        assert_eq!(count, Ok(4));
        let (count, data) = ring::read(&here, Vec::with_capacity(8)).await;
        assert_eq!((count, data.as_slice()), (Ok(4), &b"back"[..]));
    });
}

fn network_calls_of_rcore_behave_as_there() {
    let listener = call(LISTEN, [8080, 0, 0]);
    assert!(listener > 0);
    assert_eq!(call(LISTEN, [8080, 0, 0]), FAILED);
    let here = TcpStream::connect_blocking(at(8080)).expect("it listens");
    here.write_blocking(b"GET / ").expect("it is open");
    let there = call(ACCEPT, [listener as usize, 0, 0]);
    assert!(there > 0);
    let mut buffer = [0_u8; 16];
    let address = buffer.as_mut_ptr().expose_provenance();
    assert_eq!(call(READ, [there as usize, address, 16]), 6);
    assert_eq!(&buffer[..6], b"GET / ");
    assert_eq!(call(CLOSE, [there as usize, 0, 0]), 0);
    assert_eq!(call(CLOSE, [listener as usize, 0, 0]), 0);
}

fn network_calls_with_bad_arguments_are_refused() {
    let (here, _there) = pair();
    let (listener, _) = listener();
    let (reader, _writer) = pipe();
    let [here, listener, reader] = [here.number(), listener.number(), reader.number()];
    for (number, arguments, expected) in [
        (ACCEPT, [here, 0, 0], INVALID),
        (ACCEPT, [reader, 0, 0], BAD_DESCRIPTOR),
        (ACCEPT, [999, 0, 0], BAD_DESCRIPTOR),
        (TCP_LISTEN, [65536, 1, 0], INVALID),
        (TCP_CONNECT, [1 << 32, 1, 0], INVALID),
        (TCP_CONNECT, [0x7f00_0001, 65536, 0], INVALID),
        (SHUTDOWN, [listener, 0, 0], NOT_CONNECTED),
        (SHUTDOWN, [reader, 0, 0], BAD_DESCRIPTOR),
        (SOCKET_SET, [here, 99, 0], INVALID),
        (SOCKET_SET, [here, CLOSE_BY_RESET, 2], INVALID),
        (SOCKET_SET, [reader, 0, 0], BAD_DESCRIPTOR),
        (READ, [listener, 0, 0], NOT_CONNECTED),
        (WRITE, [listener, 0, 0], NOT_CONNECTED),
    ] {
        assert_eq!(call(number, arguments), expected, "{number} {arguments:?}");
    }
}

fn a_socket_is_as_urgent_as_its_waiters() {
    let level = Priority::new(3).expect("below 64");
    let (here, there) = pair();
    let there = alloc::sync::Arc::new(there);
    let reader = there.clone();
    block_on(async move {
        let reading = spawn(
            level,
            async move { reader.read(Vec::with_capacity(1)).await.0 },
        )
        .expect("memory");
        calls::sleep_async(1).await.expect("memory");
        assert_eq!(net::status_of(***there).expect("a socket").level, 3);
        here.write_all(b"x".to_vec()).await.expect("open");
        assert_eq!(reading.await.expect("it does not panic"), Ok(1));
    });
}
