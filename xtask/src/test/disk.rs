//! Disks for tests, and what Linux's own tools say of them.

use super::Context;
use super::outcome::Outcome;
use crate::os::disk::{self, Disk};
use crate::process;
use crate::repository;
use anyhow::{Context as _, Result};
use std::path::PathBuf;
use std::process::Command;

/// Checks a FAT file system.
const FSCK: &str = "fsck.fat";

/// A new disk with an empty file system, for one test. The file goes with the value.
pub(super) struct TestDisk {
    image: PathBuf,
}

impl TestDisk {
    /// A disk of so many bytes. Two tests with disks at a time need two names.
    pub(super) fn new(name: &str, size: u64) -> Result<Self> {
        let folder = repository::path("target/disks");
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("can't make {}", folder.display()))?;
        let image = folder.join(format!("{name}.img"));
        disk::make(&image, size)?;
        Ok(Self { image })
    }

    /// The disk as the machine gets it.
    pub(super) fn attached(&self) -> Disk {
        Disk::of(&self.image)
    }

    /// Whether `fsck.fat` finds nothing to complain of: one test.
    pub(super) fn check(&self, context: &mut Context) -> Result<Outcome> {
        let program = process::find(FSCK).unwrap_or_else(|| FSCK.into());
        let mut command = Command::new(program);
        // Nothing is repaired; the verdict is the exit status.
        command.args(["-n", "-v"]).arg(&self.image);
        Ok(Outcome::of_command(&context.command(&command)?))
    }
}

impl Drop for TestDisk {
    fn drop(&mut self) {
        // A file that stays is overwritten by the next test.
        let _ = std::fs::remove_file(&self.image);
    }
}
