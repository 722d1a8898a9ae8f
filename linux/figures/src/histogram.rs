//! Counts of times, in buckets whose width grows with the time.
//!
//! A bucket below 16 ns holds one value. Above, each power of two has eight buckets. So a bucket is
//! at most an eighth as wide as its times are long, and its middle is wrong by at most 6.25 %.
//! Times of 137 s and more share the last bucket. The array lies in memory that processes share, so
//! its layout is fixed: that is why it is not the one of the crate `histogram`, with which the
//! tests compare it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Each power of two has two to this power of buckets.
const GROUPING: u32 = 3;
/// Times from two to this power of nanoseconds share the last bucket.
const LIMIT: u32 = 37;
const BUCKETS: usize = ((LIMIT - GROUPING + 1) as usize) << GROUPING;

/// Returns the bucket of a time in nanoseconds.
fn bucket_of(time: u64) -> usize {
    if time < 2 << GROUPING {
        return time as usize;
    }
    let shift = time.ilog2() - GROUPING;
    let bucket = (u64::from(shift) << GROUPING) + (time >> shift);
    (bucket as usize).min(BUCKETS - 1)
}

/// Returns the shortest time of a bucket, and the bucket's width, in nanoseconds.
fn range_of(bucket: usize) -> (u64, u64) {
    let (group, within) = (bucket >> GROUPING, bucket as u64 % (1 << GROUPING));
    match group.checked_sub(1) {
        None => (within, 1),
        Some(shift) => ((within + (1 << GROUPING)) << shift, 1 << shift),
    }
}

/// The counters of a histogram; all start at 0.
#[repr(C)]
pub(crate) struct Buckets([AtomicU64; BUCKETS]);

impl Buckets {
    pub(crate) fn new() -> Self {
        Self([const { AtomicU64::new(0) }; BUCKETS])
    }

    /// Returns the counter of a time in nanoseconds.
    #[cfg_attr(not(feature = "counter"), allow(dead_code, reason = "it counts"))]
    #[inline]
    pub(crate) fn of(&self, time: u64) -> &AtomicU64 {
        &self.0[bucket_of(time)]
    }

    pub(crate) fn read(&self) -> Histogram {
        Histogram {
            counts: (self.0.iter())
                .map(|count| count.load(Ordering::Relaxed))
                .collect(),
        }
    }
}

/// How many times were how long.
///
/// Another process may have written any counts. So sums stop at the largest number, and nothing
/// overflows.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    /// One for each bucket; none at all in an empty histogram.
    counts: Box<[u64]>,
}

impl Histogram {
    /// Returns a histogram without any times.
    #[must_use]
    pub fn new() -> Self {
        Self {
            counts: Box::default(),
        }
    }

