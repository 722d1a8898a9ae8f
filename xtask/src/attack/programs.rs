//! Attacks by damaged programs on the operating system, which refuses or runs them.

use super::Targets;
use super::machine::Machine;
use crate::repository;
use anyhow::{Context as _, Result};
use fastrand::Rng;
use std::path::PathBuf;

/// The program that is damaged.
const MODEL: &str = "hello";
/// The number of programs in one machine: as many as its command line has room for.
const PROGRAMS: usize = 40;
/// Bytes of an ELF file's header, and of its program headers.
const HEADER: usize = 64;
const PROGRAM_HEADERS: usize = 56 * 6;

/// An archive that is removed when the value is dropped.
struct Archive(PathBuf);

impl Drop for Archive {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Runs some damaged programs in one machine, one after the other.
pub(super) fn run(targets: &Targets, seed: u64) -> Result<()> {
    let mut rng = Rng::with_seed(seed);
    let model = targets.image.program(MODEL)?;
    let names: Vec<String> = (0..PROGRAMS).map(|number| format!("p{number}")).collect();
    let damaged = names
        .iter()
        .map(|name| (name.clone(), damage(&model, &mut rng)))
        .collect();
    let folder = repository::path("target/attack");
    std::fs::create_dir_all(&folder).context("no folder for archives")?;
    let archive = Archive(folder.join(format!("programs-{seed}-{}.tar", std::process::id())));
    let image = targets.image.with_programs(&archive.0, damaged)?;
    let mut command = vec!["attacker", "programs"];
    command.extend(names.iter().map(String::as_str));
    Machine {
        image: &image,
        ..Machine::new(targets, &command)
    }
    .run(|_| {})
    .map(|_| ())
}

/// Returns the program with a few bytes changed, or cut off.
///
/// Most of the changed bytes are in the headers, which the kernel reads itself.
fn damage(model: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut program = model.to_vec();
    if rng.u8(..12) == 0 {
        let least = if rng.bool() { 0 } else { HEADER };
        program.truncate(rng.usize(least..program.len().max(least + 1)));
        return program;
    }
    for _ in 0..rng.usize(1..6) {
        let (begin, length) = match rng.u8(..8) {
            0..=1 => (0, HEADER),
            2..=6 => (HEADER, PROGRAM_HEADERS),
            _ => (0, program.len()),
        };
        // Fields are whole words.
        let at = begin + rng.usize(..length / 8) * 8 + [0, 0, 2, 4][rng.usize(..4)];
        let value = match rng.u8(..6) {
            0 => rng.u64(..),
            1 => rng.u64(..256),
            2 => 1 << rng.u32(..64),
            3 => u64::MAX - rng.u64(..5000),
            4 => rng.u64(..64) << 12,
            _ => (1_u64 << rng.u32(12..64)).wrapping_sub(rng.u64(..2)),
        };
        let length = [1, 2, 4, 8][rng.usize(..4)];
        for (place, byte) in program
            .iter_mut()
            .skip(at)
            .zip(&value.to_le_bytes()[..length])
        {
            *place = *byte;
        }
    }
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_damages_in_the_same_way() {
        let model = vec![7; 10_000];
        let damaged = |seed| damage(&model, &mut Rng::with_seed(seed));
        assert_eq!(damaged(1), damaged(1));
        let changed = (0..100).filter(|seed| damaged(*seed) != model).count();
        assert!(changed > 90, "{changed} of 100 programs have changed");
    }
}
