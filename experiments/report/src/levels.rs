//! Experiment `tcp-priority`: the TCP server's connections on eight levels.

use crate::chart::{self, Axis, Chart, Series};
use crate::document::Document;
use crate::row::Row;
use crate::verdict::Verdict;
use anyhow::Result;

/// What the report says of it.
pub(crate) const ABOUT: &str = "128 connections, 16 on each of 8 levels, with 20x20 matrices. `full`: a request each 50 ms; `level-0-alone`: those of level 0 \
     and no others; `overload`: level 0 goes on so, and each of the others always has two requests under way; `overload-one-level`: the same with \
     all connections on one level. `strict`: a level that never empties starves those below it. `bounded`: one pick in eight goes round the \
     levels. `wire-` latencies end when Linux got the answer, the others when the client's thread did, which shares the computer's processors \
     with the machine. The paper's level 7 has 13.5 times the latency of its level 0.";

/// Level 0's latency under overload, beside that without load.
const UNDER_LOAD: f64 = 1.3;
/// Level 7's latency beside level 0's: what the paper has.
const APART: f64 = 13.5;
/// What is left of the throughput of a server whose connections are all on one level.
const THROUGHPUT: f64 = 0.95;

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

/// The targets of priorities under overload, which are for one hart.
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
    let bounded: Vec<f64> = rows(document, BOUNDED, "overload", "throughput")
        .filter(here)
        .map(|row| row.median)
        .collect();
    let stopped = bounded.iter().filter(|&&throughput| throughput <= 0.0);
    let stopped = (!bounded.is_empty()).then_some(stopped.count() as f64);
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
            1.0 / APART,
            ratio(latency("overload", 0.0), latency("overload", 7.0)),
        ),
        verdict(
            "throughput with all on one level / with eight",
            1.0 / THROUGHPUT,
            ratio(total("overload-one-level"), total("overload")),
        ),
        verdict("levels that stop, bounded", 0.0, stopped),
    ]
}

/// Latency and throughput by level, for each load and policy; and how the latencies spread under overload.
pub(crate) fn figures(document: &Document) -> Result<Vec<(String, String)>> {
    let mut harts: Vec<f64> = (document.rows.iter())
        .filter_map(|row| row.number("harts"))
        .collect();
    harts.sort_by(f64::total_cmp);
    harts.dedup();
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
    }
    Ok(figures)
}

/// A figure over the levels, if there is a line to draw.
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
    let name = crate::page::file_name(&format!("{title} {metric}"));
    Ok(Some((name, chart.to_svg()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{document, names, results};
    use serde_json::json;

    fn row(model: &str, load: &str, metric: &str, level: u32, value: f64) -> serde_json::Value {
        json!({"model": model, "priority": level, "load": load, "harts": 1, "metric": metric, "unit": "u",
            "runs": [value], "median": value})
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
            row(BOUNDED, "overload", "throughput", 7, 0.0),
        ];
        let document = document("tcp-priority", &rows);
        assert_eq!(
            results(&verdicts(&document)),
            [
                (Some(1.25), Some(true), ""),
                (Some(1.5), Some(false), ""),
                (Some(0.125), Some(false), ""),
                (Some(1.0), Some(true), ""),
                (Some(1.0), Some(false), ""),
            ]
        );
        assert_eq!(
            names(&figures(&document).unwrap()),
            [
                "tcp-server-by-level-strict-latency-mean",
                "tcp-server-by-level-strict-throughput",
                "tcp-server-under-overload-strict-spread",
                "tcp-server-by-level-bounded-throughput",
            ]
        );
    }
}
