//! Experiment `core`: the scheduler alone, on the host, beside other executors.

use crate::chart::{self, Axis, Chart, Series};
use crate::document::Document;
use crate::experiment::Experiment;
use crate::row::Row;
use crate::schedule::Schedule;
use crate::table::{Table, figure};
use crate::verdict::Verdict;
use anyhow::Result;

/// The experiment as the report shows it.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "core",
    summary: "The scheduler alone, on the host, against other executors",
    schedule: Schedule::Host("corank-experiments"),
    heading: "The scheduler alone, on the host",
    about: ABOUT,
    figures,
    tables: |document| Ok(tables(document)),
    verdicts: |document| Ok(verdicts(document)),
    ..Experiment::PLAIN
};

const ABOUT: &str = "One thread of the host, no operating system of ours: what one operation of the scheduler costs beside \
    other executors, measured alternately in one run.";

/// The models in the order of tables and legends.
const MODELS: [&str; 5] = [
    "corank",
    "tokio",
    "async-executor",
    "futures-unordered",
    "bare-poll",
];
/// Our model among them.
const OURS: &str = "corank";
/// The number of tasks at which the models are compared.
const USUAL: f64 = 4000.0;
/// Numbers of tasks between which the time of an operation must be flat.
const FLAT: std::ops::RangeInclusive<f64> = 100.0..=100_000.0;
/// Largest ratio of an operation's slowest point to its fastest for which the operation is flat.
const FLATNESS: f64 = 2.0;

fn rows<'a>(document: &'a Document, operation: &'a str) -> impl Iterator<Item = &'a Row> {
    document
        .rows
        .iter()
        .filter(move |row| row.text("op") == Some(operation))
}

/// Returns the operations, in the order in which they were measured.
fn operations(document: &Document) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for row in &document.rows {
        let operation = row.text("op").unwrap_or("other").to_string();
        if !found.contains(&operation) {
            found.push(operation);
        }
    }
    found
}

/// Returns one table per operation: a line per number of tasks and levels, a column per model.
pub(crate) fn tables(document: &Document) -> Vec<Table> {
    operations(document)
        .iter()
        .map(|operation| operation_table(document, operation))
        .collect()
}

fn operation_table(document: &Document, operation: &str) -> Table {
    let rows: Vec<&Row> = rows(document, operation).collect();
    let models: Vec<&str> = MODELS
        .into_iter()
        .filter(|model| rows.iter().any(|row| row.model == *model))
        .collect();
    let unit = rows.first().map_or("", |row| row.unit.as_str());
    let mut header = vec!["N", "levels"];
    header.extend(&models);
    let mut table = Table::new(format!("{operation}: {unit} per coroutine"), &header);
    let mut points: Vec<(f64, Option<f64>)> = Vec::new();
    for row in &rows {
        let point = (row.number("n").unwrap_or(0.0), row.number("levels"));
        if !points.contains(&point) {
            points.push(point);
        }
    }
    for (n, levels) in points {
        let cell = |model: &&str| {
            let row = rows.iter().find(|row| {
                row.model == **model
                    && row.number("n").unwrap_or(0.0) == n
                    && row.number("levels") == levels
            });
            row.map(|row| figure(row.median)).unwrap_or_default()
        };
        let mut line = vec![
            format!("{n}"),
            levels.map(|levels| levels.to_string()).unwrap_or_default(),
        ];
        line.extend(models.iter().map(cell));
        table.push(line);
    }
    table
}

/// Draws time per operation against the number of tasks, one level in use.
///
/// There is one figure, with its name, per operation with more than one point.
pub(crate) fn figures(document: &Document) -> Result<Vec<(String, String)>> {
    let mut figures = Vec::new();
    for operation in operations(document) {
        let mut series = Vec::new();
        for (style, model) in MODELS.into_iter().enumerate() {
            let rows = rows(document, &operation).filter(|row| {
                row.model == model
                    && row.metric == "time"
                    && row.number("levels").is_none_or(|levels| levels == 1.0)
            });
            let dots = chart::dots(rows, "n");
            if dots.len() > 1 {
                series.push(Series {
                    name: model.to_string(),
                    style,
                    dots,
                });
            }
        }
        if !series.is_empty() {
            let chart = Chart {
                title: &format!("Scheduler alone: {operation}"),
                x: Axis {
                    label: "number of coroutines (logarithmic)",
                    logarithmic: true,
                },
                y: Axis {
                    label: "ns per operation (logarithmic)",
                    logarithmic: true,
                },
                series: &series,
            };
            figures.push((chart::file_name(chart.title), chart.to_svg()?));
        }
    }
    Ok(figures)
}

