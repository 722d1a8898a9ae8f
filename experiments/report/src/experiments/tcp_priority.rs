//! Experiment `tcp-priority`: the TCP server's connections on eight levels.

mod tables;

pub(crate) use tables::tables;

use super::answers;
use crate::chart::{self, Axis, Chart, Dot, Series};
use crate::document::Document;
use crate::experiment::Experiment;
use crate::papers;
use crate::row::Row;
use crate::schedule::{Driver, Schedule};
use crate::verdict::Verdict;
use anyhow::Result;

/// The experiment as the report shows it.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tcp-priority",
    summary: "TCP server: priorities under overload",
    schedule: Schedule::Driver(Driver::TcpPriority),
    heading: "A TCP server: priorities under overload",
    about: ABOUT,
    figures,
    tables: |document| Ok(tables(document)),
    verdicts: |document| Ok(verdicts(document)),
    ..Experiment::PLAIN
};

/// Text of the report about the experiment.
const ABOUT: &str = "128 connections, 16 on each of 8 levels, with 20x20 matrices. `full`: a request each 50 ms; `level-0-alone`: those of level 0 \
     and no others; `overload`: level 0 goes on so, and each of the others always has two requests under way; `overload-one-level`: the same with \
     all connections on one level. `strict`: a level that never empties starves those below it. `bounded`: one pick in eight goes round the \
     levels. `wire-` latencies end when Linux got the answer, the others when the client's thread did, which shares the computer's processors \
     with the machine. The target of 13.5 for level 7 beside level 0 comes from data of another load (docs/papers.md). \
     An answer is late that comes when the next request was due; without a pause, after the time in which requests are sent.";

/// Level 0's latency under overload, beside that without load.
const UNDER_LOAD: f64 = 1.3;
/// Share that is left of the throughput of a server with all connections on one level.
const THROUGHPUT: f64 = 0.95;

/// Number of picks of which one goes round the levels with the bound on starvation (`RESERVED` of
/// `tcp-server`).
const RESERVED: f64 = 8.0;

const LOADS: [&str; 4] = ["level-0-alone", "full", "overload", "overload-one-level"];
const STRICT: &str = "strict";
const BOUNDED: &str = "bounded";

fn rows<'a>(
    document: &'a Document,
    model: &'a str,
    load: &'a str,
    metric: &'a str,
) -> impl Iterator<Item = &'a Row> {
    document.rows.iter().filter(move |row| {
        row.model == model && row.metric == metric && row.text("load") == Some(load)
    })
}

/// Returns the targets of priorities under overload, which are for one hart.
pub(crate) fn verdicts(document: &Document) -> Vec<Verdict> {
    let here = |row: &&Row| row.number("harts") == Some(1.0);
    let mean = |metric: &str, load: &str, level: f64| -> Option<f64> {
        let fits = |row: &Row| row.number("priority") == Some(level);
        let mut found = rows(document, STRICT, load, metric).filter(here);
        found.find(|row| fits(row)).map(|row| row.median)
    };
    let latency = |load: &str, level: f64| mean("latency-mean", load, level);
    let on_the_wire = |load: &str| mean("wire-latency-mean", load, 0.0);
    let total = |load: &str| -> Option<f64> {
        let found: Vec<f64> = rows(document, STRICT, load, "throughput")
            .filter(here)
            .map(|row| row.median)
            .collect();
        (!found.is_empty()).then(|| found.iter().sum())
    };
    let ratio = |one: Option<f64>, other: Option<f64>| -> Option<f64> {
        let divisor = other.filter(|&divisor| divisor > 0.0)?;
        Some(one? / divisor)
    };
    let bounded = |metric| -> Vec<&Row> {
        let found = rows(document, BOUNDED, "overload", metric);
        found.filter(here).collect()
    };
    let empty: Vec<f64> = (bounded("quarters-without-answers").iter())
        .flat_map(|row| row.runs.iter().copied())
        .collect();
    let empty = (!empty.is_empty()).then(|| empty.iter().sum());
    let verdict = |claim: &str, limit: f64, measured: Option<f64>| Verdict {
        claim: format!("TCP server, overload: {claim}"),
        limit,
        measured,
        at: String::new(),
    };
    vec![
        verdict(
            "level 0's mean latency / without load",
            UNDER_LOAD,
            ratio(latency("overload", 0.0), latency("level-0-alone", 0.0)),
        ),
        verdict(
            "the same up to when the answer had come to the client's computer",
            UNDER_LOAD,
            ratio(on_the_wire("overload"), on_the_wire("level-0-alone")),
        ),
        verdict(
            "level 0's mean latency / level 7's",
            1.0 / papers::LEVELS_APART,
            ratio(latency("overload", 0.0), latency("overload", 7.0)),
        ),
        verdict(
            "throughput with all on one level / with eight",
            1.0 / THROUGHPUT,
            ratio(total("overload-one-level"), total("overload")),
        ),
        verdict(
            "quarters of a run in which a level has no answer, bounded",
            0.0,
            empty,
        ),
        verdict(
            "a level's reserved share of all answers / its answers, in any run, bounded",
            1.0,
            reserved(&bounded("throughput")),
        ),
        answers::verdict(document),
    ]
}

