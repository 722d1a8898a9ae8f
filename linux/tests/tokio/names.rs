//! What tokio offers, as its documentation uses it.

use std::cell::Cell;
use std::process::Stdio;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream, UdpSocket, UnixListener, UnixStream};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::{self, JoinSet, LocalSet};
use tokio::time::{interval, sleep, sleep_until, timeout};

use super::{run, workers};
use corank_linux::{Handle, spawn, spawn_blocking};

#[test]
fn sleeps_timeouts_and_intervals() {
    run(|| async {
        let start = Instant::now();
        sleep(Duration::from_millis(5)).await;
        assert!(start.elapsed() >= Duration::from_millis(5));
        let due = tokio::time::Instant::now() + Duration::from_millis(2);
        sleep_until(due).await;
        assert!(tokio::time::Instant::now() >= due);
        let never = std::future::pending::<()>();
        assert!(timeout(Duration::from_millis(1), never).await.is_err());
        let mut ticks = interval(Duration::from_millis(1));
        for _ in 0..3 {
            ticks.tick().await;
        }
    });
}

#[test]
fn tcp_and_udp() {
    run(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (mut read, mut write) = stream.split();
            tokio::io::copy(&mut read, &mut write).await.unwrap()
        });
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"hello, tokio").await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"hello, tokio");
        drop(stream);
        assert_eq!(server.await.unwrap(), 12);

        let (one, other) = (
            UdpSocket::bind("127.0.0.1:0").await.unwrap(),
            UdpSocket::bind("127.0.0.1:0").await.unwrap(),
        );
        one.send_to(b"ping", other.local_addr().unwrap())
            .await
            .unwrap();
        let mut buffer = [0; 8];
        let (count, from) = other.recv_from(&mut buffer).await.unwrap();
        assert_eq!(
            (&buffer[..count], from),
            (&b"ping"[..], one.local_addr().unwrap())
        );
    });
}

#[test]
fn unix_sockets_and_names_of_hosts() {
    run(|| async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let client = tokio::spawn(async move {
            let mut stream = UnixStream::connect(&path).await.unwrap();
            stream.write_all(b"x").await.unwrap();
        });
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, b"x");
        client.await.unwrap();
        // Through a thread for blocking calls.
        let mut addresses = tokio::net::lookup_host("localhost:80").await.unwrap();
        assert!(addresses.any(|address| address.ip().is_loopback()));
    });
}

#[test]
fn files() {
    run(|| async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        tokio::fs::write(&path, b"one\ntwo\n").await.unwrap();
        let file = tokio::fs::File::open(&path).await.unwrap();
        let mut lines = BufReader::new(file).lines();
        assert_eq!(lines.next_line().await.unwrap().unwrap(), "one");
        assert_eq!(lines.next_line().await.unwrap().unwrap(), "two");
        assert_eq!(lines.next_line().await.unwrap(), None);
        tokio::fs::remove_file(&path).await.unwrap();
        assert!(!tokio::fs::try_exists(&path).await.unwrap());
    });
}

#[test]
fn a_child_process_is_fed_and_waited_for() {
    run(|| async {
        let mut child = tokio::process::Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"through a pipe").await.unwrap();
        drop(input);
        let output = child.wait_with_output().await.unwrap();
        assert!(output.status.success());
        assert_eq!(output.stdout, b"through a pipe");
    });
}

#[test]
fn signals() {
    run(|| async {
        use tokio::signal::unix::{SignalKind, signal};
        let mut signals = signal(SignalKind::user_defined2()).unwrap();
        let me = rustix::process::getpid();
        rustix::process::kill_process(me, rustix::process::Signal::USR2).unwrap();
        signals.recv().await.unwrap();
    });
}

#[test]
fn tasks_and_sets_of_tasks() {
    run(|| async {
        assert_eq!(tokio::spawn(async { 6 * 7 }).await.unwrap(), 42);
        assert_eq!(
            task::spawn_blocking(|| "blocking").await.unwrap(),
            "blocking"
        );
        let mut set = JoinSet::new();
        for number in 0..10 {
            set.spawn(async move {
                task::yield_now().await;
                number
            });
        }
        let mut numbers = set.join_all().await;
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..10));

        let endless = tokio::spawn(std::future::pending::<()>());
        endless.abort();
        assert!(endless.await.unwrap_err().is_cancelled());
        let panics = super::asserts::on_purpose(|| tokio::spawn(async { panic!("on purpose") }));
        assert!(panics.await.unwrap_err().is_panic());
    });
}

#[test]
fn a_task_spawns_further_tasks_and_coroutines() {
    run(|| async {
        let sum = tokio::spawn(async {
            let coroutine = spawn(super::level(7), async {
                sleep(Duration::from_millis(1)).await;
                let me = Handle::current().zip(corank_linux::current()).unwrap();
                me.0.priority(me.1).unwrap().level()
            });
            let task = tokio::spawn(async { 1 });
            task.await.unwrap() + i32::from(coroutine.unwrap().await.unwrap())
        });
        assert_eq!(sum.await.unwrap(), 8);
    });
}

#[test]
fn a_blocking_call_finds_both_runtimes() {
    run(|| async {
        let found = task::spawn_blocking(|| {
            let inner = tokio::runtime::Handle::current();
            let coroutine = Handle::current()
                .unwrap()
                .spawn(super::level(3), async { 20 });
            inner.block_on(async {
                coroutine.unwrap().await.unwrap() + tokio::spawn(async { 1 }).await.unwrap()
            })
        });
        assert_eq!(found.await.unwrap(), 21);
    });
}

