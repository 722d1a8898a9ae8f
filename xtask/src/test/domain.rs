//! The machine-wide view on Linux, as a process that has no privileges.

use super::Context;
use super::outcome::Outcome;
use crate::process;
use crate::repository;
use crate::toolchain::host_cargo;
use anyhow::Result;

/// Runs a program without a single capability; it keeps its user, so that it may read what it has built.
const WITHOUT: [&str; 3] = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];

/// The crate's tests once more, after those of all host crates, which run with whatever privileges there are.
pub(super) fn unprivileged(context: &mut Context) -> Result<Outcome> {
    let [program, options @ ..] = WITHOUT;
    let mut command = host_cargo();
    command
        .args(["test", "--package", "corank-domain", "--lib", "--tests"])
        .args(["--no-fail-fast"])
        .current_dir(repository::root());
    if process::answer("id", &["-u"]).as_deref() == Some("0") {
        let [bounding, inherited] = options;
        if process::answer(program, &[bounding, inherited, "true"]).is_none() {
            return Ok(Outcome::skipped(
                "setpriv cannot take root's capabilities away here: run the tests as another user",
            ));
        }
        // Cargo's name for "run what you have built by this".
        let runner = format!(
            "CARGO_TARGET_{}_LINUX_GNU_RUNNER",
            std::env::consts::ARCH.to_uppercase() + "_UNKNOWN"
        );
        command.env(runner, WITHOUT.join(" "));
    }
    Ok(Outcome::of_cargo_test(&context.command(&command)?))
}
