//! The parts of a long experiment.
//!
//! The output of a part is kept until all parts have ended, so that an interrupted run resumes at
//! the unfinished part.

use crate::{process, repository};
use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Time limit of a program that is a part.
const LIMIT: Duration = Duration::from_secs(1800);

/// The parts of one run.
pub(super) struct Parts {
    /// The folder below `target` that keeps the lines.
    folder: String,
    /// The files of the parts that have begun.
    files: Vec<PathBuf>,
    /// The names of the parts that are known from an interrupted run.
    resumed: Vec<String>,
}

impl Parts {
    /// Makes the parts of an experiment that keeps its lines in this folder below `target`.
    pub(super) fn new(folder: &str) -> Self {
        Self {
            folder: folder.into(),
            files: Vec::new(),
            resumed: Vec::new(),
        }
    }

    /// Begins the next part, and returns what it printed if it ended in an interrupted run.
    ///
    /// Its results depend on the contents of `files` and on `arguments`: with other ones it is
    /// another part. If the part is not known, its lines are to be [kept](Self::keep).
    ///
    /// # Errors
    /// When a file can't be read.
    pub(super) fn next(
        &mut self,
        name: &str,
        files: &[&Path],
        arguments: impl Hash,
    ) -> Result<Option<String>> {
        let mut hasher = DefaultHasher::new();
        for file in files {
            fs::read(file)
                .with_context(|| format!("cannot read {}", file.display()))?
                .hash(&mut hasher);
        }
        arguments.hash(&mut hasher);
        let file = format!("part-{:016x}.lines", hasher.finish());
        let file = repository::path("target").join(&self.folder).join(file);
        let lines = fs::read_to_string(&file).ok();
        self.files.push(file);
        if lines.is_some() {
            self.resumed.push(name.to_string());
        }
        Ok(lines)
    }

    /// Runs this program as the next part, or takes its lines from an interrupted run.
    ///
    /// `on_line` gets each line. The results depend on the program's file, on its arguments and on
    /// the contents of `files`.
    ///
    /// # Errors
    /// As [`next`](Self::next) and [`keep`](Self::keep), and when the program fails or takes too
    /// long.
    pub(super) fn run(
        &mut self,
        name: &str,
        command: &Command,
        files: &[&Path],
        mut on_line: impl FnMut(&str),
    ) -> Result<()> {
        let program = Path::new(command.get_program());
        let files: Vec<&Path> = files.iter().copied().chain([program]).collect();
        let arguments: Vec<&OsStr> = command.get_args().collect();
        if let Some(lines) = self.next(name, &files, arguments)? {
            lines.lines().for_each(on_line);
            return Ok(());
        }
        let mut lines = String::new();
        process::succeed(command, LIMIT, |line| {
            lines += line;
            lines.push('\n');
            on_line(line);
        })?;
        self.keep(&lines)
    }

    /// Keeps all that the last part printed, or nothing.
    ///
    /// # Errors
    /// When the file can't be written.
    pub(super) fn keep(&self, lines: &str) -> Result<()> {
        let file = self.files.last().expect("a part has begun");
        let unfinished = file.with_extension("unfinished");
        let folder = file.parent().expect("the file is in a folder");
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&unfinished, lines))
            .and_then(|()| fs::rename(&unfinished, file))
            .with_context(|| format!("cannot write {}", file.display()))
    }

    /// Ends the run after its last part.
    ///
    /// Returns the names of the parts that were known, and the files that are kept.
    pub(super) fn end(self) -> (Vec<String>, Kept) {
        (self.resumed, Kept(self.files))
    }
}

/// The files of all parts of a finished run.
///
/// They are kept until its results are found to be complete.
#[derive(Debug, Default)]
#[must_use]
pub(super) struct Kept(Vec<PathBuf>);

impl Kept {
    /// Removes the files, because the results are complete.
    ///
    /// # Errors
    /// When a file can't be removed.
    pub(super) fn remove(self) -> Result<()> {
        for file in &self.0 {
            fs::remove_file(file).with_context(|| format!("cannot remove {}", file.display()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_has_ended_is_not_run_again_until_all_have() {
        let folder = format!("parts-of-a-test-{}", std::process::id());
        let below = repository::path("target").join(&folder);
        let mark = below.join("runs");
        fs::create_dir_all(&below).unwrap();
        let mut command = Command::new("/bin/sh");
        let script = format!("echo ran >> {}; echo $0", mark.display());
        command.args(["-c", &script]);
        let part = |parts: &mut Parts, name: &str| {
            let mut part = Command::new(command.get_program());
            part.args(command.get_args()).arg(name);
            let mut received = Vec::new();
            parts
                .run(name, &part, &[], |line| received.push(line.to_string()))
                .unwrap();
            assert_eq!(received, [name]);
        };
        let runs = || fs::read_to_string(&mark).unwrap().lines().count();
        // The first run is interrupted after the first part.
        part(&mut Parts::new(&folder), "one");
        assert_eq!(runs(), 1);
        // The next run knows that part, and runs the second.
        let mut parts = Parts::new(&folder);
        part(&mut parts, "one");
        part(&mut parts, "two");
        assert_eq!(runs(), 2);
        let (resumed, kept) = parts.end();
        assert_eq!(resumed, ["one"]);
        // Parts are kept until the results are found to be complete.
        part(&mut Parts::new(&folder), "two");
        assert_eq!(runs(), 2);
        kept.remove().unwrap();
        // Nothing is kept of a run that has ended.
        let mut parts = Parts::new(&folder);
        part(&mut parts, "one");
        assert_eq!(runs(), 3);
        parts.end().1.remove().unwrap();
        fs::remove_dir_all(&below).unwrap();
    }

    #[test]
    fn nothing_is_kept_of_a_part_that_fails() {
        let folder = format!("parts-that-fail-{}", std::process::id());
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo half; exit 1"]);
        for _ in 0..2 {
            let error = Parts::new(&folder).run("one", &command, &[], |_| {});
            assert!(error.unwrap_err().to_string().ends_with("half"));
        }
        assert!(!repository::path("target").join(&folder).exists());
    }
}
