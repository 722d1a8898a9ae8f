//! The text that the screen shows: tables of processes, of their runtimes, and of their levels.

use corank_domain::{Activity, Coroutines, LevelState, Process};
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
pub(crate) const RUNTIME_HEADER: [&str; 7] = [
    "PID",
    "NAME",
    "WORKERS",
    "BUSY %",
    "BLOCKED",
    "SPARE",
    "TAKEOVERS",
];
pub(crate) const LEVEL_HEADER: [&str; 12] = [
    "PID",
    "LEVEL",
    "READY",
    "RUNNING",
    "POLLS/s",
    "RUN %",
    "WAIT/POLL",
    "WAIT P50",
    "WAIT P99",
    "LONGEST",
    "INVERSIONS",
    "LONGEST",
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

    /// Returns a line for each process with a runtime that reports the state of its threads.
    pub(crate) fn runtimes(&self) -> Vec<Line> {
        let line = |process: &Process| {
            let now = process.runtime?;
            let before = self.before(process).and_then(|before| before.runtime);
            let busy = before.map(|before| now.busy.saturating_sub(before.busy));
            Some(vec![
                process.id.to_string(),
                process.name.clone(),
                now.workers.to_string(),
                self.percent(busy),
                now.blocked.to_string(),
                now.spare_workers.to_string(),
                now.takeovers.to_string(),
            ])
        };
        self.now.iter().filter_map(line).collect()
    }

    /// Returns a line for each level that a process counts, the most urgent first.
    ///
    /// Each has the counts of one process. So one that shows wrong counts changes no line of
    /// another one.
    pub(crate) fn levels(&self) -> Vec<Line> {
        let mut lines: Vec<(u8, Line)> = Vec::new();
        for process in &self.now {
            let before = self
                .before(process)
                .and_then(|before| before.coroutines.as_ref());
            for level in between(process.coroutines.as_ref(), before) {
                let line = self.level(process.id, &level, before.is_some());
                lines.push((level.level.level(), line));
            }
        }
        // Processes are in order already.
        lines.sort_by_key(|&(level, _)| level);
        lines.into_iter().map(|(_, line)| line).collect()
    }

    /// Formats a level, with the figures since the last sample if there `has_before` been one.
    fn level(&self, process: u32, level: &LevelState, has_before: bool) -> Line {
        let seconds = self.between.as_secs_f64();
        let polls = if has_before && seconds > 0.0 {
            format!("{:.0}", level.polls as f64 / seconds)
        } else {
            "-".into()
        };
        let mean = match u32::try_from(level.polls) {
            Ok(polls @ 1..) => Some(level.wait / polls),
            _ => None,
        };
        vec![
            process.to_string(),
            level.level.level().to_string(),
            level.ready.to_string(),
            level.running.to_string(),
            polls,
            self.percent(has_before.then_some(level.run)),
            mean.map_or("-".into(), time),
            level.wait_p50().map_or("-".into(), time),
            level.wait_p99().map_or("-".into(), time),
            time(level.longest_wait),
            level.inversions.to_string(),
            time(level.longest_inversion),
        ]
    }

    /// Returns what a process showed in the sample before.
    fn before(&self, process: &Process) -> Option<&Process> {
        let mut before = self.before.iter();
        before.find(|before| before.participant == process.participant)
    }

    /// Formats a share of the time since the last sample, in percent of one processor.
    fn percent(&self, time: Option<Duration>) -> String {
        match time {
            Some(time) if !self.between.is_zero() => {
                let share = time.as_secs_f64() / self.between.as_secs_f64();
                format!("{:.1}", 100.0 * share)
            }
            _ => "-".into(),
        }
    }
}

/// Returns the levels of a process, with what happened since the sample before, or since its start
/// if there is none.
pub(crate) fn between(now: Option<&Coroutines>, before: Option<&Coroutines>) -> Vec<LevelState> {
    match (now, before) {
        (Some(now), Some(before)) => now.since(before).levels,
        (Some(now), None) => now.levels.clone(),
        (None, _) => Vec::new(),
    }
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
