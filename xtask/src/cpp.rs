//! Building the C++ library's tests and firmware in `cpp/` with CMake, and running firmware in
//! QEMU.

use crate::process;
use crate::progress::Progress;
use crate::repository;
use anyhow::{Result, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The library's folder.
pub(crate) const FOLDER: &str = "cpp";

/// Time limit of one step of a build.
const LIMIT: Duration = Duration::from_secs(600);

/// Configures and builds one target of a preset (`cpp/CMakePresets.json`), and returns the build's
/// folder.
///
/// # Errors
/// With the end of what the failing step said.
pub(crate) fn build(preset: &str, target: &str, progress: &mut Progress) -> Result<PathBuf> {
    build_in(preset, preset, &[], target, progress)
}

/// Builds one target of several presets as [`build`] does, two at a time.
///
/// While one of them configures, links or compiles its longest file, the other one's files use the
/// processors.
///
/// # Errors
/// As [`build`], for the first preset that fails. No other one begins after it.
pub(crate) fn build_all(
    presets: &[&str],
    target: &str,
    progress: &mut Progress,
) -> Result<Vec<PathBuf>> {
    const AT_A_TIME: usize = 2;
    let progress = Mutex::new(progress);
    let next = AtomicUsize::new(0);
    let take_turns = || -> Result<()> {
        while let Some(preset) = presets.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut say = |line: &str| progress.lock().expect("nothing panics in it").say(line);
            if let Err(error) = build_saying(preset, preset, &[], target, &mut say) {
                next.store(presets.len(), Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_A_TIME).map(|_| scope.spawn(take_turns)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("a build does not panic"))
    })?;
    Ok(presets.iter().map(|preset| folder_of(preset)).collect())
}

/// Builds as [`build`] does, in the folder `target/cpp/NAME` and with more options for CMake.
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
    build_saying(name, preset, options, target, &mut |line| {
        progress.say(line)
    })?;
    Ok(folder_of(name))
}

fn folder_of(name: &str) -> PathBuf {
    repository::path("target/cpp").join(name)
}

fn build_saying(
    name: &str,
    preset: &str,
    options: &[String],
    target: &str,
    say: &mut dyn FnMut(&str),
) -> Result<()> {
    let mut configure = Command::new("cmake");
    configure.args(["--preset", preset]);
    configure_and_build(configure, options, &folder_of(name), target, say)
}

fn configure_and_build(
    mut configure: Command,
    options: &[String],
    folder: &Path,
    target: &str,
    say: &mut dyn FnMut(&str),
) -> Result<()> {
    let frames = std::env::current_exe()?;
    let folder_lock = lock_of(folder);
    let _alone = folder_lock.lock();
    configure
        .arg("-B")
        .arg(folder)
        // This program reads the tables of frames itself, so that CMake need not call cargo for
        // that.
        .arg(format!("-DCORANK_FRAMES={};frames", frames.display()))
        .args(options)
        .current_dir(repository::path(FOLDER));
    run(&configure, say)?;
    build_target(folder, target, say)
}

/// Builds one more target in the folder of a build.
///
/// # Errors
/// As [`build`].
pub(crate) fn make(folder: &Path, target: &str, progress: &mut Progress) -> Result<()> {
    let folder_lock = lock_of(folder);
    let _alone = folder_lock.lock();
    build_target(folder, target, &mut |line| progress.say(line))
}

/// Returns the lock of a build's folder: stages that run beside each other may build in the same.
fn lock_of(folder: &Path) -> Arc<Mutex<()>> {
    static LOCKS: Mutex<BTreeMap<PathBuf, Arc<Mutex<()>>>> = Mutex::new(BTreeMap::new());
    let mut locks = LOCKS.lock().expect("nothing panics in it");
    locks.entry(folder.to_path_buf()).or_default().clone()
}

fn build_target(folder: &Path, target: &str, say: &mut dyn FnMut(&str)) -> Result<()> {
    let mut build = Command::new("cmake");
    build.arg("--build").arg(folder).args(["--target", target]);
    build.current_dir(repository::path(FOLDER));
    run(&build, say)
}

fn run(command: &Command, say: &mut dyn FnMut(&str)) -> Result<()> {
    say(&process::describe(command));
    let finished = process::capture(command, LIMIT, say)?;
    ensure!(
        finished.success(),
        "`{}` failed:\n{}",
        process::describe(command),
        finished.tail(30)
    );
    Ok(())
}

/// The time that an instruction takes on the machine's clock, for [`qemu`] and [`qemu_riscv`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// One nanosecond.
    ///
    /// The Cortex-M4's timer, at 168 MHz, counts 168 for 1000 instructions.
    Counting,
    /// Eight nanoseconds on the Cortex-M4.
    ///
    /// This is more than one tick of the core's timer, so that it can fire at every instruction.
    EveryInstruction,
}

/// Returns the command that runs the board with this firmware.
///
/// While the core sleeps, its clock jumps to the next interrupt instead of following the host's
/// (`sleep=off`). So every run is the same, however busy the host is.
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

/// Returns the command that runs QEMU's `microbit`, a Cortex-M0 at 16 MHz, with this firmware.
///
/// An instruction takes 64 nanoseconds, more than one tick of the core's timer, as with
/// [`Pace::EveryInstruction`].
pub(crate) fn qemu_microbit(firmware: &Path) -> Command {
    let mut command = Command::new("qemu-system-arm");
    command
        .args(["-M", "microbit", "-nographic"])
        .args(["-icount", "shift=6,sleep=off"])
        .args(["-semihosting-config", "enable=on,target=native", "-kernel"])
        .arg(firmware);
    command
}

/// Returns the command that runs QEMU's `virt` with a 32-bit RISC-V processor and this firmware.
///
/// The timer counts at 10 MHz. With [`Pace::EveryInstruction`] an instruction takes 256
/// nanoseconds, more than two ticks: so much the time of the timer's setting can vary.
pub(crate) fn qemu_riscv(firmware: &Path, pace: Pace) -> Command {
    let shift = match pace {
        Pace::Counting => "shift=0,sleep=off",
        Pace::EveryInstruction => "shift=8,sleep=off",
    };
    let mut command = Command::new("qemu-system-riscv32");
    command
        .args(["-M", "virt", "-bios", "none", "-nographic"])
        .args(["-icount", shift])
        .args(["-semihosting-config", "enable=on,target=native", "-kernel"])
        .arg(firmware);
    command
}

/// Returns the command that runs a board with the HAL's devices, with this firmware.
///
/// `board` is one of those in `corank_firmware()`, and `input` is what its serial port receives.
///
/// `lm3s6965` has GPIO, timer, serial port, ADC and I2C. Its magnetometer takes the accelerometer's
/// place on the bus. `mps2-an386` has timer and serial port.
pub(crate) fn qemu_board(board: &str, firmware: &Path, input: &str) -> Command {
    let machine: &[&str] = match board {
        "lm3s6965" => &["lm3s6965evb", "-device", "lsm303dlhc_mag,address=0x1e"],
        other => &[other],
    };
    // The input is a pipe and not a file, because QEMU's serial port reads its standard input.
    let mut command = Command::new("sh");
    command
        .args(["-c", "printf %s \"$0\" | exec \"$@\"", input])
        .args(["qemu-system-arm", "-M"])
        .args(machine)
        .args(["-display", "none", "-monitor", "none", "-serial", "stdio"])
        .args(["-icount", "shift=6,sleep=off"])
        .args(["-semihosting-config", "enable=on,target=native", "-kernel"])
        .arg(firmware);
    command
}
