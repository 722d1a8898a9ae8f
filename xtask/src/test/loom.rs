//! Protocols between threads and with interrupts, in all interleavings.

use super::Context;
use super::outcome::Outcome;
use super::rust::host_command;
use crate::repository;
use anyhow::Result;

/// Returns the core's test files for loom: `core/tests/loom….rs`, without the extension.
pub(super) fn tests() -> Vec<String> {
    let entries = std::fs::read_dir(repository::path("core/tests"))
        .into_iter()
        .flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".rs").map(str::to_string))
        .filter(|name| name.starts_with("loom"))
        .collect();
    names.sort();
    names
}

/// The profile for loom. Most of the time goes into building its dependencies, so only what
/// explores and what is explored is optimised.
const LOOM_PROFILE: [&str; 4] = [
    "--config=profile.release.package.'*'.opt-level=0",
    "--config=profile.release.package.loom.opt-level=3",
    "--config=profile.release.package.generator.opt-level=3",
    "--config=profile.release.package.scoped-tls.opt-level=3",
];

pub(super) fn test(context: &mut Context) -> Result<Outcome> {
    // Together, so that what they depend on is built once: the core, and the protocols of the Linux
    // runtime, among processes and among the workers of one.
    let mut command = host_command(&["test", "--release", "--no-fail-fast", "--lib"]);
    command.args(
        ["corank", "corank-account", "corank-domain", "corank-linux"]
            .map(|name| format!("--package={name}")),
    );
    command.args(LOOM_PROFILE);
    for name in tests() {
        command.args(["--test", &name]);
    }
    // Another configuration of the same crates: a folder of its own keeps both built.
    command
        .env("RUSTFLAGS", "--cfg loom")
        .env("CARGO_TARGET_DIR", repository::path("target/loom"))
        // It is never debugged.
        .env("CARGO_PROFILE_RELEASE_DEBUG", "false");
    let mut outcome = Outcome::of_cargo_test(&context.command(&command)?);
    // The flag of user-level interrupts and the rings belong to another workspace, which is built
    // for the host here.
    let mut flag = host_command(&["test", "--release", "--manifest-path", "os/Cargo.toml"]);
    flag.args(["--package", "corank-abi"])
        .args(["--lib", "--test", "loom", "--test", "loom_ring"])
        .args(LOOM_PROFILE);
    for (name, value) in command.get_envs() {
        flag.env(name, value.unwrap_or_default());
    }
    // As the workspace above has it, so that loom and what it needs are not built twice.
    flag.env("CARGO_PROFILE_RELEASE_LTO", "false")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .env("CARGO_PROFILE_RELEASE_PANIC", "unwind");
    outcome.add(Outcome::of_cargo_test(&context.command(&flag)?));
    Ok(outcome)
}
