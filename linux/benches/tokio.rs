//! Ways to run tokio's I/O beside coroutines: the time of an echo through `tokio::net::TcpStream`.
//!
//! `cargo bench -p corank-linux --features tokio --bench tokio [-- NAME...]`
//!
//! All are measured in turn, in one run:
//! - `tokio`: tokio alone.
//! - `hosted`: this crate's feature: each worker is a task of a tokio runtime.
//! - `per-worker`: each worker runs inside a current-thread tokio runtime of its own.
//! - `own-thread`: tokio's driver has a thread of its own, and its handle is entered on the
//!   workers.

use std::future::{Future, poll_fn};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use corank::{Relaxed, SharedExecutor, Step};
use corank_linux::{Builder, Priority};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const TRIALS: usize = 15;
const ROUND_TRIPS: usize = 5_000;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    for workers in [1, 2] {
        let mut models: Vec<(&str, Start)> = vec![
            ("tokio", alone),
            ("hosted", hosted),
            ("per-worker", per_worker),
            ("own-thread", own_thread),
        ];
        models.retain(|(name, _)| {
            let named = wanted.iter().filter(|wanted| !wanted.starts_with('-'));
            named.clone().next().is_none() || named.clone().any(|wanted| wanted == name)
        });
        let mut medians: Vec<Vec<f64>> = vec![Vec::new(); models.len()];
        for _ in 0..TRIALS {
            for (index, (_, start)) in models.iter().enumerate() {
                let server = start(workers);
                medians[index].push(echo(server.address));
                (server.stop)();
            }
        }
        for ((name, _), values) in models.iter().zip(&mut medians) {
            values.sort_by(f64::total_cmp);
            println!(
                "{workers} workers, {name:>10}: {:.2} us (from {:.2} to {:.2})",
                values[TRIALS / 2],
                values[0],
                values[TRIALS - 1]
            );
        }
    }
}

/// Starts a server with so many workers.
type Start = fn(usize) -> Server;

struct Server {
    address: SocketAddr,
    stop: Box<dyn FnOnce()>,
}

/// Returns the median of a round trip in microseconds.
fn echo(address: SocketAddr) -> f64 {
    let mut stream = std::net::TcpStream::connect(address).expect("it listens");
    stream.set_nodelay(true).expect("a socket");
    let mut buffer = [1; 64];
    let mut times = Vec::with_capacity(ROUND_TRIPS);
    for _ in 0..ROUND_TRIPS {
        let start = Instant::now();
        stream.write_all(&buffer).expect("it is open");
        stream.read_exact(&mut buffer).expect("it is open");
        times.push(start.elapsed());
    }
    times.sort();
    times[ROUND_TRIPS / 2].as_secs_f64() * 1e6
}

async fn serve(listener: std::net::TcpListener) {
    let listener = TcpListener::from_std(listener).expect("a descriptor");
    let (mut stream, _) = listener.accept().await.expect("a connection");
    stream.set_nodelay(true).expect("a socket");
    let mut buffer = [0; 64];
    while stream.read_exact(&mut buffer).await.is_ok() {
        stream.write_all(&buffer).await.expect("it is open");
    }
}

fn listen() -> (std::net::TcpListener, SocketAddr) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("a socket");
    let address = listener.local_addr().expect("it is bound");
    (listener, address)
}

fn tokio_of(workers: usize) -> tokio::runtime::Runtime {
    (tokio::runtime::Builder::new_multi_thread())
        .worker_threads(workers)
        .enable_all()
        .build()
        .expect("threads")
}

fn alone(workers: usize) -> Server {
    let (listener, address) = listen();
    let runtime = tokio_of(workers);
    runtime.spawn(serve(listener));
    let stop = Box::new(move || drop(runtime));
    Server { address, stop }
}

fn hosted(workers: usize) -> Server {
    let (listener, address) = listen();
    let builder = Builder::new().workers(workers).tokio(Priority::DEFAULT);
    let runtime = builder.build().expect("threads");
    drop(runtime.handle().spawn(Priority::DEFAULT, serve(listener)));
    let stop = Box::new(move || drop(runtime));
    Server { address, stop }
}

fn own_thread(workers: usize) -> Server {
    /// Enters tokio's runtime for each poll.
    struct Enter<F>(Pin<Box<F>>, tokio::runtime::Handle);

    impl<F: Future> Future for Enter<F> {
        type Output = F::Output;

        fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
            let this = &mut *self;
            let _entered = this.1.enter();
            this.0.as_mut().poll(cx)
        }
    }

    let (listener, address) = listen();
    let tokio = tokio_of(1);
    let runtime = Builder::new().workers(workers).build().expect("threads");
    let future = Enter(Box::pin(serve(listener)), tokio.handle().clone());
    drop(runtime.handle().spawn(Priority::DEFAULT, future));
    let stop = Box::new(move || {
        drop(runtime);
        drop(tokio);
    });
    Server { address, stop }
}

/// Wakes a worker that waits inside of a `block_on`.
#[derive(Default)]
struct Call {
    called: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Wake for Call {
    fn wake(self: Arc<Self>) {
        self.called.store(true, Ordering::SeqCst);
        if let Some(waker) = &*self.waker.lock().expect("no panic") {
            waker.wake_by_ref();
        }
    }
}

fn per_worker(workers: usize) -> Server {
    let (listener, address) = listen();
    let executor = Arc::new(SharedExecutor::new());
    let stopping = Arc::new(AtomicBool::new(false));
    let calls: Vec<Arc<Call>> = (0..workers).map(|_| Arc::default()).collect();
    drop(executor.spawn(corank::Priority::DEFAULT, serve(listener)));
    let threads: Vec<_> = (calls.iter().cloned())
        .map(|call| {
            let (executor, stopping) = (executor.clone(), stopping.clone());
            thread::spawn(move || {
                let runtime = (tokio::runtime::Builder::new_current_thread())
                    .enable_all()
                    .build()
                    .expect("descriptors");
                let worker = executor.worker(Waker::from(call.clone()));
                runtime.block_on(async {
                    *call.waker.lock().expect("no panic") =
                        Some(poll_fn(|cx| Poll::Ready(cx.waker().clone())).await);
                    while !stopping.load(Ordering::Acquire) {
                        match worker.run_some(&Relaxed, 61).0 {
                            Step::Idle => {
                                poll_fn(|_| match call.called.swap(false, Ordering::SeqCst) {
                                    true => Poll::Ready(()),
                                    false => Poll::Pending,
                                })
                                .await;
                            }
                            _ => tokio::task::yield_now().await,
                        }
                    }
                });
            })
        })
        .collect();
    let stop = Box::new(move || {
        // The coroutine has ended with its connection.
        stopping.store(true, Ordering::Release);
        for call in calls {
            call.wake();
        }
        for thread in threads {
            thread.join().expect("no panic");
        }
        thread::sleep(Duration::ZERO);
    });
    Server { address, stop }
}
