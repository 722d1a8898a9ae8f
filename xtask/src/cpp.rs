//! Building the C++ library's tests and firmware in `cpp/` with CMake, and running firmware in QEMU.

pub(crate) mod frames;

use crate::process;
use crate::progress::Progress;
use crate::repository;
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The library's folder.
pub(crate) const HOME: &str = "cpp";

/// No configuration takes longer to build.
const LIMIT: Duration = Duration::from_secs(600);

/// Configures and builds one target of a preset (`cpp/CMakePresets.json`); returns the build's folder.
///
/// # Errors
/// With the end of what the failing step said.
pub(crate) fn build(preset: &str, target: &str, progress: &mut Progress) -> Result<PathBuf> {
    build_in(preset, preset, &[], target, progress)
}

/// As [`build`], in the folder `target/cpp/NAME`, and with more options for CMake.
///
/// # Errors
/// As [`build`].
pub(crate) fn build_in(
    name: &str,
    preset: &str,
    options: &[String],
    target: &str,
    progress: &mut Progress,
) -> Result<PathBuf> {
    let folder = repository::path("target/cpp").join(name);
    let mut configure = Command::new("cmake");
    configure
        .args(["--preset", preset, "-B"])
        .arg(&folder)
        .arg(format!(
            "-DCORANK_FRAMES={};frames",
            std::env::current_exe()?.display()
        ))
        .args(options);
    let mut build = Command::new("cmake");
    build.arg("--build").arg(&folder).args(["--target", target]);
    for command in [&mut configure, &mut build] {
        command.current_dir(repository::path(HOME));
        progress.say(&process::describe(command));
        let finished = process::capture(command, LIMIT, |line| progress.say(line))?;
        ensure!(
            finished.success(),
            "`{}` failed:\n{}",
            process::describe(command),
            finished.tail(30)
        );
    }
    Ok(folder)
}

/// How much of its clock an instruction takes, for [`qemu`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// One nanosecond: the core's timer, at 168 MHz, counts 168 for 1000 instructions.
    Counting,
    /// Eight nanoseconds: more than one tick of the core's timer, so that it can fire at every instruction.
    EveryInstruction,
}

/// The board with this firmware. While the core sleeps its clock jumps to the next interrupt, rather than follow the host's (`sleep=off`): so every run is
/// the same, however busy the host is.
pub(crate) fn qemu(firmware: &Path, pace: Pace) -> Command {
    let shift = match pace {
        Pace::Counting => "shift=0,sleep=off",
        Pace::EveryInstruction => "shift=3,sleep=off",
    };
    let mut command = Command::new("qemu-system-arm");
    command.args(["-M", "netduinoplus2", "-nographic", "-icount", shift]);
    command
        .args(["-semihosting-config", "enable=on,target=native", "-kernel"])
        .arg(firmware);
    command
}
