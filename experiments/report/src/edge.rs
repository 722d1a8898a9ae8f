//! Experiment `edge`: the interleaver's algorithms, in factors of the sequential code's speed.

use crate::chart::{Axis, Chart, Dot, Series};
use crate::document::Document;
use crate::heat_map::HeatMap;
use crate::row::Row;
use crate::table::{Table, figure};
use crate::verdict::Verdict;
use anyhow::Result;

pub(crate) const ABOUT: &str = "How many times as fast as the sequential code of the same compiler each execution model is, at its best number of coroutines where \
    it has one. `vectorised` is the sequential code compiled for this very machine. A pass looks at all the data once; data that fits into a cache is there already.";

const SEQUENTIAL: &str = "sequential";
const COROUTINE: &str = "coroutine-prefetch";
const HAND: &str = "hand-interleaved";
const AUTO: &str = "auto";

/// The models in the order of tables and legends.
const MODELS: [&str; 9] = [
    COROUTINE,
    AUTO,
    HAND,
    "protothreads",
    "coroutine",
    "sequential-prefetch",
    "vectorised",
    "threads-2",
    "absl",
];
/// Those that the curves show: a chart has as many marks.
const IN_CURVES: usize = 5;

const ALGORITHMS: [&str; 6] = [
    "btree-scan",
    "btree-lookup",
    "hash-lookup",
    "svm",
    "norm",
    "cnn",
];

/// All that a row's time depends on beside model and width.
#[derive(Clone, Debug, PartialEq)]
struct Point {
    algorithm: String,
    kind: String,
    layout: String,
    compiler: String,
    bytes: f64,
    leaf: Option<f64>,
    columns: Option<f64>,
}

impl Point {
    fn of(row: &Row) -> Self {
        let text = |name: &str| row.text(name).unwrap_or_default().to_string();
        Self {
            algorithm: text("algorithm"),
            kind: text("type"),
            layout: text("layout"),
            compiler: text("compiler"),
            bytes: row.number("bytes").unwrap_or(0.0),
            leaf: row.number("leaf"),
            columns: row.number("columns"),
        }
    }

    /// All but the size.
    fn family(&self) -> Self {
        Self {
            bytes: 0.0,
            ..self.clone()
        }
    }

    fn name(&self) -> String {
        let mut words = vec![self.algorithm.clone(), self.kind.clone()];
        if let Some(leaf) = self.leaf {
            words.push(format!("{leaf}-byte leaves"));
        }
        words.extend([self.layout.clone(), self.compiler.clone()]);
        words.join(", ")
    }

    fn place(&self) -> String {
        format!("{}, {}", self.name(), size(self.bytes))
    }
}

/// A size in whole units of 1024.
fn size(bytes: f64) -> String {
    match bytes {
        bytes if bytes >= f64::from(1 << 20) => {
            format!("{} MiB", (bytes / f64::from(1 << 20)).round())
        }
        bytes => format!("{} KiB", (bytes / 1024.0).round()),
    }
}

/// What was measured, in the order in which it came.
struct Results<'a> {
    rows: Vec<(Point, &'a Row)>,
}

impl<'a> Results<'a> {
    fn of(document: &'a Document) -> Self {
        let rows = document.rows.iter().filter(|row| row.metric == "time");
        Self {
            rows: rows.map(|row| (Point::of(row), row)).collect(),
        }
    }

    fn points(&self) -> Vec<Point> {
        let mut points: Vec<Point> = Vec::new();
        for (point, _) in &self.rows {
            if !points.contains(point) {
                points.push(point.clone());
            }
        }
        points
    }

    fn families(&self) -> Vec<Point> {
        let mut families: Vec<Point> = Vec::new();
        for point in self.points() {
            if !families.contains(&point.family()) {
                families.push(point.family());
            }
        }
        families
    }

    fn sizes(&self, family: &Point) -> Vec<Point> {
        let mut points = self.points();
        points.retain(|point| point.family() == *family);
        points.sort_by(|one, other| one.bytes.total_cmp(&other.bytes));
        points
    }

