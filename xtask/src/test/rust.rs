//! Tests, lints and documentation by cargo, for the host and for the operating system.

use super::Context;
use super::outcome::Outcome;
use super::privileges::{Privileges, withhold};
use super::quick;
use super::sanitizer;
use crate::repository;
use crate::toolchain::{BareMetal, Target, host_cargo};
use anyhow::Result;
use serde_json::Value;
use std::process::Command;

/// The optional features of the Linux runtime, which are tested with the rest.
const OPTIONAL: &str = "--features=corank-linux/figures,corank-linux/hyper,corank-linux/metrics,\
    corank-linux/recording,corank-linux/tokio,corank-linux/tower,corank-linux/tracing";

pub(super) fn host_command(arguments: &[&str]) -> Command {
    let mut command = host_cargo();
    command.args(arguments).current_dir(repository::root());
    command
}

pub(super) fn lint(context: &mut Context) -> Result<Outcome> {
    let mut command = host_command(&["clippy", "--workspace", OPTIONAL, "--all-targets"]);
    command.args(["--", "-D", "warnings"]);
    Ok(Outcome::of_command(&context.command(&command)?))
}

pub(super) fn docs(context: &mut Context) -> Result<Outcome> {
    let mut command = host_command(&["doc", "--workspace", OPTIONAL, "--no-deps"]);
    // An example needs what tests need. So cargo chooses the features of `lint`, and what that has
    // checked is not checked again.
    command.args(["--lib", "--example", "echo"]);
    for program in documented_programs(&quick::packages_of_workspace()?) {
        command.args(["--bin", &program]);
    }
    command.env("RUSTDOCFLAGS", "-D warnings");
    Ok(Outcome::of_command(&context.command(&command)?))
}

/// Returns all programs but those that have the name of a library, whose page theirs would replace.
fn documented_programs(packages: &[Value]) -> Vec<String> {
    let of_kind = |kinds: &'static [&str]| -> Vec<String> {
        let targets = packages
            .iter()
            .filter_map(|package| package["targets"].as_array());
        let chosen = targets
            .flatten()
            .filter(|target| kinds.iter().any(|kind| target["kind"][0] == *kind));
        chosen
            .filter_map(|target| Some(target["name"].as_str()?.to_string()))
            .collect()
    };
    let libraries = of_kind(&["lib", "proc-macro"]);
    let mut programs = of_kind(&["bin"]);
    programs.retain(|program| !libraries.contains(&program.replace('-', "_")));
    programs
}

pub(super) fn host(context: &mut Context) -> Result<Outcome> {
    let mut command = host_command(&["test", "--no-fail-fast"]);
    match &context.change {
        // Packages that depend on a changed one are compiled by clippy, and tested without
        // `--quick`.
        Some(change) => {
            let packages = change.packages()?;
            if packages.is_empty() {
                return Ok(Outcome::default());
            }
            command.args(["--lib", "--bins", "--tests"]).args(packages);
        }
        None => {
            command.args(["--workspace", OPTIONAL]);
        }
    }
    let privileges = withhold(&mut command);
    let mut outcome = Outcome::of_cargo_test(&context.command(&command)?);
    if let Privileges::Kept = privileges {
        outcome.add(Outcome::skipped(
            "setpriv cannot take root's capabilities away here: run the tests as another user",
        ));
    }
    Ok(outcome)
}

/// Runs once more what differs with privileges.
///
/// The build is that of [`host`], and only the tests with these names are run.
pub(super) fn privileged(context: &mut Context) -> Result<Outcome> {
    let command = host_command(&[
        "test",
        "--workspace",
        OPTIONAL,
        "--lib",
        "--test=real",
        "--",
        "scheduling_class::",
        "with_privileges::",
    ]);
    Ok(Outcome::of_cargo_test(&context.command(&command)?))
}

pub(super) fn features(context: &mut Context) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut choices = vec!["alloc", ""];
    if !sanitizer::can_run(context)? {
        choices.push("std,stats,hooks");
    }
    for features in choices {
        let mut command = host_command(&["test", "--package", "corank", "--lib", "--tests"]);
        command.args([
            "--no-fail-fast",
            "--no-default-features",
            "--features",
            features,
        ]);
        outcome.add(Outcome::of_cargo_test(&context.command(&command)?));
    }
    Ok(outcome)
}

pub(super) fn os_lint(context: &mut Context) -> Result<Outcome> {
    let toolchain = BareMetal::require()?;
    // The scheduler's image is checked by itself, because the core has other features there than
    // for the image's clients.
    let clients = ["--workspace", "--exclude=corank-vdso"];
    let image = ["--package=corank-vdso"];
    let for_tests = ["--package=corank-kernel", "--features=faults"];
    let mut outcome = Outcome::default();
    for packages in [&clients[..], &image[..], &for_tests[..]] {
        let mut clippy = toolchain.cargo(Target::RiscV, "clippy");
        clippy.args(packages);
        clippy.args(["--release", "--", "-D", "warnings"]);
        let mut doc = toolchain.cargo(Target::RiscV, "doc");
        doc.args(packages)
            .args(["--release", "--no-deps"])
            .env("RUSTDOCFLAGS", "-D warnings");
        for command in [&mut clippy, &mut doc] {
            outcome.add(Outcome::of_command(
                &context.command(command.current_dir(repository::path("os")))?,
            ));
        }
    }
    Ok(outcome)
}
