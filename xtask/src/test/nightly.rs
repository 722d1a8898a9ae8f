//! The nightly toolchain, for Miri and the sanitizers.

use super::Context;
use crate::process;
use anyhow::Result;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

/// What is installed where it is missing.
const INSTALL: [&str; 7] = [
    "toolchain",
    "install",
    "nightly",
    "--profile",
    "minimal",
    "--component",
    "miri,rust-src",
];

/// Makes sure that the toolchain with Miri and the standard library's source is there.
///
/// Returns the reason for skipping tests if rustup is missing or cannot fetch it. Stages that run
/// beside each other wait for one installation.
///
/// # Errors
/// If rustup cannot be started.
pub(super) fn require(context: &mut Context) -> Result<Result<(), String>> {
    static INSTALLATION: Mutex<()> = Mutex::new(());
    let _one_at_a_time = INSTALLATION.lock();
    if is_complete() {
        return Ok(Ok(()));
    }
    if process::find("rustup").is_some() {
        let mut install = Command::new("rustup");
        install.args(INSTALL);
        context.command(&install)?;
        if is_complete() {
            return Ok(Ok(()));
        }
    }
    let by_hand = INSTALL.join(" ");
    Ok(Err(format!(
        "it needs rustup's nightly toolchain: rustup {by_hand}"
    )))
}

/// Tests whether Miri and the standard library's source are installed.
fn is_complete() -> bool {
    process::answer("cargo", &["+nightly", "miri", "--version"]).is_some() && has_source()
}

fn has_source() -> bool {
    process::answer("rustc", &["+nightly", "--print", "sysroot"]).is_some_and(|sysroot| {
        let source = "lib/rustlib/src/rust/library/std/Cargo.toml";
        Path::new(sysroot.trim()).join(source).exists()
    })
}

/// Returns cargo with the nightly toolchain.
pub(super) fn cargo() -> Command {
    let mut command = Command::new("cargo");
    // Cargo started this process, and the variable names its toolchain.
    command.arg("+nightly").env_remove("RUSTUP_TOOLCHAIN");
    command
}