    /// The fastest row of a model at a point, of all widths.
    fn best(&self, point: &Point, model: &str) -> Option<&'a Row> {
        self.at(point, model)
            .min_by(|one, other| one.median.total_cmp(&other.median))
    }

    fn at(&self, point: &Point, model: &str) -> impl Iterator<Item = &'a Row> {
        self.rows
            .iter()
            .filter(move |(at, row)| at == point && row.model == model)
            .map(|(_, row)| *row)
    }

    /// One model's time over another's, each at its best width.
    fn ratio(&self, point: &Point, model: &str, base: &str) -> Option<f64> {
        Some(self.best(point, model)?.median / self.best(point, base)?.median)
    }

    /// How many times as fast as the sequential code.
    fn gain(&self, point: &Point, model: &str) -> Option<f64> {
        self.ratio(point, SEQUENTIAL, model)
    }
}

/// One table per algorithm: a line per point, a column per model.
pub(crate) fn tables(document: &Document) -> Vec<Table> {
    let results = Results::of(document);
    let points = results.points();
    let mut tables = Vec::new();
    for algorithm in ALGORITHMS {
        let mut header = vec!["type", "rows", "compiler", "leaf", "size"];
        header.extend(MODELS);
        header.push("best width");
        let title = format!(
            "{algorithm}: speed in factors of the sequential code's, each model at its best width"
        );
        let mut table = Table::new(title, &header);
        for point in points.iter().filter(|point| point.algorithm == algorithm) {
            let mut line = vec![
                point.kind.clone(),
                point.layout.clone(),
                point.compiler.clone(),
                point.leaf.map(|leaf| leaf.to_string()).unwrap_or_default(),
                size(point.bytes),
            ];
            line.extend(
                MODELS
                    .iter()
                    .map(|model| results.gain(point, model).map(figure).unwrap_or_default()),
            );
            let width = results
                .best(point, COROUTINE)
                .and_then(|row| row.number("width"));
            line.push(width.map(|width| width.to_string()).unwrap_or_default());
            table.push(line);
        }
        if !table.rows.is_empty() {
            tables.push(table);
        }
    }
    tables
}

/// Curves over the size (the thesis's figure 4.4), heat maps over size and width (in the place of its figures 4.6 to 4.9), and one of algorithms and models (4.14).
pub(crate) fn figures(document: &Document) -> Result<Vec<(String, String)>> {
    let results = Results::of(document);
    let mut figures = vec![("edge-best-gains".to_string(), best_gains(&results).to_svg())];
    for family in results.families() {
        let name = crate::page::file_name(&format!("edge {}", family.name()));
        let sizes = results.sizes(&family);
        if sizes.len() > 1 {
            figures.push((format!("{name}-sizes"), curves(&results, &family, &sizes)?));
        }
        // The heat maps of rows in order would only say that nothing is to be gained.
        if family.layout == "scattered"
            && let Some(map) = widths(&results, &family, &sizes)
        {
            figures.push((format!("{name}-widths"), map));
        }
    }
    Ok(figures)
}

fn curves(results: &Results, family: &Point, sizes: &[Point]) -> Result<String> {
    let mut series = Vec::new();
    let shown = MODELS.iter().filter(|model| {
        sizes
            .iter()
            .any(|point| results.best(point, model).is_some())
    });
    // Every model of a tree's lookups but the ones that never win.
    for (style, model) in shown
        .filter(|model| !["coroutine", "sequential-prefetch"].contains(model))
        .take(IN_CURVES)
        .enumerate()
    {
        let dots: Vec<Dot> = sizes
            .iter()
            .filter_map(|point| {
                let sequential = results.best(point, SEQUENTIAL)?.median;
                let row = results.best(point, model)?;
                let (low, high) = row.range();
                let gain = sequential / row.median;
                Some(Dot {
                    x: point.bytes / 1024.0,
                    y: gain,
                    low: (sequential / high).min(gain),
                    high: (sequential / low).max(gain),
                })
            })
            .collect();
        series.push(Series {
            name: model.to_string(),
            style,
            dots,
        });
    }
    let title = family.name();
    Chart {
        title: &title,
        x: Axis {
            label: "data, KiB",
            logarithmic: true,
        },
        y: Axis {
            label: "times as fast as sequential",
            logarithmic: true,
        },
        series: &series,
    }
    .to_svg()
}

