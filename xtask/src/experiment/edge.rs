//! `edge`: the interleaver's algorithms in every execution model, built by CMake with each
//! compiler.
//!
//! In full it takes about a quarter of an hour on an idle machine. It has a part for each compiler
//! and algorithm. The output of a part is kept until all parts have ended, so that an interrupted
//! run resumes at the unfinished part.

use super::parts::Parts;
use super::runner::{Listener, settings};
use crate::cpp;
use anyhow::Result;
use serde_json::{Map, Value, json};
use std::process::Command;

/// The algorithms as the program names them.
///
/// Each is a part.
const ALGORITHMS: [&str; 6] = [
    "btree-scan",
    "btree-lookup",
    "hash-lookup",
    "svm",
    "norm",
    "cnn",
];

/// What the program prints before a description of the machine's memory, ahead of its rows.
const MEMORY: &str = "memory: ";

/// What a quick program prints before each point that it leaves out.
const LEFT_OUT: &str = "left out: ";

/// Runs the benchmark of each compiler, or of one if quick.
///
/// A quick run takes less than three minutes: six programs, each of which begins nothing new after
/// 20 seconds (`be_quick` in `cpp/edge/bench/measure.hpp`).
pub(super) fn measure(quick: bool, listener: &mut Listener) -> Result<Map<String, Value>> {
    let compilers: &[&str] = if quick { &["clang"] } else { &["clang", "gcc"] };
    let mut memory = String::new();
    let mut left_out: Vec<String> = Vec::new();
    let mut receive = |line: &str, listener: &mut Listener| {
        if let Some(found) = line.strip_prefix(MEMORY) {
            memory = found.to_string();
        }
        if let Some(point) = line.strip_prefix(LEFT_OUT)
            && !left_out.iter().any(|known| known == point)
        {
            left_out.push(point.to_string());
        }
        listener.receive(line);
    };
    let mut parts = Parts::new("edge");
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
            let name = format!("{compiler} {algorithm}");
            parts.run(&name, &command, &[], |line| receive(line, listener))?;
        }
    }
    let resumed = listener.end(parts);
    Ok(settings(
        quick,
        &["cpp/edge/bench".to_string()],
        &[
            ("memory", json!(memory)),
            ("left-out", json!(left_out)),
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
