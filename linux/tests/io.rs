//! Sockets and pipes, the bound within which urgent I/O is noticed, and exhausted descriptors.

#![cfg(not(loom))]

#[path = "../../core/tests/common/asserts.rs"]
mod asserts;

use std::io::Write;
use std::os::unix::net::UnixStream as Blocking;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use corank_linux::net::{
    TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream,
};
use corank_linux::{
    Async, Builder, OPERATIONS_IN_A_ROW, POLLS_PER_CHECK, Priority, Runtime, TIME_PER_CHECK, pipe,
    spawn, yield_now,
};
use futures::{AsyncReadExt, AsyncWriteExt};

fn level(level: u8) -> Priority {
    Priority::new(level).unwrap()
}

fn workers(workers: usize) -> Runtime {
    Builder::new().workers(workers).build().unwrap()
}

/// Reads and answers until the stream ends.
async fn echo<S: futures::AsyncRead + futures::AsyncWrite + Unpin>(mut stream: S) -> u64 {
    let mut buffer = [0; 4096];
    let mut total = 0;
    loop {
        let count = stream.read(&mut buffer).await.unwrap();
        if count == 0 {
            stream.close().await.unwrap();
            return total;
        }
        stream.write_all(&buffer[..count]).await.unwrap();
        total += count as u64;
    }
}

/// Sends so many bytes while it reads them again.
async fn exercise<S>(stream: S, bytes: u64)
where
    S: Send + Sync + 'static,
    for<'a> &'a S: futures::AsyncRead + futures::AsyncWrite + Send,
{
    let stream = Arc::new(stream);
    let writer = stream.clone();
    let write = async move {
        let mut sent = 0_u64;
        let block: Vec<u8> = (0..=255).cycle().take(65_536).collect();
        while sent < bytes {
            let next = block.len().min((bytes - sent) as usize);
            (&*writer).write_all(&block[..next]).await.unwrap();
            sent += next as u64;
        }
        (&*writer).close().await.unwrap();
    };
    let write = spawn(level(20), write).unwrap();
    let mut received = 0_u64;
    let mut buffer = vec![0; 10_000];
    loop {
        let count = (&*stream).read(&mut buffer).await.unwrap();
        if count == 0 {
            break;
        }
        for &byte in &buffer[..count] {
            // Each block of 65,536 begins again at 0, which changes nothing: it is a multiple of
            // 256.
            assert_eq!(byte, (received % 256) as u8);
            received += 1;
        }
    }
    assert_eq!(received, bytes);
    write.await.unwrap();
}

#[test]
fn tcp_carries_everything_both_ways() {
    for count in [1, 2] {
        workers(count).block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let serve = async move {
                let (stream, peer) = listener.accept().await.unwrap();
                assert!(peer.ip().is_loopback());
                echo(stream).await
            };
            let serve = spawn(level(10), serve).unwrap();
            let stream = TcpStream::connect(address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            assert_eq!(stream.peer_addr().unwrap(), address);
            exercise(stream, 3_000_000).await;
            assert_eq!(serve.await.unwrap(), 3_000_000);
        });
    }
}

#[test]
fn a_name_is_resolved_and_refusal_is_an_error() {
    workers(1).block_on(async {
        let listener = TcpListener::bind(("localhost", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let stream = TcpStream::connect(format!("localhost:{port}"))
            .await
            .unwrap();
        drop((stream, listener));
        let refused = TcpStream::connect(("127.0.0.1", port)).await.unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    });
}

/// The end of a stream that comes together with its last bytes is one event for both, and is read
/// nevertheless.
#[test]
fn an_end_that_comes_with_data_is_found() {
    workers(1).block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        for _ in 0..100 {
            let mut sender = std::net::TcpStream::connect(address).unwrap();
            let (mut stream, _) = listener.accept().await.unwrap();
            sender.write_all(b"last words").unwrap();
            drop(sender);
            let mut text = String::new();
            stream.read_to_string(&mut text).await.unwrap();
            assert_eq!(text, "last words");
        }
    });
}

