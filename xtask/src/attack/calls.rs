//! Attacks by programs without rights on the operating system, from inside:
//! `os/apps/src/bin/attacker`.

use super::Targets;
use super::machine::Machine;
use crate::os::scratch_disk::ScratchDisk;
use anyhow::Result;

/// Harts of the machines, in turn.
const HARTS: [u32; 4] = [1, 2, 4, 8];
/// Rounds of attackers in one machine.
const ROUNDS: u64 = 6;
/// Bytes of the machine's disk.
const DISK: u64 = 8 << 20;

/// Runs one machine with its attackers.
///
/// Every second machine with one hart counts instructions, so its run is the same each time.
/// Machines with more harts never count: see [`Boot::count`](crate::os::boot::Boot::count).
pub(super) fn run(targets: &Targets, seed: u64) -> Result<()> {
    let disk = ScratchDisk::new(&format!("attack-calls-{seed}"), DISK)?;
    let words = [seed, ROUNDS].map(|number| number.to_string());
    let command = ["attacker", "calls", &words[0], &words[1]];
    let harts = HARTS[(seed % 4) as usize];
    Machine {
        smp: harts,
        counts: harts == 1 && (seed / 4).is_multiple_of(2),
        disk: Some(disk.attached()),
        ..Machine::new(targets, &command)
    }
    .run(|_| {})?;
    disk.whole()
}
