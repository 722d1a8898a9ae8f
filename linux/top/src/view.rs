//! The text that the screen shows: a table of processes, and one of the levels of all.

use corank_domain::{Activity, LevelState, Process};
use std::collections::BTreeMap;
use std::time::Duration;

/// A sample and the one before, for what happened in between.
pub(crate) struct Snapshots {
    now: Vec<Process>,
    before: Vec<Process>,
    between: Duration,
}

/// A line of a table.
pub(crate) type Line = Vec<String>;

pub(crate) const PROCESS_HEADER: [&str; 11] = [
    "PID",
    "NAME",
    "MODE",
    "LEVELS",
    "RUNS",
    "ASIDE",
    "IDLE",
    "READY",
    "BLOCKED",
    "INVERSIONS",
    "LONGEST",
];
pub(crate) const LEVEL_HEADER: [&str; 7] = [
    "LEVEL",
    "READY",
    "RUNNING",
    "POLLS/s",
    "RUN %",
    "WAIT/POLL",
    "LONGEST WAIT",
];

impl Snapshots {
    pub(crate) fn new() -> Self {
        Self {
            now: Vec::new(),
            before: Vec::new(),
            between: Duration::ZERO,
        }
    }

    /// Adds one more sample, taken the time `between` after the last.
    pub(crate) fn add(&mut self, processes: Vec<Process>, between: Duration) {
        self.before = std::mem::replace(&mut self.now, processes);
        self.between = between;
    }

    /// Returns a line for each process.
    pub(crate) fn processes(&self) -> Vec<Line> {
        self.now.iter().map(process).collect()
    }

    /// Returns a line for each level that any process counts, the most urgent first.
    pub(crate) fn levels(&self) -> Vec<Line> {
        let (now, before) = (sums(&self.now), sums(&self.before));
        let seconds = self.between.as_secs_f64();
        now.iter()
            .map(|(level, now)| {
                let before = before.get(level).copied().unwrap_or_default();
                // The counts of a process that has gone are missing in the new sample.
                let polls = now.polls.saturating_sub(before.polls);
                let run = now.run.saturating_sub(before.run);
                let wait = now.wait.saturating_sub(before.wait);
                let rate = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
                vec![
                    level.to_string(),
                    now.ready.to_string(),
                    now.running.to_string(),
                    format!("{:.0}", rate(polls as f64)),
                    format!("{:.1}", 100.0 * rate(run.as_secs_f64())),
                    match u32::try_from(polls) {
                        Ok(polls @ 1..) => time(wait / polls),
                        _ => "-".into(),
                    },
                    time(now.longest_wait),
                ]
            })
            .collect()
    }
}

/// The counts of one level in all processes.
#[derive(Clone, Copy, Default)]
struct Sum {
    ready: u64,
    running: u64,
    polls: u64,
    run: Duration,
    wait: Duration,
    longest_wait: Duration,
}

/// Sums the counts of all processes by level.
///
/// The counts of a process may be any number, so nothing here overflows.
fn sums(processes: &[Process]) -> BTreeMap<u8, Sum> {
    let mut sums: BTreeMap<u8, Sum> = BTreeMap::new();
    let levels = processes
        .iter()
        .filter_map(|process| process.coroutines.as_ref());
    for state in levels.flat_map(|coroutines| &coroutines.levels) {
        let state: &LevelState = state;
        let sum = sums.entry(state.level.level()).or_default();
        sum.ready = sum.ready.saturating_add(state.ready);
        sum.running = sum.running.saturating_add(state.running);
        sum.polls = sum.polls.saturating_add(state.polls);
        sum.run = sum.run.saturating_add(state.run);
        sum.wait = sum.wait.saturating_add(state.wait);
        sum.longest_wait = sum.longest_wait.max(state.longest_wait);
    }
    sums
}

fn process(process: &Process) -> Line {
    let busy = process.ready.union(process.running);
    let count = |wanted: Activity| {
        let workers = process.workers.iter();
        workers
            .filter(|worker| worker.activity == wanted)
            .count()
            .to_string()
    };
    let (ready, blocked) = match &process.coroutines {
        Some(coroutines) => {
            let ready = coroutines.levels.iter().map(|level| level.ready);
            let ready = ready.fold(0u64, u64::saturating_add);
            (ready.to_string(), coroutines.blocked.to_string())
        }
        None => ("-".into(), "-".into()),
    };
    vec![
        process.id.to_string(),
        process.name.clone(),
        crate::json::mode(process.mode).into(),
        ranges(busy.bits()),
        count(Activity::Runs),
        count(Activity::Aside),
        count(Activity::Idle),
        ready,
        blocked,
        process.inversions.to_string(),
        time(process.longest_inversion),
    ]
}

/// Formats bits as ranges, such as `3 10-12`.
fn ranges(bits: u64) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut level = 0;
    while level < 64 {
        let length = (!(bits >> level)).trailing_zeros();
        match length {
            0 => level += 1,
            1 => parts.push(level.to_string()),
            _ => parts.push(format!("{level}-{}", level + length - 1)),
        }
        level += length;
    }
    if parts.is_empty() {
        "-".into()
    } else {
        parts.join(" ")
    }
}

/// Formats a time in its largest unit that leaves a digit before the point.
fn time(time: Duration) -> String {
    let nanoseconds = time.as_nanos();
    let (unit, name) = match nanoseconds {
        0..1_000 => return format!("{nanoseconds} ns"),
        1_000..1_000_000 => (1e3, "µs"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!("{:.1} {name}", nanoseconds as f64 / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_shown_as_ranges() {
        assert_eq!(ranges(0), "-");
        assert_eq!(ranges(0b1), "0");
        assert_eq!(ranges(0b1101_1000), "3-4 6-7");
        assert_eq!(ranges(1 << 63 | 0b100), "2 63");
        assert_eq!(ranges(u64::MAX), "0-63");
    }

    #[test]
    fn times_have_a_unit_that_fits() {
        let shown =
            [0, 999, 1500, 2_000_000, 3_500_000_000].map(|ns| time(Duration::from_nanos(ns)));
        assert_eq!(shown, ["0 ns", "999 ns", "1.5 µs", "2.0 ms", "3.5 s"]);
        assert!(time(Duration::MAX).ends_with(" s"));
    }
}
