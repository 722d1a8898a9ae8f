//! Recordings as one page that needs no network.
//!
//! The page gets the polls as arrays of numbers in base64, so that 100,000 of them stay small and
//! are drawn from typed arrays.

use super::Shown;
use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use corank_recording::{full_name, ring_name, short_name};
use serde_json::json;
use std::collections::HashMap;
use std::io::Write;

const PAGE: &str = include_str!("page.html");
/// Where the page takes its data.
const PLACE: &str = "/*DATA*/null";

/// Columns of numbers, one for each poll.
#[derive(Default)]
struct Columns {
    /// Begin and end in microseconds since the start, of 64 bits.
    begin: Vec<u8>,
    end: Vec<u8>,
    /// The wait before in microseconds, of 32 bits; -1 if it is not known.
    wait: Vec<u8>,
    /// The track, of 16 bits.
    track: Vec<u8>,
    level: Vec<u8>,
    /// The number of the name, of 32 bits.
    name: Vec<u8>,
    /// The poll's coroutine: its slot, of 32 bits.
    slot: Vec<u8>,
}

/// Writes a page, with the earliest recording's first step as time 0.
pub(super) fn write(shown: &[Shown], to: &mut impl Write) -> Result<()> {
    let start = shown
        .iter()
        .map(|shown| shown.summary.time.0)
        .min()
        .unwrap_or(0);
    let since = |time: u64| time.saturating_sub(start) as f64 / 1000.0;
    let mut columns = Columns::default();
    let mut tracks = Vec::new();
    let mut names: Vec<String> = Vec::new();
    let mut numbers: HashMap<String, u32> = HashMap::new();
    let mut inversions = Vec::new();
    let is_one = shown.len() == 1;
    for shown in shown {
        let recording = &shown.recording;
        let first = tracks.len();
        for ring in 0..recording.rings.len() {
            let ring = ring_name(recording, ring);
            tracks.push(if is_one {
                ring
            } else {
                format!("{}: {ring}", shown.title())
            });
        }
        let mut polls = shown.summary.polls.clone();
        polls.sort_by_key(|poll| poll.time);
        for poll in polls {
            let name = short_name(recording.name(poll.id));
            let number = *numbers.entry(name).or_insert_with_key(|name| {
                names.push(name.clone());
                (names.len() - 1) as u32
            });
            let wait = poll.ready.map_or(-1.0, |ready| {
                poll.time.0.saturating_sub(ready.time) as f32 / 1000.0
            });
            let track = (first + poll.ring) as u16;
            columns.begin.extend(since(poll.time.0).to_le_bytes());
            columns.end.extend(since(poll.time.1).to_le_bytes());
            columns.wait.extend(wait.to_le_bytes());
            columns.track.extend(track.to_le_bytes());
            columns.level.push(poll.level);
            columns.name.extend(number.to_le_bytes());
            columns.slot.extend(poll.id.slot.to_le_bytes());
        }
        for inversion in &shown.summary.inversions {
            let running: Vec<String> = (inversion.running.iter())
                .map(|&(id, level)| format!("{} at level {level}", full_name(recording, id)))
                .collect();
            inversions.push(json!({
                "begin": since(inversion.time.0), "end": since(inversion.time.1),
                "level": inversion.level, "what": full_name(recording, inversion.id),
                "running": running,
            }));
        }
    }
    let packed = |column: &[u8]| STANDARD.encode(column);
    let titles: Vec<String> = shown.iter().map(Shown::title).collect();
    let lost: u64 = shown.iter().map(|shown| shown.recording.lost()).sum();
    let data = json!({
        "title": titles.join(" · "), "lost": lost, "tracks": tracks, "names": names,
        "inversions": inversions,
        "begin": packed(&columns.begin), "end": packed(&columns.end),
        "wait": packed(&columns.wait), "track": packed(&columns.track),
        "level": packed(&columns.level), "name": packed(&columns.name),
        "slot": packed(&columns.slot),
    });
    // A name must not end the script that contains it.
    let data = data.to_string().replace('<', "\\u003c");
    let (before, after) = PAGE
        .split_once(PLACE)
        .expect("the page has a place for its data");
    write!(to, "{before}{data}{after}")?;
    Ok(())
}
