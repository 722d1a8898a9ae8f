//! Attacks by hostile members of a Linux priority domain: `linux/domain/src/hostile_tests.rs`.

use super::Targets;
use crate::process;
use crate::progress::Progress;
use crate::toolchain::host_cargo;
use anyhow::Result;
use std::process::Command;
use std::time::Duration;

/// Seconds that each of the tests lasts.
const SECONDS: u64 = 2;
/// Time limit of a run.
const LIMIT: Duration = Duration::from_secs(120);
/// Time limit of the build.
const BUILD: Duration = Duration::from_secs(15 * 60);

fn cargo() -> Command {
    let mut command = host_cargo();
    command.args(["test", "--release", "--package=corank-domain", "--lib"]);
    command
}

/// Builds the tests.
///
/// # Errors
/// When they do not compile.
pub(super) fn build(progress: &mut Progress) -> Result<()> {
    let mut command = cargo();
    command.arg("--no-run");
    process::succeed(&command, BUILD, |line| progress.say(line)).map(|_| ())
}

/// Runs all of the tests with one seed.
pub(super) fn run(_: &Targets, seed: u64) -> Result<()> {
    let mut command = cargo();
    command.arg("hostile_tests");
    command.env("CORANK_SECONDS", SECONDS.to_string());
    command.env("CORANK_SEED", seed.to_string());
    process::succeed(&command, LIMIT, |_| {}).map(|_| ())
}
