//! The machine's disk: a file with a FAT file system.

use crate::repository;
use anyhow::{Context, Result};
use hadris_fat::{FatKind, FatOptions, VolumeLabel};
use hadris_storage::host::FileDevice;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Size of the disk that is made where none is named. The file takes no more room than what lies on it.
const SIZE: u64 = 256 << 20;

/// A disk for one run of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Disk {
    /// The file that holds its contents.
    pub(crate) image: PathBuf,
    /// How QEMU opens it: `""`, or options of `-drive` that begin with a comma.
    pub(crate) options: String,
}

impl Disk {
    /// The disk in this file.
    pub(crate) fn of(image: impl Into<PathBuf>) -> Self {
        Self {
            image: image.into(),
            options: String::new(),
        }
    }

    /// The disk that stays from one run to the next; made if it is not there.
    pub(crate) fn default() -> Result<Self> {
        let image = repository::path("os/target/disk.img");
        if !image.exists() {
            make(&image, SIZE)?;
        }
        Ok(Self::of(image))
    }

    /// The arguments of QEMU that attach it.
    pub(super) fn arguments(&self) -> [String; 4] {
        // A comma in a name is doubled.
        let image = self.image.display().to_string().replace(',', ",,");
        [
            "-drive".to_string(),
            format!("if=none,id=disk,format=raw,file={image}{}", self.options),
            "-device".to_string(),
            "virtio-blk-device,drive=disk".to_string(),
        ]
    }
}

/// Makes a file of `size` bytes with an empty file system: FAT12 or FAT16 on small disks, FAT32 on those that are large enough.
pub(crate) fn make(image: &Path, size: u64) -> Result<()> {
    let about = || format!("can't make the disk {}", image.display());
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
