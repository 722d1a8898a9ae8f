//! `gateway`: the sensor gateway's models, built by CMake with each compiler.

use super::runner::{Listener, settings};
use crate::cpp;
use crate::process;
use crate::repository;
use anyhow::{Result, ensure};
use serde_json::{Map, Value, json};
use std::process::Command;
use std::time::Duration;

/// No compiler's part takes longer.
const LIMIT: Duration = Duration::from_secs(1800);

/// What the program prints before its rows: whether the machine counts energy.
const ENERGY: &str = "energy: ";

/// Weights that were trained by `cpp/edge/gateway/training/train.py`.
const WEIGHTS: &str = "cpp/edge/gateway/tests/weights.json";

/// Runs the comparison as each compiler built it; one if quick.
pub(super) fn measure(quick: bool, listener: &mut Listener) -> Result<Map<String, Value>> {
    let compilers: &[&str] = if quick { &["clang"] } else { &["clang", "gcc"] };
    let mut energy = String::new();
    for compiler in compilers {
        let preset = format!("edge-{compiler}");
        let folder = cpp::build(&preset, "gateway-bench", &mut listener.progress)?;
        let mut command = Command::new(folder.join("edge/gateway/bench/gateway-bench"));
        command
            .args(["--compiler", compiler, "--weights"])
            .arg(repository::path(WEIGHTS));
        if quick {
            command.arg("--quick");
        }
        let finished = process::capture(&command, LIMIT, |line| {
            if let Some(found) = line.strip_prefix(ENERGY) {
                energy = found.to_string();
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
        &["cpp/edge/gateway/bench".to_string()],
        &[
            ("energy", json!(energy)),
            ("caches", json!("emptied before each run")),
        ],
    ))
}
