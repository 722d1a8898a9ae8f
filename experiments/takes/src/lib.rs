//! Which takes count, and what they say together.
//!
//! The tail of a latency is where everything shows that runs on the machine, whoever it belongs to: a kernel thread that takes a processor for 4 ms
//! four times a second is all that a 99th percentile of a second would show. So each point is measured in many short takes, and of each model's the half
//! counts that lost least of its processors to other programs: how that is counted is the experiment's to say, so that it says nothing of what the model did with its
//! processors and is the same for all models. One whose own threads are in each other's way loses time in every take. What the halves lost is reported with them.

use std::time::Duration;

/// One take, as far as it counts.
#[derive(Clone, Debug)]
pub struct Take {
    /// Processor time that others had.
    pub lost: Duration,
    /// Of each level's requests, in microseconds.
    pub latencies: Vec<Vec<f64>>,
    /// Requests of each level that were served in time.
    pub served: Vec<usize>,
}

/// Of any takes those that lost least, and the others. Of an odd number the larger part is kept.
pub fn halves(mut takes: Vec<Take>) -> (Vec<Take>, Vec<Take>) {
    takes.sort_by_key(|take| take.lost);
    let dropped = takes.split_off(takes.len().div_ceil(2));
    (takes, dropped)
}

/// Those of one level, in order.
///
/// # Panics
/// If a take has no such level.
pub fn latencies<'a>(takes: impl IntoIterator<Item = &'a Take>, level: usize) -> Vec<f64> {
    let mut all: Vec<f64> = (takes.into_iter())
        .flat_map(|take| take.latencies[level].iter().copied())
        .collect();
    all.sort_by(f64::total_cmp);
    all
}

/// What so large a share of them is below; they are in order. `None` of none.
pub fn quantile(latencies: &[f64], share: f64) -> Option<f64> {
    let place = (latencies.len() as f64 * share) as usize;
    latencies
        .get(place.min(latencies.len().saturating_sub(1)))
        .copied()
}

/// Which share of the time was lost, where each take lasted for `time`.
pub fn lost(takes: &[Take], time: Duration) -> f64 {
    let lost: Duration = takes.iter().map(|take| take.lost).sum();
    lost.as_secs_f64() / (time.as_secs_f64() * takes.len().max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(lost: u64, latencies: &[f64]) -> Take {
        Take {
            lost: Duration::from_millis(lost),
            latencies: vec![Vec::new(), latencies.to_vec()],
            served: vec![0, latencies.len()],
        }
    }

    #[test]
    fn the_half_that_lost_least_is_kept() {
        let (kept, dropped) = halves([5, 1, 4, 0, 3].map(|lost| take(lost, &[])).into());
        let lost = |takes: &[Take]| -> Vec<u128> {
            takes.iter().map(|take| take.lost.as_millis()).collect()
        };
        assert_eq!((lost(&kept), lost(&dropped)), (vec![0, 1, 3], vec![4, 5]));
        assert_eq!(super::lost(&kept, Duration::from_millis(10)), 4.0 / 30.0);
        assert_eq!(super::lost(&[], Duration::from_millis(10)), 0.0);
    }

    #[test]
    fn quantiles_are_of_all_takes_together() {
        let takes = [take(0, &[4.0, 1.0]), take(0, &[3.0, 2.0])];
        let all = latencies(&takes, 1);
        assert_eq!(all, [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(quantile(&all, 0.5), Some(3.0));
        assert_eq!(quantile(&all, 0.99), Some(4.0));
        assert_eq!(quantile(&all, 1.0), Some(4.0));
        assert_eq!(quantile(&latencies(&takes, 0), 0.5), None);
    }
}
