//! Running an experiment's program and reading what it prints.
//!
//! The program alternates the models and prints one line per run: see
//! [`corank_report::row::Sample`]. Other lines explain. A wrong result ends the program with a code
//! other than 0, and then no result is kept.

use super::parts::{Kept, Parts};
use super::{edge, gateway, host, mcu, tcp};
use crate::os::boot::Boot;
use crate::os::build::{self, Image};
use crate::os::input::Input;
use crate::process;
use crate::progress::Progress;
use crate::repository;
use crate::toolchain::host_cargo;
use anyhow::{Context, Result, ensure};
use corank_report::document::Document;
use corank_report::experiment::Experiment;
use corank_report::row::{self, Sample};
use corank_report::schedule::{Driver, Part, Schedule};
use serde_json::{Map, Value, json};
use std::process::Command;
use std::time::Duration;

/// Time limit of an experiment's program.
const LIMIT: Duration = Duration::from_secs(3600);
/// Memory of the machine.
///
/// 4000 threads of several processes have a stack each in the kernel and in the process.
const MEMORY: &str = "1G";
/// The nanoseconds that each instruction takes in a machine that counts them, as a power of two.
const SHIFT: u8 = 0;

/// Runs an experiment to its end.
pub(super) fn measure(experiment: &Experiment, quick: bool) -> Result<Document> {
    let name = experiment.name;
    let mut listener = Listener::new(name);
    let settings = match experiment.schedule {
        Schedule::Host(package) => on_host(name, package, quick, &mut listener),
        Schedule::HostParts(package) => on_host_in_parts(name, package, quick, &mut listener),
        Schedule::System(parts) => in_os(name, &parts(quick), quick, &mut listener),
        Schedule::Driver(driver) => match driver {
            Driver::McuSwitch => mcu::switches(quick, &mut listener),
            Driver::McuSize => mcu::sizes(quick, &mut listener),
            Driver::Edge => edge::measure(quick, &mut listener),
            Driver::Gateway => gateway::measure(quick, &mut listener),
            Driver::TcpModels => tcp::measure_models(quick, &mut listener),
            Driver::TcpPriority => tcp::measure_priority(quick, &mut listener),
        },
    };
    listener.progress.finish();
    let settings = settings?;
    if let Some(error) = listener.error {
        return Err(error);
    }
    ensure!(
        !listener.samples.is_empty(),
        "the experiment `{name}` ended without a single row"
    );
    let document = Document {
        experiment: name.to_string(),
        commit: repository::commit(),
        host: host::describe(),
        settings,
        rows: row::gather(name, &listener.samples)?,
    };
    listener.kept.remove()?;
    Ok(document)
}

/// Boots the OS with the experiment's program, once for each part.
fn in_os(
    name: &str,
    parts: &[Part],
    quick: bool,
    listener: &mut Listener,
) -> Result<Map<String, Value>> {
    let program = format!("experiment-{name}");
    let image = build::build(&[], None, &mut listener.progress)?;
    listener
        .progress
        .set_total(parts.iter().map(|part| part.rows).sum());
    let mut kept = Parts::new("os-experiments");
    for part in parts {
        let lines = match kept.next(&part.to_string(), &[&*image.kernel, &*image.archive], part)? {
            Some(lines) => {
                lines.lines().for_each(|line| listener.receive(line));
                continue;
            }
            None => boot(&program, part, &image, listener)?,
        };
        kept.keep(&lines)?;
    }
    let harts = parts.iter().map(|part| part.harts).max();
    Ok(settings(
        quick,
        &[program],
        &[
            ("smp", json!(harts)),
            ("memory", json!(MEMORY)),
            ("parts-of-a-run-that-was-cut-off", json!(listener.end(kept))),
        ],
    ))
}

/// Boots the OS for one part, and returns what it printed.
fn boot(program: &str, part: &Part, image: &Image, listener: &mut Listener) -> Result<String> {
    let mut command = vec![program.to_string()];
    command.extend(part.arguments.iter().cloned());
    let boot = Boot {
        smp: part.harts,
        memory: MEMORY.to_string(),
        limit: Some(LIMIT),
        disk: None,
        network: None,
        input: Input::None,
        count: part.counts.then_some(SHIFT),
        command,
    };
    let (mut lines, mut printed) = (Lines::default(), String::new());
    let before = listener.samples.len() as u64;
    let ended = boot.run(image, |bytes| {
        lines.feed(bytes, |line| {
            printed += line;
            printed.push('\n');
            listener.receive(line);
        })
    })?;
    let command = boot.command.join(" ");
    ensure!(
        ended.code == 0,
        "`{command}` ended with code {}: {}",
        ended.code,
        listener.last_words()
    );
    let rows = listener.samples.len() as u64 - before;
    ensure!(
        rows == part.rows,
        "`{command}` printed {rows} rows instead of {}: {}",
        part.rows,
        listener.last_words()
    );
    Ok(printed)
}

