//! The cost of the schedulers by themselves, on one and two workers.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use corank_linux::{Builder, Order, Priority, yield_now};
use serde_json::json;

use crate::print;

const COROUTINES: usize = 100;

pub(crate) fn measure(run: u32, quick: bool) {
    let rounds = if quick { 2_000 } else { 10_000 };
    for workers in [1, 2] {
        let report = |model: &str, op: &str, (time, operations): (Duration, usize)| {
            let value = time.as_secs_f64() * 1e9 / operations as f64;
            let parameters = json!({"op": op, "workers": workers, "n": COROUTINES});
            print(model, run, "time", "ns", value, parameters);
        };
        let orders = [("corank", Order::Exact), ("corank-bounded", Order::Bounded)];
        for (model, order) in orders {
            let time = corank_yield(&corank(workers, order), rounds);
            report(model, "yield", time);
        }
        report("tokio", "yield", tokio_yield(workers, rounds));
        for (model, order) in orders {
            let time = corank_spawn(&corank(workers, order), rounds / 10);
            report(model, "spawn-join", time);
        }
        report("tokio", "spawn-join", tokio_spawn(workers, rounds / 10));
        for (model, order) in orders {
            let time = corank_wake(&corank(workers, order), rounds);
            report(model, "wake", time);
        }
        report("tokio", "wake", tokio_wake(workers, rounds));
    }
}

fn corank(workers: usize, order: Order) -> corank_linux::Runtime {
    (Builder::new().workers(workers).order(order))
        .build()
        .expect("threads")
}

/// Runs a spawned coroutine: that of `block_on` itself stays on this thread.
fn run<T: Send + 'static>(
    runtime: &corank_linux::Runtime,
    main: impl Future<Output = T> + Send + 'static,
) -> T {
    let main = runtime.handle().spawn(Priority::DEFAULT, main);
    runtime.block_on(main.expect("memory")).expect("no panic")
}

fn tokio(workers: usize) -> tokio::runtime::Runtime {
    (tokio::runtime::Builder::new_multi_thread())
        .worker_threads(workers)
        .build()
        .expect("threads")
}

/// Waits for coroutines of either runtime.
async fn all<T, E: Debug>(handles: Vec<impl Future<Output = Result<T, E>>>) {
    for handle in handles {
        handle.await.expect("no panic");
    }
}

fn corank_yield(runtime: &corank_linux::Runtime, rounds: usize) -> (Duration, usize) {
    let time = run(runtime, async move {
        let start = Instant::now();
        let handles: Vec<_> = (0..COROUTINES)
            .map(|_| {
                let body = async move {
                    for _ in 0..rounds {
                        yield_now().await;
                    }
                };
                corank_linux::spawn(Priority::DEFAULT, body).expect("memory")
            })
            .collect();
        all(handles).await;
        start.elapsed()
    });
    (time, COROUTINES * rounds)
}

fn tokio_yield(workers: usize, rounds: usize) -> (Duration, usize) {
    let runtime = tokio(workers);
    let main = runtime.spawn(async move {
        let start = Instant::now();
        let handles: Vec<_> = (0..COROUTINES)
            .map(|_| {
                tokio::spawn(async move {
                    for _ in 0..rounds {
                        tokio::task::yield_now().await;
                    }
                })
            })
            .collect();
        all(handles).await;
        start.elapsed()
    });
    let time = runtime.block_on(main).expect("no panic");
    (time, COROUTINES * rounds)
}

fn corank_spawn(runtime: &corank_linux::Runtime, rounds: usize) -> (Duration, usize) {
    let time = run(runtime, async move {
        let start = Instant::now();
        for _ in 0..rounds {
            let handles: Vec<_> = (0..COROUTINES)
                .map(|number| {
                    let body = async move { number };
                    corank_linux::spawn(Priority::DEFAULT, body).expect("memory")
                })
                .collect();
            all(handles).await;
        }
        start.elapsed()
    });
    (time, COROUTINES * rounds)
}

fn tokio_spawn(workers: usize, rounds: usize) -> (Duration, usize) {
    let runtime = tokio(workers);
    let main = runtime.spawn(async move {
        let start = Instant::now();
        for _ in 0..rounds {
            let handles: Vec<_> = (0..COROUTINES)
                .map(|number| tokio::spawn(async move { number }))
                .collect();
            all(handles).await;
        }
        start.elapsed()
    });
    let time = runtime.block_on(main).expect("no panic");
    (time, COROUTINES * rounds)
}

/// Passes a token to and fro between pairs, through channels of a crate that belongs to neither.
async fn pass(token: (async_channel::Sender<()>, async_channel::Receiver<()>), rounds: usize) {
    for _ in 0..rounds {
        token.0.send(()).await.expect("the other one is there");
        token.1.recv().await.expect("the other one is there");
    }
}

type End = (async_channel::Sender<()>, async_channel::Receiver<()>);

fn ends() -> (End, End) {
    let (there, here) = async_channel::bounded(1);
    let (back, returned) = async_channel::bounded(1);
    ((there, returned), (back, here))
}

const PAIRS: usize = COROUTINES / 2;

fn corank_wake(runtime: &corank_linux::Runtime, rounds: usize) -> (Duration, usize) {
    let rounds = rounds / 10;
    let time = run(runtime, async move {
        let start = Instant::now();
        let mut handles = Vec::new();
        for _ in 0..PAIRS {
            let (one, other) = ends();
            for end in [one, other] {
                let handle = corank_linux::spawn(Priority::DEFAULT, pass(end, rounds));
                handles.push(handle.expect("memory"));
            }
        }
        all(handles).await;
        start.elapsed()
    });
    (time, 2 * PAIRS * rounds)
}

fn tokio_wake(workers: usize, rounds: usize) -> (Duration, usize) {
    let runtime = tokio(workers);
    let rounds = rounds / 10;
    let main = runtime.spawn(async move {
        let start = Instant::now();
        let mut handles = Vec::new();
        for _ in 0..PAIRS {
            let (one, other) = ends();
            for end in [one, other] {
                handles.push(tokio::spawn(pass(end, rounds)));
            }
        }
        all(handles).await;
        start.elapsed()
    });
    let time = runtime.block_on(main).expect("no panic");
    (time, 2 * PAIRS * rounds)
}
