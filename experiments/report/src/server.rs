//! Experiment `tcp-models`: a TCP server whose tasks are coroutines or threads, in the kernel and in the process.

use crate::chart::{self, Axis, Chart, Series};
use crate::document::Document;
use crate::papers::{self, Served};
use crate::row::Row;
use crate::table::{Table, figure};
use crate::verdict::Verdict;
use anyhow::Result;

/// What the report says of it.
pub(crate) const ABOUT: &str = "Each connection has a task that receives, one that multiplies matrices and one that sends, joined by message buffers. \
     K and U: who serves calls in the kernel, and who runs in the process; C and T: coroutines, threads. The client is a Linux program, across a \
     tap device, or QEMU's own network where that is not allowed (`network` in the settings). `period`: from one request of a connection to the \
     next, in milliseconds, 0: with the answer. `window`: requests of a \
    connection that are under way at once. With one, the network and the client, on another processor of the host, take about as long for a \
     request as the server of coroutines; with 16 the server's message buffers are always full. Throughput in requests per second, latency in \
     milliseconds; every answer is checked. docs/tcp-server.md says where the time goes.";

/// Ours: the kernel's coroutines serve the process's coroutines.
const OURS: &str = "KCUC";
const THREADS: &str = "KTUT";
const MODELS: [&str; 4] = [OURS, "KTUC", "KCUT", THREADS];

/// From so many connections on, ours is to have so many times the threads' throughput.
const MANY: f64 = 64.0;
const TIMES: f64 = 5.0;
/// Bytes of futures of a connection, kernel and process together: seed 002 has 176 and 264.
const FUTURES: f64 = 440.0;

