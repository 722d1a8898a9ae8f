//! Attacks by processes that fill the kernel's memory with every kind of object, in every order:
//! `os/apps/src/bin/adversary-memory.rs`.

use super::Targets;
use super::machine::Machine;
use anyhow::Result;

/// Harts of the machines, in turn.
const HARTS: [u32; 3] = [1, 4, 8];
/// The length of one run in seconds.
const SECONDS: u64 = 6;

/// Runs one machine.
///
/// Its harts run in parallel.
pub(super) fn run(targets: &Targets, seed: u64) -> Result<()> {
    let words = [SECONDS, seed].map(|number| number.to_string());
    let command = ["adversary-memory", &words[0], &words[1]];
    Machine {
        smp: HARTS[(seed % 3) as usize],
        counts: false,
        ..Machine::new(targets, &command)
    }
    .run(|_| {})
    .map(|_| ())
}
