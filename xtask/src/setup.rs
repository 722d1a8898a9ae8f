//! Installing what is missing on this machine.
//!
//! Everything that is there already is left alone, so that the command costs little when nothing is
//! missing. Therefore `run` and `test` begin with it. Whatever can't be installed ends in one
//! message with the command to type.

use crate::packages::{FILES, TOOLS};
use crate::process;
use crate::toolchain::{self, BareMetal, DEBIAN_PACKAGES, Target};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Command, Stdio};

/// The time limit for rustup to reach its servers and fetch the targets.
const RUSTUP_SECONDS: &str = "180";

/// Installs what is missing and says what it does.
pub(crate) fn run() -> Result<()> {
    let missing = missing_packages();
    let mut packages: Vec<&str> = missing.iter().map(|(package, _)| *package).collect();
    for (package, purpose) in &missing {
        println!("setup: {package} is missing: {purpose}");
    }
    rustup_components()?;
    if BareMetal::ready().is_none() && !rustup_targets() {
        println!(
            "setup: Debian's Rust compiler is needed, to build for machines without an operating system"
        );
        packages.extend(DEBIAN_PACKAGES);
    }
    if !packages.is_empty() {
        install(&packages)?;
    }
    verify()
}

/// Returns the packages of missing programs and files, each with what it is for.
fn missing_packages() -> Vec<(&'static str, &'static str)> {
    let mut missing: Vec<_> = TOOLS
        .iter()
        .filter(|tool| process::find(tool.program).is_none())
        .map(|tool| (tool.package, tool.purpose))
        .collect();
    let files = FILES.iter().filter(|(file, ..)| !Path::new(file).exists());
    missing.extend(files.map(|(_, package, purpose)| (*package, *purpose)));
    missing
}

/// Adds clippy and rustfmt if they are missing.
///
/// They come with rustup's default profile, but not with a minimal one.
fn rustup_components() -> Result<()> {
    for (subcommand, component) in [("clippy", "clippy"), ("fmt", "rustfmt")] {
        if process::answer("cargo", &[subcommand, "--version"]).is_some() {
            continue;
        }
        println!("setup: rustup component add {component}");
        let added = Command::new("rustup")
            .args(["component", "add", component])
            .status();
        if !added.is_ok_and(|status| status.success()) {
            bail!("`cargo {subcommand}` is missing; type: rustup component add {component}");
        }
    }
    Ok(())
}

/// Lets rustup add the bare-metal targets, and returns whether they are there afterwards.
fn rustup_targets() -> bool {
    if toolchain::chosen() == Some(BareMetal::Debian) || process::find("rustup").is_none() {
        return false;
    }
    let triples = Target::ALL.map(Target::triple);
    println!("setup: rustup target add {}", triples.join(" "));
    // One attempt only: a machine without the servers should learn that quickly.
    let output = Command::new("timeout")
        .args([RUSTUP_SECONDS, "rustup", "target", "add"])
        .args(triples)
        .env("RUSTUP_MAX_RETRIES", "0")
        .stdin(Stdio::null())
        .output();
    let added =
        output.is_ok_and(|output| output.status.success()) && toolchain::rustup_has_targets();
    if !added {
        println!("setup: rustup can't fetch them here");
    }
    added
}

/// Installs Debian packages, or says what to type.
fn install(packages: &[&str]) -> Result<()> {
    let by_hand = format!(
        "apt-get update && apt-get install --no-install-recommends {}",
        packages.join(" ")
    );
    if process::find("apt-get").is_none() {
        bail!(
            "this is not a Debian system; install what these Debian packages contain: {}",
            packages.join(" ")
        );
    }
    let sudo = match privilege() {
        Privilege::Root => false,
        Privilege::Sudo => true,
        Privilege::None => bail!(
            "packages are missing, and installing them needs root; type: sudo sh -c '{by_hand}'"
        ),
    };
    let mut last = vec!["install", "--yes", "--no-install-recommends"];
    last.extend(packages);
    for arguments in [vec!["update"], last] {
        println!(
            "setup: apt-get {} (may take some minutes)",
            arguments.join(" ")
        );
        let mut command = Command::new(if sudo { "sudo" } else { "apt-get" });
        if sudo {
            command.args([
                "--non-interactive",
                "DEBIAN_FRONTEND=noninteractive",
                "apt-get",
            ]);
        }
        command
            .arg("--quiet=2")
            .args(&arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null());
        let output = command.output().context("can't start apt-get")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!(
                "apt-get failed:\n{}\nto try by hand, as root: {by_hand}",
                said.trim_end()
            );
        }
    }
    Ok(())
}

/// The right by which packages can be installed here.
enum Privilege {
    Root,
    Sudo,
    None,
}

fn privilege() -> Privilege {
    if process::answer("id", &["-u"]).as_deref() == Some("0") {
        Privilege::Root
    } else if process::answer("sudo", &["--non-interactive", "true"]).is_some() {
        Privilege::Sudo
    } else {
        Privilege::None
    }
}

/// Checks again, because a package may lack what is expected of it.
fn verify() -> Result<()> {
    if let Some((package, purpose)) = missing_packages().first() {
        bail!("{package} ({purpose}) is still missing after installation");
    }
    let Some(bare_metal) = BareMetal::ready() else {
        bail!(
            "no Rust toolchain for bare metal: rustup can't fetch the targets, and Debian's packages ({}) are missing or too \
             old; with access to rustup's servers type: rustup target add {}",
            DEBIAN_PACKAGES.join(" "),
            Target::ALL.map(Target::triple).join(" ")
        );
    };
    println!(
        "setup: everything is there (bare metal: {})",
        bare_metal.name()
    );
    Ok(())
}
