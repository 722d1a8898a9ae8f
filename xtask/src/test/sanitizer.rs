//! The core's tests under AddressSanitizer and ThreadSanitizer.

use super::Context;
use super::nightly;
use super::outcome::Outcome;
use crate::repository;
use anyhow::Result;

/// The target that both are set up for.
const HOST: &str = "x86_64-unknown-linux-gnu";

const IS_SET_UP: bool = cfg!(all(target_arch = "x86_64", target_os = "linux"));

/// The modules of `core/tests` with several threads, by parts of their tests' names.
const THREADED: [&str; 10] = [
    "deadlines::",
    "ecosystem::",
    "hostile::",
    "pool::",
    "preempt::",
    "remote::",
    "shared::",
    "shared_priority_listener::",
    "waker::",
    "workers::",
];

/// Runs all tests under AddressSanitizer, and those of several threads under ThreadSanitizer.
///
/// # Errors
/// If a command cannot be run.
pub(super) fn test(context: &mut Context) -> Result<Outcome> {
    if !IS_SET_UP {
        let reason = format!("the sanitizers are set up for {HOST} only");
        return Ok(Outcome::skipped(reason));
    }
    if let Err(reason) = nightly::require(context)? {
        return Ok(Outcome::skipped(format!("sanitizers: {reason}")));
    }
    let mut outcome = address(context)?;
    outcome.add(thread(context)?);
    Ok(outcome)
}

/// Returns whether [`test()`] skips nothing.
///
/// # Errors
/// If rustup cannot be started.
pub(super) fn can_run(context: &mut Context) -> Result<bool> {
    Ok(IS_SET_UP && nightly::require(context)?.is_ok())
}

fn address(context: &mut Context) -> Result<Outcome> {
    let mut command = nightly::cargo();
    command
        .args(["test", "--package", "corank", "--lib", "--tests"])
        .args(["--no-fail-fast", "--target", HOST])
        // The stage `features` leaves these to this one.
        .args(["--features", "stats,hooks"])
        .current_dir(repository::root())
        .env("RUSTFLAGS", "-Zsanitizer=address")
        .env("CARGO_TARGET_DIR", repository::path("target/sanitizer"));
    Ok(Outcome::of_cargo_test(&context.command(&command)?))
}

/// Runs the tests of several threads.
///
/// The standard library is built with the sanitizer, too. Otherwise the synchronisation in there
/// would be reported as missing.
fn thread(context: &mut Context) -> Result<Outcome> {
    let mut command = nightly::cargo();
    command
        .args(["test", "-Zbuild-std", "--package", "corank"])
        .args(["--test", "behaviour", "--target", HOST, "--"])
        .args(THREADED)
        .current_dir(repository::root())
        .env("RUSTFLAGS", "-Zsanitizer=thread")
        .env("CARGO_TARGET_DIR", repository::path("target/thread"));
    Ok(Outcome::of_cargo_test(&context.command(&command)?))
}
