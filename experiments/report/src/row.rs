//! Samples, and the rows that they are grouped into.

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Mark in an experiment's output, before a [`Sample`] as JSON; there is one such line per run.
pub const MARK: &str = "@row ";

/// One run of one side of a comparison, as an experiment prints it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Sample {
    /// The experiment's name, as on the command line.
    pub experiment: String,
    /// The side of the comparison.
    pub model: String,
    /// The quantity that was measured: `time`, `bytes`, …
    pub metric: String,
    /// The unit of `value`.
    pub unit: String,
    /// The value that was measured in this run.
    pub value: f64,
    /// The number of the run, if the experiment prints one; it is no parameter of the point.
    pub run: Option<u64>,
    /// The parameters of the point: everything else.
    #[serde(flatten)]
    pub parameters: Map<String, Value>,
}

impl Sample {
    /// Parses a line of an experiment's output; returns `None` if it is not a sample.
    ///
    /// # Errors
    /// If the line has the mark but is not a sample.
    pub fn from_line(line: &str) -> Result<Option<Self>> {
        match line.trim().strip_prefix(MARK.trim_end()) {
            None => Ok(None),
            Some(json) => {
                let sample =
                    serde_json::from_str(json).with_context(|| format!("not a row: {line}"))?;
                Ok(Some(sample))
            }
        }
    }
}

/// One measured point: the samples that differ in nothing but their value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The side of the comparison.
    pub model: String,
    /// The parameters of the point: `n`, `bytes`, `order`, …
    #[serde(flatten)]
    pub parameters: Map<String, Value>,
    /// The quantity that was measured.
    pub metric: String,
    /// The unit of `runs` and `median`.
    pub unit: String,
    /// Every raw value, in the order of the runs.
    pub runs: Vec<f64>,
    /// The median of `runs`.
    pub median: f64,
}

impl Row {
    /// Returns a parameter that is a number.
    pub fn number(&self, parameter: &str) -> Option<f64> {
        self.parameters.get(parameter)?.as_f64()
    }

    /// Returns a parameter that is a text.
    pub fn text(&self, parameter: &str) -> Option<&str> {
        self.parameters.get(parameter)?.as_str()
    }

    /// Returns the smallest and the largest raw value.
    pub fn range(&self) -> (f64, f64) {
        self.runs
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &value| {
                (low.min(value), high.max(value))
            })
    }

    /// Returns the factor that turns this row's values into milliseconds, or `None` if its unit is
    /// not one of time.
    pub fn to_milliseconds(&self) -> Option<f64> {
        match self.unit.as_str() {
            "ns" => Some(1e-6),
            "us" | "µs" => Some(1e-3),
            "ms" => Some(1.0),
            "s" => Some(1e3),
            _ => None,
        }
    }
}

/// Groups samples into rows, in the order in which each point first came.
///
/// # Errors
/// If a sample belongs to another experiment, a name is empty, a value is not a finite number from
/// 0 up, or the sides of a comparison were not run equally often.
pub fn gather(experiment: &str, samples: &[Sample]) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::new();
    for sample in samples {
        check(experiment, sample)?;
        let known = rows.iter_mut().find(|row| {
            row.model == sample.model
                && row.metric == sample.metric
                && row.unit == sample.unit
                && row.parameters == sample.parameters
        });
        match known {
            Some(row) => row.runs.push(sample.value),
            None => rows.push(Row {
                model: sample.model.clone(),
                parameters: sample.parameters.clone(),
                metric: sample.metric.clone(),
                unit: sample.unit.clone(),
                runs: vec![sample.value],
                median: 0.0,
            }),
        }
    }
    for row in &mut rows {
        let runs = if WITHOUT_OUTLIERS.contains(&experiment) {
            without_outliers(&row.runs)
        } else {
            row.runs.clone()
        };
        row.median = median(&runs).expect("a row has at least one run");
    }
    equally_often(&rows)?;
    Ok(rows)
}

fn check(experiment: &str, sample: &Sample) -> Result<()> {
    let shown = || format!("{sample:?}");
    ensure!(
        sample.experiment == experiment,
        "a row of experiment `{}` in `{experiment}`: {}",
        sample.experiment,
        shown()
    );
    for (name, text) in [
        ("model", &sample.model),
        ("metric", &sample.metric),
        ("unit", &sample.unit),
    ] {
        ensure!(!text.is_empty(), "a row without {name}: {}", shown());
    }
    ensure!(
        sample.value.is_finite() && sample.value >= 0.0,
        "{} is not a value that can be measured: {}",
        sample.value,
        shown()
    );
    Ok(())
}

/// Checks that the sides have equally many values at each point.
///
/// Two or more of them may have alternated for more runs.
fn equally_often(rows: &[Row]) -> Result<()> {
    for row in rows {
        let beside: Vec<_> = rows
            .iter()
            .filter(|other| other.parameters == row.parameters && other.metric == row.metric)
            .collect();
        let times = || beside.iter().map(|row| row.runs.len());
        let (fewest, most) = (times().min(), times().max());
        let go_on = times().filter(|&times| Some(times) == most).count();
        let is_even = |times| Some(times) == fewest || Some(times) == most;
        if fewest != most && (go_on < 2 || !times().all(is_even)) {
            let odd = beside
                .iter()
                .find(|other| other.runs.len() != row.runs.len());
            let other = odd.unwrap_or(&beside[0]);
            bail!(
                "at {}, `{}` ran {} times but `{}` {} times",
                serde_json::to_string(&row.parameters)?,
                row.model,
                row.runs.len(),
                other.model,
                other.runs.len()
            );
        }
    }
    Ok(())
}

