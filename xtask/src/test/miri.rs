//! The core's tests under Miri, which finds undefined behaviour that a passing test does not show.

use super::Context;
use super::nightly;
use super::outcome::Outcome;
use crate::repository;
use anyhow::Result;
use std::process::Command;

/// One configuration in which the tests are interpreted.
struct Model {
    /// Flags for Miri, besides those of all configurations.
    flags: &'static str,
    target: &'static str,
    /// Parts of the names of the chosen tests of `behaviour`.
    ///
    /// An empty list chooses all of them.
    only: &'static [&'static str],
}

/// The flag for the aliasing model Tree Borrows.
///
/// The default is the stricter model.
const TREE_BORROWS: &str = "-Zmiri-tree-borrows";
const HOST: &str = "x86_64-unknown-linux-gnu";
/// 32 bits, big-endian, without 64-bit atomics.
const POWERPC: &str = "powerpc-unknown-linux-gnu";

/// The configurations for a run of all tests.
const SHORT: &[Model] = &[
    Model {
        flags: "",
        target: HOST,
        only: &["hostile::", "listener::"],
    },
    Model {
        flags: TREE_BORROWS,
        target: HOST,
        only: &[
            "hostile::callbacks::a_view",
            "hostile::destructors",
            "hostile::exits",
            "hostile::one_thread",
        ],
    },
    Model {
        flags: "",
        target: POWERPC,
        only: &["hostile::outlived", "hostile::callbacks::a_view", "pool::"],
    },
];

/// All configurations, which take about half an hour on two processors.
///
/// `CORANK_MIRI=all` chooses them.
const ALL: &[Model] = &[
    Model {
        flags: "",
        target: HOST,
        only: &[],
    },
    Model {
        flags: TREE_BORROWS,
        target: HOST,
        only: &[],
    },
    Model {
        flags: "",
        target: "i686-unknown-linux-gnu",
        only: &[],
    },
    Model {
        flags: "",
        target: POWERPC,
        only: &[],
    },
    Model {
        flags: "",
        target: "s390x-unknown-linux-gnu",
        only: &[],
    },
];

/// Runs the tests in each configuration.
///
/// # Errors
/// If a command cannot be run.
pub(super) fn check(context: &mut Context) -> Result<Outcome> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Ok(Outcome::skipped(format!("Miri is set up for {HOST} only")));
    }
    if let Err(reason) = nightly::require(context)? {
        return Ok(Outcome::skipped(format!("Miri: {reason}")));
    }
    let all = std::env::var_os("CORANK_MIRI").is_some_and(|models| models == "all");
    // One processor interprets a test. Cargo lets the commands build in turn.
    context.side_by_side(if all { ALL } else { SHORT }, |model, context| {
        let finished = context.command(&command(model))?;
        Ok(Outcome::of_cargo_test(&finished))
    })
}

fn command(model: &Model) -> Command {
    let mut command = nightly::cargo();
    command
        .args(["miri", "test", "--package", "corank"])
        .args(["--features", "stats,hooks", "--test", "behaviour"])
        .args(["--target", model.target, "--"])
        .args(model.only)
        .current_dir(repository::root())
        // The flags allow the clock and the environment, which tests read, and addresses as
        // integers, as in the operating system's I/O rings.
        .env(
            "MIRIFLAGS",
            format!(
                "-Zmiri-disable-isolation -Zmiri-permissive-provenance {}",
                model.flags
            ),
        )
        // A backtrace is interpreted, too: for one panic on purpose it takes half a minute.
        .env("RUST_BACKTRACE", "0")
        .env("CARGO_TARGET_DIR", repository::path("target/miri"));
    command
}