    /// Returns how many times were counted, at most [`u64::MAX`].
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts
            .iter()
            .fold(0, |sum, &count| sum.saturating_add(count))
    }

    /// Returns the time that the share `share` of all times does not exceed; `None` if there are no
    /// times.
    ///
    /// `0.5` asks for the median. A share below 0 counts as 0, and one above 1 as 1. The result is
    /// the middle of a bucket. It is wrong by at most 6.25 %, and for times from 137 s on it is too
    /// short.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let all: u128 = self.counts.iter().map(|&count| u128::from(count)).sum();
        // A share that is no number counts as 0.
        let rank = (share.clamp(0.0, 1.0) * all as f64).ceil() as u128;
        let mut left = rank.clamp(1, all.max(1));
        for (bucket, &count) in self.counts.iter().enumerate() {
            let count = u128::from(count);
            if left <= count {
                let (start, width) = range_of(bucket);
                return Some(Duration::from_nanos(start + width / 2));
            }
            left -= count;
        }
        None
    }

    /// Returns a bound of the longest time: the end of the last bucket that has one.
    ///
    /// `None` if there are no times.
    #[must_use]
    pub fn longest(&self) -> Option<Duration> {
        let last = self.counts.iter().rposition(|&count| count > 0)?;
        let (start, width) = range_of(last);
        Some(Duration::from_nanos(start + width - 1))
    }

    /// Returns the times that were counted after `earlier`, an older reading of the same counters.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = earlier.counts.iter().copied().chain(std::iter::repeat(0));
        Self {
            counts: (self.counts.iter().zip(before))
                .map(|(&now, before)| now.saturating_sub(before))
                .collect(),
        }
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count())
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Buckets {
        fn record(&self, time: u64) {
            self.of(time).fetch_add(1, Ordering::Relaxed);
        }
    }

    fn recorded(times: &[u64]) -> Histogram {
        let buckets = Buckets::new();
        times.iter().for_each(|&time| buckets.record(time));
        buckets.read()
    }

    fn nanoseconds(time: Option<Duration>) -> Option<u64> {
        time.map(|time| time.as_nanos() as u64)
    }

    /// Times of all magnitudes.
    fn any_time() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0..64_u32).prop_map(|(bits, shift)| bits >> shift)
    }

    proptest! {
        #[test]
        fn buckets_are_those_of_the_crate_histogram(time in 0..1_u64 << LIMIT) {
            let other = histogram::AtomicHistogram::new(GROUPING as u8, LIMIT as u8).unwrap();
            prop_assert_eq!(other.config().total_buckets(), BUCKETS);
            other.increment(time).unwrap();
            let ours = recorded(&[time]);
            let theirs = other.load();
            prop_assert_eq!(&*ours.counts, theirs.as_slice());
            let bucket = theirs.iter().find(|bucket| bucket.count() == 1).unwrap();
            let (start, width) = range_of(bucket_of(time));
            prop_assert_eq!(start..=start + width - 1, bucket.start()..=bucket.end());
        }

        #[test]
        fn a_quantile_is_near_the_time_of_its_rank(
            mut times in prop::collection::vec(0..1_u64 << LIMIT, 1..200),
            share in 0.0..=1.0_f64,
        ) {
            let found = nanoseconds(recorded(&times).quantile(share)).unwrap();
            times.sort_unstable();
            let rank = ((share * times.len() as f64).ceil() as usize).clamp(1, times.len());
            let exact = times[rank - 1];
            prop_assert!(found.abs_diff(exact) as f64 <= exact as f64 / 16.0, "{found} for {exact}");
        }

        #[test]
        fn times_of_any_length_have_a_bucket(time in any_time()) {
            prop_assert_eq!(recorded(&[time]).count(), 1);
        }
    }

    #[test]
    fn an_empty_histogram_has_no_quantile() {
        for empty in [Histogram::new(), recorded(&[])] {
            assert_eq!(
                (empty.count(), empty.quantile(0.5), empty.longest()),
                (0, None, None)
            );
        }
    }

    #[test]
    fn shares_outside_of_0_to_1_and_no_numbers_are_bounded() {
        let times = recorded(&[1, 2, 3]);
        for (share, expected) in [(-1.0, 1), (f64::NAN, 1), (2.0, 3), (f64::INFINITY, 3)] {
            assert_eq!(nanoseconds(times.quantile(share)), Some(expected));
        }
    }

    #[test]
    fn counts_of_any_size_do_not_overflow() {
        let buckets = Buckets::new();
        for count in &buckets.0 {
            count.store(u64::MAX, Ordering::Relaxed);
        }
        let all = buckets.read();
        assert_eq!(all.count(), u64::MAX);
        let (start, width) = range_of(BUCKETS / 2);
        assert_eq!(nanoseconds(all.quantile(0.5)), Some(start + width / 2));
        assert_eq!(nanoseconds(all.longest()), Some((1 << LIMIT) - 1));
        assert_eq!(Histogram::new().since(&all).count(), 0);
        assert_eq!(recorded(&[5]).since(&all).count(), 0);
    }

    #[test]
    fn a_difference_has_the_times_in_between() {
        let buckets = Buckets::new();
        buckets.record(7);
        let before = buckets.read();
        buckets.record(7);
        buckets.record(1 << 20);
        let between = buckets.read().since(&before);
        assert_eq!(between.count(), 2);
        assert_eq!(nanoseconds(between.quantile(0.5)), Some(7));
        assert_eq!(buckets.read().since(&Histogram::new()).count(), 3);
    }
}
