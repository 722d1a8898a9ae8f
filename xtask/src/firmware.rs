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

/// Builds for a board with 64 KiB of RAM where the target's own has less.
pub(crate) fn build_large(
    name: &str,
    target: Target,
    features: &[&str],
    environment: &[(&str, &str)],
    progress: &mut Progress,
) -> Result<PathBuf> {
    let environment = [environment, &[("CORANK_LARGE", "1")]].concat();
    build_for(target, name, features, &environment, progress)
}

/// Returns the command that runs firmware of [`build_large`].
pub(crate) fn qemu_large(target: Target, firmware: &Path) -> Command {
    match target {
        Target::CortexM0 => {
            // The board's own processor is a Cortex-M3.
            let mut command = qemu_machine("lm3s6965evb", firmware);
            command.args(["-cpu", "cortex-m0"]);
            command
        }
        _ => qemu(firmware),
    }
}

/// Builds the conformance traces for 32-bit RISC-V, and returns the command that runs them.
pub(crate) fn riscv_traces(progress: &mut Progress) -> Result<Command> {
    const NAME: &str = "traces-riscv";
    let mut command = BareMetal::require()?.cargo(Target::RiscV32Imc, "build");
    command
        .args(["--release", "--package", "corank-mcu-riscv"])
        .current_dir(repository::path(FOLDER));
    let traces = binary(command, NAME, progress)?;
    Ok(crate::cpp::qemu_riscv(&traces, crate::cpp::Pace::Counting))
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
    binary(command, name, progress)
}

/// Runs the build, and returns its binary of this name.
fn binary(command: Command, name: &str, progress: &mut Progress) -> Result<PathBuf> {
    let binaries = build::binaries(command, &[], progress)?;
    let binary = binaries.into_iter().find(|binary| binary.name == name);
    Ok(binary
        .with_context(|| format!("building {FOLDER} gave no binary named {name}"))?
        .path)
}

/// Targets for which no firmware of the tests is built.
const CHECKED: [Target; 3] = [Target::CortexM3, Target::CortexM33, Target::RiscV32Imac];

/// Returns the commands that lint `corank-mcu`, and that check it for the targets for which no
/// firmware is built.
pub(crate) fn checks() -> Result<Vec<Command>> {
    let toolchain = BareMetal::require()?;
    let command = |target, subcommand| {
        let mut command = toolchain.cargo(target, subcommand);
        // In this profile the attributes' crates are built already.
        command
            .args(["--release", "--package", "corank-mcu"])
            .current_dir(repository::path(FOLDER));
        command
    };
    let mut lints = command(Target::CortexM4, "clippy");
    lints.args(["--features", "embassy-time", "--", "-D", "warnings"]);
    let checks = CHECKED.map(|target| command(target, "check"));
    Ok([lints].into_iter().chain(checks).collect())
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
    command.args(["-M", machine]);
    command.args(["-nographic", "-icount", "shift=0,sleep=off"]);
    command
        .args(["-semihosting-config", "enable=on,target=native", "-kernel"])
        .arg(firmware);
    command
}