#[test]
fn unix_sockets_and_pipes_carry_everything() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    workers(2).block_on(async move {
        let listener = UnixListener::bind(&path).unwrap();
        let serve = async move { echo(listener.accept().await.unwrap()).await };
        let serve = spawn(level(10), serve).unwrap();
        exercise(UnixStream::connect(&path).unwrap(), 1_000_000).await;
        assert_eq!(serve.await.unwrap(), 1_000_000);

        let (one, other) = UnixDatagram::pair().unwrap();
        one.send(b"one").await.unwrap();
        one.send(b"and another").await.unwrap();
        let mut buffer = [0; 64];
        assert_eq!(other.recv(&mut buffer).await.unwrap(), 3);
        assert_eq!(other.recv(&mut buffer).await.unwrap(), 11);

        let (mut sender, mut receiver) = pipe::pipe().unwrap();
        let write = async move { sender.write_all(&[7; 300_000]).await };
        let write = spawn(level(5), write).unwrap();
        let mut all = Vec::new();
        receiver.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, vec![7; 300_000]);
        write.await.unwrap().unwrap();
    });
}

#[test]
fn udp_sends_and_receives() {
    workers(1).block_on(async {
        let one = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let other = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let (here, there) = (one.local_addr().unwrap(), other.local_addr().unwrap());
        let answer = async move {
            let mut buffer = [0; 64];
            let (count, from) = other.recv_from(&mut buffer).await.unwrap();
            other.send_to(&buffer[..count], from).await.unwrap();
            from
        };
        let answer = spawn(level(3), answer).unwrap();
        one.connect(there).await.unwrap();
        assert_eq!(one.send(b"hello").await.unwrap(), 5);
        let mut buffer = [0; 64];
        assert_eq!(one.recv(&mut buffer).await.unwrap(), 5);
        assert_eq!(&buffer[..5], b"hello");
        assert_eq!(answer.await.unwrap(), here);
    });
}

/// Counts the less urgent polls between an event of an urgent coroutine and its wake, if each takes
/// at least `time`.
fn polls_until_noticed(time: Duration) -> u64 {
    /// A bulk coroutine writes, late among the others.
    const WRITES: u64 = 1000;
    let (write, read) = Blocking::pair().unwrap();
    let noticed_at = workers(1).block_on_at(level(1), async move {
        let polls = Arc::new(AtomicU64::new(0));
        let done = Arc::new(AtomicBool::new(false));
        let write = Arc::new(write);
        for number in 0..8_u8 {
            let (polls, done, write) = (polls.clone(), done.clone(), write.clone());
            let bulk = async move {
                while !done.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    while began.elapsed() < time {
                        std::hint::spin_loop();
                    }
                    if polls.fetch_add(1, Ordering::Relaxed) == WRITES {
                        (&*write).write_all(&[1]).unwrap();
                    }
                    yield_now().await;
                }
            };
            drop(spawn(level(40 + number % 2), bulk).unwrap());
        }
        let urgent = spawn(level(0), async move {
            let mut urgent = UnixStream::from_std(read).unwrap();
            urgent.read_exact(&mut [0]).await.unwrap();
            polls.load(Ordering::Relaxed)
        });
        let noticed_at = urgent.unwrap().await.unwrap();
        done.store(true, Ordering::Relaxed);
        noticed_at
    });
    noticed_at
        .checked_sub(WRITES + 1)
        .expect("it is noticed after it was written")
}

/// The promised bound, by count: an urgent event is noticed after at most `POLLS_PER_CHECK` less
/// urgent polls.
#[test]
fn urgent_io_is_noticed_within_the_bound() {
    let polls = polls_until_noticed(Duration::ZERO);
    assert!(polls <= POLLS_PER_CHECK, "noticed {polls} polls later");
}

/// If polls are long, a worker checks after each.
#[test]
fn urgent_io_is_noticed_after_one_long_poll() {
    assert_eq!(polls_until_noticed(TIME_PER_CHECK), 0);
}

