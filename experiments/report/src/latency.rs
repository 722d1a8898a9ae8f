//! Experiment `linux-latency`: urgent requests in one Linux process.

use crate::document::Document;
use crate::row::Row;
use crate::verdict::Verdict;

/// What the report says of it.
pub(crate) const ABOUT: &str = "One worker serves requests that come by a clock, whatever it does: 99.5 % take 10 µs and 0.5 % take 5 ms, and let others run \
     every 20 µs. `load` is in percent of what the worker can do. Latency runs from when a request should have been sent to the \
     end of its work, in microseconds; of those that were not served, to the end of a take. Takes are short (60 ms, the first 10 not counted), each to a new server, and of each model's the half counts in \
     which its threads and the client had to wait least for a processor (`lost-kept`, `lost-dropped`: percent of the time), so that the figures show \
     the servers rather than what else runs on the machine. Under more than 100 % a server without priorities gets worse the longer a take is. `two-class`: short ones are level 0, long ones 1. \
     `eight-levels`: both on every level. `hello`: a hyper server under `wrk`. The rest: one operation of the scheduler, by workers.";

/// The largest latency under load, beside that without.
const UNDER_LOAD: f64 = 1.5;
const LOAD: f64 = 150.0;

/// Level 0 under load beside itself without, and requests per second beside tokio's.
pub(crate) fn verdicts(document: &Document) -> Vec<Verdict> {
    let rows = &document.rows;
    let least = (rows.iter())
        .filter_map(|row| row.number("load"))
        .min_by(f64::total_cmp)
        .unwrap_or_default();
    let p99 = |model: &str, shape: &str, load: f64| -> Option<f64> {
        let fits = |row: &&Row| {
            row.model == model
                && row.metric == "latency-p99"
                && row.text("op") == Some(shape)
                && row.number("load") == Some(load)
                && row.number("priority") == Some(0.0)
        };
        Some(rows.iter().find(fits)?.median)
    };
    let hello = |model: &str, workers: f64| -> Option<f64> {
        let fits = |row: &&Row| {
            row.model == model
                && row.text("op") == Some("hello")
                && row.number("workers") == Some(workers)
        };
        Some(rows.iter().find(fits)?.median)
    };
    let ratio = |one: Option<f64>, other: Option<f64>| {
        let divisor = other.filter(|&divisor| divisor > 0.0)?;
        Some(one? / divisor)
    };
    let latency = ["two-class", "eight-levels"].map(|shape| Verdict {
        claim: format!("{shape}: level 0's p99 at {LOAD} % load / at {least} %"),
        limit: UNDER_LOAD,
        measured: ratio(p99("corank", shape, LOAD), p99("corank", shape, least)),
        at: p99("tokio", shape, LOAD)
            .map(|tokio| format!("tokio's at {LOAD} %: {tokio:.0} µs"))
            .unwrap_or_default(),
    });
    let throughput = [1.0, 2.0].map(|workers| Verdict {
        claim: format!("hello, {workers} workers: tokio's requests per second / ours"),
        limit: 1.0,
        measured: ratio(hello("tokio", workers), hello("corank", workers)),
        at: String::new(),
    });
    latency.into_iter().chain(throughput).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    #[test]
    fn load_and_tokio_are_compared() {
        let row = |model: &str, op: &str, load: u32, value: f64| Row {
            model: model.into(),
            parameters: Map::from_iter([
                ("op".into(), json!(op)),
                ("load".into(), json!(load)),
                ("priority".into(), json!(0)),
                ("workers".into(), json!(1)),
            ]),
            metric: if op == "hello" {
                "throughput"
            } else {
                "latency-p99"
            }
            .into(),
            unit: "us".into(),
            runs: vec![value],
            median: value,
        };
        let document = Document {
            experiment: "linux-latency".into(),
            commit: "test".into(),
            host: Map::default(),
            settings: Map::default(),
            rows: vec![
                row("corank", "two-class", 10, 50.0),
                row("corank", "two-class", 150, 60.0),
                row("corank", "eight-levels", 10, 50.0),
                row("corank", "eight-levels", 150, 100.0),
                row("tokio", "hello", 10, 110.0),
                row("corank", "hello", 10, 100.0),
            ],
        };
        let met: Vec<_> = verdicts(&document).iter().map(Verdict::met).collect();
        assert_eq!(met, [Some(true), Some(false), Some(false), None]);
    }
}
