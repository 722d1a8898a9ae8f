//! `cargo xtask release`: one version in all places, and everything that a release must pass.
//!
//! The version is that of the workspace in `Cargo.toml`. Other files repeat it if their formats
//! cannot read it. `--set` writes it there, and a test compares them.

use crate::process;
use crate::published::CRATES;
use crate::repository;
use crate::test;
use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// The stages of the tests that a release runs again, because users depend on what they test.
const STAGES: [&str; 2] = ["publish", "cpp-package"];

/// Time limit of a comparison with the last release.
const SEMVER_LIMIT: Duration = Duration::from_secs(1200);

/// What `cargo xtask release` takes.
#[derive(Args)]
pub(crate) struct Options {
    /// Checks everything and changes nothing
    #[arg(long, conflicts_with = "set")]
    dry_run: bool,
    /// Writes this version to all places and ends
    #[arg(long, value_name = "VERSION")]
    set: Option<String>,
}

/// A place of the version: a file, and the text around the version.
struct Place {
    file: &'static str,
    before: &'static str,
    after: &'static str,
}

/// All places of the version.
///
/// The version is read from the first one.
const PLACES: [Place; 9] = [
    Place {
        file: "Cargo.toml",
        before: "[workspace.package]\nversion = \"",
        after: "\"",
    },
    Place {
        file: "Cargo.toml",
        before: "\ncorank = { path = \"core\", version = \"",
        after: "\"",
    },
    Place {
        file: "Cargo.toml",
        before: "\ncorank-domain = { path = \"linux/domain\", version = \"",
        after: "\"",
    },
    Place {
        file: "Cargo.toml",
        before: "\ncorank-figures = { path = \"linux/figures\", version = \"",
        after: "\"",
    },
    Place {
        file: "Cargo.toml",
        before: "\ncorank-linux = { path = \"linux\", version = \"",
        after: "\"",
    },
    Place {
        file: "Cargo.toml",
        before: "\ncorank-linux-macros = { path = \"linux/macros\", version = \"",
        after: "\"",
    },
    Place {
        file: "Cargo.toml",
        before: "\ncorank-recording = { path = \"linux/recording\", version = \"",
        after: "\"",
    },
    Place {
        file: "cpp/CMakeLists.txt",
        before: "\n  VERSION ",
        after: "\n",
    },
    Place {
        file: "cpp/vcpkg/corank/vcpkg.json",
        before: "\"version\": \"",
        after: "\"",
    },
];

impl Place {
    /// Returns the text of the file before the version, the version, and the rest.
    fn split<'a>(&self, text: &'a str) -> Result<(&'a str, &'a str, &'a str)> {
        let parts = text.split_once(self.before).and_then(|(head, tail)| {
            let length = tail.find(self.after)?;
            let start = head.len() + self.before.len();
            Some((&text[..start], &tail[..length], &tail[length..]))
        });
        parts.with_context(|| format!("{} does not state its version as expected", self.file))
    }

    fn read(&self) -> Result<String> {
        let text = std::fs::read_to_string(repository::path(self.file))?;
        Ok(self.split(&text)?.1.to_string())
    }

    fn write(&self, version: &str) -> Result<()> {
        let path = repository::path(self.file);
        let text = std::fs::read_to_string(&path)?;
        let (before, _, after) = self.split(&text)?;
        Ok(std::fs::write(path, format!("{before}{version}{after}"))?)
    }
}

/// Checks a release, and without `--dry-run` marks it in git.
///
/// # Errors
/// If something that a release needs is missing. The message says what to do.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if let Some(version) = &options.set {
        set(version)?;
        return Ok(ExitCode::SUCCESS);
    }
    let version = version()?;
    let tag = format!("v{version}");
    agree(&version)?;
    has_changes(
        &version,
        &std::fs::read_to_string(repository::path("CHANGELOG.md"))?,
    )?;
    let last = last_tag();
    if last.as_ref() == Some(&tag) {
        bail!("{version} is released already: choose another one with `--set VERSION`");
    }
    if !git(&["status", "--porcelain"])?.is_empty() {
        bail!("there are changes that are not committed: a release is made of a commit");
    }
    let code = test::run_stages(&STAGES)?;
    if code != ExitCode::SUCCESS {
        return Ok(code);
    }
    compare(last.as_deref())?;
    if options.dry_run {
        println!("{tag} could be released");
        return Ok(code);
    }
    git(&[
        "tag",
        "--annotate",
        &tag,
        "--message",
        &format!("Corank {version}"),
    ])?;
    println!(
        "{tag} is marked in git. To publish it:\n  git push origin {tag}\n  cargo publish {}",
        CRATES.map(|name| format!("--package {name}")).join(" ")
    );
    Ok(code)
}