/// The ways in which requests follow each other.
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
    /// All that were measured.
    fn all(document: &Document) -> impl Iterator<Item = Scene> {
        values(document, "harts").into_iter().flat_map(|harts| {
            let matrices = values(document, "matrix");
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

/// The period, the window, and how tables and figures call it.
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

/// Every value of a parameter, ascending.
fn values(document: &Document, parameter: &str) -> Vec<f64> {
    let mut values: Vec<f64> = (document.rows.iter())
        .filter_map(|row| row.number(parameter))
        .collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

/// The median at the point that differs from `row` in its model alone.
fn beside(document: &Document, row: &Row, model: &str) -> Option<f64> {
    let fits = |other: &&Row| {
        other.model == model && other.metric == row.metric && other.parameters == row.parameters
    };
    Some(document.rows.iter().find(fits)?.median)
}

fn place(row: &Row) -> String {
    let parameters = ["connections", "matrix", "harts"].into_iter();
    let known = parameters.filter_map(|name| Some((name, row.number(name)?)));
    // One hart goes without saying.
    known
        .filter(|found| *found != ("harts", 1.0))
        .map(|(name, value)| format!("{name} {value}"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The largest of the values that `of` gives for our rows, and where it was found.
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

/// Ours beside the others.
pub(crate) fn verdicts(document: &Document) -> Vec<Verdict> {
    let best_other = |row: &Row| {
        let others = MODELS.iter().filter(|model| **model != OURS);
        others
            .filter_map(|model| beside(document, row, model))
            .max_by(f64::total_cmp)
    };
    let mut verdicts = Vec::new();
    for pace in &PACES[..2] {
        let found = worst(rows(document, "throughput", *pace), |row| {
            Some(best_other(row)? / row.median)
        });
        let claim = format!(
            "TCP server, {}: the best other model's throughput / ours, at any number",
            pace.2
        );
        verdicts.push(verdict(claim, 1.0, found));
    }
    for matrix in values(document, "matrix") {
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
    let wrong = |row: &&Row| matches!(&*row.metric, "wrong-answers" | "lost-answers");
    let wrong: f64 = (document.rows.iter().filter(wrong))
        .map(|row| row.median)
        .sum();
    let measured = (!document.rows.is_empty()).then_some(wrong);
    let claim = "TCP server: wrong and lost answers".to_string();
    verdicts.push(verdict(claim, 0.0, (measured, String::new())));
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

/// Throughput and latency by the number of connections, for each kind of load and size of matrix; and what the paper shows.
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
    for (metric, label) in METRICS {
        let title = "TCP server, as the paper shows it";
        let series = MODELS.iter().enumerate().map(|(style, model)| Series {
            name: model.to_string(),
            style,
            dots: (papers::SERVER.iter())
                .filter(|served| served.model == *model)
                .map(|served| {
                    let y = match metric {
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

/// What is drawn, and how its axis is called.
const METRICS: [(&str, &str); 2] = [
    ("throughput", "requests/s"),
    ("latency-mean", "mean latency, ms"),
];

/// A figure over the number of connections, if there is a line to draw.
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
    let name = crate::page::file_name(&format!("{title} {metric}"));
    Ok(Some((name, chart.to_svg()?)))
}

/// Throughput and mean latency of the models beside each other and beside the paper's, and the memory.
pub(crate) fn tables(document: &Document) -> Vec<Table> {
    let mut tables: Vec<Table> = Scene::all(document)
        .map(|scene| table(document, scene))
        .filter(|table| !table.rows.is_empty())
        .collect();
    let memory = [
        "bytes-per-connection",
        "max-connections",
        "futures-per-connection",
    ];
    let mut table = Table::new(
        "Memory",
        &["what", "connections", "KCUC", "KTUC", "KCUT", "KTUT"],
    );
    for metric in memory {
        let fits = |row: &&Row| {
            row.metric == metric
                && row.model == OURS
                && row.number("matrix").is_none_or(|matrix| matrix == 1.0)
                && row.number("period").is_none_or(|period| period > 0.0)
        };
        for row in document.rows.iter().filter(fits) {
            let mut cells = vec![metric.to_string(), shown(row.number("connections"))];
            cells.extend(MODELS.map(|model| shown(beside(document, row, model))));
            table.push(cells);
        }
    }
    tables.push(table);
    tables
}

fn shown(value: Option<f64>) -> String {
    value.map(figure).unwrap_or_default()
}

fn table(document: &Document, scene: Scene) -> Table {
    let mut header = vec!["connections"];
    header.extend(MODELS);
    header.extend(["latency KCUC", "KTUC", "KCUT", "KTUT"]);
    header.extend(["paper KCUC", "KTUC", "KTUT"]);
    let title = format!(
        "{}: requests/s, mean latency in ms; the paper: requests/s",
        scene.title()
    );
    let mut table = Table::new(title, &header);
    let ours = scene
        .rows(document, "throughput")
        .filter(|row| row.model == OURS);
    for row in ours {
        let connections = row.number("connections");
        let latency = scene
            .rows(document, "latency-mean")
            .find(|other| other.model == OURS && other.parameters == row.parameters);
        let paper = |model: &str| {
            let fits = |served: &&Served| {
                served.model == model && Some(f64::from(served.connections)) == connections
            };
            shown(
                papers::SERVER
                    .iter()
                    .find(fits)
                    .map(|served| served.throughput),
            )
        };
        let mut cells = vec![shown(connections)];
        cells.extend(MODELS.map(|model| shown(beside(document, row, model))));
        cells.extend(
            MODELS.map(|model| shown(latency.and_then(|row| beside(document, row, model)))),
        );
        cells.extend([OURS, "KTUC", THREADS].map(paper));
        table.push(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use serde_json::json;

    fn row(
        model: &str,
        metric: &str,
        connections: u32,
        window: u32,
        value: f64,
    ) -> serde_json::Value {
        json!({"model": model, "connections": connections, "matrix": 1, "period": 0, "window": window, "harts": 1,
            "metric": metric, "unit": "u", "runs": [value], "median": value})
    }

    fn document(rows: &[serde_json::Value]) -> Document {
        sample::document("tcp-models", rows)
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
                (Some(10.0 / 60.0), Some(true), "connections 64, matrix 1"),
                (Some(0.0), Some(true), ""),
                (None, None, ""),
                (None, None, ""),
            ]
        );
        let tables = tables(&document);
        assert_eq!(tables[0].rows[1][..5], ["64.0", "60.0", "66.0", "", "10.0"]);
        assert_eq!(tables[0].rows[1][9..], ["487", "517", "94.0"]);
        let figures = figures(&document).unwrap();
        assert_eq!(figures[0].0, "tcp-server-1x1-matrices-overload-throughput");
        // The paper's two are there as well.
        assert_eq!(figures.len(), 3);
    }

    #[test]
    fn answers_that_are_wrong_or_lost_are_counted() {
        let document = document(&[
            row(OURS, "wrong-answers", 1, 1, 1.0),
            row(THREADS, "lost-answers", 1, 1, 2.0),
        ]);
        let verdicts = verdicts(&document);
        let wrong = verdicts
            .iter()
            .find(|verdict| verdict.claim.contains("wrong"))
            .unwrap();
        assert_eq!((wrong.measured, wrong.met()), (Some(3.0), Some(false)));
    }
}
