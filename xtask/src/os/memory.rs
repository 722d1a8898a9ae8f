//! The amount of memory that the machine needs.

use super::build::Image;
use anyhow::{Context, Result, ensure};

const MIB: u64 = 1 << 20;

/// The offset of the kernel from the beginning of the memory, as QEMU places it.
const KERNEL: u64 = 2 * MIB;
/// QEMU's room for the device tree at the end of the memory, and the alignment of its beginning.
const DEVICE_TREE: u64 = MIB;
const BOUNDARY: u64 = 2 * MIB;
/// The most bytes in front of the archive, which otherwise are half of the memory.
const MOST_IN_FRONT: u64 = 128 * MIB;

/// Checks that the kernel, the archive of the programs and the device tree fit into this memory.
///
/// The size is written as QEMU takes it. A size in another notation is left to QEMU.
///
/// # Errors
/// When it is too little. The message has the least size that is enough.
pub(super) fn check(memory: &str, image: &Image) -> Result<()> {
    let archive = std::fs::metadata(&image.archive)
        .with_context(|| format!("can't read {}", image.archive.display()))?
        .len();
    let Some(size) = parse(memory) else {
        return Ok(());
    };
    ensure!(
        fits(size, archive),
        "--memory {memory} is too little: with the programs, which are {} MiB, the machine needs at least {}M",
        archive.div_ceil(MIB),
        least(archive) / MIB
    );
    Ok(())
}

/// Parses a size into bytes: a number, in MiB if no unit follows.
fn parse(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|byte: char| byte.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" | "M" | "m" => 20,
        "K" | "k" => 10,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Tests whether an archive of `archive` bytes fits into a memory of `size` bytes in QEMU.
fn fits(size: u64, archive: u64) -> bool {
    let end = KERNEL + (size / 2).min(MOST_IN_FRONT) + archive;
    let device_tree = size.saturating_sub(DEVICE_TREE) / BOUNDARY * BOUNDARY;
    end <= device_tree
}

/// Returns the least size, in steps of QEMU's boundary, that is enough for an archive of this size.
fn least(archive: u64) -> u64 {
    let mut size = archive.next_multiple_of(BOUNDARY);
    while !fits(size, archive) {
        size += BOUNDARY;
    }
    size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_qemu_reads_them() {
        assert_eq!(parse("256M"), Some(256 * MIB));
        assert_eq!(parse("64"), Some(64 * MIB));
        assert_eq!(parse("65536k"), Some(64 * MIB));
        assert_eq!(parse("1G"), Some(1024 * MIB));
        for other in ["", "M", "1.5G", "size=1G,slots=2", "99999999T"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn the_least_size_is_enough_and_a_smaller_one_is_not() {
        for archive in [0, 1, MIB, 19_487_232, 200 * MIB] {
            let least = least(archive);
            assert!(fits(least, archive));
            assert!(!fits(least - BOUNDARY, archive));
        }
        // QEMU itself says the same.
        assert!(!fits(44 * MIB, 19_487_232) && fits(48 * MIB, 19_487_232));
    }
}