/// Returns the largest quotient of a level's reserved throughput and its throughput.
///
/// The reserved throughput is what the level would have if only reserved picks were left to it. The
/// quotient is over all runs of these rows, one for each level. It is infinite if a level has none.
fn reserved(levels: &[&Row]) -> Option<f64> {
    let runs = levels.iter().map(|row| row.runs.len()).min()?;
    let worst = |run: usize| -> Option<f64> {
        let of_run = || levels.iter().map(|row| row.runs[run]);
        let share = of_run().sum::<f64>() / (RESERVED * levels.len() as f64);
        of_run()
            .map(|own| {
                if own > 0.0 {
                    share / own
                } else {
                    f64::INFINITY
                }
            })
            .max_by(f64::total_cmp)
    };
    (0..runs).filter_map(worst).max_by(f64::total_cmp)
}

/// Draws latency and throughput by level, for each load and policy, and how the latencies spread
/// under overload.
pub(crate) fn figures(document: &Document) -> Result<Vec<(String, String)>> {
    let harts = answers::values(document, "harts");
    let mut figures = Vec::new();
    for (harts, model) in harts
        .into_iter()
        .flat_map(|harts| [(harts, STRICT), (harts, BOUNDED)])
    {
        let dots = |load, metric| {
            let rows = rows(document, model, load, metric);
            let here = rows.filter(|row| row.number("harts") == Some(harts));
            chart::dots(here, "priority")
        };
        let on = if harts == 1.0 {
            String::new()
        } else {
            format!(", {harts} harts")
        };
        for (metric, label, logarithmic) in [
            ("latency-mean", "mean latency, ms", true),
            ("throughput", "requests/s", false),
        ] {
            let series = LOADS.iter().enumerate().map(|(style, load)| Series {
                name: load.to_string(),
                style,
                dots: dots(load, metric),
            });
            let title = format!("TCP server by level, {model}{on}");
            figures.extend(draw(&title, metric, label, logarithmic, series)?);
        }
        let spread = ["latency-p50", "latency-mean", "latency-p99"];
        let series = spread
            .into_iter()
            .enumerate()
            .map(|(style, metric)| Series {
                name: metric.to_string(),
                style,
                dots: dots("overload", metric),
            });
        let title = format!("TCP server under overload, {model}{on}");
        figures.extend(draw(&title, "spread", "latency, ms", true, series)?);
        for load in ["full", "overload"] {
            let title = format!("TCP server, {load}, {model}{on}: how latencies are distributed");
            figures.extend(distribution(document, &title, model, load, harts)?);
        }
    }
    Ok(figures)
}

/// Draws the share of a level's answers that took at most a given time, a line for each level.
fn distribution(
    document: &Document,
    title: &str,
    model: &str,
    load: &str,
    harts: f64,
) -> Result<Option<(String, String)>> {
    let line = |level: f64| -> Series {
        let own = rows(document, model, load, "latency-quantile").filter(|row| {
            row.number("priority") == Some(level)
                && row.number("harts") == Some(harts)
                && row.median > 0.0
        });
        let dot = |row: &Row| {
            let percent = row.number("quantile")?;
            Some(Dot {
                x: row.median,
                y: percent,
                low: percent,
                high: percent,
            })
        };
        let mut dots: Vec<Dot> = own.filter_map(dot).collect();
        dots.sort_by(|one, other| one.y.total_cmp(&other.y));
        Series {
            name: format!("level {level}"),
            style: level as usize,
            dots,
        }
    };
    let series: Vec<Series> = answers::values(document, "priority")
        .into_iter()
        .map(line)
        .filter(|series| series.dots.len() > 1)
        .collect();
    if series.is_empty() {
        return Ok(None);
    }
    let chart = Chart {
        title,
        x: Axis {
            label: "latency, ms",
            logarithmic: true,
        },
        y: Axis {
            label: "% of the answers",
            logarithmic: false,
        },
        series: &series,
    };
    Ok(Some((chart::file_name(title), chart.to_svg()?)))
}