/// The gain of coroutines with prefetch for each size and width; `None` with a single width.
fn widths(results: &Results, family: &Point, sizes: &[Point]) -> Option<String> {
    let mut widths: Vec<f64> = sizes
        .iter()
        .flat_map(|point| results.at(point, COROUTINE))
        .filter_map(|row| row.number("width"))
        .collect();
    widths.sort_by(f64::total_cmp);
    widths.dedup();
    if widths.len() < 2 {
        return None;
    }
    let line = |point: &Point| {
        let gain = |width: &f64| {
            let row = results
                .at(point, COROUTINE)
                .find(|row| row.number("width") == Some(*width))?;
            Some(results.best(point, SEQUENTIAL)?.median / row.median)
        };
        (size(point.bytes), widths.iter().map(gain).collect())
    };
    let title = format!("Gain by coroutines with prefetch: {}", family.name());
    let map = HeatMap {
        title: &title,
        across: "coroutines",
        columns: widths.iter().map(f64::to_string).collect(),
        lines: sizes.iter().map(line).collect(),
    };
    Some(map.to_svg())
}

/// The best gain of each model over all points, for each algorithm.
fn best_gains<'a>(results: &Results) -> HeatMap<'a> {
    let points = results.points();
    let best = |algorithm: &str, model: &str| {
        points
            .iter()
            .filter(|point| point.algorithm == algorithm)
            .filter_map(|point| results.gain(point, model))
            .max_by(f64::total_cmp)
    };
    let line = |model: &&str| {
        let gains = ALGORITHMS.iter().map(|algorithm| best(algorithm, model));
        (model.to_string(), gains.collect())
    };
    HeatMap {
        title: "The best gain of each model, over all sizes, types and layouts",
        across: "model",
        columns: ALGORITHMS.map(str::to_string).to_vec(),
        lines: MODELS.iter().map(line).collect(),
    }
}

/// The targets of `edge`.
pub(crate) fn verdicts(document: &Document) -> Vec<Verdict> {
    let results = Results::of(document);
    let points = results.points();
    let largest = points.iter().map(|point| point.bytes).fold(0.0, f64::max);
    // A hash table's size is a power of two and may be less.
    let at_largest = |point: &&Point| point.bytes == largest && point.layout == "scattered";
    let worst =
        |claim: &str, limit: f64, model: &str, base: &str, wanted: &dyn Fn(&Point) -> bool| {
            let found = points
                .iter()
                .filter(|point| wanted(point))
                .filter_map(|point| Some((results.ratio(point, model, base)?, point)))
                .max_by(|one, other| one.0.total_cmp(&other.0));
            verdict(claim, limit, found)
        };
    let best = |claim: &str, limit: f64, algorithm: &str| {
        let found = points
            .iter()
            .filter(|point| point.algorithm == algorithm)
            .flat_map(|point| ["coroutine", COROUTINE].map(|model| (point, model)))
            .filter_map(|(point, model)| Some((results.ratio(point, model, SEQUENTIAL)?, point)))
            .min_by(|one, other| one.0.total_cmp(&other.0));
        verdict(claim, limit, found)
    };
    let leaves = |bytes: f64| {
        move |point: &Point| {
            at_largest(&point) && point.algorithm == "btree-scan" && point.leaf == Some(bytes)
        }
    };
    let lookups = |point: &Point| at_largest(&point) && point.algorithm == "btree-lookup";
    vec![
        worst(
            "scan of 64-byte leaves / sequential, largest size",
            1.0 / 4.0,
            COROUTINE,
            SEQUENTIAL,
            &leaves(64.0),
        ),
        worst(
            "scan of 256-byte leaves / sequential, largest size",
            1.0 / 2.0,
            COROUTINE,
            SEQUENTIAL,
            &leaves(256.0),
        ),
        worst(
            "lookups / sequential, largest size",
            1.0 / 3.0,
            COROUTINE,
            SEQUENTIAL,
            &lookups,
        ),
        worst(
            "lookups / absl::btree_map, largest size",
            1.0 / 2.0,
            COROUTINE,
            "absl",
            &lookups,
        ),
        worst(
            "SVM, i16, scattered / sequential, largest size",
            1.0 / 1.4,
            COROUTINE,
            SEQUENTIAL,
            &|point| at_largest(&point) && point.algorithm == "svm" && point.kind == "i16",
        ),
        worst(
            "coroutines / interleaved by hand, largest size, scattered",
            1.1,
            COROUTINE,
            HAND,
            &|point| at_largest(&point),
        ),
        worst(
            "automatic width / sequential, at any point",
            1.0 / 0.97,
            AUTO,
            SEQUENTIAL,
            &|_| true,
        ),
        best(
            "B+ tree / sequential at its best, the thesis's gain of 65 %",
            1.0 / 1.65,
            "btree-scan",
        ),
        best(
            "SVM / sequential at its best, the thesis's gain of 34 %",
            1.0 / 1.34,
            "svm",
        ),
        best(
            "normalisation / sequential at its best, the thesis's gain of 12.4 %",
            1.0 / 1.124,
            "norm",
        ),
        best(
            "convolution / sequential at its best, the thesis's gain of 15.5 %",
            1.0 / 1.155,
            "cnn",
        ),
    ]
}

