//! Statements of the interleaver's page about the results.

use super::results::{Point, Results, size};
use super::{AUTO, COROUTINE, HAND, SEQUENTIAL};
use crate::document::Document;
use crate::passage::{self, Passage};
use crate::table::{Table, figure};
use anyhow::{Context, Result, ensure};

/// The page about the interleaver.
pub(crate) const PAGE: &str = "docs/cpp-edge.md";
/// Mark on the front page: how many times as fast a tree is scanned.
pub(crate) const FASTEST: &str = "edge-scan";

const COMPILERS: [&str; 2] = ["clang", "gcc"];
const TYPES: [&str; 4] = ["i16", "i32", "f32", "f64"];

/// Returns the tables, and the figure on the front page.
pub(crate) fn passages(document: &Document) -> Result<Vec<Passage>> {
    let said = Said::of(document);
    let scans = said.scans()?;
    let tables = [scans, said.lookups()?, said.rows()?, said.in_vain()?];
    Ok(vec![
        Passage {
            page: PAGE,
            name: "edge",
            text: passage::lines(document, &tables, &super::verdicts(document))?,
        },
        Passage {
            page: "README.md",
            name: FASTEST,
            text: said.fastest()?,
        },
    ])
}

/// Results, at the points that the page shows.
struct Said<'a> {
    results: Results<'a>,
    points: Vec<Point>,
    largest: f64,
    smallest: f64,
}

impl<'a> Said<'a> {
    fn of(document: &'a Document) -> Self {
        let results = Results::of(document);
        let mut points = results.points();
        // Tables with a power of two as their count have sizes of their own.
        points.retain(|point| point.algorithm != "hash-lookup");
        let sizes = || points.iter().map(|point| point.bytes);
        let (largest, smallest) = (
            sizes().fold(0.0, f64::max),
            sizes().fold(f64::MAX, f64::min),
        );
        Self {
            results,
            points,
            largest,
            smallest,
        }
    }

    /// Returns the scattered point of the largest size.
    fn at(&self, algorithm: &str, kind: &str, leaf: Option<f64>, compiler: &str) -> Result<&Point> {
        let found = self.points.iter().find(|point| {
            point.algorithm == algorithm
                && point.kind == kind
                && point.compiler == compiler
                && point.bytes == self.largest
                && point.layout == "scattered"
                && (leaf.is_none() || point.leaf == leaf)
        });
        found.with_context(|| {
            format!("{algorithm}, {kind}, {compiler} was not measured at the largest size")
        })
    }

    /// Returns how many times as fast as `base` a model is at a point.
    ///
    /// With `width` it is for this many coroutines, otherwise for its best number.
    fn gain(&self, point: &Point, model: &str, width: Option<f64>, base: &str) -> Result<f64> {
        let row = match width {
            None => self.results.best(point, model),
            Some(_) => (self.results.at(point, model)).find(|row| row.number("width") == width),
        };
        let base = self.results.best(point, base);
        let (row, base) = row
            .zip(base)
            .with_context(|| format!("{model} was not measured at {}", point.place()))?;
        Ok(base.median / row.median)
    }

    /// Returns a cell with both compilers' figures.
    fn both(&self, gain: impl Fn(&str) -> Result<f64>) -> Result<String> {
        let gains: Result<Vec<String>> = COMPILERS
            .iter()
            .map(|compiler| Ok(figure(gain(compiler)?)))
            .collect();
        Ok(gains?.join(" / "))
    }

