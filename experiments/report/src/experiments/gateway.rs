//! Experiment `gateway`: sensors' measurements judged one after another and interleaved, from
//! emptied caches.

use crate::chart::{Axis, Chart, Dot, Series};
use crate::document::Document;
use crate::experiment::Experiment;
use crate::heat_map::HeatMap;
use crate::passage::{self, Passage};
use crate::row::Row;
use crate::schedule::{Driver, Schedule};
use crate::table::{Table, figure};
use crate::verdict::Verdict;
use anyhow::{Context, Result};

/// The experiment as the report shows it.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "gateway",
    summary: "The sensor gateway",
    schedule: Schedule::Driver(Driver::Gateway),
    heading: "The sensor gateway",
    about: ABOUT,
    figures,
    tables: |document| Ok(tables(document)),
    verdicts: |document| Ok(verdicts(document)),
    passages,
};

const ABOUT: &str = "S sensors have sent M measurements of F bins each, which their support vector machines judge: one after the other, and interleaved by \
    coroutines. The models run in turn, each from emptied caches. Rows in order lie behind each other in memory; scattered ones where slots were free. \
    Energy is that of the whole processor, where the machine counts it.";

const SEQUENTIAL: &str = "sequential";
const COROUTINE: &str = "coroutine";
const TIME: &str = "time";
/// Metric by which gains are judged; what other programs on the machine do costs none of it.
const PROCESSOR_TIME: &str = "cpu-time";

/// The models that the curves show: more in one chart would be hard to tell apart.
const IN_CURVES: usize = 5;

/// All that a row depends on beside model and metric.
#[derive(Clone, Debug, PartialEq)]
struct Point {
    layout: String,
    compiler: String,
    sensors: f64,
    measurements: f64,
    features: f64,
}

impl Point {
    fn of(row: &Row) -> Self {
        let text = |name: &str| row.text(name).unwrap_or_default().to_string();
        let number = |name: &str| row.number(name).unwrap_or(0.0);
        Self {
            layout: text("layout"),
            compiler: text("compiler"),
            sensors: number("sensors"),
            measurements: number("measurements"),
            features: number("features"),
        }
    }

    fn place(&self) -> String {
        format!(
            "S {}, M {}, F {}, {}, {}",
            self.sensors, self.measurements, self.features, self.layout, self.compiler
        )
    }
}

/// The medians of both models at one point.
struct Pair {
    at: Point,
    sequential: Row,
    coroutine: Row,
}

impl Pair {
    /// Returns how many times as fast, or as frugal, the coroutines are.
    fn gain(&self) -> f64 {
        self.sequential.median / self.coroutine.median
    }
}

/// Returns all points at which a metric was measured, in the order in which they came.
fn pairs(document: &Document, metric: &str) -> Vec<Pair> {
    let of = |model: &'static str| {
        let rows = document.rows.iter();
        rows.filter(move |row| row.model == model && row.metric == metric)
    };
    of(SEQUENTIAL)
        .filter_map(|sequential| {
            let at = Point::of(sequential);
            let coroutine = of(COROUTINE).find(|row| Point::of(row) == at)?;
            Some(Pair {
                at,
                sequential: sequential.clone(),
                coroutine: coroutine.clone(),
            })
        })
        .collect()
}

/// Returns the accuracy, and a line for each point.
pub(crate) fn tables(document: &Document) -> Vec<Table> {
    let mut accuracy = Table::new(
        "Spectra that the training has not seen, judged rightly",
        &[
            "sensors", "of each", "bins", "compiler", SEQUENTIAL, COROUTINE,
        ],
    );
    for pair in pairs(document, "accuracy") {
        accuracy.push(vec![
            pair.at.sensors.to_string(),
            pair.at.measurements.to_string(),
            pair.at.features.to_string(),
            pair.at.compiler.clone(),
            percent(pair.sequential.median),
            percent(pair.coroutine.median),
        ]);
    }
    let energy = pairs(document, "energy");
    let cpu = pairs(document, PROCESSOR_TIME);
    let gain_of = |pairs: &[Pair], at: &Point| {
        let found = pairs.iter().find(|pair| pair.at == *at);
        found.map(|pair| figure(pair.gain())).unwrap_or_default()
    };
    let mut points = Table::new(
        "Times as fast as sequential",
        &[
            "rows",
            "compiler",
            "S",
            "M",
            "F",
            "sequential, ms",
            "coroutine, ms",
            "time",
            "processor time",
            "energy",
        ],
    );
    for pair in pairs(document, TIME) {
        let milliseconds = |row: &Row| {
            row.to_milliseconds()
                .map(|factor| figure(row.median * factor))
                .unwrap_or_default()
        };
        points.push(vec![
            pair.at.layout.clone(),
            pair.at.compiler.clone(),
            pair.at.sensors.to_string(),
            pair.at.measurements.to_string(),
            pair.at.features.to_string(),
            milliseconds(&pair.sequential),
            milliseconds(&pair.coroutine),
            figure(pair.gain()),
            gain_of(&cpu, &pair.at),
            gain_of(&energy, &pair.at),
        ]);
    }
    [accuracy, points]
        .into_iter()
        .filter(|table| !table.rows.is_empty())
        .collect()
}

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

