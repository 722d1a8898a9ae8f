//! Overload: urgent requests, and bulk requests that compute for long, at loads of up to three
//! times what the server can do.
//!
//! The server has one worker. Urgent requests come by a clock, whatever the server does: a seeded
//! Poisson process, from the same process as the server. Bulk requests come from `wrk`, with so
//! many connections that each is idle most of the time: after an answer, also a refusal, it pauses.
//! So the offered load hardly depends on the answers. It is reported, as `offered`.
//!
//! - `corank-shed`: `PriorityLayer` with a limit for the waits of bulk requests.
//! - `corank`: `PriorityLayer` without.
//! - `tokio-limit-shed`: tokio, and for bulk requests tower's `ConcurrencyLimit`, one for the whole
//!   server, and `LoadShed`. The limit is what fits into the limit of the waits.
//! - `tokio-limit`: the same without `LoadShed`, so that requests wait for the limit.
//!
//! Client and server have a processor each, if there are two. As for the other kinds, each point is
//! measured in trials, and of each model's the half counts for latencies whose threads waited least
//! for a processor.

use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use corank_report::trials::{self, Trial};
use serde_json::{Value, json};

use crate::load::Pace;
use crate::print;
use crate::processors::{self, Processors};

mod bulk;
mod servers;
mod urgent;

use servers::{MODELS, Model};

/// The work of an urgent request.
const URGENT_WORK: Duration = Duration::from_micros(50);
/// Urgent requests in a second: they are 5 % of what the worker can do.
const URGENT_RATE: f64 = 1000.0;
/// The work of a bulk request, which lets others run after each [`SLICE`].
const BULK_WORK: Duration = Duration::from_millis(4);
const SLICE: Duration = Duration::from_micros(100);
/// The limit of the waits of bulk requests.
const LIMIT: Duration = Duration::from_millis(100);
/// Bulk requests that may be served at a time in the models with a limit of concurrency.
const CONCURRENCY: usize = (LIMIT.as_micros() / BULK_WORK.as_micros()) as usize;
/// The level of bulk requests, as a parameter of rows.
const BULK_LEVEL: u8 = 48;

/// The first part of a trial, which is not counted: the queues fill.
const WARM_UP: Duration = Duration::from_millis(800);
/// The time of a trial.
const TRIAL: Duration = Duration::from_secs(3);
/// The last part, which is not counted: the answers come.
const REST: Duration = Duration::from_millis(300);
/// The time in which requests are sent that count.
const COUNTED: Duration = Duration::from_millis(1900);

const LOADS: &[u32] = &[50, 100, 150, 300];
const QUICK_LOADS: &[u32] = &[50, 300];

/// What a trial counted of bulk requests.
#[derive(Clone, Copy, Default)]
struct Counts {
    offered: usize,
    served: usize,
    refused: usize,
}

pub(crate) fn measure(processors: Processors, pace: Pace, loads: &[u32], run: u32, quick: bool) {
    if Command::new("wrk").arg("--version").output().is_err() {
        println!("shedding is not measured: install wrk (Debian package `wrk`)");
        return;
    }
    let (defaults, trials) = if quick { (QUICK_LOADS, 1) } else { (LOADS, 2) };
    let loads = if loads.is_empty() { defaults } else { loads };
    for &percent in loads {
        let mut of_models: Vec<(Counts, Vec<Trial>)> = vec![Default::default(); MODELS.len()];
        for number in 0..trials {
            let first = (run + number) as usize % MODELS.len();
            for index in (0..MODELS.len()).cycle().skip(first).take(MODELS.len()) {
                let seed = u64::from(run * trials + number);
                let (counts, trial) = trial(&MODELS[index], percent, processors, pace, seed);
                let (sum, trials) = &mut of_models[index];
                sum.offered += counts.offered;
                sum.served += counts.served;
                sum.refused += counts.refused;
                trials.push(trial);
            }
        }
        for (model, (counts, all)) in MODELS.iter().zip(of_models) {
            report(model.name, percent, run, counts, all);
        }
    }
}

fn report(model: &str, percent: u32, run: u32, counts: Counts, all: Vec<Trial>) {
    let point = |level: u8| -> Value {
        json!({"op": "shedding", "load": percent, "priority": level, "workers": 1})
    };
    let time = COUNTED.as_secs_f64() * all.len() as f64;
    let (kept, dropped) = trials::halves(all);
    for (index, level) in [0, BULK_LEVEL].into_iter().enumerate() {
        let latencies = trials::latencies(&kept, index);
        for (metric, share) in [("latency-p50", 0.5), ("latency-p99", 0.99)] {
            if let Some(value) = trials::quantile(&latencies, share) {
                print(model, run, metric, "us", value, point(level));
            }
        }
    }
    let offered = counts.offered.max(1) as f64;
    let limit = LIMIT.as_secs_f64() * 1e6;
    for (metric, unit, value) in [
        ("limit", "us", limit),
        ("offered", "1/s", counts.offered as f64 / time),
        ("throughput", "1/s", counts.served as f64 / time),
        ("refused", "%", 100.0 * counts.refused as f64 / offered),
    ] {
        print(model, run, metric, unit, value, point(BULK_LEVEL));
    }
    for (metric, trials) in [("lost-kept", &kept), ("lost-dropped", &dropped)] {
        let lost = 100.0 * trials::lost(trials, TRIAL);
        print(model, run, metric, "%", lost, point(0));
    }
}

/// Serves requests for the time of a trial.
fn trial(
    model: &Model,
    percent: u32,
    processors: Processors,
    pace: Pace,
    seed: u64,
) -> (Counts, Trial) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("a socket");
    let server = listener.local_addr().expect("it is bound");
    processors.be_server();
    let stop = (model.serve)(listener, pace);
    processors.be_client();
    let lost = processors::lost();
    let rate = f64::from(percent) / 100.0 - URGENT_RATE * URGENT_WORK.as_secs_f64();
    let bulk = bulk::Load::start(server, rate / BULK_WORK.as_secs_f64());
    let urgent = urgent::send(server, seed);
    let (counts, bulk) = bulk.end();
    let lost = processors::lost().saturating_sub(lost);
    stop();
    processors.be_anywhere();
    let trial = Trial {
        lost,
        served: vec![urgent.len(), bulk.len()],
        latencies: vec![urgent, bulk],
    };
    (counts, trial)
}

/// Tests whether a request counts that was sent at this time of a trial.
fn counts(sent: Duration) -> bool {
    (WARM_UP..TRIAL - REST).contains(&sent)
}
