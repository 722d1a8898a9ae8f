//! The machine's disk: a file with a FAT file system.

use crate::repository;
use anyhow::{Context, Result};
use hadris_fat::{FatKind, FatOptions, VolumeLabel};
use hadris_storage::host::FileDevice;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Size of the disk that is made if none is named.
///
/// The file takes no more room than its contents.
const SIZE: u64 = 256 << 20;

/// A disk for one run of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Disk {
    /// The file that holds its contents.
    image: PathBuf,
    /// Options of QEMU's `-drive`.
    options: Vec<String>,
    /// Rules of QEMU's `blkdebug`, which makes requests fail.
    faults: Vec<String>,
}

impl Disk {
    /// Returns the disk in this file.
    pub(crate) fn of(image: impl Into<PathBuf>) -> Self {
        Self {
            image: image.into(),
            options: Vec::new(),
            faults: Vec::new(),
        }
    }

    /// Returns the same disk with an option of QEMU's `-drive`.
    pub(crate) fn with_option(mut self, option: &str) -> Self {
        self.options.push(option.to_string());
        self
    }

    /// Returns the same disk with a rule of QEMU's `blkdebug`, such as
    /// `inject-error.0.event=read_aio`.
    pub(crate) fn with_fault(mut self, rule: String) -> Self {
        self.faults.push(rule);
        self
    }

    /// Returns the disk that stays from one run to the next.
    ///
    /// It is made if it is not there.
    pub(crate) fn default() -> Result<Self> {
        let image = repository::path("os/target/disk.img");
        if !image.exists() {
            make(&image, SIZE)?;
        }
        Ok(Self::of(image))
    }

    /// Returns the arguments of QEMU that attach it.
    pub(super) fn arguments(&self) -> [String; 4] {
        // A comma in a name is doubled.
        let image = self.image.display().to_string().replace(',', ",,");
        let mut drive = vec!["if=none".to_string(), "id=disk".into(), "format=raw".into()];
        if self.faults.is_empty() {
            drive.push(format!("file={image}"));
        } else {
            drive.push("file.driver=blkdebug".into());
            drive.push("file.image.driver=file".into());
            drive.push(format!("file.image.filename={image}"));
            drive.extend(self.faults.iter().map(|rule| format!("file.{rule}")));
        }
        drive.extend(self.options.iter().cloned());
        [
            "-drive".to_string(),
            drive.join(","),
            "-device".to_string(),
            "virtio-blk-device,drive=disk".to_string(),
        ]
    }
}

/// Makes a file of `size` bytes with an empty file system.
///
/// It is FAT12 or FAT16 on small disks, and FAT32 on those that are large enough.
pub(crate) fn make(image: &Path, size: u64) -> Result<()> {
    let about = || format!("can't make the disk {}", image.display());
    if let Some(folder) = image.parent() {
        std::fs::create_dir_all(folder).with_context(about)?;
    }
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(image)
        .with_context(about)?;
    file.set_len(size).with_context(about)?;
    let mut device = FileDevice::new(file).with_context(about)?;
    let mut options =
        FatOptions::new().with_label(VolumeLabel::new("CORANK").expect("the label is good"));
    if size >= SIZE {
        options = options.with_kind(FatKind::Fat32).with_cluster_size(2048);
    }
    hadris_fat::sync::format(&mut device, &options).with_context(about)?;
    Ok(())
}
