//! Disks for tests, and what Linux's own tools say of them.

use super::Context;
use super::outcome::Outcome;
use crate::os::disk::{self, Disk};
use crate::process;
use crate::repository;
use anyhow::{Context as _, Result, bail};
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

    /// All of a file on the disk, read with `mtype`.
    pub(super) fn read(&self, path: &str) -> Result<Vec<u8>> {
        let mut command = mtools("mtype");
        command.arg("-i").arg(&self.image).arg(format!("::{path}"));
        run(command)
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

/// One of mtools' programs. They shall not judge the disk by what lies around it.
fn mtools(program: &str) -> Command {
    let mut command = Command::new(program);
    command
        .env("MTOOLS_SKIP_CHECK", "1")
        .env("MTOOLSRC", "/dev/null");
    command
}

/// Runs a command and returns what it prints.
fn run(mut command: Command) -> Result<Vec<u8>> {
    let name = process::describe(&command);
    let output = command
        .output()
        .with_context(|| format!("can't start `{name}`"))?;
    if !output.status.success() {
        bail!(
            "`{name}` failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(output.stdout)
}

impl Drop for TestDisk {
    fn drop(&mut self) {
        // A file that stays is overwritten by the next test.
        let _ = std::fs::remove_file(&self.image);
    }
}
