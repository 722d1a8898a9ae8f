//! An exporter of the [figures](crate::Metrics) of a runtime through the crate `metrics` (feature
//! `metrics`), and so for Prometheus, StatsD and others.
//!
//! Figures by level are there if the runtime counts its coroutines:
//! [`Builder::metrics`](crate::Builder::metrics).
//!
//! ```
//! use std::time::Duration;
//! use corank_linux::{Builder, Priority, metrics};
//!
//! let runtime = Builder::new().metrics(true).build()?;
//! // A recorder of any kind is installed before, such as that of `metrics-exporter-prometheus`.
//! let export = metrics::export(runtime.handle().clone(), Duration::from_secs(10));
//! runtime.handle().spawn(Priority::DEFAULT, export)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Each metric has the label `runtime`, the name of the [builder](crate::Builder::name); those by
//! level have `level`, and those of a worker `worker`, the name of its thread, and `role`.
//! *Interval* is the time since the call before.
//!
//! | metric | kind | what it says |
//! |---|---|---|
//! | `corank_live` | gauge | coroutines that have not exited |
//! | `corank_waiting` | gauge | coroutines that wait for something |
//! | `corank_ready` | gauge by level | length of the ready queue |
//! | `corank_running` | gauge by level | polls in progress |
//! | `corank_polls_total` | counter by level | polls that have begun |
//! | `corank_poll_share` | gauge by level | time in polls, of the interval; 1 is one worker |
//! | `corank_wait_seconds` | gauge by level and `quantile`, `0.5` or `0.99` | waits that ended in the interval, from ready to the poll; not a number if there were none |
//! | `corank_wait_longest_seconds` | gauge by level | a bound of the longest of these; not a number if there were none |
//! | `corank_inversions_total` | counter by level | times that something less urgent held up a coroutine that became ready ([`LevelState`](crate::LevelState)) |
//! | `corank_inversion_share` | gauge by level | time of inversions that ended in the interval, of the interval; with several coroutines it may be more than 1 |
//! | `corank_inversion_longest_seconds` | gauge by level | the longest inversion since the start |
//! | `corank_worker_busy_share` | gauge by worker | time in polls, of the interval |
//! | `corank_worker_blocked_seconds` | gauge by worker | how long one poll has kept it; 0 if it is not blocked |
//! | `corank_blocked_workers` | gauge | workers that one poll keeps for long |
//! | `corank_spare_workers` | gauge | threads of spare workers |
//! | `corank_spare_workers_acting` | gauge | those that poll in the place of a worker |
//! | `corank_spare_takeovers_total` | counter | times that one began to do so |
//!
//! `linux/grafana/corank.json` in the repository is a dashboard of Grafana that shows them.

use std::time::Duration;

use ::metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

use crate::handle::Handle;
use crate::snapshot::{Metrics, share};
use crate::time;

/// The shortest interval of [`export`].
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);

/// Publishes the figures of a runtime to the recorder that is installed, again and again.
///
/// Shares and percentiles are those of the time between two calls, or since the
/// [creation](Self::new) for the first one.
#[derive(Debug)]
pub struct Exporter {
    runtime: Handle,
    before: Metrics,
}

impl Exporter {
    /// Creates an exporter, and describes the metrics to the recorder that is installed.
    pub fn new(runtime: Handle) -> Self {
        describe();
        let before = runtime.metrics();
        Self { runtime, before }
    }

    /// Publishes the figures of this moment, and of the time since the last call.
    ///
    /// It takes some microseconds for each worker and level. Does nothing else if no recorder is
    /// installed.
    pub fn publish(&mut self) {
        let now = self.runtime.metrics();
        publish(&now, &now.since(&self.before));
        self.before = now;
    }
}

/// Publishes the figures of a runtime each `interval`, for ever; for a coroutine of that runtime or
/// another one.
///
/// Its level is to be urgent enough for its work: it publishes late if other coroutines keep the
/// workers. The first publication is after one interval. Less than a millisecond counts as one.
pub async fn export(runtime: Handle, interval: Duration) {
    let mut exporter = Exporter::new(runtime);
    loop {
        time::sleep(interval.max(SHORTEST_INTERVAL)).await;
        exporter.publish();
    }
}