    fn scans(&self) -> Result<Table> {
        let title = format!(
            "Times as fast as the same compiler's sequential code at {}, scattered; clang / GCC",
            size(self.largest)
        );
        let header = [
            "",
            "8 coroutines",
            "32 coroutines",
            "by hand, 32",
            "automatic",
        ];
        let mut table = Table::new(title, &header);
        for leaf in [64.0, 256.0, 1024.0] {
            let cell = |model: &'static str, width: Option<f64>| {
                self.both(|compiler| {
                    let at = self.at("btree-scan", "i32", Some(leaf), compiler)?;
                    self.gain(at, model, width, SEQUENTIAL)
                })
            };
            table.push(vec![
                format!("B+ tree, scan of {leaf}-byte leaves"),
                cell(COROUTINE, Some(8.0))?,
                cell(COROUTINE, Some(32.0))?,
                cell(HAND, Some(32.0))?,
                cell(AUTO, None)?,
            ]);
        }
        Ok(table)
    }

    fn lookups(&self) -> Result<Table> {
        let title = format!(
            "Lookups of 200,000 keys by chance, half of which are there, in a tree of {}; clang / GCC",
            size(self.largest)
        );
        let header = [
            "times as fast as",
            "2 strands",
            "8",
            "32",
            "by hand, 32",
            "automatic",
        ];
        let mut table = Table::new(title, &header);
        for (base, name) in [
            (SEQUENTIAL, "`find` in a loop"),
            ("absl", "`absl::btree_map::find` in a loop"),
        ] {
            let mut line = vec![name.to_string()];
            for (model, width) in [
                (COROUTINE, Some(2.0)),
                (COROUTINE, Some(8.0)),
                (COROUTINE, Some(32.0)),
                (HAND, Some(32.0)),
                (AUTO, None),
            ] {
                line.push(self.both(|compiler| {
                    let at = self.at("btree-lookup", "u64", None, compiler)?;
                    self.gain(at, model, width, base)
                })?);
            }
            table.push(line);
        }
        Ok(table)
    }

    fn rows(&self) -> Result<Table> {
        let title = format!(
            "Rows of 256 elements, {}, scattered, times as fast as sequential; each at its best number of coroutines; clang / GCC",
            size(self.largest)
        );
        let header = [
            "",
            "coroutines",
            "by hand",
            "automatic",
            "compiled for this machine",
        ];
        let mut table = Table::new(title, &header);
        for (algorithm, name) in [
            ("svm", "support vector machine"),
            ("norm", "normalisation"),
            ("cnn", "convolution"),
        ] {
            for kind in TYPES {
                let mut line = vec![format!("{name}, {kind}")];
                for model in [COROUTINE, HAND, AUTO, "vectorised"] {
                    line.push(self.both(|compiler| {
                        let at = self.at(algorithm, kind, None, compiler)?;
                        self.gain(at, model, None, SEQUENTIAL)
                    })?);
                }
                table.push(line);
            }
        }
        Ok(table)
    }

    /// Returns a table of where coroutines don't pay, with any number of them.
    fn in_vain(&self) -> Result<Table> {
        let header = ["", "coroutines, any number", "automatic"];
        let mut table = Table::new(
            "Where there is nothing to hide, times as fast as sequential: the least and the most of both compilers",
            &header,
        );
        for (name, bytes, algorithms) in [
            ("leaves in order", self.largest, &["btree-scan"][..]),
            ("rows in order", self.largest, &["svm", "norm", "cnn"][..]),
            ("leaves", self.smallest, &["btree-scan"][..]),
            ("rows", self.smallest, &["svm", "norm", "cnn"][..]),
        ] {
            let points = || {
                self.points.iter().filter(|point| {
                    point.bytes == bytes
                        && point.layout == "ordered"
                        && algorithms.contains(&point.algorithm.as_str())
                })
            };
            let mut line = vec![format!("{name}, {}", size(bytes))];
            for model in [COROUTINE, AUTO] {
                let gains: Vec<f64> = points()
                    .flat_map(|point| {
                        let sequential = self.results.best(point, SEQUENTIAL);
                        (self.results.at(point, model))
                            .filter_map(move |row| Some(sequential?.median / row.median))
                    })
                    .collect();
                ensure!(!gains.is_empty(), "{name}: {model} was not measured");
                let least = gains.iter().copied().fold(f64::MAX, f64::min);
                let most = gains.iter().copied().fold(0.0, f64::max);
                line.push(format!("{} to {}", figure(least), figure(most)));
            }
            table.push(line);
        }
        Ok(table)
    }

    /// Returns the least and the most gain of scanning the smallest leaves, with 32 coroutines and
    /// with as many as the library chooses.
    fn fastest(&self) -> Result<String> {
        let mut gains = Vec::new();
        for compiler in COMPILERS {
            let at = self.at("btree-scan", "i32", Some(64.0), compiler)?;
            gains.push(self.gain(at, COROUTINE, Some(32.0), SEQUENTIAL)?);
            gains.push(self.gain(at, AUTO, None, SEQUENTIAL)?);
        }
        gains.sort_by(f64::total_cmp);
        Ok(format!("{:.0} to {:.0}", gains[0], gains[3]))
    }
}
