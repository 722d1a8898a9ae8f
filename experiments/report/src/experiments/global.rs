//! Experiment `global`: relaxed and strict global priority, in the operating system.

mod parts;

use crate::chart::{self, Axis, Chart, Dot, Series};
use crate::document::Document;
use crate::experiment::Experiment;
use crate::row::Row;
use crate::schedule::Schedule;
use crate::verdict::Verdict;
use anyhow::Result;

/// The experiment as the report shows it.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "global",
    summary: "Relaxed and strict global priority",
    schedule: Schedule::System(parts::parts),
    heading: "Relaxed and strict global priority",
    about: ABOUT,
    figures,
    verdicts: |document| Ok(verdicts(document)),
    ..Experiment::PLAIN
};

/// Text of the report about the experiment.
const ABOUT: &str = "Several processes have coroutines at levels that interleave, and more work than they can do at once. An inversion lasts while \
     a coroutine is ready that is more urgent than one that runs, unless its own process runs something as urgent. Relaxed: the \
     kernel decides at its clock ticks and entries; strict: each executor also compares before every poll. On one hart the machine counts \
     instructions, and each takes a nanosecond: so these times are the same on every host. On several harts they are taken by the clock, and \
     have in them what else the host does.";

const RELAXED: &str = "relaxed";
const STRICT: &str = "strict";

/// Instructions that the strict comparison may add to a poll.
const CHECK: f64 = 6.0;
/// Factor by which a process that forges its bitmap may lengthen the latency of levels that it was
/// not granted.
const FORGER: f64 = 1.2;

fn rows<'a>(document: &'a Document, metric: &'a str) -> impl Iterator<Item = &'a Row> {
    (document.rows.iter()).filter(move |row| row.metric == metric)
}

/// Returns the largest median, and where it was measured.
fn largest<'a>(rows: impl Iterator<Item = &'a Row>, place: &str) -> (Option<f64>, String) {
    let worst = rows.max_by(|one, other| one.median.total_cmp(&other.median));
    let at = worst.map(|row| {
        let harts = row.number("harts").unwrap_or(1.0);
        format!("harts {harts}, {}", row.text(place).unwrap_or(""))
    });
    (worst.map(|row| row.median), at.unwrap_or_default())
}

/// Returns the targets of strict global priority and of the grants.
pub(crate) fn verdicts(document: &Document) -> Vec<Verdict> {
    let (check, check_at) = largest(rows(document, "check-instructions"), "elsewhere");
    let strict = rows(document, "yield-calls").filter(|row| row.model == STRICT);
    let (calls, calls_at) = largest(strict, "elsewhere");
    let (forger, forger_at) = beside_forgers(document);
    vec![
        Verdict {
            claim: "Strict global priority: instructions of the comparison, per poll".to_string(),
            limit: CHECK,
            measured: check,
            at: check_at,
        },
        Verdict {
            claim: "Strict global priority: system calls in a run without inversions".to_string(),
            limit: 0.0,
            measured: calls,
            at: calls_at,
        },
        Verdict {
            claim:
                "Grants: latency beside a process that forges its bitmap / beside one that doesn't"
                    .to_string(),
            limit: FORGER,
            measured: forger,
            at: forger_at,
        },
    ]
}

/// Returns the worst ratio to the latency beside no forger, in the same machine.
///
/// A process that was granted all levels is believed, which is no forgery.
fn beside_forgers(document: &Document) -> (Option<f64>, String) {
    let latency = |honest: &Row, forger: &str| {
        let mut found = rows(document, "latency").filter(|row| {
            row.model == honest.model
                && row.number("harts") == honest.number("harts")
                && row.text("forger") == Some(forger)
        });
        found.next().map(|row| row.median)
    };
    let honest = rows(document, "latency")
        .filter(|row| row.text("forger") == Some("none") && row.median > 0.0);
    let ratios = honest.flat_map(|honest| {
        ["ones", "random", "flipping"].map(|forger| {
            let ratio = latency(honest, forger)? / honest.median;
            let harts = honest.number("harts").unwrap_or(1.0);
            Some((ratio, format!("{}, {forger}, harts {harts}", honest.model)))
        })
    });
    match ratios
        .flatten()
        .max_by(|one, other| one.0.total_cmp(&other.0))
    {
        Some((ratio, at)) => (Some(ratio), at),
        None => (None, String::new()),
    }
}

