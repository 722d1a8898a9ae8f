//! Building the Cortex-M4's firmware in `core/mcu/`, and running it in QEMU.

use crate::os::build;
use crate::progress::Progress;
use crate::repository;
use crate::toolchain::{BareMetal, Target};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the firmware's workspace.
pub(crate) const FOLDER: &str = "core/mcu";

/// Builds one binary of the firmware.
pub(crate) fn build(name: &str, progress: &mut Progress) -> Result<PathBuf> {
    build_with(name, &[], &[], progress)
}

/// Builds as [`build()`] does, with features, and with environment variables for the build.
pub(crate) fn build_with(
    name: &str,
    features: &[&str],
    environment: &[(&str, &str)],
    progress: &mut Progress,
) -> Result<PathBuf> {
    let mut command = BareMetal::require()?.cargo(Target::CortexM4, "build");
    command
        .args(["--release", "--bin", name])
        .args(["--features", &features.join(",")])
        .envs(environment.iter().copied())
        .current_dir(repository::path(FOLDER));
    let binaries = build::binaries(command, &[], progress)?;
    let binary = binaries.into_iter().find(|binary| binary.name == name);
    Ok(binary
        .with_context(|| format!("building {FOLDER} gave no binary named {name}"))?
        .path)
}

/// Returns the command that runs the machine with this firmware.
///
/// Each instruction takes a nanosecond of its clock, so that its timer counts instructions. While
/// the core sleeps, the clock jumps to the next interrupt (see [`crate::cpp::qemu`]).
pub(crate) fn qemu(firmware: &Path) -> Command {
    let mut command = Command::new("qemu-system-arm");
    command.args([
        "-M",
        "netduinoplus2",
        "-nographic",
        "-icount",
        "shift=0,sleep=off",
    ]);
    command
        .args(["-semihosting-config", "enable=on,target=native", "-kernel"])
        .arg(firmware);
    command
}