/// The experiments with medians that leave out outliers.
const WITHOUT_OUTLIERS: [&str; 1] = ["edge"];

/// Number of mean distances from the median beyond which a value is an outlier (the thesis, section
/// 4.3.3).
const OUTLIER: f64 = 3.5;

/// Returns the values without outliers, in their order; keeps at least one.
pub fn without_outliers(values: &[f64]) -> Vec<f64> {
    let Some(middle) = median(values) else {
        return Vec::new();
    };
    let distance = |value: &f64| (value - middle).abs();
    let mean = values.iter().map(distance).sum::<f64>() / values.len() as f64;
    let near = |value: &&f64| distance(value) <= OUTLIER * mean;
    values.iter().filter(near).copied().collect()
}

/// Returns the middle value, or the mean of the two in the middle.
///
/// Returns `None` if there is no value.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        Some(upper)
    } else {
        Some((sorted[sorted.len() / 2 - 1] + upper) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(model: &str, n: u32, value: f64) -> Sample {
        let line = format!(
            r#"@row {{"experiment":"a","model":"{model}","n":{n},"order":"in-order","metric":"time","unit":"ms","value":{value},"run":7}}"#
        );
        Sample::from_line(&line).unwrap().unwrap()
    }

    #[test]
    fn the_median_is_the_middle_value() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 100.0]), Some(3.0));
    }

    #[test]
    fn outliers_are_left_out() {
        assert!(without_outliers(&[]).is_empty());
        assert_eq!(without_outliers(&[5.0]), [5.0]);
        assert_eq!(without_outliers(&[5.0, 5.0, 5.0]), [5.0, 5.0, 5.0]);
        let mut values = vec![10.0, 11.0, 9.0, 10.0, 11.0, 9.0, 10.0, 10.0];
        values.push(50.0);
        assert_eq!(without_outliers(&values), values[..8]);
    }

    #[test]
    fn lines_are_samples_or_something_else_or_wrong() {
        assert_eq!(Sample::from_line("starting").unwrap(), None);
        assert_eq!(Sample::from_line("the mark is @row {}").unwrap(), None);
        assert!(Sample::from_line("@row {\"experiment\":\"a\"}").is_err());
        assert!(Sample::from_line("@row nonsense").is_err());
        let sample = sample("coroutine", 200, 1.5);
        assert_eq!(sample.model, "coroutine");
        assert_eq!(sample.parameters.get("n").unwrap(), 200);
        assert_eq!(sample.parameters.len(), 2);
    }

    #[test]
    fn samples_of_one_point_become_one_row() {
        let samples = [
            sample("thread-yield", 200, 5.0),
            sample("coroutine", 200, 1.0),
            sample("thread-yield", 200, 7.0),
            sample("coroutine", 200, 3.0),
            sample("coroutine", 400, 4.0),
        ];
        let rows = gather("a", &samples).unwrap();
        let seen: Vec<_> = rows
            .iter()
            .map(|row| {
                (
                    row.model.as_str(),
                    row.number("n"),
                    row.runs.clone(),
                    row.median,
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("thread-yield", Some(200.0), vec![5.0, 7.0], 6.0),
                ("coroutine", Some(200.0), vec![1.0, 3.0], 2.0),
                ("coroutine", Some(400.0), vec![4.0], 4.0),
            ]
        );
        assert_eq!(rows[0].text("order"), Some("in-order"));
        assert_eq!(rows[1].range(), (1.0, 3.0));
    }

    #[test]
    fn a_row_is_flat_in_json() {
        let rows = gather("a", &[sample("coroutine", 200, 1.5)]).unwrap();
        let json = serde_json::to_string(&rows[0]).unwrap();
        assert_eq!(
            json,
            r#"{"model":"coroutine","n":200,"order":"in-order","metric":"time","unit":"ms","runs":[1.5],"median":1.5}"#
        );
        assert_eq!(serde_json::from_str::<Row>(&json).unwrap(), rows[0]);
    }

    #[test]
    fn impossible_values_are_refused() {
        assert!(gather("b", &[sample("coroutine", 1, 1.0)]).is_err());
        assert!(gather("a", &[sample("", 1, 1.0)]).is_err());
        assert!(gather("a", &[sample("coroutine", 1, -1.0)]).is_err());
        let uneven = [
            sample("coroutine", 1, 1.0),
            sample("coroutine", 1, 1.0),
            sample("thread-yield", 1, 1.0),
        ];
        let message = gather("a", &uneven).unwrap_err().to_string();
        assert!(
            message.contains("`coroutine` ran 2 times but `thread-yield` 1 times"),
            "{message}"
        );
    }

    #[test]
    fn alternating_models_may_have_extra_runs() {
        let times = |counts: &[(&str, usize)]| {
            let samples: Vec<_> = counts
                .iter()
                .flat_map(|(model, count)| vec![sample(model, 1, 1.0); *count])
                .collect();
            gather("a", &samples).is_ok()
        };
        assert!(times(&[("one", 4), ("two", 4), ("three", 1)]));
        assert!(!times(&[("one", 4), ("two", 1), ("three", 1)]), "alone");
        assert!(!times(&[("one", 4), ("two", 4), ("three", 2), ("four", 1)]));
        assert!(!times(&[("one", 4), ("two", 3)]));
    }
}
