//! Building the microcontrollers' firmware in `core/mcu/`, and running it in QEMU.

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
pub(crate) fn build(name: &str, target: Target, progress: &mut Progress) -> Result<PathBuf> {
    build_for(target, name, &[], &[], progress)
}

/// Builds for the Cortex-M4, with features, and with environment variables for the build.
pub(crate) fn build_with(
    name: &str,
    features: &[&str],
    environment: &[(&str, &str)],
    progress: &mut Progress,
) -> Result<PathBuf> {
    build_for(Target::CortexM4, name, features, environment, progress)
}

fn build_for(
    target: Target,
    name: &str,
    features: &[&str],
    environment: &[(&str, &str)],
    progress: &mut Progress,
) -> Result<PathBuf> {
    let mut command = BareMetal::require()?.cargo(target, "build");
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

/// Returns the command that runs the Cortex-M4's machine with this firmware.
///
/// Each instruction takes a nanosecond of its clock, so that its timer counts instructions. While
/// the core sleeps, the clock jumps to the next interrupt (see [`crate::cpp::qemu`]).
pub(crate) fn qemu(firmware: &Path) -> Command {
    qemu_machine("netduinoplus2", firmware)
}

/// Returns the command that runs a machine as [`qemu`] does.
pub(crate) fn qemu_machine(machine: &str, firmware: &Path) -> Command {
    let mut command = Command::new("qemu-system-arm");
    command.args(["-M", machine, "-nographic", "-icount", "shift=0,sleep=off"]);
    command
        .args(["-semihosting-config", "enable=on,target=native", "-kernel"])
        .arg(firmware);
    command
}
