//! `gateway`: the sensor gateway's models, built by CMake with each compiler.
//!
//! In full it takes three minutes on an idle machine. It has a part for each compiler and layout.
//! The output of a part is kept until all parts have ended, so that an interrupted run resumes at
//! the unfinished part.

use super::parts::Parts;
use super::runner::{Listener, settings};
use crate::cpp;
use crate::repository;
use anyhow::Result;
use serde_json::{Map, Value, json};
use std::process::Command;

/// The layouts of rows in memory, as the program names them.
///
/// Each is a part.
const LAYOUTS: [&str; 2] = ["ordered", "scattered"];

/// What the program prints before its rows to say whether the machine counts energy.
const ENERGY: &str = "energy: ";

/// Weights that were trained by `cpp/edge/gateway/training/train.py`.
const WEIGHTS: &str = "cpp/edge/gateway/tests/weights.json";

/// Runs the comparison as built by each compiler, or by one if quick.
pub(super) fn measure(quick: bool, listener: &mut Listener) -> Result<Map<String, Value>> {
    let compilers: &[&str] = if quick { &["clang"] } else { &["clang", "gcc"] };
    let mut energy = String::new();
    let mut parts = Parts::new("gateway");
    let weights = repository::path(WEIGHTS);
    for compiler in compilers {
        let preset = format!("edge-{compiler}");
        let folder = cpp::build(&preset, "gateway-bench", &mut listener.progress)?;
        for layout in LAYOUTS {
            let mut command = Command::new(folder.join("edge/gateway/bench/gateway-bench"));
            command.args(["--compiler", compiler, "--layout", layout]);
            // The accuracy does not depend on the layout of rows.
            if layout == LAYOUTS[0] {
                command.arg("--weights").arg(&weights);
            }
            if quick {
                command.arg("--quick");
            }
            let name = format!("{compiler} {layout}");
            parts.run(&name, &command, &[&weights], |line| {
                if let Some(found) = line.strip_prefix(ENERGY) {
                    energy = found.to_string();
                }
                listener.receive(line);
            })?;
        }
    }
    let resumed = listener.end(parts);
    Ok(settings(
        quick,
        &["cpp/edge/gateway/bench".to_string()],
        &[
            ("energy", json!(energy)),
            ("parts-of-a-run-that-was-cut-off", json!(resumed)),
            ("caches", json!("emptied before each run")),
        ],
    ))
}
