//! The figures of a running runtime, at one moment.

use std::time::Duration;

use corank_figures::Coroutines;

use crate::shared::{Shared, WorkerEntry, WorkerRole};
use crate::time;

/// The figures of a runtime at one moment; see [`Handle::metrics`](crate::Handle::metrics).
///
/// Counters and times grow from the start of the runtime. [`since`](Self::since) returns those of
/// an interval.
///
/// ```
/// use std::time::Duration;
///
/// let runtime = corank_linux::Builder::new().workers(2).build()?;
/// let before = runtime.metrics();
/// runtime.block_on(corank_linux::time::sleep(Duration::from_millis(1)));
/// let metrics = runtime.metrics().since(&before);
/// assert!(metrics.time >= Duration::from_millis(1));
/// for worker in &metrics.workers {
///     println!("{}: {:.0} %", worker.name, 100.0 * metrics.busy_share(worker));
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// The name of the runtime; see [`Builder::name`](crate::Builder::name).
    pub name: String,
    /// The time since the runtime started; of an interval, its length.
    pub time: Duration,
    /// The threads that run coroutines, in the order in which they began.
    pub workers: Vec<WorkerMetrics>,
    /// The spare workers.
    pub spare_workers: SpareMetrics,
    /// The number of coroutines that have not exited.
    pub live: usize,
    /// The coroutines by level, if the runtime counts them: with `Builder::metrics` (feature
    /// `metrics`), or in a domain with the feature `figures`.
    pub coroutines: Option<Coroutines>,
}

/// The figures of one worker, or spare worker.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerMetrics {
    /// The name of its thread.
    pub name: String,
    /// What the worker is for.
    pub role: WorkerRole,
    /// The time in batches of polls, also in one that has not ended.
    ///
    /// It includes the scheduler's own work between two polls, and time in which Linux had no
    /// processor for the thread. It does not include checks for events. In a runtime that hosts
    /// tokio, it does not include polls of tokio's tasks.
    pub busy: Duration,
    /// How long the worker has been inside one poll at least, if the
    /// [watchdog](crate::WATCHDOG_TICK) has found it twice in that poll; otherwise `None`.
    ///
    /// The time is too short by up to a tick. A runtime without a watchdog does not know: one with
    /// a single worker, without spare workers, without a hook for blocked workers, without counted
    /// coroutines and outside of a domain.
    pub blocked: Option<Duration>,
}

/// The figures of the spare workers of a runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpareMetrics {
    /// The number of their threads, which are started when first needed.
    pub threads: usize,
    /// The number of those that poll in the place of a worker now.
    pub acting: usize,
    /// The number of times that one began to do so.
    pub takeovers: u64,
}

impl Metrics {
    /// Returns what happened after `earlier`, older figures of the same runtime.
    ///
    /// Counters and times are those in between, also the [waits](corank_figures::LevelState::waits)
    /// and so their percentiles. What is so now, and the longest times, are as in `self`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut between = self.clone();
        between.time = self.time.saturating_sub(earlier.time);
        // Workers are added, and none is removed.
        for (worker, before) in between.workers.iter_mut().zip(&earlier.workers) {
            worker.busy = worker.busy.saturating_sub(before.busy);
        }
        let takeovers = &mut between.spare_workers.takeovers;
        *takeovers = takeovers.saturating_sub(earlier.spare_workers.takeovers);
        if let (Some(now), Some(before)) = (&self.coroutines, &earlier.coroutines) {
            between.coroutines = Some(now.since(before));
        }
        between
    }

    /// Returns the share of [`time`](Self::time) that a worker was busy, from 0 to 1.
    #[must_use]
    pub fn busy_share(&self, worker: &WorkerMetrics) -> f64 {
        share(worker.busy, self.time).min(1.0)
    }

    /// Returns the number of workers and spare workers that one poll keeps for long.
    #[must_use]
    pub fn blocked_workers(&self) -> usize {
        let blocked = |worker: &&WorkerMetrics| worker.blocked.is_some();
        self.workers.iter().filter(blocked).count()
    }
}

/// Returns the ratio of two times; 0 if the second one is 0.
pub(crate) fn share(part: Duration, of: Duration) -> f64 {
    if of.is_zero() {
        0.0
    } else {
        part.as_secs_f64() / of.as_secs_f64()
    }
}

/// Returns how long a worker has been inside one poll, if that is long.
fn blocked(entry: &WorkerEntry, now: u64) -> Option<Duration> {
    let since = entry.parker.held_since()?;
    (!entry.is_inactive()).then(|| Duration::from_nanos(now.saturating_sub(since)))
}

impl Shared {
    /// Returns the figures of this moment.
    pub(crate) fn metrics(&self) -> Metrics {
        // Before the clock: a worker may be younger than an earlier reading.
        let entries = self.entries().clone();
        let now = time::clock();
        let worker = |entry: &WorkerEntry| WorkerMetrics {
            name: entry.parker.name().to_string(),
            role: entry.role,
            busy: Duration::from_nanos(entry.parker.busy_time(now)),
            blocked: blocked(entry, now),
        };
        Metrics {
            name: self.name.clone(),
            time: Duration::from_nanos(now.saturating_sub(self.started)),
            workers: entries.iter().map(worker).collect(),
            spare_workers: self.spare_metrics(),
            live: self.executor.live(),
            coroutines: self.figures.and_then(corank_figures::Figures::read),
        }
    }

    fn spare_metrics(&self) -> SpareMetrics {
        let (acting, takeovers) = self.spares.polling_and_takeovers();
        SpareMetrics {
            threads: self.count_spares(),
            acting,
            takeovers,
        }
    }

    /// Shows the state of the threads to the watchers of a domain.
    #[cfg(feature = "domain")]
    pub(crate) fn report_to(&self, participant: &corank_domain::Participant, now: u64) {
        let spares = self.spare_metrics();
        let mut state = corank_domain::RuntimeState::default();
        for entry in self.entries().iter() {
            state.busy += Duration::from_nanos(entry.parker.busy_time(now));
            state.blocked += u64::from(blocked(entry, now).is_some());
            state.workers += u64::from(entry.role != WorkerRole::Spare);
        }
        state.spare_workers = spares.threads as u64;
        state.takeovers = spares.takeovers;
        participant.report(&state);
    }
}