/// Draws the inversions by the number of harts, or of processes where there is one hart only.
pub(crate) fn figures(document: &Document) -> Result<Vec<(String, String)>> {
    let mut figures = Vec::new();
    for (metric, what) in [
        ("inversion-total", "all inversions together"),
        ("inversion-longest", "the longest inversion"),
    ] {
        for wake in ["arrival", "timer"] {
            let series: Vec<Series> = [RELAXED, STRICT]
                .into_iter()
                .enumerate()
                .map(|(style, model)| Series {
                    name: model.to_string(),
                    style,
                    dots: dots(document, metric, wake, model),
                })
                .filter(|series| series.dots.len() > 1)
                .collect();
            if series.is_empty() {
                continue;
            }
            let chart = Chart {
                title: &format!("Global priority: {what}, woken by {wake}s"),
                x: Axis {
                    label: "harts, with 4 processes",
                    logarithmic: false,
                },
                y: Axis {
                    label: "µs",
                    logarithmic: false,
                },
                series: &series,
            };
            figures.push((chart::file_name(chart.title), chart.to_svg()?));
        }
    }
    Ok(figures)
}

fn dots(document: &Document, metric: &str, wake: &str, model: &str) -> Vec<Dot> {
    let rows = rows(document, metric).filter(|row| {
        row.model == model && row.text("wake") == Some(wake) && row.number("processes") == Some(4.0)
    });
    chart::dots(rows, "harts")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use serde_json::json;

    fn document(rows: &[serde_json::Value]) -> Document {
        sample::document("global", rows)
    }

    fn row(
        model: &str,
        metric: &str,
        parameter: (&str, &str),
        harts: u32,
        value: f64,
    ) -> serde_json::Value {
        let (name, text) = parameter;
        json!({"model": model, "harts": harts, name: text, "processes": 4, "metric": metric, "unit": "us",
            "runs": [value], "median": value})
    }

    #[test]
    fn targets_are_the_worst_of_all_points() {
        let document = document(&[
            row(
                STRICT,
                "check-instructions",
                ("elsewhere", "nothing"),
                1,
                4.0,
            ),
            row(
                STRICT,
                "check-instructions",
                ("elsewhere", "less-urgent"),
                2,
                7.0,
            ),
            row(RELAXED, "yield-calls", ("elsewhere", "nothing"), 1, 3.0),
            row(STRICT, "yield-calls", ("elsewhere", "nothing"), 1, 0.0),
            row(STRICT, "latency", ("forger", "none"), 1, 2.0),
            row(STRICT, "latency", ("forger", "ones"), 1, 2.2),
            row(STRICT, "latency", ("forger", "none"), 2, 50.0),
            row(STRICT, "latency", ("forger", "ones"), 2, 60.0),
            row(STRICT, "latency", ("forger", "random"), 2, 75.0),
            row(STRICT, "latency", ("forger", "believed"), 1, 900.0),
        ]);
        let verdicts = verdicts(&document);
        assert_eq!(
            sample::results(&verdicts),
            [
                (Some(7.0), Some(false), "harts 2, less-urgent"),
                (Some(0.0), Some(true), "harts 1, nothing"),
                (Some(1.5), Some(false), "strict, random, harts 2"),
            ]
        );
        let nothing = self::document(&[]);
        assert!(
            super::verdicts(&nothing)
                .iter()
                .all(|verdict| verdict.met().is_none())
        );
    }

    #[test]
    fn a_figure_needs_several_harts() {
        let point = |harts, value| row(STRICT, "inversion-total", ("wake", "timer"), harts, value);
        assert!(figures(&document(&[point(1, 5.0)])).unwrap().is_empty());
        let two = figures(&document(&[point(1, 5.0), point(2, 6.0)])).unwrap();
        assert_eq!(two.len(), 1);
        assert_eq!(
            two[0].0,
            "global-priority-all-inversions-together-woken-by-timers"
        );
    }
}
