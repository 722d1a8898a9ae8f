//! Experiment `linux-latency`: how long urgent requests take in one Linux process, beside other
//! runtimes.
//!
//! Every point is measured by all models in turn, run after run, so that a ratio of medians means
//! something on a machine that has other things to do. One line per figure: `@row {json}`.
//!
//! Requests come in short *trials*, each to a server that has just been started. The half of a
//! model's trials counts in which its threads and the client were held up least by other programs
//! (see [`trials`] and [`processors::lost`]).
//!
//! - `two-class`: 99.5 % of the requests take 10 µs and are urgent (level 0); 0.5 % take 5 ms
//!   (level 1).
//! - `eight-levels`: the same mixture of lengths on each of eight levels.
//! - `long-poll`: an urgent request each millisecond, on two workers, beside bulk work whose polls
//!   last 1, 10 or 50 ms (see [`long_poll`]).
//! - `hello`: a hyper server that says hello, as many requests as it can, by `wrk` where that is
//!   installed.
//! - `hosted` (`tokio-echo`, `tokio-sleep`, `axum`): what needs tokio, in tokio and in a runtime
//!   that hosts it.
//! - `shedding`: urgent and bulk requests at up to 300 % load, with waits of bulk requests limited
//!   (see [`shedding`]).
//! - `operations` (`yield`, `spawn-join`, `wake`): what the scheduler alone costs, on one and two
//!   workers, in both orders of the runtime.
//! - `inversions`: how often a worker begins a poll while something more urgent is ready, in one
//!   set of queues, in shards, and in executors that do not check each other.

mod hello;
mod hosted;
mod inversions;
mod load;
mod long_poll;
mod models;
mod operations;
mod processors;
mod shedding;

use corank_report::trials::{self, Trial};
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use load::{Group, Load, Mixture, Pace, Shape};
use processors::Processors;
use serde_json::{Map, Value, json};

/// Urgent requests in one Linux process, beside other runtimes.
#[derive(Parser)]
struct Options {
    /// Fewer points and fewer runs
    #[arg(long)]
    quick: bool,
    /// Only this kind of measurement
    #[arg(long)]
    only: Option<Kind>,
    /// Only this load, in percent of one worker's capacity; may be given several times
    #[arg(long)]
    load: Vec<u32>,
    /// Only this run, counted from 0
    #[arg(long)]
    run: Option<u32>,
    /// Print the arguments of each part of the measurement, a line for each, and end
    #[arg(long)]
    parts: bool,
    /// Be the client of `long-poll`: the server's address, and for how many milliseconds
    #[arg(long, hide = true, num_args = 2)]
    client: Option<Vec<String>>,
    /// Be the stranger of `long-poll`
    #[arg(long, hide = true)]
    stranger: bool,
}

/// Kind of measurement in a run.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    TwoClass,
    EightLevels,
    LongPoll,
    Hello,
    Hosted,
    Shedding,
    Operations,
    Inversions,
}

impl Kind {
    /// Returns the name on the command line.
    fn name(self) -> String {
        let value = self.to_possible_value().expect("none is hidden");
        value.get_name().to_string()
    }
}

/// Percent of one worker's capacity.
const LOADS: &[u32] = &[10, 50, 80, 95, 100, 150, 200];
const QUICK_LOADS: &[u32] = &[10, 80, 150];

/// Load in percent at and below which there are more trials.
///
/// There are so few requests there that one in a hundred of a level would be two or three.
const FEW: u32 = 10;
const MORE: u64 = 4;
/// Trials of a point have seeds of their own.
const MOST_TRIALS: u64 = 1000;

