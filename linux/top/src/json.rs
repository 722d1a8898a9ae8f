//! The output for scripts: one JSON document per sample.

use crate::view;
use anyhow::Result;
use corank_domain::{Activity, LevelState, Mode, Process, RuntimeState, Watcher};
use serde_json::{Value, json};
use std::io::Write;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Prints `count` samples, a line each. Ends without an error when the reading end is closed.
pub(crate) fn print(
    watcher: &mut Watcher,
    domain: &str,
    interval: Duration,
    count: u64,
) -> Result<()> {
    let mut output = std::io::stdout().lock();
    let mut before = Vec::new();
    for snapshot in 0..count {
        if snapshot > 0 {
            thread::sleep(interval);
        }
        let processes = watcher.snapshot();
        let line = document(domain, watcher, &processes, &before);
        before = processes;
        match writeln!(output, "{line}").and_then(|()| output.flush()) {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => break,
            result => result?,
        }
    }
    Ok(())
}

/// Returns the document of one sample.
///
/// Times are in nanoseconds, the time of the sample in seconds since 1970. Counts and sums are
/// since a process began. Percentiles are of the waits since the sample before, if the process was
/// there.
fn document(domain: &str, watcher: &Watcher, processes: &[Process], before: &[Process]) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    json!({
        "domain": domain,
        "time": now.map_or(0.0, |since| since.as_secs_f64()),
        "processes": processes.iter().map(|now| process(now, before)).collect::<Vec<_>>(),
        "refused": watcher.refused().map(|(pid, why)| json!({"pid": pid, "why": why})).collect::<Vec<_>>(),
    })
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn process(process: &Process, before: &[Process]) -> Value {
    let levels = |levels: corank::Levels| -> Vec<u8> {
        (0..64)
            .filter(|level| levels.bits() >> level & 1 != 0)
            .collect()
    };
    let workers: Vec<Value> = (process.workers.iter())
        .map(|worker| json!({"level": worker.level.level(), "activity": activity(worker.activity)}))
        .collect();
    let before = (before.iter()).find(|before| before.participant == process.participant);
    let before = before.and_then(|before| before.coroutines.as_ref());
    let coroutines = process.coroutines.as_ref().map(|coroutines| {
        let between = view::between(Some(coroutines), before);
        let levels: Vec<Value> = (coroutines.levels.iter().zip(&between))
            .map(|(level, between)| self::level(level, between))
            .collect();
        json!({"blocked": coroutines.blocked, "levels": levels})
    });
    json!({
        "pid": process.id,
        "name": process.name,
        "mode": mode(process.mode),
        "ready_levels": levels(process.ready),
        "running_levels": levels(process.running),
        "workers": workers,
        "asides": process.asides,
        "inversions": process.inversions,
        "inverted_ns": nanoseconds(process.inverted),
        "longest_inversion_ns": nanoseconds(process.longest_inversion),
        "runtime": process.runtime.as_ref().map(runtime),
        "coroutines": coroutines,
    })
}

fn runtime(runtime: &RuntimeState) -> Value {
    json!({
        "workers": runtime.workers,
        "busy_ns": nanoseconds(runtime.busy),
        "blocked_workers": runtime.blocked,
        "spare_workers": runtime.spare_workers,
        "takeovers": runtime.takeovers,
    })
}

fn level(level: &LevelState, between: &LevelState) -> Value {
    json!({
        "level": level.level.level(),
        "ready": level.ready,
        "running": level.running,
        "polls": level.polls,
        "run_ns": nanoseconds(level.run),
        "wait_ns": nanoseconds(level.wait),
        "longest_wait_ns": nanoseconds(level.longest_wait),
        "wait_p50_ns": between.wait_p50().map(nanoseconds),
        "wait_p99_ns": between.wait_p99().map(nanoseconds),
        "inversions": level.inversions,
        "inverted_ns": nanoseconds(level.inverted),
        "longest_inversion_ns": nanoseconds(level.longest_inversion),
    })
}

pub(crate) fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Relaxed => "relaxed",
        Mode::Strict => "strict",
    }
}

pub(crate) fn activity(activity: Activity) -> &'static str {
    match activity {
        Activity::Runs => "runs",
        Activity::Aside => "aside",
        Activity::Idle => "idle",
        Activity::Silent => "silent",
        _ => "other",
    }
}
