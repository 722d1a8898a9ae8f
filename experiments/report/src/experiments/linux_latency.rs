//! Experiment `linux-latency`: urgent requests in one Linux process.

use crate::chart::{self, Axis};
use crate::document::Document;
use crate::experiment::Experiment;
use crate::row::Row;
use crate::schedule::Schedule;
use crate::verdict::Verdict;
use anyhow::Result;

mod long_poll;
mod shedding;

/// The experiment as the report shows it.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "linux-latency",
    summary: "Latency of urgent requests in one Linux process",
    schedule: Schedule::HostParts("corank-experiments-linux"),
    heading: "Urgent requests in one Linux process",
    about: ABOUT,
    figures,
    verdicts: |document| Ok(verdicts(document)),
    ..Experiment::PLAIN
};

/// Text of the report about the experiment.
const ABOUT: &str = "One worker serves requests that come by a clock, whatever it does: 99.5 % take 10 µs and 0.5 % take 5 ms, and let others run \
     every 20 µs. `load` is in percent of what the worker can do. Latency runs from when a request should have been sent to the \
     end of its work, in microseconds; of those that were not served, to the end of a take. Takes are short (60 ms, the first 10 not counted), each to a new server, and of each model's the half counts in \
     which its threads and the client had to wait least for a processor (`lost-kept`, `lost-dropped`: percent of the time), so that the figures show \
     the servers rather than what else runs on the machine. Under more than 100 % a server without priorities gets worse the longer a take is. `two-class`: short ones are level 0, long ones 1. \
     `eight-levels`: both on every level. `corank-demotion` demotes what computes for 10 µs without waiting (rules B7 to B14), so that short requests go \
     before long ones of any level. For short requests there are their own percentiles and the slowdown, which is latency over the time of the work alone, \
     as Shinjuku (Kaffes et al., NSDI 2019), Perséphone (Demoulin et al., SOSP 2021) and Concord (Iyer et al., SOSP 2023) state it. \
     `long-poll`: an urgent request each millisecond from another process, on two workers beside bulk work that computes for `poll` µs in each poll, \
     with nothing else or beside a stranger that computes on one of two processors; throughput is bulk work in ms a second. \
     `shedding`: level 0 has 1000 requests a second of 50 µs, by a clock, and `wrk` offers bulk requests of 4 ms (level 48) up to the load; \
     `corank-shed` refuses bulk requests whose wait would exceed `limit`, the others have no limit or one of concurrency; throughput is what was admitted and finished. `hello`: a hyper server under `wrk`. \
     `tokio-echo`, `tokio-sleep`, `axum`: what needs tokio, in tokio and in a runtime that hosts it. The rest: one operation of the scheduler, by workers.";

/// The shapes of the load.
const SHAPES: [&str; 2] = ["two-class", "eight-levels"];
/// Corank with demotion.
const DEMOTION: &str = "corank-demotion";

/// The largest latency under load, beside that without.
const UNDER_LOAD: f64 = 1.5;
const LOAD: f64 = 150.0;
/// Percent of the time of the trials that count.
///
/// If our threads and the client waited longer for a processor, the figures show other programs.
const BUSY: f64 = 2.0;

/// Returns the targets: level 0 under load beside itself without, and requests per second beside
/// tokio's.
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
    let value = |model: &str, op: &str, workers: f64| -> Option<f64> {
        let fits = |row: &&Row| {
            row.model == model
                && row.text("op") == Some(op)
                && row.number("workers") == Some(workers)
        };
        Some(rows.iter().find(fits)?.median)
    };
    let ratio = |one: Option<f64>, other: Option<f64>| {
        let divisor = other.filter(|&divisor| divisor > 0.0)?;
        Some(one? / divisor)
    };
    let lost = |shape: &str| -> Option<f64> {
        let fits = |row: &&Row| {
            row.model == "corank"
                && row.metric == "lost-kept"
                && row.text("op") == Some(shape)
                && [Some(LOAD), Some(least)].contains(&row.number("load"))
        };
        let all = rows.iter().filter(fits).map(|row| row.median);
        all.max_by(f64::total_cmp).filter(|&lost| lost > BUSY)
    };
    let latency = SHAPES.map(|shape| {
        let tokio = p99("tokio", shape, LOAD)
            .map(|tokio| format!("tokio's at {LOAD} %: {tokio:.0} µs"))
            .unwrap_or_default();
        let disturbance = lost(shape)
            .map(|lost| format!("its threads waited for a processor for {lost:.1} % of the time"));
        Verdict {
            claim: format!("{shape}: level 0's p99 at {LOAD} % load / at {least} %"),
            limit: UNDER_LOAD,
            measured: ratio(p99("corank", shape, LOAD), p99("corank", shape, least)),
            at: tokio,
        }
        .disturbed(disturbance)
    });
    let throughput = [1.0, 2.0].map(|workers| Verdict {
        claim: format!("hello, {workers} workers: tokio's requests per second / ours"),
        limit: 1.0,
        measured: ratio(
            value("tokio", "hello", workers),
            value("corank", "hello", workers),
        ),
        at: String::new(),
    });
    let tail = SHAPES.iter().flat_map(|shape| tail(document, shape));
    let hosted = |op: &str, what: &str, limit: f64, inverse: bool| {
        [1.0, 2.0].map(|workers| {
            let (tokio, corank) = (value("tokio", op, workers), value("corank", op, workers));
            Verdict {
                claim: format!("{op}, {workers} workers: {what}"),
                limit,
                measured: if inverse {
                    ratio(tokio, corank)
                } else {
                    ratio(corank, tokio)
                },
                at: String::new(),
            }
        })
    };
    (latency.into_iter().chain(tail).chain(throughput))
        .chain(long_poll::verdicts(rows))
        .chain(shedding::verdicts(rows))
        .chain(hosted("tokio-echo", "our time / tokio's", 1.05, false))
        .chain(hosted(
            "axum",
            "tokio's requests per second / ours",
            1.0 / 0.95,
            true,
        ))
        .chain(hosted("tokio-sleep", "our time / tokio's", 2.0, false))
        .collect()
}

