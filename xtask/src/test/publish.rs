//! Tests of the published crates: packed as a registry gets them, and built from there with the
//! oldest compiler that they promise.

use super::Context;
use super::outcome::Outcome;
use crate::process;
use crate::published;
use crate::repository;
use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Packs and builds the crates.
///
/// Without rustup, or without a network, the compiler in use builds them.
///
/// # Errors
/// If a command cannot be run, or a crate of an earlier run cannot be removed.
pub(super) fn check(context: &mut Context) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let target = repository::path("target/publish");
    remove_built(&target)?;
    remove_unpacked(&cargo_home()?.join("registry/src"))?;
    let oldest = published::oldest_compiler()?;
    let mut publish = Command::new("cargo");
    if has_toolchain(&oldest) || install(context, &oldest)? {
        publish.arg(format!("+{oldest}"));
        // Cargo started this process, and the variable names its toolchain.
        publish.env_remove("RUSTUP_TOOLCHAIN");
    } else {
        outcome.add(Outcome::skipped(format!(
            "the published crates promise to build with Rust {oldest}: \
             rustup toolchain install {oldest} --profile minimal"
        )));
    }
    publish.args(["publish", "--dry-run", "--allow-dirty", "--target-dir"]);
    publish.arg(target);
    for name in published::CRATES {
        publish.args(["--package", name]);
    }
    // Optional parts are built too.
    publish.args(["--features", "corank/stats,corank/hooks"]);
    publish.args(["--features", "corank-linux/figures,corank-linux/hyper"]);
    publish.args([
        "--features",
        "corank-linux/metrics,corank-linux/recording,corank-linux/tracing",
    ]);
    publish.args(["--features", "corank-linux/tokio,corank-linux/tower"]);
    publish.current_dir(repository::root());
    // Nothing that it builds is run.
    publish.env("CARGO_PROFILE_DEV_DEBUG", "false");
    outcome.add(Outcome::of_command(&context.command(&publish)?));
    Ok(outcome)
}

/// Returns the folder in which Cargo keeps what it downloads and unpacks.
fn cargo_home() -> Result<PathBuf> {
    std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(std::env::home_dir()?.join(".cargo")))
        .context("neither CARGO_HOME nor HOME is set")
}

/// Removes what an earlier run packed and built.
///
/// Cargo takes a crate of a registry that it has built for the same crate as long as the version
/// is the same, and adds to the registry's index without removing the earlier entry.
fn remove_built(target: &Path) -> Result<()> {
    if target.exists() {
        fs::remove_dir_all(target)
            .with_context(|| format!("cannot remove {}", target.display()))?;
    }
    Ok(())
}

/// Removes the published crates that earlier runs unpacked below `sources`.
///
/// Cargo unpacks the crates from a registry in the target folder, and takes a crate of the same
/// version that it has unpacked before from a registry at the same path, whatever it contained.
/// The name of a registry in a folder begins with `-`; crates from elsewhere stay.
fn remove_unpacked(sources: &Path) -> Result<()> {
    let Ok(registries) = fs::read_dir(sources) else {
        // Cargo has unpacked nothing yet.
        return Ok(());
    };
    for registry in registries {
        let registry = registry?;
        if !registry.file_name().as_encoded_bytes().starts_with(b"-") {
            continue;
        }
        for package in fs::read_dir(registry.path())? {
            let package = package?.path();
            if is_published(&package) {
                fs::remove_dir_all(&package)
                    .with_context(|| format!("cannot remove {}", package.display()))?;
            }
        }
    }
    Ok(())
}

/// Returns whether this is the folder of a published crate, of any version.
fn is_published(package: &Path) -> bool {
    let name = package.file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.rsplit_once('-'))
        .is_some_and(|(name, _version)| published::CRATES.contains(&name))
}

fn has_toolchain(version: &str) -> bool {
    process::answer("cargo", &[&format!("+{version}"), "--version"]).is_some()
}

/// Lets rustup install this toolchain, and returns whether it could.
fn install(context: &mut Context, version: &str) -> Result<bool> {
    if process::find("rustup").is_none() {
        return Ok(false);
    }
    let mut command = Command::new("rustup");
    command.args(["toolchain", "install", version, "--profile", "minimal"]);
    let finished = process::capture(&command, context.limit, |_| {})?;
    Ok(finished.success() && has_toolchain(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_published_crates_of_registries_in_folders_are_removed() {
        let sources = tempfile::tempdir().unwrap();
        let folders = [
            ("-14cd1cce6819ff87/corank-0.1.0", false),
            ("-14cd1cce6819ff87/corank-linux-macros-0.1.0", false),
            ("-14cd1cce6819ff87/corank-other-0.1.0", true),
            ("index.crates.io-1949cf8c6b5b557f/corank-0.1.0", true),
        ];
        for (folder, _) in folders {
            let folder = sources.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(".cargo-ok"), "{}").unwrap();
        }
        remove_unpacked(sources.path()).unwrap();
        for (folder, stays) in folders {
            assert_eq!(sources.path().join(folder).exists(), stays, "{folder}");
        }
        remove_unpacked(&sources.path().join("missing")).unwrap();
    }
}
