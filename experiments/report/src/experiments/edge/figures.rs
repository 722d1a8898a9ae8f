//! Figures: curves over the size of the data, heat maps over size and number of coroutines, the
//! best gain of each model.

use super::results::{Point, Results, size};
use super::{ALGORITHMS, COROUTINE, MODELS, SEQUENTIAL};
use crate::chart::{self, Axis, Chart, Dot, Series};
use crate::document::Document;
use crate::heat_map::HeatMap;
use anyhow::Result;

/// The models that the curves show: more in one chart would be hard to tell apart.
const IN_CURVES: usize = 5;

/// Draws curves over the size, heat maps over size and width, and one of algorithms and models.
///
/// These are the thesis's figure 4.4, a replacement of its figures 4.6 to 4.9, and its figure 4.14.
pub(crate) fn figures(document: &Document) -> Result<Vec<(String, String)>> {
    let results = Results::of(document);
    let mut figures = vec![("edge-best-gains".to_string(), best_gains(&results).to_svg())];
    for family in results.families() {
        let name = chart::file_name(&format!("edge {}", family.name()));
        let sizes = results.sizes(&family);
        if sizes.len() > 1 {
            figures.push((format!("{name}-sizes"), curves(&results, &family, &sizes)?));
        }
        // The heat maps of rows in order would only show that nothing is to be gained.
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
    // Every model of a tree's lookups except the ones that never win.
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

/// Draws the gain of coroutines with prefetch for each size and width; `None` with a single width.
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

/// Returns the best gain of each model over all points, for each algorithm.
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
