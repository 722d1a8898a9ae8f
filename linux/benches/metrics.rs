//! Measures what the figures and the recording of a runtime cost each poll.
//!
//! `cargo bench -p corank-linux --bench metrics --features metrics` prints nanoseconds for each
//! poll of a coroutine that yields, and of two that wake each other, on a runtime with one worker.
//! `off` counts no coroutines, `on` does (`Builder::metrics`). Both take turns; the output is the
//! median of the rounds, the smallest and the largest. Without the feature it measures `off` alone.
//! With the feature `recording` it also measures a runtime that records (`Builder::record`).
//!
//! `cargo bench … -- off 100000` only lets one of these runtimes poll so often, for a program that
//! counts instructions: the difference of two such runs is what the polls take.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use corank_linux::sync::{Channel, Shared};
use corank_linux::{Builder, Priority, Runtime, spawn, yield_now};

/// The polls of a round.
static POLLS: AtomicUsize = AtomicUsize::new(400_000);
const ROUNDS: usize = 15;

type Measure = fn(&Runtime) -> f64;

/// Returns nanoseconds for each poll of one coroutine that yields.
fn yields(runtime: &Runtime) -> f64 {
    let polls = POLLS.load(Ordering::Relaxed);
    let run = async move {
        let begin = Instant::now();
        for _ in 0..polls {
            yield_now().await;
        }
        begin.elapsed().as_nanos() as f64 / polls as f64
    };
    let run = runtime
        .handle()
        .spawn(Priority::DEFAULT, run)
        .expect("memory");
    runtime.block_on(run).expect("it does not panic")
}

/// Returns nanoseconds for each poll of two coroutines that wake each other.
fn wakes(runtime: &Runtime) -> f64 {
    let polls = POLLS.load(Ordering::Relaxed);
    let run = async move {
        let here = Shared::here().expect("it is a coroutine");
        let there = Arc::new(Channel::<(), 1>::new_in(here.clone()));
        let back = Arc::new(Channel::<(), 1>::new_in(here));
        let (receive, answer) = (there.clone(), back.clone());
        let echo = async move {
            for _ in 0..polls / 2 {
                receive.receive().await.expect("it is open");
                answer.send(()).await.expect("it is open");
            }
        };
        let echo = spawn(Priority::DEFAULT, echo).expect("memory");
        let begin = Instant::now();
        for _ in 0..polls / 2 {
            there.send(()).await.expect("it is open");
            back.receive().await.expect("it is open");
        }
        let took = begin.elapsed().as_nanos() as f64 / polls as f64;
        echo.await.expect("it does not panic");
        took
    };
    let run = runtime
        .handle()
        .spawn(Priority::DEFAULT, run)
        .expect("memory");
    runtime.block_on(run).expect("it does not panic")
}

/// Returns a runtime of this mode; `None` if the features of this build do not have it.
fn runtime(mode: &str) -> Option<Runtime> {
    let builder = Builder::new().workers(1);
    match mode {
        "off" => Some(builder.build().expect("threads")),
        #[cfg(feature = "metrics")]
        "on" => Some(builder.metrics(true).build().expect("threads")),
        #[cfg(feature = "recording")]
        "recorded" => {
            let path = std::env::temp_dir().join(format!("bench-{}.corank", std::process::id()));
            let runtime = builder.record(&path).build().expect("a file");
            // It stays mapped.
            std::fs::remove_file(path).expect("it was made");
            Some(runtime)
        }
        _ => None,
    }
}

fn main() {
    // Cargo adds `--bench` behind them.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, polls, ..] = &arguments[..]
        && let Ok(polls) = polls.parse()
    {
        POLLS.store(polls, Ordering::Relaxed);
        yields(&runtime(mode).expect("the features of this build have this mode"));
        return;
    }
    let modes = ["off", "on", "recorded"];
    let runtimes: Vec<_> = (modes.into_iter())
        .filter_map(|mode| Some((mode, runtime(mode)?)))
        .collect();
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
            println!("{measure:>5} {name:>8}: {median:6.1} ns a poll ({first:.1} to {last:.1})");
        }
    }
}
