//! Experiment `edge`: the interleaver's algorithms, in factors of the sequential code's speed.

mod documentation;
mod figures;
mod results;
mod verdicts;

pub(crate) use documentation::passages;
#[cfg(test)]
pub(crate) use documentation::{FASTEST, PAGE};
pub(crate) use figures::figures;
pub(crate) use verdicts::verdicts;

use crate::document::Document;
use crate::experiment::Experiment;
use crate::schedule::{Driver, Schedule};
use crate::table::{Table, figure};
use results::{Results, size};

/// The experiment as the report shows it.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "edge",
    summary: "The interleaver's algorithms",
    schedule: Schedule::Driver(Driver::Edge),
    heading: "Hiding the memory's latency",
    about: ABOUT,
    figures,
    tables: |document| Ok(tables(document)),
    verdicts: |document| Ok(verdicts(document)),
    passages,
};

const ABOUT: &str = "How many times as fast as the sequential code of the same compiler each execution model is, at its best number of coroutines where \
    it has one. `vectorised` is the sequential code compiled for this very machine. A pass reads all the data once; data that fits into a cache is there already.";

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

const ALGORITHMS: [&str; 6] = [
    "btree-scan",
    "btree-lookup",
    "hash-lookup",
    "svm",
    "norm",
    "cnn",
];

/// Returns one table per algorithm, with a line per point and a column per model.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::verdict::Verdict;
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
        sample::document("edge", &rows)
    }

    fn measured() -> Document {
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
        let verdicts = verdicts(&measured());
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
    fn targets_of_points_that_were_left_out_are_not_measured() {
        let mut document = measured();
        (document.settings).insert("left-out".into(), json!(["the largest size"]));
        let words: Vec<&str> = verdicts(&document).iter().map(Verdict::word).collect();
        let mut expected = ["not measured"; 11];
        // The worst result that was seen is missed, and the best that was seen is met, whatever
        // else there is.
        expected[6] = "MISSED";
        expected[7] = "met";
        assert_eq!(words, expected);
    }

    #[test]
    fn figures_and_tables_show_every_algorithm_that_was_measured() {
        let document = measured();
        assert_eq!(
            sample::names(&figures(&document).unwrap()),
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