/// A coroutine whose I/O never waits lets others of its level run within the bound, by count.
#[test]
fn io_that_is_always_ready_lets_others_run() {
    const OPERATIONS: u64 = 1000;
    let runtime = workers(1);
    let (others, seen) = runtime.block_on_at(level(1), async {
        let done = Arc::new(AtomicU64::new(0));
        let (count, seen) = (done.clone(), Arc::new(AtomicU64::new(0)));
        let busy = async move {
            let (one, other) = UnixDatagram::pair().unwrap();
            for _ in 0..OPERATIONS / 2 {
                one.send(b"x").await.unwrap();
                other.recv(&mut [0]).await.unwrap();
                count.fetch_add(2, Ordering::Relaxed);
            }
        };
        let busy = spawn(level(40), busy).unwrap();
        let longest = seen.clone();
        let watching = async move {
            let (mut turns, mut before) = (0_u64, 0);
            while before < OPERATIONS {
                yield_now().await;
                let now = done.load(Ordering::Relaxed);
                longest.fetch_max(now - before, Ordering::Relaxed);
                (turns, before) = (turns + 1, now);
            }
            turns
        };
        let watching = spawn(level(40), watching).unwrap();
        // A coroutine that awaits both donates the same priority to both.
        let (turns, end) = futures::join!(watching, busy);
        end.unwrap();
        (turns.unwrap(), seen.load(Ordering::Relaxed))
    });
    assert!(others >= OPERATIONS / u64::from(OPERATIONS_IN_A_ROW));
    assert!(
        seen <= u64::from(OPERATIONS_IN_A_ROW) + 2,
        "{seen} in a row"
    );
}

/// More events at once than one system call returns: each wakes its waiter.
#[test]
fn no_event_is_lost_among_many() {
    const PAIRS: usize = 400;
    let runtime = workers(2);
    runtime.block_on(async {
        let mut ends = Vec::new();
        let mut waiting = Vec::new();
        for number in 0..PAIRS {
            let (write, read) = Blocking::pair().unwrap();
            ends.push(write);
            let mut read = UnixStream::from_std(read).unwrap();
            let wait = async move {
                let mut byte = [0];
                for round in 0..3 {
                    read.read_exact(&mut byte).await.unwrap();
                    assert_eq!(byte[0], round);
                }
            };
            waiting.push(spawn(level((number % 64) as u8), wait).unwrap());
        }
        for round in 0..3 {
            for end in &mut ends {
                end.write_all(&[round]).unwrap();
            }
        }
        for wait in waiting {
            wait.await.unwrap();
        }
    });
}

/// Several coroutines wait for one descriptor; each datagram reaches exactly one.
#[test]
fn each_datagram_reaches_one_of_many_waiters() {
    let runtime = workers(2);
    let sum = runtime.block_on(async {
        let (one, other) = UnixDatagram::pair().unwrap();
        let other = Arc::new(other);
        let receivers: Vec<_> = (0..10)
            .map(|_| {
                let other = other.clone();
                let receive = async move {
                    let mut byte = [0];
                    other.recv(&mut byte).await.unwrap();
                    u32::from(byte[0])
                };
                spawn(level(4), receive).unwrap()
            })
            .collect();
        for number in 1..=10 {
            one.send(&[number]).await.unwrap();
        }
        let mut sum = 0;
        for receiver in receivers {
            sum += receiver.await.unwrap();
        }
        sum
    });
    assert_eq!(sum, 55);
}

/// A socket may outlive the runtime that it is registered with.
#[test]
fn a_socket_outlives_its_runtime() {
    let runtime = workers(1);
    let stream = runtime.block_on(async { UnixStream::pair().unwrap() });
    drop(runtime);
    drop(stream);
    assert!(UnixStream::pair().is_err(), "no runtime runs here");
}

#[test]
fn descriptors_without_readiness_are_refused() {
    workers(1).block_on(async {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let refused = Async::new(file).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
    });
}

#[test]
fn into_inner_ends_the_registration() {
    workers(1).block_on(async {
        let (one, _other) = Blocking::pair().unwrap();
        let wrapped = Async::new(one).unwrap();
        let one = wrapped.into_inner();
        drop(Async::new(one).expect("it is not registered twice"));
    });
}

/// A peer can end any connection before it is accepted: that is no error of the listener.
#[test]
fn a_connection_that_is_reset_before_it_is_accepted_is_no_error() {
    workers(1).block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let reset = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let here = reset.local_addr().unwrap();
        let at_once = Some(Duration::ZERO);
        rustix::net::sockopt::set_socket_linger(&reset, at_once).unwrap();
        drop(reset);
        // It may be skipped too: then the next one comes.
        let next = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut stream, peer) = listener.accept().await.unwrap();
        assert!(peer == here || peer == next.local_addr().unwrap());
        if peer == here {
            stream.read(&mut [0]).await.unwrap_err();
        }
    });
}
