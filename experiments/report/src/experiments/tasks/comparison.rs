//! Experiments A and B: the models beside each other, and beside the figures of AsyncOS.

use crate::chart::{Axis, Chart, Dot, Series};
use crate::document::Document;
use crate::papers;
use crate::table::{Table, figure};
use anyhow::{Result, ensure};
use serde_json::{Map, Value};

/// Tasks that are coroutines of the process's own executor.
pub(super) const COROUTINE: &str = "coroutine";
/// Threads that wait by yielding until it is their turn, as in AsyncOS.
pub(super) const THREAD_YIELD: &str = "thread-yield";
/// Threads that the kernel blocks and wakes.
pub(super) const THREAD_BLOCK: &str = "thread-block";

/// The models in the order of tables and legends, each with the name that readers see.
const MODELS: [(&str, &str); 3] = [
    (COROUTINE, "coroutines"),
    (THREAD_YIELD, "threads, yielding"),
    (THREAD_BLOCK, "threads, blocking"),
];

/// All points of one experiment that differ in nothing but the model and the number of tasks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Comparison {
    experiment: String,
    /// The parameters that all points share.
    parameters: Map<String, Value>,
    /// Median and spread in milliseconds by model, in the order of `MODELS`, each from the smallest
    /// `n` up.
    lines: [Vec<Dot>; 3],
}

/// Splits the times of experiment A or B into comparisons, in the order in which they were
/// measured.
///
/// # Errors
/// When a row has no `n`, an unknown model, or a unit that is not one of time.
pub(super) fn comparisons(document: &Document) -> Result<Vec<Comparison>> {
    let mut found: Vec<Comparison> = Vec::new();
    for row in document.rows.iter().filter(|row| row.metric == "time") {
        let mut parameters = row.parameters.clone();
        let n = parameters.shift_remove("n").and_then(|n| n.as_f64());
        let model = MODELS.iter().position(|(name, _)| *name == row.model);
        let scale = row.to_milliseconds();
        ensure!(
            n.is_some() && model.is_some() && scale.is_some(),
            "experiment {} can't have this row: {row:?}",
            document.experiment
        );
        let (Some(n), Some(model), Some(scale)) = (n, model, scale) else {
            unreachable!("checked above")
        };
        let (low, high) = row.range();
        let dot = Dot {
            x: n,
            y: row.median * scale,
            low: low * scale,
            high: high * scale,
        };
        let at = found
            .iter()
            .position(|comparison| comparison.parameters == parameters)
            .unwrap_or_else(|| {
                found.push(Comparison {
                    experiment: document.experiment.clone(),
                    parameters,
                    lines: Default::default(),
                });
                found.len() - 1
            });
        found[at].lines[model].push(dot);
    }
    for line in found
        .iter_mut()
        .flat_map(|comparison| &mut comparison.lines)
    {
        line.sort_by(|one, other| one.x.total_cmp(&other.x));
    }
    Ok(found)
}

impl Comparison {
    /// Returns the experiment: `a` or `b`.
    pub(super) fn experiment(&self) -> &str {
        &self.experiment
    }

    /// Tests whether the tasks were created in the order in which they take their turn.
    pub(super) fn in_order(&self) -> bool {
        self.parameters.get("order").and_then(Value::as_str) != Some("shuffled")
    }

    /// Returns the bytes per message, in B.
    pub(super) fn bytes(&self) -> Option<f64> {
        self.parameters.get("bytes")?.as_f64()
    }

    /// Returns what was compared, in words.
    pub(super) fn title(&self) -> String {
        let mut title = format!("Experiment {}", self.experiment.to_uppercase());
        for (name, value) in &self.parameters {
            let text = match value.as_str() {
                Some(text) => text.to_string(),
                None => value.to_string(),
            };
            title += &match (name.as_str(), text.as_str()) {
                ("order", "in-order") => continue,
                ("order", "shuffled") => ", created in shuffled order".to_string(),
                ("bytes", "1") => ", 1 byte a message".to_string(),
                ("bytes", count) => format!(", {count} bytes a message"),
                ("processes", "1") => ", one process".to_string(),
                ("processes", count) => format!(", {count} processes at once"),
                (name, text) => format!(", {name} {text}"),
            };
        }
        title
    }

    /// Returns every number of tasks that any model ran, ascending.
    pub(super) fn sizes(&self) -> Vec<f64> {
        let mut sizes: Vec<f64> = self.lines.iter().flatten().map(|dot| dot.x).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.dedup();
        sizes
    }

    /// Returns the median time of a model with `n` tasks, in milliseconds.
    pub(super) fn time(&self, model: &str, n: f64) -> Option<f64> {
        let at = MODELS.iter().position(|(name, _)| *name == model)?;
        self.lines[at]
            .iter()
            .find(|dot| dot.x == n)
            .map(|dot| dot.y)
    }

