//! Results of a measurement, and the rows that are printed of it.

use crate::dialogue::{Answers, QUARTERS};
use std::time::Duration;

/// Quantiles of latencies that are kept beside the mean and the deviation, in percent.
///
/// They are enough to draw how the latencies are distributed.
const QUANTILES: [f64; 15] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.9, 100.0,
];

/// Results of one server's connections.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Time for which requests were sent in each slice.
    slice: Duration,
    /// Answers of each connection, slice by slice.
    slices: Vec<Vec<Answers>>,
    /// Answers before and after the slices, of which only errors count.
    beside: Vec<Answers>,
}

impl Outcome {
    /// Creates the outcome of connections that had these answers before they were measured.
    pub(crate) fn new(slice: Duration, before: Vec<Answers>) -> Self {
        Self {
            slice,
            slices: Vec::new(),
            beside: before,
        }
    }

    /// Adds what came in one slice.
    pub(crate) fn add(&mut self, answers: Vec<Answers>) {
        self.slices.push(answers);
    }

    /// Adds what came at the end.
    pub(crate) fn with_end(mut self, answers: Vec<Answers>) -> Self {
        self.beside.extend(answers);
        self
    }

    /// Returns the outcome of the connections of one level.
    pub(crate) fn of_level(&self, level: u8) -> Self {
        let own = |answers: &Vec<Answers>| {
            let own = answers.iter().filter(|answers| answers.level == level);
            own.cloned().collect()
        };
        Self {
            slice: self.slice,
            slices: self.slices.iter().map(own).collect(),
            beside: own(&self.beside),
        }
    }

    fn measured(&self) -> impl Iterator<Item = &Answers> {
        self.slices.iter().flatten()
    }

    /// Returns requests per second: the median of the slices.
    fn throughput(&self) -> f64 {
        let mut counts: Vec<u64> = (self.slices.iter())
            .map(|slice| slice.iter().map(Answers::in_time).sum())
            .collect();
        counts.sort_unstable();
        // With an even number of slices, the mean of the two in the middle.
        let (low, high) = (counts[(counts.len() - 1) / 2], counts[counts.len() / 2]);
        (low + high) as f64 / 2.0 / self.slice.as_secs_f64()
    }

    /// Returns the answers that are wrong and the requests without an answer, including those at
    /// the edges of what was measured.
    pub(crate) fn faults(&self) -> (u64, u64) {
        let all = || self.measured().chain(&self.beside);
        (
            all().map(|answers| answers.wrong).sum(),
            all().map(|answers| answers.lost).sum(),
        )
    }

    /// Returns in how many quarters of the measured time no answer came.
    fn empty_quarters(&self) -> usize {
        let is_empty = |quarter: &usize| {
            self.measured()
                .all(|answers| answers.quarters[*quarter] == 0)
        };
        (0..QUARTERS).filter(is_empty).count()
    }

    /// Prints a row for each result.
    ///
    /// `point` says which point it is of, as the members of a JSON object.
    pub(crate) fn show(&self, point: &str) {
        row(point, "throughput", "requests/s", self.throughput());
        let late: u64 = self.measured().map(|answers| answers.late).sum();
        let (wrong, lost) = self.faults();
        for (metric, count) in [
            ("late-answers", late),
            ("wrong-answers", wrong),
            ("lost-answers", lost),
        ] {
            row(point, metric, "requests", count as f64);
        }
        self.show_spread(point, "", |answers| &answers.latencies);
        self.show_spread(point, "wire-", |answers| &answers.wire_latencies);
    }

