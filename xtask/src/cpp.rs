//! Building the C++ library's tests and firmware in `cpp/` with CMake, and running firmware in QEMU.

use crate::process;
use crate::progress::Progress;
use crate::repository;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
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
    configure.args(["--preset", preset]);
    configure_and_build(configure, options, &folder, target, progress)?;
    Ok(folder)
}

/// Builds the template project, as somebody would who has copied it; returns its folder.
///
/// # Errors
/// As [`build`].
pub(crate) fn build_template(progress: &mut Progress) -> Result<PathBuf> {
    let folder = repository::path("target/cpp/template");
    let mut configure = Command::new("cmake");
    configure
        .args(["-G", "Ninja", "-S", "template", "--toolchain"])
        .arg(repository::path("cpp/cmake/arm-none-eabi-gcc.cmake"));
    configure_and_build(configure, &[], &folder, "blink", progress)?;
    Ok(folder)
}

fn configure_and_build(
    mut configure: Command,
    options: &[String],
    folder: &Path,
    target: &str,
    progress: &mut Progress,
) -> Result<()> {
    let frames = std::env::current_exe()?;
    configure
        .arg("-B")
        .arg(folder)
        // This very program reads the tables of frames, so that cargo need not be asked for it.
        .arg(format!("-DCORANK_FRAMES={};frames", frames.display()))
        .args(options)
        .current_dir(repository::path(HOME));
    run(&configure, progress)?;
    make(folder, target, progress)
}

/// Builds one more target in the folder of a build.
///
/// # Errors
/// As [`build`].
pub(crate) fn make(folder: &Path, target: &str, progress: &mut Progress) -> Result<()> {
    let mut build = Command::new("cmake");
    build.arg("--build").arg(folder).args(["--target", target]);
    build.current_dir(repository::path(HOME));
    run(&build, progress)
}

fn run(command: &Command, progress: &mut Progress) -> Result<()> {
    progress.say(&process::describe(command));
    let finished = process::capture(command, LIMIT, |line| progress.say(line))?;
    ensure!(
        finished.success(),
        "`{}` failed:\n{}",
        process::describe(command),
        finished.tail(30)
    );
    Ok(())
}

/// The sources of the FreeRTOS kernel, which the registry has in the crate `freertos-next`.
///
/// # Errors
/// If cargo can not fetch it.
pub(crate) fn freertos() -> Result<PathBuf> {
    let mut command = crate::toolchain::host_cargo();
    command
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--manifest-path",
        ])
        .arg(repository::path("cpp/mcu/peers/Cargo.toml"));
    let output = command.output().context("can't start cargo")?;
    ensure!(
        output.status.success(),
        "cargo can't fetch FreeRTOS's sources:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let manifest = metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|package| package["name"] == "freertos-next")
        .and_then(|package| package["manifest_path"].as_str())
        .context("cargo metadata doesn't know freertos-next")?;
    Ok(Path::new(manifest).with_file_name("FreeRTOS-Kernel"))
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

/// The board that has GPIO, timer, serial port, ADC and I2C, with this firmware. Its magnetometer takes the accelerometer's place on the I2C bus.
pub(crate) fn qemu_stellaris(firmware: &Path) -> Command {
    let mut command = Command::new("qemu-system-arm");
    command.args([
        "-M",
        "lm3s6965evb",
        "-nographic",
        "-icount",
        "shift=6,sleep=off",
    ]);
    command.args(["-device", "lsm303dlhc_mag,address=0x1e"]);
    command
        .args(["-semihosting-config", "enable=on,target=native", "-kernel"])
        .arg(firmware);
    command
}
