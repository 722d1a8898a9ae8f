//! Tests without the privileges of the user that runs them: root's, in a container.

use crate::process;
use std::process::Command;

/// The command that runs a program without a single capability.
///
/// It keeps the program's user, so that the program may read what cargo has built.
const WITHOUT: [&str; 3] = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];

/// The state of the privileges.
pub(super) enum Privileges {
    /// There are none.
    None,
    /// The command's tests run without the privileges of the user.
    Withheld,
    /// They cannot be taken away here.
    Kept,
}

/// Makes a `cargo test` run its tests without privileges.
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