/// Returns the targets of demotion: short requests of every level, and the mean of the long ones,
/// beside tokio's.
fn tail(document: &Document, shape: &str) -> Vec<Verdict> {
    let value = |model: &str, metric: &str, load: f64, priority: Option<f64>| -> Option<f64> {
        let fits = |row: &&Row| {
            row.model == model
                && row.metric == metric
                && row.text("op") == Some(shape)
                && row.number("load") == Some(load)
                && row.number("priority") == priority
        };
        Some(document.rows.iter().find(fits)?.median)
    };
    let lost = |load| value(DEMOTION, "lost-kept", load, None).filter(|&lost| lost > BUSY);
    // Loads that a run leaves out have no rows, and no verdict.
    let verdict = |claim: String, limit, load, worst: Option<(f64, String)>| {
        let (measured, at) = worst?;
        let disturbance = lost(load)
            .map(|lost| format!("its threads waited for a processor for {lost:.1} % of the time"));
        let verdict = Verdict {
            claim: format!("{shape}, demotion: {claim}, {load} % load"),
            limit,
            measured: Some(measured),
            at,
        };
        Some(verdict.disturbed(disturbance))
    };
    let short =
        |model: &str, load, level: u8| value(model, "short-p99", load, Some(f64::from(level)));
    let of_levels = [(10.0, 2.0), (80.0, 0.2), (95.0, 0.2)].map(|(load, limit)| {
        let ratios = (0..64).filter_map(|level| {
            let (ours, tokio) = (short(DEMOTION, load, level)?, short("tokio", load, level)?);
            Some((
                ours / tokio,
                format!("level {level}: {ours:.0} and {tokio:.0} µs"),
            ))
        });
        let worst = ratios.max_by(|one, other| one.0.total_cmp(&other.0));
        let claim = "p99 of short requests of the worst level / tokio's".to_string();
        verdict(claim, limit, load, worst)
    });
    let loaded = short(DEMOTION, LOAD, 0).zip(short(DEMOTION, 10.0, 0));
    let loaded =
        loaded.map(|(loaded, idle)| (loaded / idle, format!("{loaded:.0} and {idle:.0} µs")));
    let level_0 = verdict(
        "p99 of level 0's short requests / at 10 %".to_string(),
        UNDER_LOAD,
        LOAD,
        loaded,
    );
    let long = [10.0, 50.0, 80.0, 95.0].map(|load| {
        let mean = |model| value(model, "long-mean", load, None);
        let ratio = mean(DEMOTION).zip(mean("tokio"));
        let ratio =
            ratio.map(|(ours, tokio)| (ours / tokio, format!("{ours:.0} and {tokio:.0} µs")));
        verdict(
            "mean of long requests / tokio's".to_string(),
            1.3,
            load,
            ratio,
        )
    });
    let all = of_levels.into_iter().chain([level_0]).chain(long);
    all.flatten().collect()
}

/// Models in the order of their colours.
const MODELS: [&str; 5] = ["corank", "tokio", "async-executor", "glommio", DEMOTION];

/// Draws latencies of these models by load.
fn by_load<'a>(
    title: &str,
    rows: impl Iterator<Item = &'a Row> + Clone,
    models: &[&str],
) -> Result<Option<(String, String)>> {
    let x = Axis {
        label: "load, percent of what the worker can do",
        logarithmic: false,
    };
    let y = Axis {
        label: "µs",
        logarithmic: true,
    };
    chart::by_model(title, rows, models, ("load", x), y)
}