fn main() {
    let options = Options::parse();
    if let Some([server, time]) = options.client.as_deref() {
        let time = Duration::from_millis(time.parse().expect("a number"));
        return long_poll::client(server.parse().expect("an address"), time);
    }
    if options.stranger {
        return long_poll::stranger();
    }
    let (loads, runs, trials) = if options.quick {
        // At most three minutes: 2 runs of 20 trials for each of 2 shapes and 4 models, 0.1 s each,
        // and in each run 4 s each of `hello` and `hosted` and 25 s of `shedding`.
        (QUICK_LOADS, 2, 4)
    } else {
        (LOADS, 5, 20)
    };
    let loads = match &options.load[..] {
        [] => loads,
        chosen => chosen,
    };
    let runs = match options.run {
        Some(run) => run..run + 1,
        None => 0..runs,
    };
    let kinds = match options.only {
        Some(kind) => vec![kind],
        None => Kind::value_variants().to_vec(),
    };
    if options.parts {
        for (run, kind) in runs.flat_map(|run| kinds.iter().map(move |kind| (run, kind))) {
            println!("--run {run} --only {}", kind.name());
        }
        return;
    }
    let processors = Processors::split();
    // `async_io` starts a thread of its own, once. That thread is to have every processor, because
    // otherwise it competes with the server's threads, and they share one.
    async_io::block_on(async_io::Timer::after(Duration::ZERO));
    processors.be_server();
    let pace = load::calibrate();
    let all_loads = |shape: Shape, run| {
        processors.be_server();
        for &percent in loads {
            let trials = if percent <= FEW {
                MORE * trials
            } else {
                trials
            };
            latency(shape, percent, trials, processors, pace, run);
        }
        processors.be_anywhere();
    };
    processors.be_anywhere();
    for run in runs {
        for kind in &kinds {
            match kind {
                Kind::TwoClass => all_loads(Shape::TwoClass, run),
                Kind::EightLevels => all_loads(Shape::EightLevels, run),
                Kind::LongPoll => long_poll::measure(pace, run, options.quick),
                Kind::Hello => hello::measure(run, options.quick),
                Kind::Hosted => hosted::measure(run, options.quick),
                Kind::Shedding => {
                    shedding::measure(processors, pace, &options.load, run, options.quick);
                }
                Kind::Operations => operations::measure(run, options.quick),
                Kind::Inversions => inversions::measure(run, options.quick),
            }
        }
    }
}

/// Prints one figure.
fn print(model: &str, run: u32, metric: &str, unit: &str, value: f64, parameters: Value) {
    let mut row = Map::new();
    row.insert("experiment".into(), json!("linux-latency"));
    row.insert("model".into(), json!(model));
    if let Value::Object(parameters) = parameters {
        row.extend(parameters);
    }
    row.insert("metric".into(), json!(metric));
    row.insert("unit".into(), json!(unit));
    row.insert("value".into(), json!(value));
    row.insert("run".into(), json!(run));
    println!("@row {}", Value::Object(row));
}

/// Measures all trials of one point, by all models in turn.
fn latency(shape: Shape, percent: u32, trials: u64, processors: Processors, pace: Pace, run: u32) {
    let mut of_models: Vec<Vec<Trial>> = models::ALL.iter().map(|_| Vec::new()).collect();
    let mut mixture = Mixture::new(shape.levels(), u64::from(run));
    for number in 0..trials {
        let seed = u64::from(run) * MOST_TRIALS + number;
        let load = Load::new(shape, percent, processors, pace, seed, &mut mixture);
        let load = Arc::new(load);
        for (model, of_model) in models::ALL.iter().zip(&mut of_models) {
            load.reset();
            (model.serve)(load.clone());
            of_model.push(load.trial());
        }
    }
    for (model, of_model) in models::ALL.iter().zip(of_models) {
        report(model.name, shape, percent, run, of_model);
    }
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn report(model: &str, shape: Shape, percent: u32, run: u32, trials: Vec<Trial>) {
    let (kept, dropped) = trials::halves(trials);
    let point = |priority: usize| json!({"op": shape.name(), "load": percent, "priority": priority, "workers": 1});
    for priority in 0..shape.levels() {
        let latencies = trials::latencies(&kept, Group::Level(priority).index(shape));
        for (metric, share) in [
            ("latency-p50", 0.5),
            ("latency-p99", 0.99),
            ("latency-p999", 0.999),
        ] {
            if let Some(value) = trials::quantile(&latencies, share) {
                print(model, run, metric, "us", value, point(priority));
            }
        }
        let short = trials::latencies(&kept, Group::Short(priority).index(shape));
        for (metric, share, unit, of) in [
            ("short-p50", 0.5, "us", 1.0),
            ("short-p99", 0.99, "us", 1.0),
            // A latency over the time of the work alone.
            (
                "short-slowdown-p999",
                0.999,
                "times",
                microseconds(load::SHORT),
            ),
        ] {
            if let Some(value) = trials::quantile(&short, share) {
                print(model, run, metric, unit, value / of, point(priority));
            }
        }
        let served: usize = kept.iter().map(|trial| trial.served[priority]).sum();
        let time = load::counted().as_secs_f64() * kept.len() as f64;
        print(
            model,
            run,
            "throughput",
            "1/s",
            served as f64 / time,
            point(priority),
        );
    }
    let long = trials::latencies(&kept, Group::Long.index(shape));
    if !long.is_empty() {
        let mean = long.iter().sum::<f64>() / long.len() as f64;
        let parameters = json!({"op": shape.name(), "load": percent, "workers": 1});
        print(model, run, "long-mean", "us", mean, parameters);
    }
    for (which, trials) in [("lost-kept", &kept), ("lost-dropped", &dropped)] {
        let parameters = json!({"op": shape.name(), "load": percent, "workers": 1});
        print(
            model,
            run,
            which,
            "%",
            100.0 * trials::lost(trials, load::TRIAL),
            parameters,
        );
    }
}