fn verdict(claim: &str, limit: f64, found: Option<(f64, &Point)>) -> Verdict {
    Verdict {
        claim: claim.to_string(),
        limit: (limit * 1000.0).round() / 1000.0,
        measured: found.map(|(ratio, _)| ratio),
        at: found.map(|(_, point)| point.place()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Model, algorithm, layout, bytes, width, time.
    type Measured = (
        &'static str,
        &'static str,
        &'static str,
        u64,
        Option<u32>,
        f64,
    );

    fn document(points: &[Measured]) -> Document {
        let row = |&(model, algorithm, layout, bytes, width, time): &Measured| {
            let mut row = json!({"model": model, "algorithm": algorithm, "type": "i16", "layout": layout, "bytes": bytes, "compiler": "gcc",
                "metric": "time", "unit": "ns", "runs": [time], "median": time});
            if let Some(width) = width {
                row["width"] = json!(width);
            }
            if algorithm == "btree-scan" {
                row["leaf"] = json!(64);
            }
            row
        };
        let rows: Vec<_> = points.iter().map(row).collect();
        serde_json::from_value(
            json!({"experiment": "edge", "commit": "c", "host": {}, "settings": {}, "rows": rows}),
        )
        .unwrap()
    }

    fn sample() -> Document {
        document(&[
            (SEQUENTIAL, "btree-scan", "scattered", 1 << 20, None, 100.0),
            (COROUTINE, "btree-scan", "scattered", 1 << 20, Some(2), 90.0),
            (COROUTINE, "btree-scan", "scattered", 1 << 20, Some(8), 50.0),
            (SEQUENTIAL, "btree-scan", "scattered", 1 << 28, None, 1000.0),
            (
                COROUTINE,
                "btree-scan",
                "scattered",
                1 << 28,
                Some(2),
                500.0,
            ),
            (
                COROUTINE,
                "btree-scan",
                "scattered",
                1 << 28,
                Some(8),
                100.0,
            ),
            (HAND, "btree-scan", "scattered", 1 << 28, Some(8), 80.0),
            (AUTO, "btree-scan", "scattered", 1 << 28, None, 110.0),
            (SEQUENTIAL, "svm", "ordered", 1 << 28, None, 10.0),
            (AUTO, "svm", "ordered", 1 << 28, None, 11.0),
        ])
    }

    #[test]
    fn targets_count_the_best_width_and_the_worst_point() {
        let verdicts = verdicts(&sample());
        let named = |beginning: &str| {
            verdicts
                .iter()
                .find(|verdict| verdict.claim.starts_with(beginning))
                .unwrap()
        };
        assert_eq!(named("scan of 64").measured, Some(0.1));
        assert_eq!(named("scan of 64").met(), Some(true));
        assert_eq!(named("scan of 256").met(), None);
        assert_eq!(named("coroutines / interleaved").measured, Some(1.25));
        let auto = named("automatic");
        assert_eq!((auto.measured, auto.met()), (Some(1.1), Some(false)));
        assert!(auto.at.contains("svm"));
        assert_eq!(named("B+ tree").met(), Some(true));
        assert_eq!(named("SVM / sequential").met(), None);
    }

    #[test]
    fn figures_and_tables_show_every_algorithm_that_was_measured() {
        let document = sample();
        let names: Vec<String> = figures(&document)
            .unwrap()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(
            names,
            [
                "edge-best-gains",
                "edge-btree-scan-i16-64-byte-leaves-scattered-gcc-sizes",
                "edge-btree-scan-i16-64-byte-leaves-scattered-gcc-widths",
            ]
        );
        let tables = tables(&document);
        assert_eq!(tables.len(), 2);
        assert_eq!(tables[0].rows.len(), 2);
        assert_eq!(tables[0].rows[1][4..6], ["256 MiB", "10.0"]);
    }
}
