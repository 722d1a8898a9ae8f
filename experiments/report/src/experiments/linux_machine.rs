//! Experiment `linux-machine`: an urgent Linux process beside bulk ones.

use crate::chart::{self, Axis};
use crate::document::Document;
use crate::experiment::Experiment;
use crate::row::Row;
use crate::schedule::Schedule;
use crate::verdict::Verdict;
use anyhow::Result;

/// The experiment as the report shows it.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "linux-machine",
    summary: "Latency of an urgent Linux process beside others",
    schedule: Schedule::HostParts("corank-experiment-machine"),
    heading: "An urgent Linux process beside bulk ones",
    about: ABOUT,
    figures,
    verdicts: |document| Ok(verdicts(document)),
    ..Experiment::PLAIN
};

/// Text of the report about the experiment.
const ABOUT: &str = "An urgent process does 200 µs of work each millisecond beside bulk processes with 2, 4 or 8 threads, all on two \
     processors and without privileges. Latency is the time from when a job was due to its end, in microseconds. All is cut into trials of 60 ms, and of each \
     model's the half counts that lost least of both processors (`lost-kept`, `lost-dropped`: percent that none of these processes had); `latency-p99-of-all-trials` is \
     that of all. Beside that: the instructions of a yield without a domain and alone in one, for an executor of one thread and for one that workers share, as those of a runtime do.";

/// Largest share of the latency without a domain that is left.
const LATENCY: f64 = 0.1;
/// Least share of the bulk work that is done.
const THROUGHPUT: f64 = 0.9;
/// Percent of both processors that may be lost, in the trials that count without a domain.
///
/// No process leaves the processors idle there. More is lost on a machine that has other things to
/// do, and then the figures show those.
const BUSY: f64 = 2.0;
/// Most that a yield costs in a domain without others, compared with one without a domain.
const ALONE: f64 = 1.02;

/// Models in the order of their colours.
const MODELS: [&str; 5] = ["off", "relaxed", "strict", "nice", "cgroup"];

/// Returns the cost of a domain to a process that is alone in it, with an executor that workers
/// share and with one of one thread.
fn alone(document: &Document) -> [Verdict; 2] {
    [("shared", "that workers share"), ("one", "of one thread")].map(|(kind, words)| {
        let instructions = |model: &str| -> Option<f64> {
            let fits = |row: &&Row| {
                row.model == model
                    && row.metric == "instructions"
                    && row.text("executor") == Some(kind)
            };
            Some(document.rows.iter().find(fits)?.median)
        };
        let ratio = instructions("strict").zip(instructions("off"));
        Verdict {
            claim: format!(
                "alone in a domain: instructions of a yield of an executor {words}, strict / off"
            ),
            limit: ALONE,
            measured: ratio.map(|(strict, off)| strict / off),
            at: String::new(),
        }
    })
}

/// Returns the targets: ours beside no domain, for each number of bulk threads, and its cost alone.
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
            let lost = median("off", "lost-kept").filter(|&lost| lost > BUSY);
            let disturbance = lost.map(|lost| {
                format!(
                    "without a domain {lost:.1} % of the processors were other programs' or idle"
                )
            });
            // The other models, with `relaxed` among them, on the same scale.
            let others = |metric: &str| -> String {
                let said = ["relaxed", "nice", "cgroup"].iter().filter_map(|model| {
                    ratio(metric, model, "off").map(|ratio| format!("{model} {ratio:.3}"))
                });
                said.collect::<Vec<_>>().join(", ")
            };
            [
                Verdict {
                    claim: format!("beside {bulk} bulk threads: urgent p99, strict / off"),
                    limit: LATENCY,
                    measured: ratio("latency-p99", "strict", "off"),
                    at: others("latency-p99"),
                }
                .disturbed(disturbance.clone()),
                Verdict {
                    claim: format!("beside {bulk} bulk threads: bulk throughput, off / strict"),
                    limit: 1.0 / THROUGHPUT,
                    measured: ratio("throughput", "off", "strict"),
                    at: String::new(),
                }
                .disturbed(disturbance),
            ]
        })
        .chain(alone(document))
        .collect()
}

/// Draws the urgent process's latency and the bulk processes' work, for each model.
///
/// Both are beside a number of bulk threads.
pub(crate) fn figures(document: &Document) -> Result<Vec<(String, String)>> {
    let mut figures = Vec::new();
    for (metric, title, label, logarithmic) in [
        (
            "latency-p99",
            "Urgent process: latency, 99th percentile",
            "µs",
            true,
        ),
        (
            "throughput",
            "Bulk processes: throughput",
            "chunks of 20 µs per second",
            false,
        ),
    ] {
        let rows = document.rows.iter().filter(|row| row.metric == metric);
        let x = Axis {
            label: "bulk threads on two processors",
            logarithmic: false,
        };
        let y = Axis { label, logarithmic };
        figures.extend(chart::by_model(title, rows, &MODELS, ("bulk", x), y)?);
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{self, names, results};
    use serde_json::json;

    fn row(
        model: &str,
        metric: &str,
        parameter: (&str, serde_json::Value),
        value: f64,
    ) -> serde_json::Value {
        let (name, parameter) = parameter;
        json!({"model": model, name: parameter, "metric": metric, "unit": "us", "runs": [value], "median": value})
    }

    fn document() -> Document {
        let eight = || ("bulk", json!(8));
        let shared = || ("executor", json!("shared"));
        let one = || ("executor", json!("one"));
        sample::document(
            "linux-machine",
            &[
                row("off", "latency-p99", eight(), 20_000.0),
                row("strict", "latency-p99", eight(), 500.0),
                row("relaxed", "latency-p99", eight(), 1000.0),
                row("nice", "latency-p99", eight(), 2500.0),
                row("off", "throughput", eight(), 90.0),
                row("strict", "throughput", eight(), 60.0),
                row("off", "instructions", shared(), 100.0),
                row("strict", "instructions", shared(), 101.0),
                row("off", "instructions", one(), 100.0),
                row("strict", "instructions", one(), 103.0),
            ],
        )
    }

    #[test]
    fn strict_is_compared_with_off() {
        assert_eq!(
            results(&verdicts(&document())),
            [
                (Some(0.025), Some(true), "relaxed 0.050, nice 0.125"),
                (Some(1.5), Some(false), ""),
                (Some(1.01), Some(true), ""),
                (Some(1.03), Some(false), ""),
            ]
        );
    }

    #[test]
    fn on_a_busy_machine_a_miss_counts_and_nothing_else() {
        let mut document = document();
        let lost = row("off", "lost-kept", ("bulk", json!(8)), 34.0);
        (document.rows).extend(sample::document("linux-machine", &[lost]).rows);
        let verdicts = verdicts(&document);
        let met =
            "0.0250, but without a domain 34.0 % of the processors were other programs' or idle";
        let missed = "without a domain 34.0 % of the processors were other programs' or idle";
        assert_eq!(
            results(&verdicts)[..2],
            [(None, None, met), (Some(1.5), Some(false), missed)]
        );
    }

    #[test]
    fn figures_show_the_models_that_were_measured() {
        let figures = figures(&document()).unwrap();
        assert_eq!(
            names(&figures),
            [
                "urgent-process-latency-99th-percentile",
                "bulk-processes-throughput",
            ]
        );
        // The description for screen readers.
        let said = [": off, relaxed, strict, nice\"", ": off, strict\""];
        for ((_, svg), said) in figures.iter().zip(said) {
            assert!(svg.contains(said), "{svg}");
        }
        let nothing = sample::document("linux-machine", &[]);
        assert!(super::figures(&nothing).unwrap().is_empty());
    }
}
