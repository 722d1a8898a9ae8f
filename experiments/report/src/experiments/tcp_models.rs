//! Experiment `tcp-models`: a TCP server with coroutines or threads as tasks, in the kernel and
//! in the process.

mod tables;

pub(crate) use tables::tables;

use super::answers;
use crate::chart::{self, Axis, Chart, Series};
use crate::document::Document;
use crate::experiment::Experiment;
use crate::papers;
use crate::row::Row;
use crate::schedule::{Driver, Schedule};
use crate::verdict::Verdict;
use anyhow::Result;

/// The experiment as the report shows it.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tcp-models",
    summary: "TCP server: coroutines and threads in kernel and process",
    schedule: Schedule::Driver(Driver::TcpModels),
    heading: "A TCP server: coroutines and threads",
    about: ABOUT,
    figures,
    tables: |document| Ok(tables(document)),
    verdicts: |document| Ok(verdicts(document)),
    ..Experiment::PLAIN
};

/// Text of the report about the experiment.
const ABOUT: &str = "Each connection has a task that receives, one that multiplies matrices and one that sends, joined by message buffers. \
     A model's name says which tasks serve calls in the kernel (K) and which run in the process (U): coroutines (C) or threads (T). The client is a Linux program, across a \
     tap device, or QEMU's own network where that is not allowed (`network` in the settings). `period`: from one request of a connection to the \
     next, in milliseconds, 0: with the answer. `window`: requests of a \
    connection that are under way at once. With one, the network and the client, on another processor of the host, take about as long for a \
     request as the server of coroutines; with 16 the server's message buffers are always full. Throughput in requests per second, latency in \
     milliseconds; every answer is checked. Jitter is the standard deviation of the latencies. An answer is late that comes when the next request was due; without a \
    period, after the time in which requests are sent, as the last ones under way do. docs/tcp-server.md says where the time goes. \
     `COPS data`: raw data of the authors of the shared scheduler, not the text of their paper, beside the same matrix, period and number of \
     harts only; `COPS draft`: a draft of theirs (docs/papers.md).";

/// Our model: the kernel's coroutines serve the process's coroutines.
const OURS: &str = "KCUC";
const THREADS: &str = "KTUT";
const MODELS: [&str; 4] = [OURS, "KTUC", "KCUT", THREADS];

/// Number of connections from which on our model is to have [`TIMES`] the threads' throughput.
const MANY: f64 = 64.0;
const TIMES: f64 = 5.0;
/// Bytes of futures of a connection, kernel and process together.
const FUTURES: f64 = papers::FUTURES[0] + papers::FUTURES[1];

/// The paces at which requests follow each other.
const PACES: [Pace; 3] = [
    (0.0, 16.0, "overload"),
    (0.0, 1.0, "one request under way"),
    (100.0, 1.0, "a request each 100 ms"),
];

/// Rows that differ in their model and the number of connections alone.
#[derive(Clone, Copy)]
struct Scene {
    pace: Pace,
    matrix: f64,
    harts: f64,
}

impl Scene {
    /// Returns all scenes that were measured.
    fn all(document: &Document) -> impl Iterator<Item = Scene> {
        answers::values(document, "harts")
            .into_iter()
            .flat_map(|harts| {
                let matrices = answers::values(document, "matrix");
                PACES.into_iter().flat_map(move |pace| {
                    let scene = move |matrix| Scene {
                        pace,
                        matrix,
                        harts,
                    };
                    matrices.clone().into_iter().map(scene)
                })
            })
    }

    fn rows<'a>(self, document: &'a Document, metric: &'a str) -> impl Iterator<Item = &'a Row> {
        rows(document, metric, self.pace).filter(move |row| {
            row.number("matrix") == Some(self.matrix) && row.number("harts") == Some(self.harts)
        })
    }

    /// Tests whether the published figures were measured under this load.
    fn is_published(self) -> bool {
        let load = papers::Load {
            matrix: self.matrix,
            period: self.pace.0,
            harts: self.harts,
        };
        load == papers::SERVER_LOAD
    }

    fn title(self) -> String {
        let Scene {
            matrix,
            harts,
            pace,
        } = self;
        let on = if harts == 1.0 {
            String::new()
        } else {
            format!(", {harts} harts")
        };
        format!("{matrix}x{matrix} matrices, {}{on}", pace.2)
    }
}