/// Draws level 0's latency by load, for each shape of load.
pub(crate) fn figures(document: &Document) -> Result<Vec<(String, String)>> {
    let mut figures = Vec::new();
    for shape in SHAPES {
        let rows = document.rows.iter().filter(|row| {
            row.metric == "latency-p99"
                && row.text("op") == Some(shape)
                && row.number("priority") == Some(0.0)
        });
        let title = format!("Latency of level 0, 99th percentile, {shape}");
        figures.extend(by_load(&title, rows, &MODELS)?);
    }
    figures.extend(shedding::figures(document)?);
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{self, names, results};
    use serde_json::json;

    fn row(model: &str, op: &str, load: u32, value: f64) -> serde_json::Value {
        let metric = if op == "hello" {
            "throughput"
        } else {
            "latency-p99"
        };
        json!({"model": model, "op": op, "load": load, "priority": 0, "workers": 1, "metric": metric, "unit": "us",
            "runs": [value], "median": value})
    }

    fn document() -> Document {
        sample::document(
            "linux-latency",
            &[
                row("corank", "two-class", 10, 50.0),
                row("corank", "two-class", 150, 60.0),
                row("corank", "eight-levels", 10, 50.0),
                row("corank", "eight-levels", 150, 100.0),
                row("tokio", "two-class", 150, 9000.0),
                row("tokio", "hello", 10, 110.0),
                row("corank", "hello", 10, 100.0),
            ],
        )
    }

    #[test]
    fn load_and_tokio_are_compared() {
        assert_eq!(
            results(&verdicts(&document()))[..4],
            [
                (Some(1.2), Some(true), "tokio's at 150 %: 9000 µs"),
                (Some(2.0), Some(false), ""),
                (Some(1.1), Some(false), ""),
                (None, None, ""),
            ]
        );
    }

    #[test]
    fn what_needs_tokio_is_compared_with_tokio() {
        let document = sample::document(
            "linux-latency",
            &[
                row("tokio", "tokio-echo", 10, 10.0),
                row("corank", "tokio-echo", 10, 11.0),
                row("tokio", "axum", 10, 100.0),
                row("corank", "axum", 10, 100.0),
                row("tokio", "tokio-sleep", 10, 10.0),
                row("corank", "tokio-sleep", 10, 15.0),
            ],
        );
        let verdicts = verdicts(&document);
        let of_one_worker: Vec<_> = results(&verdicts).into_iter().skip(4).step_by(2).collect();
        assert_eq!(
            of_one_worker,
            [
                (Some(1.1), Some(false), ""),
                (Some(1.0), Some(true), ""),
                (Some(1.5), Some(true), ""),
            ]
        );
    }

    #[test]
    fn on_a_busy_machine_a_miss_counts_and_nothing_else() {
        let mut document = document();
        for (op, percent) in [("two-class", 8.6), ("eight-levels", 2.1)] {
            let mut lost = row("corank", op, 10, percent);
            lost["metric"] = json!("lost-kept");
            let more = sample::document("linux-latency", &[lost]);
            document.rows.extend(more.rows);
        }
        let met = "1.20, but its threads waited for a processor for 8.6 % of the time";
        let missed = "its threads waited for a processor for 2.1 % of the time";
        assert_eq!(
            results(&verdicts(&document))[..2],
            [(None, None, met), (Some(2.0), Some(false), missed)]
        );
    }

    #[test]
    fn short_and_long_requests_are_compared_with_tokio() {
        let point = |model: &str, metric: &str, load: u32, priority: Option<u32>, value: f64| {
            let mut row = row(model, "eight-levels", load, value);
            row["metric"] = json!(metric);
            row["priority"] = json!(priority);
            row
        };
        let rows = [
            point(DEMOTION, "short-p99", 80, Some(0), 100.0),
            point("tokio", "short-p99", 80, Some(0), 1000.0),
            point(DEMOTION, "short-p99", 80, Some(7), 300.0),
            point("tokio", "short-p99", 80, Some(7), 1000.0),
            point(DEMOTION, "long-mean", 80, None, 120.0),
            point("tokio", "long-mean", 80, None, 100.0),
        ];
        let verdicts = tail(&sample::document("linux-latency", &rows), "eight-levels");
        assert_eq!(
            results(&verdicts),
            [
                (Some(0.3), Some(false), "level 7: 300 and 1000 µs"),
                (Some(1.2), Some(true), "120 and 100 µs"),
            ]
        );
        assert_eq!(tail(&document(), "eight-levels"), []);
    }

    #[test]
    fn each_shape_of_load_has_a_figure() {
        let figures = figures(&document()).unwrap();
        assert_eq!(
            names(&figures),
            [
                "latency-of-level-0-99th-percentile-two-class",
                "latency-of-level-0-99th-percentile-eight-levels",
            ]
        );
        assert!(figures[0].1.contains("two-class: corank, tokio\""));
        assert!(figures[1].1.contains("eight-levels: corank\""));
    }
}
