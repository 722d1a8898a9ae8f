//! Selection of the trials that count, and what they say together.
//!
//! The tail of a latency shows everything that runs on the machine. A kernel thread that takes a
//! processor for 4 ms, four times a second, is all that a 99th percentile over a second would show.
//! So each point is measured in many short trials. Of each model's trials, the half counts that
//! lost least of its processors to other programs.
//!
//! The experiment defines the loss, the same for all models and independent of what a model does
//! with its processors. A model with threads that delay each other loses time in every trial. The
//! loss of both halves is reported.

use std::time::Duration;

/// The results of one trial.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Processor time that other programs had.
    pub lost: Duration,
    /// Latencies of each level's requests, in microseconds.
    pub latencies: Vec<Vec<f64>>,
    /// Requests of each level that were served in time.
    pub served: Vec<usize>,
}

/// Splits trials into those that lost least, and the others.
///
/// Keeps the larger part of an odd number.
pub fn halves(mut trials: Vec<Trial>) -> (Vec<Trial>, Vec<Trial>) {
    trials.sort_by_key(|trial| trial.lost);
    let dropped = trials.split_off(trials.len().div_ceil(2));
    (trials, dropped)
}

/// Returns the latencies of one level, ascending.
///
/// # Panics
/// If a trial does not have the level.
pub fn latencies<'a>(trials: impl IntoIterator<Item = &'a Trial>, level: usize) -> Vec<f64> {
    let mut all: Vec<f64> = (trials.into_iter())
        .flat_map(|trial| trial.latencies[level].iter().copied())
        .collect();
    all.sort_by(f64::total_cmp);
    all
}

/// Returns the value below which a share of ascending latencies lies; `None` if there are none.
pub fn quantile(latencies: &[f64], share: f64) -> Option<f64> {
    let index = (latencies.len() as f64 * share) as usize;
    latencies
        .get(index.min(latencies.len().saturating_sub(1)))
        .copied()
}

/// Returns the share of the time that was lost, if each trial lasted for `time`.
pub fn lost(trials: &[Trial], time: Duration) -> f64 {
    let lost: Duration = trials.iter().map(|trial| trial.lost).sum();
    lost.as_secs_f64() / (time.as_secs_f64() * trials.len().max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(lost: u64, latencies: &[f64]) -> Trial {
        Trial {
            lost: Duration::from_millis(lost),
            latencies: vec![Vec::new(), latencies.to_vec()],
            served: vec![0, latencies.len()],
        }
    }

    #[test]
    fn the_half_that_lost_least_is_kept() {
        let (kept, dropped) = halves([5, 1, 4, 0, 3].map(|lost| trial(lost, &[])).into());
        let lost = |trials: &[Trial]| -> Vec<u128> {
            trials.iter().map(|trial| trial.lost.as_millis()).collect()
        };
        assert_eq!((lost(&kept), lost(&dropped)), (vec![0, 1, 3], vec![4, 5]));
        assert_eq!(super::lost(&kept, Duration::from_millis(10)), 4.0 / 30.0);
        assert_eq!(super::lost(&[], Duration::from_millis(10)), 0.0);
    }

    #[test]
    fn quantiles_cover_all_trials_together() {
        let trials = [trial(0, &[4.0, 1.0]), trial(0, &[3.0, 2.0])];
        let all = latencies(&trials, 1);
        assert_eq!(all, [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(quantile(&all, 0.5), Some(3.0));
        assert_eq!(quantile(&all, 0.99), Some(4.0));
        assert_eq!(quantile(&all, 1.0), Some(4.0));
        assert_eq!(quantile(&latencies(&trials, 0), 0.5), None);
    }
}