    /// Returns the coroutines' time as a part of `model`'s.
    pub(super) fn ratio(&self, model: &str, n: f64) -> Option<f64> {
        Some(self.time(COROUTINE, n)? / self.time(model, n)?)
    }

    /// Returns a table of the times, beside those of AsyncOS (docs/papers.md).
    pub(super) fn table(&self) -> Table {
        let mut table = Table::new(
            format!(
                "{}: times in ms, ratios of coroutines to threads",
                self.title()
            ),
            &[
                "N",
                "coroutines",
                "yielding threads",
                "ratio",
                "blocking threads",
                "ratio",
                "AsyncOS: coroutines",
                "AsyncOS: threads",
                "ratio",
            ],
        );
        let shown = |value: Option<f64>| value.map(figure).unwrap_or_default();
        for n in self.sizes() {
            let paper = if self.in_order() {
                papers::find(&self.experiment, self.bytes(), n)
            } else {
                None
            };
            table.push(vec![
                format!("{n}"),
                shown(self.time(COROUTINE, n)),
                shown(self.time(THREAD_YIELD, n)),
                shown(self.ratio(THREAD_YIELD, n)),
                shown(self.time(THREAD_BLOCK, n)),
                shown(self.ratio(THREAD_BLOCK, n)),
                paper
                    .map(|point| format!("{}", point.coroutines))
                    .unwrap_or_default(),
                paper
                    .map(|point| format!("{}", point.threads))
                    .unwrap_or_default(),
                shown(paper.map(papers::Point::ratio)),
            ]);
        }
        table
    }

    /// Draws time against the number of tasks, as SVG.
    ///
    /// On a logarithmic scale small and large times can both be read.
    ///
    /// # Errors
    /// If the chart cannot be drawn.
    pub(super) fn figure(&self, logarithmic: bool) -> Result<String> {
        let series: Vec<Series> = MODELS
            .iter()
            .zip(&self.lines)
            .enumerate()
            .filter(|(_, (_, dots))| !dots.is_empty())
            .map(|(style, ((_, name), dots))| Series {
                name: name.to_string(),
                style,
                dots: dots.clone(),
            })
            .collect();
        let label = if logarithmic {
            "time, ms (logarithmic)"
        } else {
            "time, ms"
        };
        Chart {
            title: &self.title(),
            x: Axis {
                label: "number of tasks",
                logarithmic: false,
            },
            y: Axis { label, logarithmic },
            series: &series,
        }
        .to_svg()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns a document of experiment B with one point a line: model, bytes, n, milliseconds.
    pub(crate) fn document(experiment: &str, points: &[(&str, u32, u32, f64)]) -> Document {
        let row = |&(model, bytes, n, time): &(&str, u32, u32, f64)| {
            serde_json::json!({"model": model, "bytes": bytes, "n": n, "processes": 1, "metric": "time", "unit": "us",
                "runs": [time * 1000.0], "median": time * 1000.0})
        };
        let rows: Vec<_> = points.iter().map(row).collect();
        crate::sample::document(experiment, &rows)
    }

    #[test]
    fn rows_are_split_by_everything_but_model_and_n() {
        let points = [
            (THREAD_YIELD, 1, 4000, 100.0),
            (COROUTINE, 1, 4000, 10.0),
            (COROUTINE, 1, 200, 1.0),
            (COROUTINE, 256, 200, 2.0),
        ];
        let found = comparisons(&document("b", &points)).unwrap();
        let titles: Vec<String> = found.iter().map(Comparison::title).collect();
        assert_eq!(
            titles,
            [
                "Experiment B, 1 byte a message, one process",
                "Experiment B, 256 bytes a message, one process"
            ]
        );
        assert_eq!(found[0].sizes(), [200.0, 4000.0]);
        assert_eq!(found[0].ratio(THREAD_YIELD, 4000.0), Some(0.1));
        assert_eq!(found[0].ratio(THREAD_YIELD, 200.0), None);
        let table = found[0].table();
        assert_eq!(
            table.rows[0],
            ["200", "1.00", "", "", "", "", "56", "54", "1.04"]
        );
        assert_eq!(
            table.rows[1],
            [
                "4000", "10.0", "100", "0.100", "", "", "651", "1956", "0.333"
            ]
        );
        assert!(found[0].figure(true).unwrap().contains("threads, yielding"));
    }

    #[test]
    fn malformed_rows_are_refused() {
        assert!(comparisons(&document("b", &[("goroutine", 1, 200, 1.0)])).is_err());
    }
}
