//! Tests of the published crates: packed as a registry gets them, and built from there with the
//! oldest compiler that they promise.

use super::Context;
use super::outcome::Outcome;
use crate::process;
use crate::published;
use crate::repository;
use anyhow::Result;
use std::process::Command;

/// Packs and builds the crates.
///
/// Without rustup, or without a network, the compiler in use builds them.
///
/// # Errors
/// If a command cannot be run.
pub(super) fn check(context: &mut Context) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let oldest = published::oldest_compiler()?;
    let mut publish = Command::new("cargo");
    if has_toolchain(&oldest) || install(context, &oldest)? {
        publish.arg(format!("+{oldest}"));
        // Cargo started this process, and the variable names its toolchain.
        publish.env_remove("RUSTUP_TOOLCHAIN");
    } else {
        outcome.add(Outcome::skipped(format!(
            "the published crates promise to build with Rust {oldest}: \
             rustup toolchain install {oldest} --profile minimal"
        )));
    }
    publish.args(["publish", "--dry-run", "--allow-dirty", "--target-dir"]);
    publish.arg(repository::path("target/publish"));
    for name in published::CRATES {
        publish.args(["--package", name]);
    }
    // Optional parts are built too.
    publish.args(["--features", "corank/stats,corank/hooks"]);
    publish.args(["--features", "corank-linux/domain,corank-linux/hyper"]);
    publish.args(["--features", "corank-linux/tower,corank-linux/tracing"]);
    publish.current_dir(repository::root());
    outcome.add(Outcome::of_command(&context.command(&publish)?));
    Ok(outcome)
}

fn has_toolchain(version: &str) -> bool {
    process::answer("cargo", &[&format!("+{version}"), "--version"]).is_some()
}

/// Lets rustup install this toolchain, and returns whether it could.
fn install(context: &mut Context, version: &str) -> Result<bool> {
    if process::find("rustup").is_none() {
        return Ok(false);
    }
    let mut command = Command::new("rustup");
    command.args(["toolchain", "install", version, "--profile", "minimal"]);
    let finished = process::capture(&command, context.limit, |_| {})?;
    Ok(finished.success() && has_toolchain(version))
}
