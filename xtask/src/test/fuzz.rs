//! The inputs of the fuzzers that are kept, and changed ones.
//!
//! The fuzzers themselves look for new inputs, under AddressSanitizer (`cargo fuzz run`,
//! CONTRIBUTING.md).

use super::Context;
use super::outcome::Outcome;
use crate::repository;
use crate::toolchain::host_cargo;
use anyhow::Result;

/// Runs the inputs of each fuzzer.
///
/// # Errors
/// If the command cannot be run.
pub(super) fn test(context: &mut Context) -> Result<Outcome> {
    let mut command = host_cargo();
    command
        .args(["test", "--no-default-features", "--test", "corpus"])
        .arg("--no-fail-fast")
        .current_dir(repository::path("fuzz"))
        // What the host's workspace has compiled is used again.
        .env("CARGO_TARGET_DIR", repository::path("target"));
    Ok(Outcome::of_cargo_test(&context.command(&command)?))
}
