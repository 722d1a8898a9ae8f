//! Results by point: all that a time depends on beside the model and the number of coroutines.

use super::SEQUENTIAL;
use crate::document::Document;
use crate::row::Row;

/// All that a row's time depends on beside model and width.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) algorithm: String,
    pub(super) kind: String,
    pub(super) layout: String,
    pub(super) compiler: String,
    pub(super) bytes: f64,
    pub(super) leaf: Option<f64>,
    pub(super) columns: Option<f64>,
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

    /// Returns the point without its size.
    pub(super) fn family(&self) -> Self {
        Self {
            bytes: 0.0,
            ..self.clone()
        }
    }

    pub(super) fn name(&self) -> String {
        let mut words = vec![self.algorithm.clone(), self.kind.clone()];
        if let Some(leaf) = self.leaf {
            words.push(format!("{leaf}-byte leaves"));
        }
        words.extend([self.layout.clone(), self.compiler.clone()]);
        words.join(", ")
    }

    pub(super) fn place(&self) -> String {
        format!("{}, {}", self.name(), size(self.bytes))
    }
}

/// Formats a size in whole units of 1024.
pub(super) fn size(bytes: f64) -> String {
    match bytes {
        bytes if bytes >= f64::from(1 << 20) => {
            format!("{} MiB", (bytes / f64::from(1 << 20)).round())
        }
        bytes => format!("{} KiB", (bytes / 1024.0).round()),
    }
}

/// Results in the order in which they came.
pub(super) struct Results<'a> {
    rows: Vec<(Point, &'a Row)>,
}

impl<'a> Results<'a> {
    pub(super) fn of(document: &'a Document) -> Self {
        let rows = document.rows.iter().filter(|row| row.metric == "time");
        Self {
            rows: rows.map(|row| (Point::of(row), row)).collect(),
        }
    }

    pub(super) fn points(&self) -> Vec<Point> {
        let mut points: Vec<Point> = Vec::new();
        for (point, _) in &self.rows {
            if !points.contains(point) {
                points.push(point.clone());
            }
        }
        points
    }

    pub(super) fn families(&self) -> Vec<Point> {
        let mut families: Vec<Point> = Vec::new();
        for point in self.points() {
            if !families.contains(&point.family()) {
                families.push(point.family());
            }
        }
        families
    }

    pub(super) fn sizes(&self, family: &Point) -> Vec<Point> {
        let mut points = self.points();
        points.retain(|point| point.family() == *family);
        points.sort_by(|one, other| one.bytes.total_cmp(&other.bytes));
        points
    }

    /// Returns the fastest row of a model at a point, of all widths.
    pub(super) fn best(&self, point: &Point, model: &str) -> Option<&'a Row> {
        self.at(point, model)
            .min_by(|one, other| one.median.total_cmp(&other.median))
    }

    pub(super) fn at(&self, point: &Point, model: &str) -> impl Iterator<Item = &'a Row> {
        self.rows
            .iter()
            .filter(move |(at, row)| at == point && row.model == model)
            .map(|(_, row)| *row)
    }

    /// Returns one model's time over another's, each at its best width.
    pub(super) fn ratio(&self, point: &Point, model: &str, base: &str) -> Option<f64> {
        Some(self.best(point, model)?.median / self.best(point, base)?.median)
    }

    /// Returns how many times as fast as the sequential code a model is.
    pub(super) fn gain(&self, point: &Point, model: &str) -> Option<f64> {
        self.ratio(point, SEQUENTIAL, model)
    }
}
