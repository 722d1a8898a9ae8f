//! Tests of the interleaver in `cpp/edge/tests`: under sanitizers, optimised, and on AArch64.

use super::Context;
use super::cpp::guide;
use super::outcome::Outcome;
use crate::cpp;
use anyhow::Result;
use std::process::Command;

/// The presets of `cpp/CMakePresets.json`, and the emulator that runs what they build.
const PRESETS: [(&str, &[&str]); 6] = [
    ("gcc", &[]),
    ("clang", &[]),
    ("edge-gcc", &[]),
    ("edge-clang", &[]),
    ("aarch64-gcc", AARCH64),
    ("aarch64-clang", AARCH64),
];

/// QEMU's user mode, with the libraries of the cross compiler.
const AARCH64: &[&str] = &["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"];

/// Tests the guide's examples, and the same suite as each preset builds it.
pub(super) fn tests(context: &mut Context) -> Result<Outcome> {
    let mut outcome = guide(context, "docs/cpp-edge.md", "cpp/edge/tests/guide.cpp")?;
    let presets = PRESETS.map(|(preset, _)| preset);
    let folders = cpp::build_all(&presets, "edge-tests", &mut context.progress)?;
    let runs: Vec<_> = folders.iter().zip(PRESETS).collect();
    // Each program is one thread.
    outcome.add(
        context.side_by_side(&runs, |(folder, (_, emulator)), context| {
            let program = folder.join("edge/tests/edge-tests");
            let command = match emulator {
                [] => Command::new(program),
                [first, rest @ ..] => {
                    let mut command = Command::new(first);
                    command.args(rest).arg(program);
                    command
                }
            };
            Ok(Outcome::of_googletest(&context.command(&command)?))
        })?,
    );
    Ok(outcome)
}
