//! Experiment `linux-machine`: an urgent Linux process beside bulk ones.

use crate::document::Document;
use crate::row::Row;
use crate::verdict::Verdict;

/// What the report says of it.
pub(crate) const ABOUT: &str = "An urgent process does 200 µs of work each millisecond beside bulk processes with 2 or 8 threads, all on two \
     processors and without privileges. Latency is the time from when a job was due to its end, in microseconds. Beside that: the instructions of \
     a yield without a domain and alone in one, for an executor of one thread and for one that workers share, as those of a runtime do.";

/// The share of the latency without a domain that is left, at most.
const LATENCY: f64 = 0.1;
/// The share of the bulk work that is done, at least.
const THROUGHPUT: f64 = 0.9;
/// What a yield costs in a domain without others, compared with one without a domain, at most.
const ALONE: f64 = 1.02;

/// What a domain costs a runtime that is alone in it.
fn alone(document: &Document) -> Verdict {
    let instructions = |model: &str| -> Option<f64> {
        let fits = |row: &&Row| {
            row.model == model
                && row.metric == "instructions"
                && row
                    .parameters
                    .get("executor")
                    .is_some_and(|executor| executor == "shared")
        };
        Some(document.rows.iter().find(fits)?.median)
    };
    let ratio = instructions("strict").zip(instructions("off"));
    Verdict {
        claim: "alone in a domain: instructions of a yield, strict / off".into(),
        limit: ALONE,
        measured: ratio.map(|(strict, off)| strict / off),
        at: String::new(),
    }
}

/// Ours beside nothing, for each number of bulk threads; and what it costs without others.
pub(crate) fn verdicts(document: &Document) -> Vec<Verdict> {
    let mut threads: Vec<f64> = (document.rows.iter())
        .filter_map(|row| row.number("bulk"))
        .collect();
    threads.sort_by(f64::total_cmp);
    threads.dedup();
    threads
        .into_iter()
        .flat_map(|bulk| {
            let median = |model: &str, metric: &str| -> Option<f64> {
                let fits = |row: &&Row| {
                    row.model == model && row.metric == metric && row.number("bulk") == Some(bulk)
                };
                Some(document.rows.iter().find(fits)?.median)
            };
            let ratio = |metric: &str, one: &str, other: &str| -> Option<f64> {
                let divisor = median(other, metric).filter(|&divisor| divisor > 0.0)?;
                Some(median(one, metric)? / divisor)
            };
            [
                Verdict {
                    claim: format!("beside {bulk} bulk threads: urgent p99, strict / off"),
                    limit: LATENCY,
                    measured: ratio("latency-p99", "strict", "off"),
                    at: String::new(),
                },
                Verdict {
                    claim: format!("beside {bulk} bulk threads: bulk throughput, off / strict"),
                    limit: 1.0 / THROUGHPUT,
                    measured: ratio("throughput", "off", "strict"),
                    at: String::new(),
                },
            ]
        })
        .chain([alone(document)])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    #[test]
    fn strict_is_compared_with_off() {
        let row = |model: &str, metric: &str, value: f64| Row {
            model: model.into(),
            parameters: match metric {
                "instructions" => Map::from_iter([("executor".into(), json!("shared"))]),
                _ => Map::from_iter([("bulk".into(), json!(8))]),
            },
            metric: metric.into(),
            unit: "us".into(),
            runs: vec![value],
            median: value,
        };
        let document = Document {
            experiment: "linux-machine".into(),
            commit: "test".into(),
            host: Map::default(),
            settings: Map::default(),
            rows: vec![
                row("off", "latency-p99", 20_000.0),
                row("strict", "latency-p99", 500.0),
                row("off", "throughput", 90.0),
                row("strict", "throughput", 60.0),
                row("off", "instructions", 100.0),
                row("strict", "instructions", 103.0),
            ],
        };
        let verdicts = verdicts(&document);
        let met: Vec<_> = verdicts.iter().map(Verdict::met).collect();
        assert_eq!(met, [Some(true), Some(false), Some(false)]);
        assert_eq!(verdicts[0].measured, Some(0.025));
    }
}