/// Draws the gain for each layout and compiler.
///
/// One figure is over the number of bins (the thesis's figure 5.9), and one over measurements and
/// bins.
pub(crate) fn figures(document: &Document) -> Result<Vec<(String, String)>> {
    let pairs = pairs(document, PROCESSOR_TIME);
    let mut families: Vec<(String, String)> = Vec::new();
    for pair in &pairs {
        let family = (pair.at.layout.clone(), pair.at.compiler.clone());
        if !families.contains(&family) {
            families.push(family);
        }
    }
    let mut figures = Vec::new();
    for (layout, compiler) in families {
        let of: Vec<&Pair> = pairs
            .iter()
            .filter(|pair| pair.at.layout == layout && pair.at.compiler == compiler)
            .collect();
        let name = format!("gateway-{layout}-{compiler}");
        let title = format!("rows {layout}, {compiler}");
        figures.push((format!("{name}-features"), curves(&title, &of)?));
        figures.push((format!("{name}-measurements"), map(&title, &of)));
    }
    Ok(figures)
}

fn curves(family: &str, pairs: &[&Pair]) -> Result<String> {
    let most = values(pairs, |at| at.measurements)
        .pop()
        .unwrap_or_default();
    let curve = |(style, sensors): (usize, &f64)| Series {
        name: format!("S {sensors}"),
        style,
        dots: pairs
            .iter()
            .filter(|pair| pair.at.sensors == *sensors && pair.at.measurements == most)
            .map(|pair| {
                let (low, high) = pair.coroutine.range();
                let gain = pair.gain();
                Dot {
                    x: pair.at.features,
                    y: gain,
                    low: (pair.sequential.median / high).min(gain),
                    high: (pair.sequential.median / low).max(gain),
                }
            })
            .collect(),
    };
    let sensors = values(pairs, |at| at.sensors);
    let series: Vec<Series> = sensors
        .iter()
        .take(IN_CURVES)
        .enumerate()
        .map(curve)
        .collect();
    let title = format!("Gateway, M {most}: {family}");
    Chart {
        title: &title,
        x: Axis {
            label: "F, bins of a spectrum",
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

/// Draws a heat map: lines are measurements, columns bins, at the largest number of sensors.
fn map(family: &str, pairs: &[&Pair]) -> String {
    let sensors = values(pairs, |at| at.sensors).pop().unwrap_or_default();
    let features = values(pairs, |at| at.features);
    let line = |measurements: &f64| {
        let gain = |features: &f64| {
            let found = pairs.iter().find(|pair| {
                pair.at.sensors == sensors
                    && pair.at.measurements == *measurements
                    && pair.at.features == *features
            });
            found.map(|pair| pair.gain())
        };
        (
            format!("M {measurements}"),
            features.iter().map(gain).collect(),
        )
    };
    let title = format!("Gateway, gain by coroutines, S {sensors}: {family}");
    HeatMap {
        title: &title,
        across: "bins",
        columns: features.iter().map(f64::to_string).collect(),
        lines: values(pairs, |at| at.measurements)
            .iter()
            .map(line)
            .collect(),
    }
    .to_svg()
}

/// Returns the values of a parameter, ascending.
fn values(pairs: &[&Pair], of: impl Fn(&Point) -> f64) -> Vec<f64> {
    let mut values: Vec<f64> = pairs.iter().map(|pair| of(&pair.at)).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

/// The page about the gateway.
pub(crate) const PAGE: &str = "docs/gateway.md";

/// Test whether a line of the page's table is about a point.
type Wanted<'a> = &'a dyn Fn(&Point) -> bool;

/// Returns what that page says of the results.
pub(crate) fn passages(document: &Document) -> Result<Vec<Passage>> {
    let mut table = Table::new(
        "Times as fast as sequential, processor time, over all points",
        &["rows", "clang", "GCC"],
    );
    let pairs = pairs(document, PROCESSOR_TIME);
    let range = |compiler: &str, wanted: Wanted| {
        let gains = || {
            (pairs.iter())
                .filter(|pair| pair.at.compiler == compiler && wanted(&pair.at))
                .map(Pair::gain)
        };
        let least = gains().reduce(f64::min)?;
        let most = gains().reduce(f64::max)?;
        Some(format!("{} to {}", figure(least), figure(most)))
    };
    let rows = |at: &Point| at.sensors * at.measurements;
    let kinds: [(&str, Wanted); 3] = [
        ("scattered, 300 rows and more (S x M)", &|at| {
            at.layout == "scattered" && rows(at) >= 300.0
        }),
        ("scattered, 100 rows", &|at| {
            at.layout == "scattered" && rows(at) < 300.0
        }),
        ("in order", &|at| at.layout == "ordered"),
    ];
    for (name, wanted) in kinds {
        let mut line = vec![name.to_string()];
        for compiler in ["clang", "gcc"] {
            let shown = range(compiler, wanted);
            line.push(shown.with_context(|| format!("{name} was not measured with {compiler}"))?);
        }
        table.push(line);
    }
    Ok(vec![Passage {
        page: PAGE,
        name: "gateway",
        text: passage::lines(document, &[table], &verdicts(document))?,
    }])
}

/// Returns the targets of `gateway`: ratios of the coroutines' medians to the sequential ones.
pub(crate) fn verdicts(document: &Document) -> Vec<Verdict> {
    let verdict = |claim: &str, limit: f64, found: Option<Pair>| Verdict {
        claim: claim.to_string(),
        limit: (limit * 1000.0).round() / 1000.0,
        measured: found.as_ref().map(|pair| 1.0 / pair.gain()),
        at: found.map(|pair| pair.at.place()).unwrap_or_default(),
    };
    let by_gain = |one: &Pair, other: &Pair| one.gain().total_cmp(&other.gain());
    let worst = |layout: &str| {
        pairs(document, PROCESSOR_TIME)
            .into_iter()
            .filter(|pair| pair.at.layout == layout)
            .min_by(by_gain)
    };
    let best = |metric: &str| pairs(document, metric).into_iter().max_by(by_gain);
    vec![
        verdict(
            "processor time of coroutines / sequential, rows in order, at any point",
            1.0,
            worst("ordered"),
        ),
        verdict(
            "processor time of coroutines / sequential, scattered rows, at any point",
            1.0 / 1.2,
            worst("scattered"),
        ),
        verdict(
            "processor time of coroutines / sequential at its best, the thesis's gain of 20.5 %",
            1.0 - 0.205,
            best(PROCESSOR_TIME),
        ),
        verdict(
            "energy of coroutines / sequential at its best, the thesis's gain of 18 %",
            1.0 - 0.18,
            best("energy"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{document, names, results};
    use serde_json::json;

    fn sample() -> Document {
        let row = |model: &str, metric: &str, layout: &str, features: u64, value: f64| {
            json!({"model": model, "metric": metric, "unit": "ns", "runs": [value], "median": value, "layout": layout, "sensors": 50,
                "measurements": 100, "features": features, "compiler": "gcc"})
        };
        let rows = [
            row(SEQUENTIAL, TIME, "ordered", 128, 100.0),
            row(COROUTINE, TIME, "ordered", 128, 900.0),
            row(SEQUENTIAL, PROCESSOR_TIME, "ordered", 128, 100.0),
            row(COROUTINE, PROCESSOR_TIME, "ordered", 128, 102.0),
            row(SEQUENTIAL, PROCESSOR_TIME, "scattered", 128, 300.0),
            row(COROUTINE, PROCESSOR_TIME, "scattered", 128, 100.0),
            row(SEQUENTIAL, PROCESSOR_TIME, "scattered", 2048, 800.0),
            row(COROUTINE, PROCESSOR_TIME, "scattered", 2048, 400.0),
            row(SEQUENTIAL, "accuracy", "scattered", 256, 0.97),
            row(COROUTINE, "accuracy", "scattered", 256, 0.97),
        ];
        document("gateway", &rows)
    }

    #[test]
    fn the_worst_point_counts_and_energy_may_be_missing() {
        let verdicts = verdicts(&sample());
        assert_eq!(
            results(&verdicts),
            [
                (Some(1.02), Some(false), "S 50, M 100, F 128, ordered, gcc"),
                (Some(0.5), Some(true), "S 50, M 100, F 2048, scattered, gcc"),
                (
                    Some(1.0 / 3.0),
                    Some(true),
                    "S 50, M 100, F 128, scattered, gcc"
                ),
                (None, None, ""),
            ]
        );
    }

    #[test]
    fn tables_and_figures_show_each_layout() {
        let document = sample();
        let tables = tables(&document);
        assert_eq!(tables.len(), 2);
        assert_eq!(tables[0].rows[0][4..], ["97.00 %", "97.00 %"]);
        assert_eq!(tables[1].rows.len(), 1);
        assert_eq!(
            names(&figures(&document).unwrap()),
            [
                "gateway-ordered-gcc-features",
                "gateway-ordered-gcc-measurements",
                "gateway-scattered-gcc-features",
                "gateway-scattered-gcc-measurements",
            ]
        );
    }
}
