//! The summary of a recording in the terminal.

use super::Shown;
use anyhow::Result;
use corank_recording::{LevelSummary, full_name, ring_name};
use std::io::Write;

/// Polls of at least this time, in nanoseconds, count as blocking their worker.
const BLOCKING: u64 = 5_000_000;
/// The inversions and polls that are printed.
const PRINTED: usize = 5;

pub(super) fn print(shown: &Shown, to: &mut impl Write) -> Result<()> {
    let (recording, summary) = (&shown.recording, &shown.summary);
    let length = summary.time.1.saturating_sub(summary.time.0);
    writeln!(
        to,
        "{}: {}, {} on {} workers, {} polls, {} events lost",
        shown.file.display(),
        shown.title(),
        time(Some(length)),
        recording.header.settings.workers,
        summary.polls.len(),
        recording.lost()
    )?;
    head(to, "level")?;
    for (level, figures) in &summary.levels {
        row(to, figures, &level.to_string())?;
    }
    head(to, "level  coroutines  name")?;
    for ((name, level), task) in &summary.tasks {
        let label = format!("{level:>5}  {:>10}  {name}", task.coroutines);
        row(to, &task.polls, &label)?;
    }
    if !summary.inversions.is_empty() {
        writeln!(to, "longest inversions:")?;
    }
    for inversion in summary.inversions.iter().take(PRINTED) {
        let running: Vec<String> = (inversion.running.iter())
            .map(|&(id, level)| format!("{} at level {level}", full_name(recording, id)))
            .collect();
        writeln!(
            to,
            "  {} at {}: {} at level {} waited while {} ran",
            time(Some(inversion.time.1 - inversion.time.0)),
            time(Some(inversion.time.0.saturating_sub(summary.time.0))),
            full_name(recording, inversion.id),
            inversion.level,
            running.join(" and ")
        )?;
    }
    let polls = summary.longest_polls();
    let lasted = |poll: &corank_recording::Poll| poll.time.1 - poll.time.0;
    let mut blocking = polls
        .iter()
        .filter(|poll| lasted(poll) >= BLOCKING)
        .peekable();
    if blocking.peek().is_some() {
        writeln!(to, "blocked workers:")?;
    }
    for poll in blocking.take(PRINTED) {
        writeln!(
            to,
            "  {} at {}: {} was kept by {}",
            time(Some(lasted(poll))),
            time(Some(poll.time.0.saturating_sub(summary.time.0))),
            ring_name(recording, poll.ring),
            full_name(recording, poll.id)
        )?;
    }
    Ok(())
}

fn head(to: &mut impl Write, label: &str) -> Result<()> {
    let columns = [
        "polls",
        "run",
        "wait p50",
        "p99",
        "max",
        "inversions",
        "inverted",
    ];
    for column in columns {
        write!(to, "{column:>11}")?;
    }
    writeln!(to, "  {label}")?;
    Ok(())
}

fn row(to: &mut impl Write, figures: &LevelSummary, label: &str) -> Result<()> {
    let waits = &figures.waits;
    let columns = [
        figures.polls.to_string(),
        time(Some(figures.run)),
        time(waits.quantile(0.5)),
        time(waits.quantile(0.99)),
        time(waits.quantile(1.0)),
        figures.inversions.to_string(),
        time(Some(figures.inverted)),
    ];
    for column in columns {
        // Widths count characters, and µ is one.
        write!(to, "{column:>11}")?;
    }
    writeln!(to, "  {label}")?;
    Ok(())
}

/// Returns a time in nanoseconds with a fitting unit.
fn time(time: Option<u64>) -> String {
    let Some(time) = time else {
        return "-".to_string();
    };
    let (unit, per) = match time {
        0 => return "0".to_string(),
        1..1000 => ("ns", 1.0),
        1000..1_000_000 => ("µs", 1e3),
        1_000_000..1_000_000_000 => ("ms", 1e6),
        _ => ("s", 1e9),
    };
    let digits = if per > 1.0 { 1 } else { 0 };
    format!("{:.digits$} {unit}", time as f64 / per)
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn times_have_fitting_units() {
        let texts = [
            None,
            Some(0),
            Some(999),
            Some(1500),
            Some(2_340_000),
            Some(70_000_000_000),
        ];
        assert_eq!(
            texts.map(time),
            ["-", "0", "999 ns", "1.5 µs", "2.3 ms", "70.0 s"]
        );
    }
}