fn describe() {
    let gauges = [
        (
            "corank_live",
            Unit::Count,
            "Coroutines that have not exited",
        ),
        (
            "corank_waiting",
            Unit::Count,
            "Coroutines that wait for something",
        ),
        ("corank_ready", Unit::Count, "Ready coroutines"),
        ("corank_running", Unit::Count, "Polls in progress"),
        (
            "corank_poll_share",
            Unit::Count,
            "Time in polls, of the interval; 1 is one worker",
        ),
        (
            "corank_wait_seconds",
            Unit::Seconds,
            "Time from ready to the poll, of the interval",
        ),
        (
            "corank_wait_longest_seconds",
            Unit::Seconds,
            "Longest wait of the interval",
        ),
        (
            "corank_inversion_share",
            Unit::Count,
            "Time held up by less urgent polls, of the interval",
        ),
        (
            "corank_inversion_longest_seconds",
            Unit::Seconds,
            "Longest inversion since the start",
        ),
        (
            "corank_worker_busy_share",
            Unit::Count,
            "Time in polls, of the interval",
        ),
        (
            "corank_worker_blocked_seconds",
            Unit::Seconds,
            "Age of a poll that keeps the worker",
        ),
        (
            "corank_blocked_workers",
            Unit::Count,
            "Workers that one poll keeps for long",
        ),
        (
            "corank_spare_workers",
            Unit::Count,
            "Threads of spare workers",
        ),
        (
            "corank_spare_workers_acting",
            Unit::Count,
            "Spare workers that poll for a worker",
        ),
    ];
    for (name, unit, text) in gauges {
        describe_gauge!(name, unit, text);
    }
    let counters = [
        ("corank_polls_total", "Polls that have begun"),
        (
            "corank_inversions_total",
            "Times that less urgent polls held up a ready coroutine",
        ),
        (
            "corank_spare_takeovers_total",
            "Times that a spare worker began to poll for a worker",
        ),
    ];
    for (name, text) in counters {
        describe_counter!(name, Unit::Count, text);
    }
}

/// Publishes figures of now, and of the interval before.
fn publish(now: &Metrics, between: &Metrics) {
    let runtime = now.name.as_str();
    let set =
        |name: &'static str, value: f64| gauge!(name, "runtime" => runtime.to_string()).set(value);
    set("corank_live", now.live as f64);
    set("corank_blocked_workers", now.blocked_workers() as f64);
    set("corank_spare_workers", now.spare_workers.threads as f64);
    set(
        "corank_spare_workers_acting",
        now.spare_workers.acting as f64,
    );
    counter!("corank_spare_takeovers_total", "runtime" => runtime.to_string())
        .absolute(now.spare_workers.takeovers);
    publish_workers(runtime, between);
    let (Some(now), Some(coroutines)) = (&now.coroutines, &between.coroutines) else {
        return;
    };
    set("corank_waiting", now.blocked as f64);
    // Both have the same levels: those of an interval are those of its end.
    for (now, level) in now.levels.iter().zip(&coroutines.levels) {
        let labels = [
            ("runtime", runtime.to_string()),
            ("level", level.level.level().to_string()),
        ];
        let set = |name: &'static str, value: f64| gauge!(name, &labels).set(value);
        set("corank_ready", level.ready as f64);
        set("corank_running", level.running as f64);
        set("corank_poll_share", share(level.run, between.time));
        let longest = level.waits.longest();
        set("corank_wait_longest_seconds", seconds(longest));
        set(
            "corank_inversion_share",
            share(level.inverted, between.time),
        );
        let longest = level.longest_inversion;
        set("corank_inversion_longest_seconds", longest.as_secs_f64());
        counter!("corank_polls_total", &labels).absolute(now.polls);
        counter!("corank_inversions_total", &labels).absolute(now.inversions);
        for (quantile, wait) in [("0.5", level.wait_p50()), ("0.99", level.wait_p99())] {
            let [runtime, level] = labels.clone();
            let labels = [runtime, level, ("quantile", quantile.to_string())];
            gauge!("corank_wait_seconds", &labels).set(seconds(wait));
        }
    }
}

fn publish_workers(runtime: &str, between: &Metrics) {
    for worker in &between.workers {
        let labels = [
            ("runtime", runtime.to_string()),
            ("worker", worker.name.clone()),
            ("role", format!("{:?}", worker.role).to_lowercase()),
        ];
        gauge!("corank_worker_busy_share", &labels).set(between.busy_share(worker));
        let blocked = worker.blocked.unwrap_or_default();
        gauge!("corank_worker_blocked_seconds", &labels).set(blocked.as_secs_f64());
    }
}

/// Returns a time in seconds; not a number if there is none.
fn seconds(time: Option<Duration>) -> f64 {
    time.map_or(f64::NAN, |time| time.as_secs_f64())
}
