//! Disks for one test each, and Linux's own tools to write, read and check them.

use super::disk::{self, Disk};
use crate::process;
use crate::repository;
use anyhow::{Context as _, Result, bail};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Bytes of a sector.
const SECTOR: u64 = 512;

/// Time limit of a check.
const CHECK_LIMIT: Duration = Duration::from_secs(60);
/// The program that checks a FAT file system.
const FSCK: &str = "fsck.fat";

/// A new disk with an empty file system, for one test.
///
/// Dropping the value removes the file.
pub(crate) struct ScratchDisk {
    image: PathBuf,
}

impl ScratchDisk {
    /// Makes a disk of `size` bytes.
    ///
    /// Two tests with disks at a time need two names.
    pub(crate) fn new(name: &str, size: u64) -> Result<Self> {
        let folder = repository::path("target/disks");
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("can't make {}", folder.display()))?;
        let image = folder.join(format!("{name}.img"));
        disk::make(&image, size)?;
        Ok(Self { image })
    }

    /// Returns the file that holds it.
    pub(crate) fn path(&self) -> &Path {
        &self.image
    }

    /// Returns the disk to attach to a machine.
    pub(crate) fn attached(&self) -> Disk {
        Disk::of(&self.image)
    }

    /// Puts a file on the disk, with `mcopy`.
    pub(crate) fn write(&self, path: &str, content: &[u8]) -> Result<()> {
        let source = self.image.with_extension("file");
        std::fs::write(&source, content)?;
        let mut command = mtools("mcopy");
        command
            .arg("-i")
            .arg(&self.image)
            .arg(&source)
            .arg(format!("::{path}"));
        run(command)?;
        Ok(std::fs::remove_file(&source)?)
    }

    /// Puts all that is in a folder on the disk, with `mcopy`.
    pub(crate) fn write_all(&self, folder: &Path) -> Result<()> {
        let mut command = mtools("mcopy");
        command.arg("-s").arg("-i").arg(&self.image);
        for entry in std::fs::read_dir(folder)? {
            command.arg(entry?.path());
        }
        command.arg("::/");
        run(command).map(|_| ())
    }

    /// Makes a directory on the disk, with `mmd`.
    pub(crate) fn make_directory(&self, path: &str) -> Result<()> {
        let mut command = mtools("mmd");
        command.arg("-i").arg(&self.image).arg(format!("::{path}"));
        run(command).map(|_| ())
    }

    /// Returns the position of a file's first cluster, in sectors from the disk's beginning.
    pub(crate) fn first_sector(&self, path: &str) -> Result<u64> {
        let mut command = mtools("mshowfat");
        command.arg("-i").arg(&self.image).arg(format!("::{path}"));
        let shown = String::from_utf8(run(command)?)?;
        // `::/name <5-9>`
        let cluster: u64 = shown
            .rsplit_once('<')
            .and_then(|(_, rest)| rest.split(['-', '>']).next()?.parse().ok())
            .with_context(|| format!("mshowfat says: {shown}"))?;
        let mut boot = [0; 64];
        File::open(&self.image)?.read_exact(&mut boot)?;
        let word = |at: usize| u64::from(u16::from_le_bytes([boot[at], boot[at + 1]]));
        let long = |at: usize| word(at) | word(at + 2) << 16;
        // The layout of FAT's first sector. A FAT32 has its sizes in the longer fields.
        let (per_cluster, reserved, tables, root_entries) =
            (u64::from(boot[13]), word(14), u64::from(boot[16]), word(17));
        let table = if word(22) == 0 { long(36) } else { word(22) };
        let root = root_entries * 32 / SECTOR;
        Ok(reserved + tables * table + root + (cluster - 2) * per_cluster)
    }

    /// Returns the size of a cluster in bytes.
    pub(crate) fn cluster_size(&self) -> Result<usize> {
        Ok(usize::from(self.read_at(13, 1)?[0]) * SECTOR as usize)
    }

    /// Returns `length` bytes of the disk itself.
    pub(crate) fn read_at(&self, at: u64, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        File::open(&self.image)?.read_exact_at(&mut bytes, at)?;
        Ok(bytes)
    }

    /// Writes to the disk itself.
    pub(crate) fn write_at(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let file = File::options().write(true).open(&self.image)?;
        Ok(file.write_all_at(bytes, at)?)
    }

    /// Cuts the disk off after `length` bytes.
    pub(crate) fn cut_off(&self, length: u64) -> Result<()> {
        let file = File::options().write(true).open(&self.image)?;
        Ok(file.set_len(length)?)
    }

    /// Fills the disk with zeros, so that it has no file system any more.
    pub(crate) fn wipe(&self) -> Result<()> {
        let file = File::options().write(true).open(&self.image)?;
        let size = file.metadata()?.len();
        file.set_len(0)?;
        Ok(file.set_len(size)?)
    }

    /// Returns all of a file on the disk, read with `mtype`.
    pub(crate) fn read(&self, path: &str) -> Result<Vec<u8>> {
        let mut command = mtools("mtype");
        command.arg("-i").arg(&self.image).arg(format!("::{path}"));
        run(command)
    }

    /// Checks the file system with `fsck.fat`.
    ///
    /// # Errors
    /// When `fsck.fat` finds a defect. The message has what it says.
    pub(crate) fn whole(&self) -> Result<()> {
        process::succeed(&self.fsck(), CHECK_LIMIT, |_| {}).map(|_| ())
    }

    /// Repairs the file system with `fsck.fat`.
    ///
    /// Returns how many clusters belonged to no file.
    ///
    /// # Errors
    /// When it can't be repaired.
    pub(crate) fn repair(&self) -> Result<usize> {
        let mut command = Command::new(process::find(FSCK).unwrap_or_else(|| FSCK.into()));
        command.arg("-a").arg(&self.image);
        let output = command.output().context("can't start fsck.fat")?;
        let said = String::from_utf8_lossy(&output.stdout);
        // The status is 0 if nothing was wrong, and 1 if the disk is repaired.
        if !matches!(output.status.code(), Some(0 | 1)) {
            bail!("fsck.fat can't repair the disk: {said}");
        }
        // `Reclaimed 1024 unused clusters (2097152 bytes).`
        let lost = said
            .lines()
            .filter_map(|line| line.strip_prefix("Reclaimed "))
            .filter_map(|line| line.split(' ').next()?.parse::<usize>().ok());
        Ok(lost.sum())
    }

    /// Returns the command that checks the file system and changes nothing.
    pub(crate) fn fsck(&self) -> Command {
        let program = process::find(FSCK).unwrap_or_else(|| FSCK.into());
        let mut command = Command::new(program);
        // Nothing is repaired. The exit status says whether the file system is sound.
        command.args(["-n", "-v"]).arg(&self.image);
        command
    }
}

/// Returns a command for one of mtools' programs, without its check of the disk and its
/// configuration.
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

impl Drop for ScratchDisk {
    fn drop(&mut self) {
        // If the file cannot be removed, the next test overwrites it.
        let _ = std::fs::remove_file(&self.image);
    }
}