/// Runs the experiment's program, which is in `package`, on the host.
fn on_host(
    name: &str,
    package: &str,
    quick: bool,
    listener: &mut Listener,
) -> Result<Map<String, Value>> {
    let (program, command) = host_program(name, package, quick, listener)?;
    process::succeed(&command, LIMIT, |line| listener.receive(line))?;
    Ok(settings(quick, &[program], &[]))
}

/// Runs the program on the host part after part, as the program names them.
///
/// So an interrupted run resumes at the unfinished part.
fn on_host_in_parts(
    name: &str,
    package: &str,
    quick: bool,
    listener: &mut Listener,
) -> Result<Map<String, Value>> {
    let (program, command) = host_program(name, package, quick, listener)?;
    let with = |arguments: &[&str]| {
        let mut part = Command::new(command.get_program());
        part.args(command.get_args()).args(arguments);
        part
    };
    let named = process::succeed(&with(&["--parts"]), LIMIT, |_| {})?;
    let mut parts = Parts::new(&program);
    for part in named.output.lines() {
        let arguments: Vec<&str> = part.split_whitespace().collect();
        listener.progress.say(part);
        parts.run(part, &with(&arguments), &[], |line| listener.receive(line))?;
    }
    let resumed = json!(listener.end(parts));
    let resumed = ("parts-of-a-run-that-was-cut-off", resumed);
    Ok(settings(quick, &[program], &[resumed]))
}

/// Builds the experiment's program.
///
/// Returns its name, and the command that runs it.
fn host_program(
    name: &str,
    package: &str,
    quick: bool,
    listener: &mut Listener,
) -> Result<(String, Command)> {
    let program = format!("experiment-{name}");
    let mut build = host_cargo();
    build.args(["build", "--quiet", "--profile", "bench"]);
    build.args(["--package", package, "--bin", &program]);
    build.current_dir(repository::root());
    process::succeed(&build, LIMIT, |line| listener.progress.say(line))?;
    // The profile `bench` shares the folder of `release`.
    let mut command = Command::new(repository::path("target/release").join(&program));
    if quick {
        command.arg("--quick");
    }
    command.current_dir(repository::root());
    Ok((program, command))
}

/// Returns the settings of a measurement, as its document has them.
pub(super) fn settings(
    quick: bool,
    command: &[String],
    others: &[(&str, Value)],
) -> Map<String, Value> {
    let mut settings = Map::new();
    settings.insert("quick".into(), json!(quick));
    settings.insert("command".into(), json!(command.join(" ")));
    for (name, value) in others {
        settings.insert(name.to_string(), value.clone());
    }
    settings
}

/// The reader of what the program prints.
pub(super) struct Listener {
    pub(super) progress: Progress,
    pub(super) samples: Vec<Sample>,
    /// The error of the first line that could not be parsed.
    error: Option<anyhow::Error>,
    /// The last lines that were not samples.
    ///
    /// They explain a failure.
    said: Vec<String>,
    /// The files that are kept of finished parts.
    kept: Kept,
}

impl Listener {
    pub(super) fn new(name: &str) -> Self {
        let progress = Progress::spinner(&format!("experiment {name}"));
        Self {
            progress,
            samples: Vec::new(),
            error: None,
            said: Vec::new(),
            kept: Kept::default(),
        }
    }

    /// Ends the parts after all their lines have been read.
    ///
    /// Returns the names of the parts that were known from an interrupted run.
    pub(super) fn end(&mut self, parts: Parts) -> Vec<String> {
        let (resumed, kept) = parts.end();
        self.kept = kept;
        resumed
    }

    pub(super) fn receive(&mut self, line: &str) {
        match Sample::from_line(line)
            .context("the experiment printed a line that is not understood")
        {
            Ok(Some(sample)) => {
                self.progress.step(&point(&sample));
                self.samples.push(sample);
            }
            Ok(None) if line.trim().is_empty() => {}
            Ok(None) => {
                self.progress.say(line);
                self.said.push(line.to_string());
            }
            Err(error) => self.error = self.error.take().or(Some(error)),
        }
    }

    fn last_words(&self) -> String {
        self.said[self.said.len().saturating_sub(10)..].join("\n")
    }
}

/// Describes a sample in a few words.
fn point(sample: &Sample) -> String {
    let parameters: Vec<String> = sample
        .parameters
        .iter()
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    format!(
        "{} {}: {} {}",
        sample.model,
        parameters.join(" "),
        sample.value,
        sample.unit
    )
}

/// A splitter of a stream of bytes into lines.
#[derive(Default)]
struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(&str)) {
        for &byte in bytes {
            if byte == b'\n' {
                each(String::from_utf8_lossy(&self.rest).trim_end());
                self.rest.clear();
            } else {
                self.rest.push(byte);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_together() {
        let mut lines = Lines::default();
        let mut received = Vec::new();
        for part in ["on", "e\r\ntw", "o\n", "unfinished"] {
            lines.feed(part.as_bytes(), |line| received.push(line.to_string()));
        }
        assert_eq!(received, ["one", "two"]);
    }
}
