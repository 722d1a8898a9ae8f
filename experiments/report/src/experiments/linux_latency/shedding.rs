//! The targets of `shedding`: urgent requests under overload, and the waits of those that are
//! admitted.

use crate::document::Document;
use crate::experiment::Figure;
use crate::row::Row;
use crate::verdict::Verdict;
use anyhow::Result;

/// The model that the targets are for.
const OURS: &str = "corank-shed";
/// The model that is shown beside it.
const BESIDE: &str = "tokio-limit-shed";
/// Models in the order of their colours.
const MODELS: [&str; 4] = [OURS, BESIDE, "corank", "tokio-limit"];

/// The largest latency of urgent requests under overload, beside that with little load.
const UNDER_OVERLOAD: f64 = 1.5;
/// The loads that are compared, in percent.
const OVERLOAD: f64 = 300.0;
const LITTLE: f64 = 50.0;
/// Percent of the time of the trials that count, as for the other kinds.
const BUSY: f64 = 2.0;

fn is_of_shedding(row: &Row) -> bool {
    row.text("op") == Some("shedding")
}

fn is_urgent(row: &Row) -> bool {
    row.number("priority") == Some(0.0)
}

/// Returns the targets; none if `shedding` was not measured.
pub(super) fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let rows: Vec<&Row> = rows.iter().filter(|row| is_of_shedding(row)).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let value = |model: &str, metric: &str, urgent: bool, load: f64| -> Option<f64> {
        let fits = |row: &&&Row| {
            row.model == model
                && row.metric == metric
                && is_urgent(row) == urgent
                && row.number("load") == Some(load)
        };
        Some(rows.iter().find(fits)?.median)
    };
    let urgent = |model: &str, load| value(model, "latency-p99", true, load);
    let kept = urgent(OURS, OVERLOAD).zip(urgent(OURS, LITTLE));
    let shown = |model: &str| {
        let (high, low) = urgent(model, OVERLOAD).zip(urgent(model, LITTLE))?;
        Some(format!("{model}: {high:.0} and {low:.0} µs"))
    };
    let both: Vec<String> = [OURS, BESIDE].into_iter().filter_map(shown).collect();
    // Our worker and the spare worker delay each other on the one processor, and count that as
    // lost. So what other programs took is that of a model of one thread, measured in turn.
    let lost = [OVERLOAD, LITTLE].map(|load| value(BESIDE, "lost-kept", true, load));
    let lost = lost.into_iter().flatten().max_by(f64::total_cmp);
    let disturbance = (lost.filter(|&lost| lost > BUSY))
        .map(|lost| format!("tokio's threads waited for a processor for {lost:.1} % of the time"));
    let level_0 = Verdict {
        claim: format!("shedding: level 0's p99 at {OVERLOAD} % load / at {LITTLE} %"),
        limit: UNDER_OVERLOAD,
        measured: kept.map(|(high, low)| high / low),
        at: both.join("; "),
    };
    let loads = rows
        .iter()
        .filter(|row| row.model == OURS && row.metric == "limit");
    let waits = loads.filter_map(|row| {
        let load = row.number("load")?;
        let p99 = value(OURS, "latency-p99", false, load)?;
        Some((
            p99 / row.median,
            format!("at {load} %: {:.0} ms", p99 / 1e3),
        ))
    });
    let worst = waits.max_by(|one, other| one.0.total_cmp(&other.0)).unzip();
    let admitted = Verdict {
        claim: "shedding: p99 of what is admitted / its limit".to_string(),
        limit: 1.0,
        measured: worst.0,
        at: worst.1.unwrap_or_default(),
    };
    vec![level_0.disturbed(disturbance), admitted]
}

/// Draws the latencies of urgent requests and of admitted ones, by load.
pub(super) fn figures(document: &Document) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (what, urgent) in [("urgent requests", true), ("admitted bulk requests", false)] {
        let rows = document.rows.iter().filter(|row| {
            is_of_shedding(row) && row.metric == "latency-p99" && is_urgent(row) == urgent
        });
        let title = format!("Overload: latency of {what}, 99th percentile");
        figures.extend(super::by_load(&title, rows, &MODELS)?);
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{self, names, results};
    use serde_json::json;

    fn document(lost: f64) -> Document {
        let row = |model: &str, metric: &str, priority: u8, load: u32, value: f64| {
            json!({"model": model, "op": "shedding", "load": load, "priority": priority, "workers": 1,
                "metric": metric, "unit": "us", "runs": [value], "median": value})
        };
        let rows = [
            row(OURS, "latency-p99", 0, 50, 200.0),
            row(OURS, "latency-p99", 0, 300, 250.0),
            row(BESIDE, "lost-kept", 0, 300, lost),
            row(BESIDE, "latency-p99", 0, 50, 1000.0),
            row(BESIDE, "latency-p99", 0, 300, 3000.0),
            row(OURS, "latency-p99", 48, 50, 40_000.0),
            row(OURS, "limit", 48, 50, 100_000.0),
            row(OURS, "latency-p99", 48, 300, 110_000.0),
            row(OURS, "limit", 48, 300, 100_000.0),
        ];
        sample::document("linux-latency", &rows)
    }

    #[test]
    fn overload_is_compared_with_little_load_and_waits_with_their_limit() {
        let both = "corank-shed: 250 and 200 µs; tokio-limit-shed: 3000 and 1000 µs";
        assert_eq!(
            results(&verdicts(&document(0.0).rows)),
            [
                (Some(1.25), Some(true), both),
                (Some(1.1), Some(false), "at 300 %: 110 ms"),
            ]
        );
        let disturbed = "1.25, but tokio's threads waited for a processor for 3.0 % of the time";
        assert_eq!(
            results(&verdicts(&document(3.0).rows))[0],
            (None, None, disturbed)
        );
        assert_eq!(verdicts(&[]), []);
    }

    #[test]
    fn each_class_has_a_figure() {
        assert_eq!(
            names(&figures(&document(0.0)).unwrap()),
            [
                "overload-latency-of-urgent-requests-99th-percentile",
                "overload-latency-of-admitted-bulk-requests-99th-percentile",
            ]
        );
    }
}
