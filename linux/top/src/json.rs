//! The output for scripts: one JSON document per sample.

use anyhow::Result;
use corank_domain::{Activity, Mode, Process, Watcher};
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
    for snapshot in 0..count {
        if snapshot > 0 {
            thread::sleep(interval);
        }
        let processes = watcher.snapshot();
        let line = document(domain, watcher, &processes);
        match writeln!(output, "{line}").and_then(|()| output.flush()) {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => break,
            result => result?,
        }
    }
    Ok(())
}

/// Returns the document of one sample.
///
/// Times are in nanoseconds, the time of the sample in seconds since 1970.
fn document(domain: &str, watcher: &Watcher, processes: &[Process]) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    json!({
        "domain": domain,
        "time": now.map_or(0.0, |since| since.as_secs_f64()),
        "processes": processes.iter().map(process).collect::<Vec<_>>(),
        "refused": watcher.refused().map(|(pid, why)| json!({"pid": pid, "why": why})).collect::<Vec<_>>(),
    })
}

fn process(process: &Process) -> Value {
    let nanoseconds = |time: Duration| time.as_nanos() as u64;
    let levels = |levels: corank::Levels| -> Vec<u8> {
        (0..64)
            .filter(|level| levels.bits() >> level & 1 != 0)
            .collect()
    };
    let workers: Vec<Value> = (process.workers.iter())
        .map(|worker| json!({"level": worker.level.level(), "activity": activity(worker.activity)}))
        .collect();
    let coroutines = process.coroutines.as_ref().map(|coroutines| {
        let levels: Vec<Value> = (coroutines.levels.iter())
            .map(|level| {
                json!({
                    "level": level.level.level(), "ready": level.ready, "running": level.running, "polls": level.polls,
                    "run_ns": nanoseconds(level.run), "wait_ns": nanoseconds(level.wait),
                    "longest_wait_ns": nanoseconds(level.longest_wait),
                })
            })
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
        "coroutines": coroutines,
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
