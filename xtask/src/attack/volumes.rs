//! Attacks by damaged file systems on the operating system, which reads and changes them.

use super::Targets;
use super::machine::Machine;
use crate::os::scratch_disk::ScratchDisk;
use anyhow::Result;
use fastrand::Rng;

/// Bytes of the disks: with FAT12, FAT16 and FAT32.
const SIZES: [u64; 3] = [1 << 20, 32 << 20, 256 << 20];
/// Bytes of a sector.
const SECTOR: usize = 512;
/// Bytes of a FAT and of a directory that may be damaged: the part that is in use.
const USED: usize = 256;
/// Bytes behind the root directory that may be damaged: the first directories and files.
const DATA: usize = 64 << 10;

/// Runs one machine with one damaged disk.
pub(super) fn run(targets: &Targets, seed: u64) -> Result<()> {
    let mut rng = Rng::with_seed(seed);
    let disk = ScratchDisk::new(
        &format!("attack-volumes-{seed}"),
        SIZES[(seed % 3) as usize],
    )?;
    disk.make_directory("/directory")?;
    disk.make_directory("/directory/below")?;
    let content: Vec<u8> = (0..30_000_u32).map(|at| at as u8).collect();
    for (path, length) in [
        ("/large", 30_000),
        ("/A name that is longer than eleven.text", 100),
        ("/directory/Grüße 协程", 5_000),
        ("/directory/below/deep", 10),
        ("/empty", 0),
    ] {
        disk.write(path, &content[..length])?;
    }
    damage(&disk, &mut rng)?;
    Machine {
        disk: Some(disk.attached()),
        ..Machine::new(targets, &["attacker", "volume", &seed.to_string()])
    }
    .run(|_| {})
    .map(|_| ())
}

/// The positions of a file system's parts, in bytes.
struct Layout {
    tables: usize,
    table: usize,
    root: usize,
    data: usize,
    /// Whether the root directory is an ordinary file.
    is_fat32: bool,
}

impl Layout {
    fn of(boot: &[u8]) -> Self {
        let word = |at: usize| usize::from(u16::from_le_bytes([boot[at], boot[at + 1]]));
        let is_fat32 = word(22) == 0;
        let table = match is_fat32 {
            true => word(36) | word(38) << 16,
            false => word(22),
        };
        let tables = word(14) * SECTOR;
        let root = tables + usize::from(boot[16]) * table * SECTOR;
        Self {
            tables,
            table: table * SECTOR,
            root,
            data: root + word(17) * 32,
            is_fat32,
        }
    }
}

/// Damages a disk in a few places, or cuts it off.
fn damage(disk: &ScratchDisk, rng: &mut Rng) -> Result<()> {
    let boot = disk.read_at(0, SECTOR)?;
    let layout = Layout::of(&boot);
    for _ in 0..1 << rng.u32(..7) {
        let (at, length) = match rng.u8(..10) {
            0 => (0, 90),
            1 if layout.is_fat32 => (SECTOR, SECTOR),
            1..=4 => (layout.tables, USED),
            5 => (layout.tables + layout.table, USED),
            6..=7 => (layout.root, USED * 2),
            _ => (layout.data, DATA),
        };
        let at = at + rng.usize(..length);
        disk.write_at(at as u64, &value(rng))?;
    }
    if rng.u8(..16) == 0 {
        let length = disk.read_at(0, SECTOR)?.len() as u64 * rng.u64(..2000);
        disk.cut_off(length.max(SECTOR as u64))?;
    }
    Ok(())
}

/// Returns a few bytes: random or extreme values, or small numbers, which are clusters in use.
fn value(rng: &mut Rng) -> Vec<u8> {
    let length = [1, 2, 4][rng.usize(..3)];
    let number = match rng.u8(..4) {
        0 => rng.u32(..),
        1 => rng.u32(..40),
        2 => 1 << rng.u32(..32),
        _ => u32::MAX >> rng.u32(..8),
    };
    number.to_le_bytes()[..length].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_damages_in_the_same_way() {
        let damaged = |name: &str| {
            let disk = ScratchDisk::new(name, SIZES[0]).unwrap();
            damage(&disk, &mut Rng::with_seed(7)).unwrap();
            disk.read_at(0, 20 * SECTOR).unwrap()
        };
        let [first, second] = ["damaged-first", "damaged-second"].map(damaged);
        assert_eq!(first, second);
        let whole = ScratchDisk::new("whole", SIZES[0]).unwrap();
        assert_ne!(first, whole.read_at(0, 20 * SECTOR).unwrap());
    }
}
