//! Tests without the privileges that whoever runs them may have: root's, in a container.

use crate::process;
use std::process::Command;

/// Runs a program without a single capability; it keeps its user, so that it may read what it has
/// built.
const WITHOUT: [&str; 3] = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];

/// What became of the privileges.
pub(super) enum Privileges {
    /// There are none.
    None,
    /// The command's tests run without those that there are.
    Withheld,
    /// They cannot be taken away here.
    Kept,
}

/// Lets a `cargo test` run what it has built without privileges.
pub(super) fn withhold(command: &mut Command) -> Privileges {
    if process::answer("id", &["-u"]).as_deref() != Some("0") {
        return Privileges::None;
    }
    let [program, options @ ..] = WITHOUT;
    let [bounding, inherited] = options;
    if process::answer(program, &[bounding, inherited, "true"]).is_none() {
        return Privileges::Kept;
    }
    // Cargo's name for "run what you have built by this".
    let runner = format!(
        "CARGO_TARGET_{}_LINUX_GNU_RUNNER",
        std::env::consts::ARCH.to_uppercase() + "_UNKNOWN"
    );
    command.env(runner, WITHOUT.join(" "));
    Privileges::Withheld
}