/// The period, the window, and the name of a pace in tables and figures.
type Pace = (f64, f64, &'static str);

fn rows<'a>(
    document: &'a Document,
    metric: &'a str,
    (period, window, _): Pace,
) -> impl Iterator<Item = &'a Row> {
    document.rows.iter().filter(move |row| {
        row.metric == metric
            && row.number("period") == Some(period)
            && row.number("window") == Some(window)
    })
}

/// Returns the median at the point that differs from `row` in its model alone.
fn beside(document: &Document, row: &Row, model: &str) -> Option<f64> {
    let fits = |other: &&Row| {
        other.model == model && other.metric == row.metric && other.parameters == row.parameters
    };
    Some(document.rows.iter().find(fits)?.median)
}

fn place(row: &Row) -> String {
    let parameters = ["connections", "matrix", "harts"].into_iter();
    let known = parameters.filter_map(|name| Some((name, row.number(name)?)));
    // One hart is not mentioned.
    known
        .filter(|found| *found != ("harts", 1.0))
        .map(|(name, value)| format!("{name} {value}"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Returns the largest of the values that `of` gives for our rows, and where it was found.
fn worst<'a>(
    rows: impl Iterator<Item = &'a Row>,
    of: impl Fn(&Row) -> Option<f64>,
) -> (Option<f64>, String) {
    rows.filter(|row| row.model == OURS)
        .filter_map(|row| Some((of(row)?, place(row))))
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map_or((None, String::new()), |(value, at)| (Some(value), at))
}

fn verdict(claim: String, limit: f64, (measured, at): (Option<f64>, String)) -> Verdict {
    Verdict {
        claim,
        limit,
        measured,
        at,
    }
}

/// Returns the targets of our model beside the others.
pub(crate) fn verdicts(document: &Document) -> Vec<Verdict> {
    let others = |row: &Row| -> Vec<f64> {
        let others = MODELS.iter().filter(|model| **model != OURS);
        others
            .filter_map(|model| beside(document, row, model))
            .collect()
    };
    let most = |row: &Row| others(row).into_iter().max_by(f64::total_cmp);
    let least = |row: &Row| others(row).into_iter().min_by(f64::total_cmp);
    let mut verdicts = Vec::new();
    for pace in &PACES {
        let found = worst(rows(document, "throughput", *pace), |row| {
            Some(most(row)? / row.median)
        });
        let claim = format!(
            "TCP server, {}: the best other model's throughput / ours, at any number",
            pace.2
        );
        verdicts.push(verdict(claim, 1.0, found));
    }
    // Where requests come slowly enough, every model answers them all. Which is best then shows in
    // how long that takes.
    let found = worst(rows(document, "latency-mean", PACES[2]), |row| {
        Some(row.median / least(row)?)
    });
    let claim = format!(
        "TCP server, {}: our mean latency / the best other model's, at any number",
        PACES[2].2
    );
    verdicts.push(verdict(claim, 1.0, found));
    for matrix in answers::values(document, "matrix") {
        let many = rows(document, "throughput", PACES[0]).filter(|row| {
            row.number("matrix") == Some(matrix)
                && row.number("connections").is_some_and(|count| count >= MANY)
        });
        let found = worst(many, |row| {
            Some(beside(document, row, THREADS)? / row.median)
        });
        let claim = format!(
            "TCP server, overload, matrix {matrix}: the throughput of threads / ours, from {MANY} connections on"
        );
        verdicts.push(verdict(claim, 1.0 / TIMES, found));
    }
    verdicts.push(answers::verdict(document));
    let whole = |metric: &'static str| document.rows.iter().filter(move |row| row.metric == metric);
    let found = worst(whole("max-connections"), |row| {
        Some(beside(document, row, THREADS)? / row.median)
    });
    let claim = "TCP server: connections of threads / of ours, in the same memory".to_string();
    verdicts.push(verdict(claim, 0.5, found));
    let found = worst(whole("futures-per-connection"), |row| Some(row.median));
    let claim = "TCP server: bytes of futures per connection, kernel and process".to_string();
    verdicts.push(verdict(claim, FUTURES, found));
    verdicts
}

/// Draws throughput and latency by the number of connections, for each kind of load and size of
/// matrix.
///
/// It adds the published figures, if their load was measured.
pub(crate) fn figures(document: &Document) -> Result<Vec<(String, String)>> {
    let mut figures = Vec::new();
    for scene in Scene::all(document) {
        for (metric, label) in METRICS {
            let title = format!("TCP server, {}", scene.title());
            let series = MODELS.iter().enumerate().map(|(style, model)| Series {
                name: model.to_string(),
                style,
                dots: chart::dots(
                    scene
                        .rows(document, metric)
                        .filter(|row| row.model == *model),
                    "connections",
                ),
            });
            figures.extend(draw(&title, metric, label, series)?);
        }
    }
    let published = if Scene::all(document).any(Scene::is_published) {
        &METRICS[..2]
    } else {
        &[]
    };
    for (metric, label) in published {
        let title =
            "TCP server, COPS data, 15x15 matrices, a request each 100 ms, 4 cores of 100 MHz";
        let series = MODELS.iter().enumerate().map(|(style, model)| Series {
            name: model.to_string(),
            style,
            dots: (papers::SERVER.iter())
                .filter(|served| served.model == *model)
                .map(|served| {
                    let y = match *metric {
                        "throughput" => served.throughput,
                        _ => served.latency,
                    };
                    chart::Dot {
                        x: served.connections.into(),
                        y,
                        low: y,
                        high: y,
                    }
                })
                .collect(),
        });
        figures.extend(draw(title, metric, label, series)?);
    }
    Ok(figures)
}

/// The metrics that are drawn, and the labels of their axes.
const METRICS: [(&str, &str); 5] = [
    ("throughput", "requests/s"),
    ("latency-mean", "mean latency, ms"),
    ("latency-p50", "p50 of the latency, ms"),
    ("latency-p99", "p99 of the latency, ms"),
    ("jitter", "jitter, ms"),
];

/// Draws a figure over the number of connections, if there is a line to draw.
fn draw(
    title: &str,
    metric: &str,
    label: &str,
    series: impl Iterator<Item = Series>,
) -> Result<Option<(String, String)>> {
    let series: Vec<Series> = series.filter(|series| series.dots.len() > 1).collect();
    if series.is_empty() {
        return Ok(None);
    }
    let chart = Chart {
        title,
        x: Axis {
            label: "connections",
            logarithmic: true,
        },
        y: Axis {
            label,
            logarithmic: false,
        },
        series: &series,
    };
    let name = chart::file_name(&format!("{title} {metric}"));
    Ok(Some((name, chart.to_svg()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use serde_json::json;

    pub(super) fn row(
        model: &str,
        metric: &str,
        connections: u32,
        window: u32,
        value: f64,
    ) -> serde_json::Value {
        json!({"model": model, "connections": connections, "matrix": 1, "period": 0, "window": window, "harts": 1,
            "metric": metric, "unit": "u", "runs": [value], "median": value})
    }

    pub(super) fn document(rows: &[serde_json::Value]) -> Document {
        sample::document("tcp-models", rows)
    }

    #[test]
    fn latency_decides_where_all_answer_everything() {
        let paced = |model, value| {
            let mut row = row(model, "latency-mean", 8, 1, value);
            row["period"] = json!(100);
            row
        };
        let document = document(&[paced(OURS, 3.0), paced("KTUC", 2.0), paced(THREADS, 4.0)]);
        assert_eq!(
            sample::results(&verdicts(&document))[3],
            (Some(1.5), Some(false), "connections 8, matrix 1")
        );
    }

    #[test]
    fn ours_is_set_beside_the_best_other_and_beside_threads() {
        let mut rows = Vec::new();
        for (connections, ours, best, threads) in [(1, 10.0, 9.0, 8.0), (64, 60.0, 66.0, 10.0)] {
            rows.push(row(OURS, "throughput", connections, 16, ours));
            rows.push(row("KTUC", "throughput", connections, 16, best));
            rows.push(row(THREADS, "throughput", connections, 16, threads));
        }
        rows.push(row(OURS, "wrong-answers", 1, 16, 0.0));
        rows.push(row(OURS, "max-connections", 300, 16, 300.0));
        let document = document(&rows);
        let verdicts = verdicts(&document);
        assert_eq!(
            sample::results(&verdicts),
            [
                (Some(1.1), Some(false), "connections 64, matrix 1"),
                (None, None, ""),
                (None, None, ""),
                (None, None, ""),
                (Some(10.0 / 60.0), Some(true), "connections 64, matrix 1"),
                (Some(0.0), Some(true), ""),
                (None, None, ""),
                (None, None, ""),
            ]
        );
        let figures = figures(&document).unwrap();
        assert_eq!(figures[0].0, "tcp-server-1x1-matrices-overload-throughput");
        assert_eq!(figures.len(), 1);
    }
}