fn version() -> Result<String> {
    PLACES[0].read()
}

/// Writes the version to all places, and to the lock file.
fn set(version: &str) -> Result<()> {
    let numbers = version
        .split('.')
        .filter(|part| part.parse::<u32>().is_ok());
    ensure!(
        numbers.count() == 3 && version.split('.').count() == 3,
        "`{version}` is no version: three numbers are needed, such as 1.2.3"
    );
    for place in &PLACES {
        place.write(version)?;
    }
    let mut lock = Command::new("cargo");
    lock.args(["update", "--workspace", "--offline"])
        .current_dir(repository::root());
    process::succeed(&lock, SEMVER_LIMIT, |_| {})?;
    println!("the version is {version}");
    Ok(())
}

fn agree(version: &str) -> Result<()> {
    for place in &PLACES {
        let other = place.read()?;
        ensure!(
            other == version,
            "{} says {other}, the workspace {version}: `cargo xtask release --set {version}` writes it everywhere",
            place.file
        );
    }
    Ok(())
}

fn has_changes(version: &str, changelog: &str) -> Result<()> {
    let heading = |line: &str| {
        let words = line.strip_prefix("## ").unwrap_or_default();
        words.trim_start_matches('[').starts_with(version)
    };
    ensure!(
        changelog.lines().any(heading),
        "CHANGELOG.md has no heading `## {version}`: say what the release brings"
    );
    Ok(())
}

fn git(arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    command.args(arguments).current_dir(repository::root());
    let output = command.output().context("git cannot be run")?;
    ensure!(
        output.status.success(),
        "`{}` failed: {}",
        process::describe(&command),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8(output.stdout)?.trim().to_string())
}

/// Returns the tag of the last release before this commit, if there was one.
fn last_tag() -> Option<String> {
    git(&["describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"]).ok()
}

/// Compares the crates' interfaces with the last release.
fn compare(last: Option<&str>) -> Result<()> {
    let Some(last) = last else {
        println!("there is no release yet, so there is no interface to compare with");
        return Ok(());
    };
    if process::find("cargo-semver-checks").is_none() {
        println!("not compared with {last}: cargo install cargo-semver-checks --locked");
        return Ok(());
    }
    let mut command = Command::new("cargo");
    command
        .args(["semver-checks", "--baseline-rev", last])
        .current_dir(repository::root());
    for name in CRATES {
        // A proc-macro and a program have no interface that it reads.
        if !["corank-linux-macros", "corank-top"].contains(&name) {
            command.args(["--package", name]);
        }
    }
    process::succeed(&command, SEMVER_LIMIT, |line| println!("   {line}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_same_everywhere() {
        agree(&version().unwrap()).unwrap();
    }

    #[test]
    fn a_version_is_replaced_in_its_place_alone() {
        let place = Place {
            file: "x",
            before: "\nversion = \"",
            after: "\"",
        };
        let text = "version = \"9\"\nversion = \"0.1.0\"\nversion = \"7\"\n";
        let (before, version, after) = place.split(text).unwrap();
        assert_eq!(version, "0.1.0");
        assert_eq!(format!("{before}{version}{after}"), text);
        assert!(place.split("no version").is_err());
    }

    #[test]
    fn a_release_needs_a_heading() {
        assert!(has_changes("0.1.0", "# Changes\n\n## 0.1.0\n").is_ok());
        assert!(has_changes("0.1.0", "## [0.1.0] - 2026-01-01\n").is_ok());
        assert!(has_changes("0.2.0", "## 0.1.0\ntext 0.2.0\n").is_err());
    }
}
