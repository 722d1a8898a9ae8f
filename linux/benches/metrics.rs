//! Measures what the figures of a runtime cost each poll.
//!
//! `cargo bench -p corank-linux --bench metrics --features metrics` prints nanoseconds for each
//! poll of a coroutine that yields, and of two that wake each other, on a runtime with one worker.
//! `off` counts no coroutines, `on` does (`Builder::metrics`). Both take turns; the output is the
//! median of the rounds, the smallest and the largest. Without the feature it measures `off` alone.

use std::sync::Arc;
use std::time::Instant;

use corank_linux::sync::{Channel, Shared};
use corank_linux::{Builder, Priority, Runtime, spawn, yield_now};

const POLLS: usize = 400_000;
const ROUNDS: usize = 15;

type Measure = fn(&Runtime) -> f64;

/// Returns nanoseconds for each poll of one coroutine that yields.
fn yields(runtime: &Runtime) -> f64 {
    let run = async {
        let begin = Instant::now();
        for _ in 0..POLLS {
            yield_now().await;
        }
        begin.elapsed().as_nanos() as f64 / POLLS as f64
    };
    let run = runtime
        .handle()
        .spawn(Priority::DEFAULT, run)
        .expect("memory");
    runtime.block_on(run).expect("it does not panic")
}

/// Returns nanoseconds for each poll of two coroutines that wake each other.
fn wakes(runtime: &Runtime) -> f64 {
    let run = async {
        let here = Shared::here().expect("it is a coroutine");
        let there = Arc::new(Channel::<(), 1>::new_in(here.clone()));
        let back = Arc::new(Channel::<(), 1>::new_in(here));
        let (receive, answer) = (there.clone(), back.clone());
        let echo = async move {
            for _ in 0..POLLS / 2 {
                receive.receive().await.expect("it is open");
                answer.send(()).await.expect("it is open");
            }
        };
        let echo = spawn(Priority::DEFAULT, echo).expect("memory");
        let begin = Instant::now();
        for _ in 0..POLLS / 2 {
            there.send(()).await.expect("it is open");
            back.receive().await.expect("it is open");
        }
        let took = begin.elapsed().as_nanos() as f64 / POLLS as f64;
        echo.await.expect("it does not panic");
        took
    };
    let run = runtime
        .handle()
        .spawn(Priority::DEFAULT, run)
        .expect("memory");
    runtime.block_on(run).expect("it does not panic")
}

fn main() {
    let builder = || Builder::new().workers(1);
    #[cfg_attr(not(feature = "metrics"), expect(unused_mut, reason = "it adds one"))]
    let mut runtimes = vec![("off", builder().build().expect("threads"))];
    #[cfg(feature = "metrics")]
    runtimes.push(("on", builder().metrics(true).build().expect("threads")));
    let measures = [("yield", yields as Measure), ("wake", wakes)];
    for (measure, run) in measures {
        let mut rounds = vec![Vec::new(); runtimes.len()];
        for _ in 0..ROUNDS {
            for (at, (_, runtime)) in runtimes.iter().enumerate() {
                rounds[at].push(run(runtime));
            }
        }
        for ((name, _), mut times) in runtimes.iter().zip(rounds) {
            times.sort_by(f64::total_cmp);
            let (median, first, last) = (times[ROUNDS / 2], times[0], times[ROUNDS - 1]);
            println!("{measure:>5} {name:>3}: {median:6.1} ns a poll ({first:.1} to {last:.1})");
        }
    }
}