/// Returns the targets of the scheduler alone.
pub(crate) fn verdicts(document: &Document) -> Vec<Verdict> {
    let against = |operation: &str, model: &str, limit: f64| Verdict {
        claim: format!("Scheduler alone: {operation}, corank / {model}, at {USUAL} tasks"),
        limit,
        measured: ratio(document, operation, model),
        at: String::new(),
    };
    let flat = |operation: &str| {
        let (measured, at) = flatness(document, operation);
        Verdict {
            claim: format!(
                "Scheduler alone: {operation}, slowest / fastest, from {} to {} tasks, any levels",
                FLAT.start(),
                FLAT.end()
            ),
            limit: FLATNESS,
            measured,
            at,
        }
    };
    let memory = rows(document, "memory")
        // The table grows by 64 slots at a time. With a hundred coroutines, one would measure empty
        // slots.
        .filter(|row| row.model == OURS && row.number("n").is_some_and(|n| n >= USUAL))
        .map(|row| row.median)
        .max_by(f64::total_cmp);
    vec![
        against("yield", "tokio", 0.15),
        against("spawn-join", "async-executor", 0.2),
        flat("yield"),
        flat("reprioritize"),
        Verdict {
            claim: format!(
                "Scheduler alone: bytes per coroutine beside its future, from {USUAL} coroutines on"
            ),
            limit: 64.0,
            measured: memory,
            at: String::new(),
        },
    ]
}

/// Returns our time over another model's, with the usual number of tasks and one level.
fn ratio(document: &Document, operation: &str, model: &str) -> Option<f64> {
    let time = |model: &str| {
        let mut found = rows(document, operation).filter(|row| {
            row.model == model
                && row.number("n") == Some(USUAL)
                && row.number("levels").is_none_or(|levels| levels == 1.0)
        });
        found.next().map(|row| row.median)
    };
    Some(time(OURS)? / time(model)?)
}

/// Returns our slowest point over our fastest, and where they are; `None` unless there are at least
/// two.
fn flatness(document: &Document, operation: &str) -> (Option<f64>, String) {
    let ours: Vec<&Row> = rows(document, operation)
        .filter(|row| {
            row.model == OURS
                && row.metric == "time"
                && row.number("n").is_some_and(|n| FLAT.contains(&n))
        })
        .collect();
    let compare = |one: &&&Row, other: &&&Row| one.median.total_cmp(&other.median);
    match (ours.iter().min_by(compare), ours.iter().max_by(compare)) {
        (Some(fastest), Some(slowest)) if ours.len() > 1 => {
            let place = |row: &Row| {
                let levels = row
                    .number("levels")
                    .map(|levels| format!(", levels {levels}"))
                    .unwrap_or_default();
                format!("n {}{levels}", row.number("n").unwrap_or(0.0))
            };
            (
                Some(slowest.median / fastest.median),
                format!("{} against {}", place(slowest), place(fastest)),
            )
        }
        _ => (None, String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(points: &[(&str, &str, u32, u32, f64)]) -> Document {
        let row = |&(model, op, n, levels, value): &(&str, &str, u32, u32, f64)| {
            let metric = if op == "memory" { "bytes" } else { "time" };
            serde_json::json!({"model": model, "op": op, "n": n, "levels": levels, "metric": metric, "unit": "ns",
                "runs": [value], "median": value})
        };
        let rows: Vec<_> = points.iter().map(row).collect();
        crate::sample::document("core", &rows)
    }

    #[test]
    fn targets_compare_with_the_best_other_scheduler() {
        let document = document(&[
            ("corank", "yield", 100, 1, 8.0),
            ("corank", "yield", 4000, 1, 7.0),
            ("tokio", "yield", 4000, 1, 70.0),
            ("corank", "yield", 100_000, 64, 21.0),
            ("corank", "yield", 1_000_000, 1, 99.0),
            ("corank", "memory", 4000, 1, 48.0),
        ]);
        let verdicts = verdicts(&document);
        let measured: Vec<_> = verdicts.iter().map(|verdict| verdict.measured).collect();
        assert_eq!(measured, [Some(0.1), None, Some(3.0), None, Some(48.0)]);
        assert_eq!(
            verdicts[2].at,
            "n 100000, levels 64 against n 4000, levels 1"
        );
    }

    #[test]
    fn one_table_per_operation() {
        let document = document(&[
            ("tokio", "yield", 4000, 1, 70.0),
            ("corank", "yield", 4000, 1, 7.0),
            ("corank", "memory", 1, 1, 48.0),
        ]);
        let tables = tables(&document);
        assert_eq!(tables.len(), 2);
        assert_eq!(tables[0].header, ["N", "levels", "corank", "tokio"]);
        assert_eq!(tables[0].rows, [["4000", "1", "7.00", "70.0"]]);
    }
}
