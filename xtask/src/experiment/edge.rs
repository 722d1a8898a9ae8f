//! `edge`: the interleaver's algorithms in every execution model, built by CMake with each compiler.
//!
//! In full it takes about a quarter of an hour on an idle machine. It has a part for each compiler and algorithm; what a part printed is kept until all parts have
//! ended, so that a run that was cut off goes on with the part that it was at.

use super::runner::{Listener, settings};
use crate::process;
use crate::{cpp, repository};
use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// No part takes longer.
const LIMIT: Duration = Duration::from_secs(1800);

/// The algorithms as the program names them, each a part.
const ALGORITHMS: [&str; 6] = [
    "btree-scan",
    "btree-lookup",
    "hash-lookup",
    "svm",
    "norm",
    "cnn",
];

/// What the program prints before its rows: what it found of the machine's memory.
const MEMORY: &str = "memory: ";

/// Runs the benchmark of each compiler; of one if quick.
pub(super) fn measure(quick: bool, listener: &mut Listener) -> Result<Map<String, Value>> {
    let compilers: &[&str] = if quick { &["clang"] } else { &["clang", "gcc"] };
    let mut memory = String::new();
    let mut hear = |line: &str, listener: &mut Listener| {
        if let Some(found) = line.strip_prefix(MEMORY) {
            memory = found.to_string();
        }
        listener.hear(line);
    };
    let mut kept = Vec::new();
    let mut resumed = Vec::new();
    for compiler in compilers {
        let preset = format!("edge-{compiler}");
        let folder = cpp::build(&preset, "edge-bench", &mut listener.progress)?;
        let program = folder.join("edge/bench/edge-bench");
        for algorithm in ALGORITHMS {
            let mut command = Command::new(&program);
            command.args(["--compiler", compiler, "--algorithms", algorithm]);
            if quick {
                command.arg("--quick");
            }
            let file = kept_file(&program, &command)?;
            if let Ok(lines) = fs::read_to_string(&file) {
                lines.lines().for_each(|line| hear(line, listener));
                resumed.push(format!("{compiler} {algorithm}"));
            } else {
                keep(&file, &run(&command, |line| hear(line, listener))?)?;
            }
            kept.push(file);
        }
    }
    for file in kept {
        fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
    }
    Ok(settings(
        quick,
        &["cpp/edge/bench".to_string()],
        &[
            ("memory", json!(memory)),
            ("parts-of-a-run-that-was-cut-off", json!(resumed)),
            (
                "clock",
                json!("the thread's processor time; of threads-2 the time that passes"),
            ),
            (
                "outliers",
                json!(
                    "the median leaves out what is further from the median of all than 3.5 times the mean distance; `runs` has all"
                ),
            ),
        ],
    ))
}

/// Runs the program to its end; what it printed.
fn run(command: &Command, mut hear: impl FnMut(&str)) -> Result<String> {
    let mut lines = String::new();
    let finished = process::capture(command, LIMIT, |line| {
        lines += line;
        lines.push('\n');
        hear(line);
    })?;
    ensure!(
        finished.success(),
        "`{}` failed:\n{}",
        process::describe(command),
        finished.tail(20)
    );
    Ok(lines)
}

/// Where a part's lines are kept: another one for another program or other arguments.
fn kept_file(program: &Path, command: &Command) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    fs::read(program)
        .with_context(|| format!("cannot read {}", program.display()))?
        .hash(&mut hasher);
    for argument in command.get_args() {
        argument.hash(&mut hasher);
    }
    let name = format!("part-{:016x}.lines", hasher.finish());
    Ok(repository::root().join("target/edge").join(name))
}

/// Writes a file as a whole or not at all.
fn keep(file: &Path, lines: &str) -> Result<()> {
    let unfinished = file.with_extension("unfinished");
    let folder = file.parent().expect("the file is in a folder");
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&unfinished, lines))
        .and_then(|()| fs::rename(&unfinished, file))
        .with_context(|| format!("cannot write {}", file.display()))
}
