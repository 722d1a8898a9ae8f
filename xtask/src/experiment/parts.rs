//! The parts of an experiment that takes long: what a part printed is kept until all have ended, so that a run that was cut off goes on with the
//! part that it was at.

use crate::repository;
use anyhow::{Context, Result};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// The parts of one run.
pub(super) struct Parts {
    /// Where lines are kept, below `target`.
    folder: &'static str,
    /// The files of the parts so far.
    files: Vec<PathBuf>,
    /// What is known from a run that was cut off.
    resumed: Vec<String>,
}

impl Parts {
    /// Those of an experiment, whose lines are kept in this folder below `target`.
    pub(super) fn new(folder: &'static str) -> Self {
        Self {
            folder,
            files: Vec::new(),
            resumed: Vec::new(),
        }
    }

    /// The next part: what it printed, if it has ended in a run that was cut off. Its results depend on what is in `files`, and on the
    /// `arguments`: with other ones it is another part. If there is nothing, its lines are to be [kept](Self::keep).
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
        let file = repository::path("target").join(self.folder).join(file);
        let lines = fs::read_to_string(&file).ok();
        self.files.push(file);
        if lines.is_some() {
            self.resumed.push(name.to_string());
        }
        Ok(lines)
    }

    /// Keeps what the last part printed: as a whole or not at all.
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

    /// All have ended. Returns the names of those that were known.
    ///
    /// # Errors
    /// When what was kept can't be removed.
    pub(super) fn end(self) -> Result<Vec<String>> {
        for file in &self.files {
            fs::remove_file(file).with_context(|| format!("cannot remove {}", file.display()))?;
        }
        Ok(self.resumed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_on_with_the_part_that_it_was_at() {
        const FOLDER: &str = "parts-of-a-test";
        let _ = fs::remove_dir_all(repository::path("target").join(FOLDER));
        let file = repository::path("Cargo.toml");
        let next = |parts: &mut Parts, part: &str| parts.next(part, &[&file], part).unwrap();
        let mut parts = Parts::new(FOLDER);
        assert_eq!(next(&mut parts, "first"), None);
        parts.keep("rows of the first").unwrap();
        assert_eq!(next(&mut parts, "second"), None);
        // Cut off in the middle of the second.
        drop(parts);
        let mut parts = Parts::new(FOLDER);
        let known = Some("rows of the first".to_string());
        assert_eq!(next(&mut parts, "first"), known);
        assert_eq!(next(&mut parts, "second"), None);
        parts.keep("rows of the second").unwrap();
        assert_eq!(parts.end().unwrap(), ["first"]);
        // All of it has ended: the next run begins anew.
        assert_eq!(next(&mut Parts::new(FOLDER), "first"), None);
        fs::remove_dir_all(repository::path("target").join(FOLDER)).unwrap();
    }
}