/// Draws a figure over the levels, if there is a line to draw.
fn draw(
    title: &str,
    metric: &str,
    label: &str,
    logarithmic: bool,
    series: impl Iterator<Item = Series>,
) -> Result<Option<(String, String)>> {
    // 0 is not on a logarithmic axis.
    let can_be_drawn = |series: &Series| {
        series.dots.len() > 1 && !(logarithmic && series.dots.iter().any(|dot| dot.low <= 0.0))
    };
    let series: Vec<Series> = series.filter(can_be_drawn).collect();
    if series.is_empty() {
        return Ok(None);
    }
    let chart = Chart {
        title,
        x: Axis {
            label: "level",
            logarithmic: false,
        },
        y: Axis { label, logarithmic },
        series: &series,
    };
    let name = chart::file_name(&format!("{title} {metric}"));
    Ok(Some((name, chart.to_svg()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{document, names, results};
    use serde_json::json;

    pub(super) fn row(
        model: &str,
        load: &str,
        metric: &str,
        level: u32,
        value: f64,
    ) -> serde_json::Value {
        json!({"model": model, "priority": level, "load": load, "harts": 1, "metric": metric, "unit": "u",
            "runs": [value], "median": value})
    }

    fn quantile(load: &str, percent: f64, value: f64) -> serde_json::Value {
        let mut row = row(STRICT, load, "latency-quantile", 0, value);
        row["quantile"] = json!(percent);
        row
    }

    #[test]
    fn a_level_that_has_nothing_in_one_run_has_stopped() {
        let runs = |level, runs: [f64; 3]| {
            let mut row = row(BOUNDED, "overload", "throughput", level, runs[1]);
            row["runs"] = json!(runs);
            row
        };
        let found = |last| {
            let document = document(
                "tcp-priority",
                &[runs(0, [96.0, 96.0, 96.0]), runs(1, [32.0, 32.0, last])],
            );
            verdicts(&document)[5].measured
        };
        assert_eq!(found(32.0), Some(0.25));
        assert_eq!(found(4.0), Some(100.0 / 16.0 / 4.0));
        assert_eq!(found(0.0), Some(f64::INFINITY));
    }

    #[test]
    fn levels_are_compared() {
        let rows = [
            row(STRICT, "level-0-alone", "latency-mean", 0, 1.6),
            row(STRICT, "overload", "latency-mean", 0, 2.0),
            row(STRICT, "level-0-alone", "wire-latency-mean", 0, 1.0),
            row(STRICT, "overload", "wire-latency-mean", 0, 1.5),
            row(STRICT, "overload", "latency-mean", 7, 16.0),
            row(STRICT, "overload", "throughput", 0, 60.0),
            row(STRICT, "overload", "throughput", 7, 40.0),
            row(STRICT, "overload-one-level", "throughput", 4, 100.0),
            row(BOUNDED, "overload", "throughput", 0, 60.0),
            row(BOUNDED, "overload", "throughput", 7, 4.0),
            row(BOUNDED, "overload", "quarters-without-answers", 0, 0.0),
            row(BOUNDED, "overload", "quarters-without-answers", 7, 3.0),
            row(STRICT, "overload", "quarters-without-answers", 7, 4.0),
            quantile("overload", 1.0, 2.0),
            quantile("overload", 99.0, 3.0),
            quantile("full", 99.0, 3.0),
        ];
        let document = document("tcp-priority", &rows);
        assert_eq!(
            results(&verdicts(&document)),
            [
                (Some(1.25), Some(true), ""),
                (Some(1.5), Some(false), ""),
                (Some(0.125), Some(false), ""),
                (Some(1.0), Some(true), ""),
                (Some(3.0), Some(false), ""),
                // A sixteenth of 64 is the reserved share of each of the two.
                (Some(1.0), Some(true), ""),
                (None, None, ""),
            ]
        );
        assert_eq!(
            names(&figures(&document).unwrap()),
            [
                "tcp-server-by-level-strict-latency-mean",
                "tcp-server-by-level-strict-throughput",
                "tcp-server-under-overload-strict-spread",
                "tcp-server-overload-strict-how-latencies-are-distributed",
                "tcp-server-by-level-bounded-throughput",
            ]
        );
    }
}
