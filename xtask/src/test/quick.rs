//! `cargo xtask test --quick`: the tests that a developer runs before a commit.
//!
//! A stage runs if the change touches a file that it reads. The quickest one comes first. Stages
//! that do not fit into the time are named at the end.

use crate::process;
use crate::repository;
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The time limit of all stages together.
pub(super) const BUDGET: Duration = Duration::from_secs(240);

/// The files that a change touches.
#[derive(Clone, Debug)]
pub(super) struct Change {
    /// Paths from the repository's root.
    ///
    /// It is `None` if they cannot be known, and then everything counts as touched.
    files: Option<Vec<String>>,
}

impl Change {
    /// Returns the files that are not committed yet, or those of the last commit if there are none.
    pub(super) fn find() -> Self {
        let uncommitted = lines(&["diff", "--name-only", "HEAD"]);
        let untracked = lines(&["ls-files", "--others", "--exclude-standard"]);
        let files = uncommitted.zip(untracked).and_then(|(mut files, more)| {
            files.extend(more);
            if files.is_empty() {
                lines(&["diff", "--name-only", "HEAD~1", "HEAD"])
            } else {
                Some(files)
            }
        });
        Self { files }
    }

    /// Tests whether one of the files begins with one of `paths`.
    pub(super) fn touches(&self, paths: &[&str]) -> bool {
        let begins = |file: &String| paths.iter().any(|path| file.starts_with(path));
        self.files
            .as_ref()
            .is_none_or(|files| files.iter().any(begins))
    }

    /// Returns the workspace's packages that it touches, as options of cargo.
    ///
    /// It is `--workspace` if the change touches what all packages depend on.
    ///
    /// # Errors
    /// If cargo cannot list the packages.
    pub(super) fn packages(&self) -> Result<Vec<String>> {
        let everything = vec!["--workspace".to_string()];
        let Some(files) = &self.files else {
            return Ok(everything);
        };
        if self.touches(&["Cargo.toml", "Cargo.lock"]) {
            return Ok(everything);
        }
        let folders = folders_of_packages()?;
        // A package may lie inside another one's folder.
        let owner = |file: &String| {
            let owners = folders
                .iter()
                .filter(|(folder, _)| file.starts_with(&format!("{folder}/")));
            Some(owners.max_by_key(|(folder, _)| folder.len())?.1.clone())
        };
        let names: BTreeSet<String> = files.iter().filter_map(owner).collect();
        Ok(names
            .into_iter()
            .map(|name| format!("--package={name}"))
            .collect())
    }
}

/// Returns the lines that git prints, or `None` if it fails.
fn lines(arguments: &[&str]) -> Option<Vec<String>> {
    let mut command = Command::new("git");
    let output = command
        .args(arguments)
        .current_dir(repository::root())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output
        .status
        .success()
        .then(|| text.lines().map(str::to_string).collect())
}

/// Returns what `cargo metadata` says of the workspace's packages.
///
/// # Errors
/// If cargo cannot list them.
pub(super) fn packages_of_workspace() -> Result<Vec<Value>> {
    let arguments = ["metadata", "--no-deps", "--format-version=1"];
    let metadata = process::answer("cargo", &arguments).context("`cargo metadata` failed")?;
    let mut metadata: Value = serde_json::from_str(&metadata)?;
    Ok(serde_json::from_value(metadata["packages"].take())?)
}

/// Returns the folders of the workspace's packages, from the repository's root, and their names.
fn folders_of_packages() -> Result<BTreeMap<String, String>> {
    let root = repository::root();
    let packages = packages_of_workspace()?;
    let folder = |package: &Value| {
        let manifest = PathBuf::from(package["manifest_path"].as_str()?);
        let folder = manifest.parent()?.strip_prefix(root).ok()?;
        Some((
            folder.to_str()?.to_string(),
            package["name"].as_str()?.to_string(),
        ))
    };
    Ok(packages.iter().filter_map(folder).collect())
}

/// The duration of each stage's last run, kept below `target`.
#[derive(Debug)]
pub(super) struct Times {
    seconds: BTreeMap<String, f64>,
}

impl Times {
    fn file() -> PathBuf {
        repository::path("target/stage-times.json")
    }

    /// Reads those of earlier runs.
    ///
    /// There are none if there is no readable record.
    pub(super) fn read() -> Self {
        let text = std::fs::read_to_string(Self::file()).unwrap_or_default();
        Self {
            seconds: serde_json::from_str(&text).unwrap_or_default(),
        }
    }

    /// Returns how long the stage took last.
    ///
    /// If it never ran for `--quick`, this is the time of the whole stage. If it never ran at all,
    /// this is zero, so that the stage runs and its time becomes known.
    pub(super) fn of_quick(&self, stage: &str) -> Duration {
        let seconds = |quick| self.seconds.get(&key(stage, quick)).copied();
        let seconds = seconds(true).or(seconds(false));
        Duration::try_from_secs_f64(seconds.unwrap_or_default()).unwrap_or_default()
    }

    /// Records one stage.
    ///
    /// A record that cannot be written is no failure of the tests.
    pub(super) fn record(&mut self, stage: &str, quick: bool, took: Duration) {
        self.seconds.insert(key(stage, quick), took.as_secs_f64());
        if let Ok(text) = serde_json::to_string_pretty(&self.seconds) {
            let _ = std::fs::write(Self::file(), text);
        }
    }
}

fn key(stage: &str, quick: bool) -> String {
    if quick {
        format!("{stage} --quick")
    } else {
        stage.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(files: &[&str]) -> Change {
        Change {
            files: Some(files.iter().map(|file| file.to_string()).collect()),
        }
    }

    #[test]
    fn a_change_touches_what_lies_below_its_folders() {
        let change = change(&["os/kernel/src/main.rs", "README.md"]);
        assert!(change.touches(&["core/", "os/"]));
        assert!(change.touches(&[""]));
        assert!(!change.touches(&["core/", "os/user/"]));
        assert!(Change { files: None }.touches(&["core/"]));
    }

    #[test]
    fn packages_are_those_of_the_innermost_folder() {
        let packages = |files: &[&str]| change(files).packages().unwrap();
        assert_eq!(packages(&["linux/src/lib.rs"]), ["--package=corank-linux"]);
        assert_eq!(
            packages(&["linux/domain/src/page.rs", "core/src/lib.rs"]),
            ["--package=corank", "--package=corank-domain"]
        );
        assert_eq!(
            packages(&["Cargo.lock", "core/src/lib.rs"]),
            ["--workspace"]
        );
        assert!(packages(&["os/kernel/src/main.rs"]).is_empty());
    }
}
