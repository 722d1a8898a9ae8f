//! tokio's own sockets, timers and `axum::serve`, in tokio and in a runtime of Corank that hosts
//! tokio.
//!
//! - `tokio-echo`: a round trip through `tokio::net::TcpStream`, with one connection.
//! - `axum`: requests of `axum::serve` with tokio's listener, under `wrk`.
//! - `tokio-sleep`: processor time for one `tokio::time::sleep`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::hello::wrk;
use crate::print;

/// Turns of each model in a run.
///
/// The computer's speed changes from second to second, by more than the models differ.
const TURNS: u32 = 4;
const ROUND_TRIPS: usize = 3_000;
const SLEEPERS: usize = 2_000;
const SLEEPS: usize = 10;

/// A runtime with tokio.
enum Runtime {
    Corank(corank_linux::Runtime),
    Tokio(tokio::runtime::Runtime),
}

impl Runtime {
    fn new(model: &str, workers: usize) -> Self {
        if model == "corank" {
            let builder = corank_linux::Builder::new().workers(workers);
            let builder = builder.tokio(corank_linux::Priority::DEFAULT);
            return Self::Corank(builder.build().expect("threads"));
        }
        let builder = &mut tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(workers).enable_all().build();
        Self::Tokio(runtime.expect("threads"))
    }

    /// Runs what a program's main function is.
    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        match self {
            Self::Corank(runtime) => {
                let level = corank_linux::Priority::DEFAULT;
                drop(runtime.handle().spawn(level, future));
            }
            Self::Tokio(runtime) => drop(runtime.spawn(future)),
        }
    }

    fn block_on<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        match self {
            Self::Corank(runtime) => runtime.block_on(future),
            Self::Tokio(runtime) => {
                let main = runtime.spawn(future);
                runtime.block_on(main).expect("no panic")
            }
        }
    }

    /// Spawns as the program itself would: a coroutine or a task.
    async fn all_sleep(is_corank: bool) {
        let sleep = || async {
            for _ in 0..SLEEPS {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        if is_corank {
            let spawn = |_| corank_linux::spawn(corank_linux::Priority::DEFAULT, sleep());
            let handles: Vec<_> = (0..SLEEPERS).map(spawn).collect();
            for handle in handles {
                handle.expect("memory").await.expect("no panic");
            }
        } else {
            let handles: Vec<_> = (0..SLEEPERS).map(|_| tokio::spawn(sleep())).collect();
            for handle in handles {
                handle.await.expect("no panic");
            }
        }
    }
}

pub(crate) fn measure(run: u32, quick: bool) {
    let turns = if quick { 1 } else { TURNS };
    let models = ["corank", "tokio"];
    for workers in [1, 2] {
        for turn in run * turns..(run + 1) * turns {
            for place in 0..models.len() {
                // They take turns, each time another one first.
                let model = models[(place + turn as usize) % models.len()];
                let point = |op: &str| json!({"op": op, "workers": workers});
                let echo = echo(&Runtime::new(model, workers));
                print(model, turn, "latency-p50", "us", echo, point("tokio-echo"));
                let sleep = sleep(&Runtime::new(model, workers), model == "corank");
                print(model, turn, "time", "ns", sleep, point("tokio-sleep"));
                if let Some(rate) = axum(&Runtime::new(model, workers)) {
                    print(model, turn, "throughput", "1/s", rate, point("axum"));
                }
            }
        }
    }
}

fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("a socket");
    let address = listener.local_addr().expect("it is bound");
    (listener, address)
}

/// Returns the median of a round trip in microseconds.
fn echo(runtime: &Runtime) -> f64 {
    let (listener, address) = listen();
    runtime.spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a descriptor");
        let (mut stream, _) = listener.accept().await.expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        let mut buffer = [0; 64];
        while stream.read_exact(&mut buffer).await.is_ok() {
            stream.write_all(&buffer).await.expect("it is open");
        }
    });
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_nodelay(true).expect("a socket");
    let mut buffer = [1; 64];
    let mut times: Vec<Duration> = (0..ROUND_TRIPS)
        .map(|_| {
            let start = Instant::now();
            stream.write_all(&buffer).expect("it is open");
            stream.read_exact(&mut buffer).expect("it is open");
            start.elapsed()
        })
        .collect();
    times.sort();
    times[ROUND_TRIPS / 2].as_secs_f64() * 1e6
}

/// Returns the requests answered in a second; `None` without `wrk`.
fn axum(runtime: &Runtime) -> Option<f64> {
    let (listener, address) = listen();
    runtime.spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a descriptor");
        let router = Router::new().route("/", get(|| async { "hello, world\n" }));
        axum::serve(listener, router).await.expect("it serves");
    });
    wrk(address)
}

/// Returns the process's time on processors for a sleep, in nanoseconds.
fn sleep(runtime: &Runtime, is_corank: bool) -> f64 {
    let used = || {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
    };
    let before = used();
    runtime.block_on(Runtime::all_sleep(is_corank));
    (used() - before) / (SLEEPERS * SLEEPS) as f64
}