    /// Prints the same, how the latencies are distributed, and whether answers came all the time.
    pub(crate) fn show_in_detail(&self, point: &str) {
        self.show(point);
        let empty = self.empty_quarters() as f64;
        row(point, "quarters-without-answers", "quarters", empty);
        let latencies = self.milliseconds(|answers| &answers.latencies);
        for percent in QUANTILES {
            if let Some(value) = quantile(&latencies, percent / 100.0) {
                let point = format!(r#"{point},"quantile":{percent}"#);
                row(&point, "latency-quantile", "ms", value);
            }
        }
    }

    fn show_spread(&self, point: &str, prefix: &str, of: fn(&Answers) -> &[Duration]) {
        let Some(statistics) = Statistics::of(&self.milliseconds(of)) else {
            return;
        };
        for (metric, value) in [
            ("latency-mean", statistics.mean),
            ("latency-p50", statistics.p50),
            ("latency-p99", statistics.p99),
            ("jitter", statistics.deviation),
        ] {
            row(point, &format!("{prefix}{metric}"), "ms", value);
        }
    }

    /// Returns the latencies that `of` selects, in ascending order.
    fn milliseconds(&self, of: fn(&Answers) -> &[Duration]) -> Vec<f64> {
        let latencies = self.measured().flat_map(of);
        let mut latencies: Vec<f64> = latencies
            .map(|latency| latency.as_secs_f64() * 1e3)
            .collect();
        latencies.sort_by(f64::total_cmp);
        latencies
    }
}

/// Prints one result.
pub(crate) fn row(point: &str, metric: &str, unit: &str, value: f64) {
    println!(r#"@row {{{point},"metric":"{metric}","unit":"{unit}","value":{value}}}"#);
}

/// Statistics of latencies.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Statistics {
    mean: f64,
    p50: f64,
    p99: f64,
    /// The standard deviation, which the results call jitter.
    deviation: f64,
}

impl Statistics {
    /// Returns the statistics of values in ascending order; `None` if there are none.
    fn of(sorted: &[f64]) -> Option<Self> {
        let (p50, p99) = (quantile(sorted, 0.5)?, quantile(sorted, 0.99)?);
        let count = sorted.len() as f64;
        let mean = sorted.iter().sum::<f64>() / count;
        let variance = sorted
            .iter()
            .map(|value| (value - mean).powi(2))
            .sum::<f64>()
            / count;
        Some(Self {
            mean,
            p50,
            p99,
            deviation: variance.sqrt(),
        })
    }
}

/// Returns the smallest of the ascending values that this share of them, above 0, does not exceed.
///
/// Returns `None` if there are no values.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_have_mean_quantiles_and_jitter() {
        assert_eq!(Statistics::of(&[]), None);
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        let found = Statistics::of(&values).unwrap();
        assert_eq!((found.mean, found.p50, found.p99), (50.5, 50.0, 99.0));
        let quantiles = [0.001, 0.01, 0.011, 1.0].map(|share| quantile(&values, share).unwrap());
        assert_eq!(quantiles, [1.0, 1.0, 2.0, 100.0]);
        let alike = Statistics::of(&[2.0, 2.0]).unwrap();
        assert_eq!((alike.deviation, alike.p99), (0.0, 2.0));
    }

    fn answers(level: u8, quarters: [u64; QUARTERS], wrong: u64, lost: u64) -> Answers {
        Answers {
            level,
            quarters,
            wrong,
            lost,
            ..Answers::default()
        }
    }

    #[test]
    fn slices_have_a_median_and_faults_a_sum() {
        let mut outcome = Outcome::new(Duration::from_millis(500), vec![answers(1, [0; 4], 1, 0)]);
        for count in [9, 1, 3] {
            outcome.add(vec![answers(1, [count, 0, 0, 0], 0, 1)]);
        }
        let outcome = outcome.with_end(vec![answers(1, [0; 4], 1, 0), answers(2, [0; 4], 7, 0)]);
        assert_eq!(outcome.throughput(), 6.0);
        assert_eq!(outcome.faults(), (9, 3));
        assert_eq!(outcome.of_level(1).faults(), (2, 3));
    }

    #[test]
    fn a_quarter_without_answers_is_seen() {
        let mut outcome = Outcome::new(Duration::from_secs(1), Vec::new());
        outcome.add(vec![
            answers(1, [1, 0, 0, 5], 0, 0),
            answers(1, [0, 2, 0, 0], 0, 0),
        ]);
        assert_eq!(outcome.empty_quarters(), 1);
        assert_eq!(outcome.of_level(2).empty_quarters(), QUARTERS);
    }
}