#[test]
fn block_in_place_keeps_no_coroutine_waiting() {
    run(|| async {
        // Not in the coroutine of `block_on`, for whose thread a worker waits.
        let blocks = spawn(super::level(32), async {
            let (send, receive) = std::sync::mpsc::channel();
            let other = spawn(super::level(32), async move {
                // Needs a worker while the first one blocks.
                sleep(Duration::from_millis(1)).await;
                send.send(5).unwrap();
            });
            let received = task::block_in_place(|| receive.recv_timeout(super::LONG));
            assert_eq!(received, Ok(5));
            other.unwrap().await.unwrap();
        });
        blocks.unwrap().await.unwrap();
    });
}

#[test]
fn local_tasks_run_on_a_thread_for_blocking_calls() {
    run(|| async {
        let tokio = tokio::runtime::Handle::current();
        let counted = task::spawn_blocking(move || {
            let local = LocalSet::new();
            tokio.block_on(local.run_until(async {
                let count = Rc::new(Cell::new(0));
                let inner = count.clone();
                let task = task::spawn_local(async move {
                    sleep(Duration::from_millis(1)).await;
                    inner.set(inner.get() + 1);
                });
                task.await.unwrap();
                count.get()
            }))
        });
        assert_eq!(counted.await.unwrap(), 1);
    });
}

tokio::task_local! {
    static REQUEST: u32;
}

#[test]
fn task_locals_follow_a_coroutine() {
    run(|| async {
        let scoped = |number| {
            REQUEST.scope(number, async move {
                for _ in 0..10 {
                    task::yield_now().await;
                    assert_eq!(REQUEST.get(), number);
                }
            })
        };
        let handles: Vec<_> = (0..4)
            .map(|number| spawn(super::level(9), scoped(number)).unwrap())
            .collect();
        for handle in handles {
            handle.await.unwrap();
        }
        assert!(REQUEST.try_with(|_| ()).is_err());
    });
}

#[test]
fn channels_and_select() {
    run(|| async {
        let (send, mut receive) = mpsc::channel(1);
        let (one, other) = oneshot::channel();
        let (news, mut reader) = broadcast::channel(4);
        let (state, mut watcher) = watch::channel(0);
        tokio::spawn(async move {
            for number in 0..100 {
                send.send(number).await.unwrap();
            }
            news.send("news").unwrap();
            state.send(1).unwrap();
            one.send("done").unwrap();
        });
        let mut sum = 0;
        let mut other = Some(other);
        loop {
            tokio::select! {
                number = receive.recv() => match number {
                    Some(number) => sum += number,
                    None => break,
                },
                () = sleep(super::LONG) => panic!("it hangs"),
            }
        }
        assert_eq!(sum, 4950);
        assert_eq!(reader.recv().await.unwrap(), "news");
        watcher.changed().await.unwrap();
        assert_eq!(*watcher.borrow(), 1);
        assert_eq!(other.take().unwrap().await.unwrap(), "done");
    });
}

/// Futures of both kinds in one coroutine, and each woken by the other.
#[test]
fn futures_of_both_kinds_mix() {
    run(|| async {
        let listener = corank_linux::net::TcpListener::bind("127.0.0.1:0")
            .await
            .unwrap();
        let address = listener.local_addr().unwrap();
        let server = spawn(super::level(20), async move {
            use futures::{AsyncReadExt, AsyncWriteExt};
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = [0; 4];
            for _ in 0..100 {
                stream.read_exact(&mut buffer).await.unwrap();
                corank_linux::time::sleep(Duration::from_micros(10)).await;
                stream.write_all(&buffer).await.unwrap();
            }
        });
        let mut stream = TcpStream::connect(address).await.unwrap();
        for number in 0..100_u32 {
            stream.write_all(&number.to_le_bytes()).await.unwrap();
            assert_eq!(stream.read_u32_le().await.unwrap(), number);
        }
        server.unwrap().await.unwrap();
        let both = futures::join!(
            sleep(Duration::from_millis(2)),
            corank_linux::time::sleep(Duration::from_millis(1)),
            spawn_blocking(|| 1),
        );
        assert_eq!(both.2.unwrap(), 1);
    });
}

/// Timers of Corank are exact and end the sleep of a runtime whose workers all wait.
#[test]
fn coroutines_sleep_in_order_of_their_deadlines() {
    run(|| async {
        let order = Arc::new(AtomicUsize::new(0));
        let handles: Vec<_> = [30, 10, 20, 0]
            .into_iter()
            .map(|number| {
                let order = order.clone();
                spawn(super::level(5), async move {
                    corank_linux::time::sleep(Duration::from_millis(number)).await;
                    (number, order.fetch_add(1, Ordering::Relaxed))
                })
            })
            .collect();
        for (handle, expected) in handles.into_iter().zip([(30, 3), (10, 1), (20, 2), (0, 0)]) {
            assert_eq!(handle.unwrap().await.unwrap(), expected);
        }
    });
}

#[test]
fn a_thread_outside_enters_tokio_through_the_handle() {
    let runtime = workers(1);
    let tokio = runtime.handle().tokio().unwrap();
    let listener = {
        let _entered = tokio.enter();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        TcpListener::from_std(listener)
    };
    assert!(listener.is_ok());
    let local = LocalSet::new();
    let value = tokio.block_on(local.run_until(async {
        let value = Rc::new(3);
        task::spawn_local(async move { *value }).await.unwrap()
    }));
    assert_eq!(value, 3);
    assert!(
        corank_linux::Runtime::new()
            .unwrap()
            .handle()
            .tokio()
            .is_none()
    );
}
