//! `edge`: the interleaver's algorithms in every execution model, built by CMake with each compiler.

use super::runner::{Listener, settings};
use crate::cpp;
use crate::process;
use anyhow::{Result, ensure};
use serde_json::{Map, Value, json};
use std::process::Command;
use std::time::Duration;

/// No compiler's part takes longer.
const LIMIT: Duration = Duration::from_secs(3600);

/// What the program prints before its rows: what it found of the machine's memory.
const MEMORY: &str = "memory: ";

/// Runs the benchmark of each compiler; of one if quick.
pub(super) fn measure(quick: bool, listener: &mut Listener) -> Result<Map<String, Value>> {
    let compilers: &[&str] = if quick { &["clang"] } else { &["clang", "gcc"] };
    let mut memory = String::new();
    for compiler in compilers {
        let preset = format!("edge-{compiler}");
        let folder = cpp::build(&preset, "edge-bench", &mut listener.progress)?;
        let mut command = Command::new(folder.join("edge/bench/edge-bench"));
        command.args(["--compiler", compiler]);
        if quick {
            command.arg("--quick");
        }
        let finished = process::capture(&command, LIMIT, |line| {
            if let Some(found) = line.strip_prefix(MEMORY) {
                memory = found.to_string();
            }
            listener.hear(line);
        })?;
        ensure!(
            finished.success(),
            "`{}` failed:\n{}",
            process::describe(&command),
            finished.tail(20)
        );
    }
    Ok(settings(
        quick,
        &["cpp/edge/bench".to_string()],
        &[
            ("memory", json!(memory)),
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
