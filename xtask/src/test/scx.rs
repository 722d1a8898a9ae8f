//! The scheduler of `linux/scx`, in Linux kernels that QEMU runs.
//!
//! The kernel is Debian's, downloaded once. The machine's first process is the program of tests, so
//! it needs no other software. QEMU counts instructions instead of reading a clock (`-icount`), so
//! the figures do not depend on how fast this computer is.

mod initramfs;
mod kernel;

use super::Context;
use super::outcome::Outcome;
use crate::process;
use crate::repository;
use crate::toolchain::host_cargo;
use anyhow::Result;
use initramfs::Initramfs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace of the scheduler, its daemon and its tests.
pub(super) const FOLDER: &str = "linux/scx";
/// What the stage keeps.
const TARGET: &str = "target/scx";
/// The programs are linked statically, which takes an explicit target.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";
/// Where Debian has the static libraries that the daemon is linked with.
const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";

/// Builds the programs, and runs the tests in a machine.
pub(super) fn test(context: &mut Context) -> Result<Outcome> {
    if std::env::consts::ARCH != "x86_64" {
        return Ok(Outcome::skipped(
            "the kernels for the scheduler of linux/scx are those for x86-64",
        ));
    }
    let mut outcome = Outcome::of_command(&context.command(&cargo("clippy", &["-D", "warnings"]))?);
    outcome.add(Outcome::of_cargo_test(
        &context.command(&cargo("test", &[]))?,
    ));
    if !context.command(&cargo("build", &[]))?.success() {
        outcome.add(Outcome::failed());
        return Ok(outcome);
    }
    let kernel = match kernel::find(context) {
        Ok(kernel) => kernel,
        Err(error) => {
            outcome.add(Outcome::skipped(format!(
                "there is no kernel for the scheduler of linux/scx: {error:#}"
            )));
            return Ok(outcome);
        }
    };
    let image = repository::path(TARGET).join("initramfs");
    std::fs::write(&image, machine()?)?;
    outcome.add(boot(context, &kernel, &image)?);
    Ok(outcome)
}

/// Returns cargo's command for the programs as they run in the machine.
fn cargo(subcommand: &str, arguments: &[&str]) -> Command {
    let mut command = host_cargo();
    command
        .args([subcommand, "--release", "--workspace", "--target", TRIPLE])
        .args(["--features", "corank-scx/static,corank-scx-vm/static"])
        .arg("--target-dir")
        .arg(repository::path(TARGET).join("build"));
    if subcommand == "clippy" {
        command.arg("--").args(arguments);
    }
    command
        .current_dir(repository::path(FOLDER))
        .env("CORANK_BPF_CLANG", "clang-19")
        .env("LIBBPF_SYS_LIBRARY_PATH", LIBRARIES)
        .env(
            "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS",
            "-Ctarget-feature=+crt-static",
        );
    command
}

/// Returns the files of the machine.
fn machine() -> Result<Vec<u8>> {
    let folder = repository::path(TARGET)
        .join("build")
        .join(TRIPLE)
        .join("release");
    let mut files = Initramfs::default();
    files.folder("dev");
    files.device("dev/console", 5, 1);
    files.device("dev/null", 1, 3);
    files.program("init", &std::fs::read(folder.join("corank-scx-vm"))?);
    files.program("corank-scx", &std::fs::read(folder.join("corank-scx"))?);
    Ok(files.finish())
}

/// Runs the tests in a machine with this kernel.
fn boot(context: &mut Context, kernel: &Path, initramfs: &PathBuf) -> Result<Outcome> {
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args(["-icount", "shift=1,sleep=off", "-smp", "1", "-m", "1024"])
        .args(["-cpu", "max", "-no-reboot", "-nographic", "-nodefaults"])
        // Random numbers and the date are the same in each run, too.
        .args(["-seed", "1", "-rtc", "base=2026-01-01,clock=vm"])
        .args(["-serial", "stdio", "-kernel"])
        .arg(kernel)
        .arg("-initrd")
        .arg(initramfs)
        .args(["-append", "console=ttyS0 quiet panic=-1 cryptomgr.notests"]);
    let finished = context.command(&qemu)?;
    let lines = finished.output.lines().map(str::trim);
    // The kernel prints between those of the tests.
    let lines: Vec<&str> = lines.filter(|line| !line.starts_with('[')).collect();
    std::fs::write(
        repository::path(TARGET).join("output.txt"),
        lines.join("\n"),
    )?;
    let outcome = Outcome::of_last_line(&lines.join("\n"), finished.success());
    if outcome.failed > 0 {
        let from = lines.iter().position(|line| line.starts_with("# Linux"));
        context.show(&lines[from.unwrap_or(0)..].join("\n"));
    }
    Ok(outcome)
}

/// Returns a folder that the stage keeps, which is there afterwards.
fn folder(name: &str) -> Result<PathBuf> {
    let folder = repository::path(TARGET).join(name);
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Returns the first line of what a program says.
fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let said = process::answer(program, arguments)?;
    said.lines().next().map(str::to_string)
}
