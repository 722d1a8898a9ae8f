//! The text of a trace.

use super::begin::Beginning;
use super::parts::{Line, Part};
use super::waits::Waits;
use crate::format::Id;
use crate::read::Recording;
use crate::summary::short_name;
use std::collections::BTreeSet;
use std::fmt::Write as _;

pub(super) fn write(
    recording: &Recording,
    scene: &Beginning<'_>,
    waits: &Waits,
    parts: &[Part],
    name: &str,
) -> String {
    let settings = &recording.header.settings;
    let mut text = format!("corank-trace 1\nname {name}\n");
    let mut rules: BTreeSet<&str> = lines(parts).filter_map(rule).collect();
    rules.extend(["O1", "O2"]);
    if settings.bounded > 0 {
        rules.insert("B2");
    }
    // The recording's own one is none of the contract.
    let broken = scene.broken.as_ref().filter(|broken| broken.rule != "H");
    rules.extend(broken.map(|broken| broken.rule));
    text += "rules";
    for rule in rules {
        text += " ";
        text += rule;
    }
    text += "\n\n";
    let (first, last) = (scene.first, scene.first + scene.steps.len());
    let program = plain(&settings.program);
    let _ = writeln!(
        text,
        "# steps {first} to {last} of a recording of {program}"
    );
    if settings.bounded > 0 {
        let _ = writeln!(text, "policy bounded {}", settings.bounded);
    }
    for mutex in waits.mutexes() {
        let _ = writeln!(text, "mutex {}", mutex_name(mutex));
    }
    let names = |id| name_of(recording, id);
    for part in parts {
        match part {
            Part::Line(line) => write_line(&mut text, *line, &names),
            Part::Poll(id, lines) => {
                let _ = writeln!(text, "run {}", names(*id));
                for &line in lines {
                    text += "  ";
                    write_line(&mut text, line, &names);
                }
            }
        }
    }
    if let Some(broken) = &scene.broken {
        let (rule, message) = (broken.rule, plain(&broken.message));
        let _ = writeln!(text, "# the recording breaks rule {rule} here: {message}");
    }
    text
}

fn lines(parts: &[Part]) -> impl Iterator<Item = Line> {
    parts.iter().flat_map(|part| match part {
        Part::Line(line) => vec![*line],
        Part::Poll(_, lines) => lines.clone(),
    })
}

/// Returns a rule that a line exercises.
fn rule(line: Line) -> Option<&'static str> {
    Some(match line {
        Line::Wake(_) => "W1",
        Line::Reprioritize(..) => "R1",
        Line::Cancel(_) => "X1",
        Line::LockWaits(_) => "M2",
        Line::Unlock(_) => "M3",
        Line::JoinWaits(_) => "X5",
        Line::Yield => "S4",
        Line::Panic => "F1",
        Line::Level(..) => "P5",
        _ => return None,
    })
}

fn write_line(text: &mut String, line: Line, name: &dyn Fn(Id) -> String) {
    let line = match line {
        Line::Spawn(id, level) => format!("spawn {} {level}", name(id)),
        Line::Wake(id) => format!("wake {}", name(id)),
        Line::Reprioritize(id, level) => format!("reprioritize {} {level}", name(id)),
        Line::Cancel(id) => format!("cancel {}", name(id)),
        Line::Lock(mutex) => format!("lock {}", mutex_name(mutex)),
        Line::Unlock(mutex) => format!("unlock {}", mutex_name(mutex)),
        Line::LockWaits(mutex) => format!("lock {} waits", mutex_name(mutex)),
        Line::JoinWaits(id) => format!("join {} waits", name(id)),
        Line::Got(None) => "got".to_string(),
        Line::Got(Some(result)) => format!("got {result}"),
        Line::Waits => "waits".to_string(),
        Line::Abandon => "abandon".to_string(),
        Line::Yield => "yield".to_string(),
        Line::Block => "block".to_string(),
        Line::Finish => "finish".to_string(),
        Line::Panic => "panic".to_string(),
        Line::State(id, state) => format!("state {} {state}", name(id)),
        Line::Level(id, level) => format!("level {} {level}", name(id)),
        Line::Idle => "idle".to_string(),
    };
    text.push_str(&line);
    text.push('\n');
}

fn mutex_name(mutex: usize) -> String {
    format!("M{mutex}")
}

/// Returns a name that the format of traces allows, and that no other coroutine has.
fn name_of(recording: &Recording, Id { slot, generation }: Id) -> String {
    let name = recording.name(Id { slot, generation });
    let name = short_name(name.or(Some("c")));
    let name: String = (last_word(&name).chars())
        .filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_')
        .skip_while(|letter| !letter.is_ascii_alphabetic())
        .collect();
    let name = if name.is_empty() { "c" } else { &name };
    match generation {
        0 => format!("{name}-{slot}"),
        _ => format!("{name}-{slot}-{generation}"),
    }
}

/// Returns the function's name of `module::function`.
fn last_word(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or(name)
}

/// Returns a text for a comment: a trace is plain ASCII, and a line is one.
fn plain(text: &str) -> String {
    let keep = |letter: char| {
        if letter.is_ascii_graphic() {
            letter
        } else {
            ' '
        }
    };
    text.chars().map(keep).collect()
}
