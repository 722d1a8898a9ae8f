//! The targets of `long-poll`: urgent requests beside polls that do not end.

use crate::row::Row;
use crate::verdict::Verdict;

/// The model that the targets are for.
const OURS: &str = "corank";
/// Arrangements of two tokio runtimes, for urgent and for bulk work.
const TWO: &str = "tokio-two";

/// The largest median of an urgent request, in microseconds.
const P50: f64 = 100.0;
/// The largest 99th percentile, in microseconds.
const P99: f64 = 1500.0;
/// The largest share of the 99th percentile with one tokio runtime.
const OF_TOKIO: f64 = 0.02;
/// The least share of tokio's bulk throughput.
const BULK: f64 = 0.95;
/// The share of the throughput that spare workers may take where nothing is urgent.
const LOST: f64 = 0.02;

/// Returns the targets, each at the point where the figures are worst; none if `long-poll` was not
/// measured.
pub(super) fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let rows: Vec<&Row> = (rows.iter())
        .filter(|row| row.text("op") == Some("long-poll"))
        .collect();
    if rows.is_empty() {
        return Vec::new();
    }
    // The value of the best of some models, at the point of a row of ours.
    let best = |models: &dyn Fn(&str) -> bool, ours: &Row| -> Option<f64> {
        let beside = rows.iter().filter(|row| {
            models(&row.model) && row.metric == ours.metric && row.parameters == ours.parameters
        });
        beside.map(|row| row.median).min_by(f64::total_cmp)
    };
    let worst = |claim: &str, limit, urgent, metric: &str, of: &dyn Fn(&Row) -> Option<f64>| {
        let points = rows.iter().filter(|row| {
            row.model == OURS
                && row.metric == metric
                && row
                    .parameters
                    .get("urgent")
                    .and_then(|value| value.as_bool())
                    == Some(urgent)
        });
        let measured = points.filter_map(|row| Some((of(row)?, point(row))));
        let worst = measured.max_by(|one, other| one.0.total_cmp(&other.0));
        let (measured, at) = worst.unzip();
        Verdict {
            claim: format!("long-poll: {claim}"),
            limit,
            measured,
            at: at.unwrap_or_default(),
        }
    };
    let of_tokio = |row: &Row| Some(row.median / best(&|model| model == "tokio", row)?);
    let of_two = |row: &Row| Some(row.median / best(&|model| model.starts_with(TWO), row)?);
    let without = |row: &Row| Some(best(&|model| model == "corank-no-spare", row)? / row.median);
    let inverse = |row: &Row| Some(1.0 / of_tokio(row)?);
    vec![
        worst("urgent p50 in µs", P50, true, "latency-p50", &|row| {
            Some(row.median)
        }),
        worst("urgent p99 in µs", P99, true, "latency-p99", &|row| {
            Some(row.median)
        }),
        worst(
            "urgent p99 / tokio's",
            OF_TOKIO,
            true,
            "latency-p99",
            &of_tokio,
        ),
        worst(
            "urgent p99 / the best of two tokio runtimes",
            1.0,
            true,
            "latency-p99",
            &of_two,
        ),
        worst(
            "tokio's bulk work / ours",
            1.0 / BULK,
            true,
            "throughput",
            &inverse,
        ),
        worst(
            "nothing urgent: bulk work without spare workers / with",
            1.0 + LOST,
            false,
            "throughput",
            &without,
        ),
    ]
}

fn point(row: &Row) -> String {
    let poll = row.number("poll").unwrap_or_default() / 1e3;
    let stranger = row
        .parameters
        .get("stranger")
        .and_then(|value| value.as_bool());
    let beside = if stranger == Some(true) {
        ", beside a stranger"
    } else {
        ""
    };
    format!("polls of {poll} ms{beside}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use serde_json::json;

    #[test]
    fn the_worst_point_counts() {
        let row = |model: &str, metric: &str, poll: u32, urgent: bool, value: f64| {
            json!({"model": model, "op": "long-poll", "poll": poll, "workers": 2, "urgent": urgent, "stranger": false,
                "metric": metric, "unit": "us", "runs": [value], "median": value})
        };
        let document = sample::document(
            "linux-latency",
            &[
                row("corank", "latency-p99", 1000, true, 200.0),
                row("tokio", "latency-p99", 1000, true, 5000.0),
                row("corank", "latency-p99", 10000, true, 300.0),
                row("tokio", "latency-p99", 10000, true, 30000.0),
                row("tokio-two", "latency-p99", 10000, true, 600.0),
                row("tokio-two-idle", "latency-p99", 10000, true, 150.0),
                row("corank", "throughput", 1000, true, 90.0),
                row("tokio", "throughput", 1000, true, 100.0),
                row("corank", "throughput", 1000, false, 99.0),
                row("corank-no-spare", "throughput", 1000, false, 100.0),
            ],
        );
        let verdicts = verdicts(&document.rows);
        let results: Vec<_> = (verdicts.iter())
            .map(|verdict| (verdict.word(), verdict.measured, verdict.at.as_str()))
            .collect();
        assert_eq!(
            results,
            [
                ("not measured", None, ""),
                ("met", Some(300.0), "polls of 10 ms"),
                ("MISSED", Some(0.04), "polls of 1 ms"),
                ("MISSED", Some(2.0), "polls of 10 ms"),
                ("MISSED", Some(1.0 / 0.9), "polls of 1 ms"),
                ("met", Some(100.0 / 99.0), "polls of 1 ms"),
            ]
        );
    }
}
