//! Experiment `linux-latency`: how long urgent requests take in one Linux process, beside other runtimes.
//!
//! Every point is measured by all models in turn, run after run, so that a ratio of medians means something on a machine that has
//! other things to do. One line per figure: `@row {json}`.
//!
//! - `two-class`: 99.5 % of the requests take 10 µs and are urgent (level 0); 0.5 % take 5 ms (level 1).
//! - `eight-levels`: the same mixture of lengths on each of eight levels.
//! - `hello`: a hyper server that says hello, as many requests as it can, by `wrk` where that is installed.
//! - `yield`, `spawn-join`, `wake`: what the scheduler alone costs, on one and two workers.

mod hello;
mod load;
mod models;
mod operations;

use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use load::{Load, Shape};
use models::Model;
use serde_json::{Map, Value, json};

/// Urgent requests in one Linux process, beside other runtimes.
#[derive(Parser)]
struct Options {
    /// Fewer points and fewer runs
    #[arg(long)]
    quick: bool,
    /// Only this part: `two-class`, `eight-levels`, `hello` or `operations`
    #[arg(long)]
    only: Option<String>,
}

/// Percent of what one worker can do.
const LOADS: &[u32] = &[10, 50, 80, 100, 150, 200];
const QUICK_LOADS: &[u32] = &[10, 150];

/// At so few percent and below there are so few requests that one in a hundred of a level would be two or three: it is measured for longer.
const FEW: u32 = 10;
const LONGER: u32 = 4;

fn main() {
    let options = Options::parse();
    let wanted = |part: &str| options.only.as_deref().is_none_or(|only| only == part);
    let (loads, runs, time) = if options.quick {
        (QUICK_LOADS, 3, Duration::from_millis(700))
    } else {
        (LOADS, 5, Duration::from_millis(2000))
    };
    let pace = load::calibrate();
    for run in 0..runs {
        for shape in [Shape::TwoClass, Shape::EightLevels] {
            if wanted(shape.name()) {
                for &percent in loads {
                    let time = if percent <= FEW { LONGER * time } else { time };
                    let load = Arc::new(Load::new(shape, percent, time, pace, u64::from(run)));
                    for model in models::ALL {
                        latency(model, &load, run);
                    }
                }
            }
        }
        if wanted("hello") {
            hello::measure(run, options.quick);
        }
        if wanted("operations") {
            operations::measure(run, options.quick);
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

fn latency(model: &Model, load: &Arc<Load>, run: u32) {
    load.reset();
    (model.serve)(load.clone());
    for priority in 0..load.shape.levels() {
        let parameters = json!({
            "op": load.shape.name(), "load": load.percent, "priority": priority, "workers": 1,
        });
        let mut latencies = load.latencies(priority);
        latencies.sort_by(f64::total_cmp);
        for (metric, share) in [
            ("latency-p50", 0.5),
            ("latency-p99", 0.99),
            ("latency-p999", 0.999),
        ] {
            let at =
                ((latencies.len() as f64 * share) as usize).min(latencies.len().saturating_sub(1));
            if let Some(&value) = latencies.get(at) {
                print(model.name, run, metric, "us", value, parameters.clone());
            }
        }
        print(
            model.name,
            run,
            "throughput",
            "1/s",
            load.throughput(priority),
            parameters,
        );
    }
}
