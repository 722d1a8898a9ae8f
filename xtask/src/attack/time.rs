//! Attacks by programs without rights that make the kernel work for long beside an urgent process:
//! `os/apps/src/bin/attacker`.

use super::Targets;
use super::machine::Machine;
use crate::os::scratch_disk::ScratchDisk;
use anyhow::Result;

/// Rounds of attackers in one machine.
const ROUNDS: u64 = 4;
/// The longest allowed delay of the urgent process, in microseconds at one instruction a
/// nanosecond.
const LATEST: u64 = 1000;
/// Bytes of the machine's disk.
const DISK: u64 = 8 << 20;

/// Runs one machine with one hart, which counts instructions.
pub(super) fn run(targets: &Targets, seed: u64) -> Result<()> {
    let disk = ScratchDisk::new(&format!("attack-time-{seed}"), DISK)?;
    let words = [seed, ROUNDS, LATEST].map(|number| number.to_string());
    let command = ["attacker", "calls", &words[0], &words[1], &words[2]];
    Machine {
        disk: Some(disk.attached()),
        ..Machine::new(targets, &command)
    }
    .run(|_| {})?;
    disk.whole()
}
