//! Recordings as a file of trace events, which ui.perfetto.dev opens.
//!
//! Each process has a track for each worker. A second group of tracks shows the polls of each
//! level. Arrows lead from a wake to the pick that it caused.

use super::Shown;
use anyhow::Result;
use corank_recording::{Kind, Poll, full_name, ring_name, short_name};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;

/// Writes events, with commas between them.
struct Events<'a, W> {
    to: &'a mut W,
    is_first: bool,
    /// The number of the last flow.
    flow: u64,
}

impl<W: Write> Events<'_, W> {
    fn add(&mut self, event: &Value) -> Result<()> {
        self.to
            .write_all(if self.is_first { b"\n" } else { b",\n" })?;
        self.is_first = false;
        Ok(serde_json::to_writer(&mut *self.to, event)?)
    }

    fn name(&mut self, what: &str, process: usize, thread: usize, name: &str) -> Result<()> {
        self.add(&json!({
            "ph": "M", "name": what, "pid": process, "tid": thread, "args": { "name": name },
        }))
    }
}

/// Returns nanoseconds as microseconds.
fn micros(time: u64) -> f64 {
    time as f64 / 1000.0
}

/// Writes recordings, with the earliest one's first step as time 0.
pub(super) fn write(shown: &[Shown], to: &mut impl Write) -> Result<()> {
    let start = shown.iter().map(|shown| shown.summary.time.0).min();
    write!(to, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    let mut events = Events {
        to,
        is_first: true,
        flow: 0,
    };
    for (number, shown) in shown.iter().enumerate() {
        // Two groups of tracks for each process: its workers, and its levels.
        let groups = (2 * number + 1, 2 * number + 2);
        write_one(shown, groups, start.unwrap_or(0), &mut events)?;
    }
    writeln!(to, "\n]}}")?;
    Ok(())
}

fn write_one<W: Write>(
    shown: &Shown,
    (workers, levels): (usize, usize),
    start: u64,
    events: &mut Events<'_, W>,
) -> Result<()> {
    let recording = &shown.recording;
    let title = shown.title();
    events.name("process_name", workers, 0, &title)?;
    events.name("process_name", levels, 0, &format!("{title}: levels"))?;
    for ring in 0..recording.rings.len() {
        events.name(
            "thread_name",
            workers,
            ring + 1,
            &ring_name(recording, ring),
        )?;
    }
    let since = |time: u64| micros(time.saturating_sub(start));
    // The end of the last poll in each lane of each level.
    let mut lanes: BTreeMap<u8, Vec<u64>> = BTreeMap::new();
    let mut polls: Vec<&Poll> = shown.summary.polls.iter().collect();
    polls.sort_by_key(|poll| poll.time);
    for poll in &polls {
        let name = short_name(recording.name(poll.id));
        let lane = lane(lanes.entry(poll.level).or_default(), poll.time);
        let wait = poll
            .ready
            .map(|ready| micros(poll.time.0.saturating_sub(ready.time)));
        let by = poll.ready.and_then(|ready| ready.by);
        for (process, thread) in [
            (workers, poll.ring + 1),
            (levels, usize::from(poll.level) * 1000 + lane + 1),
        ] {
            events.add(&json!({
                "ph": "X", "name": name, "cat": "poll", "pid": process, "tid": thread,
                "ts": since(poll.time.0), "dur": micros(poll.time.1 - poll.time.0),
                "args": {
                    "coroutine": poll.id.to_string(), "level": poll.level, "wait_us": wait,
                    "woken by": by.map(|by| full_name(recording, by)),
                    "end": poll.end.map(|end| format!("{end:?}")),
                },
            }))?;
        }
        write_flow(poll, workers, since, events)?;
    }
    for (level, lanes) in lanes {
        for lane in 0..lanes.len() {
            let name = match lane {
                0 => format!("level {level}"),
                lane => format!("level {level} ({})", lane + 1),
            };
            let thread = usize::from(level) * 1000 + lane + 1;
            events.name("thread_name", levels, thread, &name)?;
        }
    }
    write_ready(&polls, levels, since, events)
}

/// Writes the arrow from a wake to the poll.
fn write_flow<W: Write>(
    poll: &Poll,
    process: usize,
    since: impl Fn(u64) -> f64,
    events: &mut Events<'_, W>,
) -> Result<()> {
    let Some(ready) = poll.ready.filter(|ready| ready.kind != Kind::Yield) else {
        return Ok(());
    };
    events.flow += 1;
    let (id, thread) = (events.flow, ready.ring + 1);
    if ready.by.is_none() {
        // An arrow begins at a slice.
        events.add(&json!({
            "ph": "X", "name": "wake", "cat": "wake", "pid": process, "tid": thread,
            "ts": since(ready.time), "dur": 0.1,
        }))?;
    }
    events.add(&json!({
        "ph": "s", "name": "wake", "cat": "wake", "id": id, "pid": process, "tid": thread,
        "ts": since(ready.time),
    }))?;
    events.add(&json!({
        "ph": "f", "bp": "e", "name": "wake", "cat": "wake", "id": id, "pid": process,
        "tid": poll.ring + 1, "ts": since(poll.time.0),
    }))
}

/// Writes how many coroutines of each level are ready.
fn write_ready<W: Write>(
    polls: &[&Poll],
    process: usize,
    since: impl Fn(u64) -> f64,
    events: &mut Events<'_, W>,
) -> Result<()> {
    let mut changes: Vec<(u64, u8, i64)> = Vec::new();
    for poll in polls {
        if let Some(ready) = poll.ready {
            changes.push((ready.time, poll.level, 1));
            changes.push((poll.time.0, poll.level, -1));
        }
    }
    changes.sort_by_key(|&(time, _, change)| (time, -change));
    let mut ready = [0_i64; 64];
    for (time, level, change) in changes {
        let count = &mut ready[usize::from(level & 63)];
        *count += change;
        events.add(&json!({
            "ph": "C", "name": format!("ready at level {level}"), "pid": process, "tid": 0,
            "ts": since(time), "args": { "coroutines": *count },
        }))?;
    }
    Ok(())
}

/// Returns the first lane that is free at the beginning, and takes it until the end.
fn lane(lanes: &mut Vec<u64>, (begin, end): (u64, u64)) -> usize {
    let free = lanes.iter().position(|&ended| ended <= begin);
    let lane = free.unwrap_or(lanes.len());
    match lanes.get_mut(lane) {
        Some(ended) => *ended = end,
        None => lanes.push(end),
    }
    lane
}
