//! Priority inversions in a log of what several processes' coroutines did, as experiment `global` takes it.
//!
//! At an instant, a coroutine suffers an *inversion* if it is ready and does not run, its own process does not run anything at
//! least as urgent (an executor has one thread, and serves its most urgent one), and some hart runs a coroutine of strictly less
//! urgency. `inversion-total`: for how long there was any. `inversion-longest`: for how long, altogether, one coroutine did
//! between becoming ready and running.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec::Vec;

/// One stretch for which a coroutine ran, and since when it had been ready; in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Since when it had been ready.
    pub ready: u64,
    /// When it began to run.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// At which level.
    pub level: u8,
    /// Whose coroutine.
    pub process: u8,
}

impl Stretch {
    /// How many bytes it is written in.
    pub const BYTES: usize = 26;

    /// Written down: numbers with their least significant byte first.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (place, number) in [self.ready, self.start, self.end].iter().enumerate() {
            bytes[8 * place..][..8].copy_from_slice(&number.to_le_bytes());
        }
        bytes[24..].copy_from_slice(&[self.level, self.process]);
        bytes
    }

    /// What was written down.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let number = |place: usize| {
            let number = bytes[8 * place..].first_chunk().expect("long enough");
            u64::from_le_bytes(*number)
        };
        Self {
            ready: number(0),
            start: number(1),
            end: number(2),
            level: bytes[24],
            process: bytes[25],
        }
    }
}

/// What happens at an instant: a stretch's coroutine becomes ready, starts, or ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    End,
    Ready,
    Start,
}

/// For how long there was any inversion, and for how long the unluckiest wait suffered one.
///
/// Costs the number of stretches, times those that run or wait at once, after sorting them.
#[must_use]
pub fn inversions(stretches: &[Stretch]) -> (u64, u64) {
    let mut changes: Vec<(u64, Change, usize)> = Vec::with_capacity(3 * stretches.len());
    for (number, stretch) in stretches.iter().enumerate() {
        changes.push((stretch.ready, Change::Ready, number));
        changes.push((stretch.start, Change::Start, number));
        changes.push((stretch.end, Change::End, number));
    }
    changes.sort_unstable();
    let mut waiting: Vec<usize> = Vec::new();
    let mut running: Vec<usize> = Vec::new();
    let mut suffered = alloc::vec![0_u64; stretches.len()];
    let (mut total, mut before) = (0, 0);
    for (at, change, number) in changes {
        let passed = at - before;
        let least = running.iter().map(|&one| stretches[one].level).max();
        let mut any = false;
        if let Some(least) = least.filter(|_| passed > 0) {
            for &one in &waiting {
                let Stretch { level, process, .. } = stretches[one];
                let served = running.iter().any(|&other| {
                    stretches[other].process == process && stretches[other].level <= level
                });
                if level < least && !served {
                    suffered[one] += passed;
                    any = true;
                }
            }
        }
        total += if any { passed } else { 0 };
        before = at;
        match change {
            Change::Ready => waiting.push(number),
            Change::Start => {
                waiting.retain(|&one| one != number);
                // An end at the same instant has come before.
                if stretches[number].end > at {
                    running.push(number);
                }
            }
            Change::End => running.retain(|&one| one != number),
        }
    }
    (total, suffered.into_iter().max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(process: u8, level: u8, [ready, start, end]: [u64; 3]) -> Stretch {
        Stretch {
            ready,
            start,
            end,
            level,
            process,
        }
    }

    #[test]
    fn without_anyone_less_urgent_nobody_suffers() {
        assert_eq!(inversions(&[]), (0, 0));
        // One waits for what is more urgent, then for its equal.
        let stretches = [
            stretch(0, 3, [0, 0, 10]),
            stretch(1, 5, [0, 20, 30]),
            stretch(2, 5, [0, 10, 20]),
        ];
        assert_eq!(inversions(&stretches), (0, 0));
    }

    #[test]
    fn it_lasts_while_the_urgent_one_waits_and_the_other_runs() {
        // The hart is idle from 10 to 15.
        let stretches = [stretch(0, 9, [0, 0, 10]), stretch(1, 5, [4, 15, 30])];
        assert_eq!(inversions(&stretches), (6, 6));
    }

    #[test]
    fn it_begins_when_the_less_urgent_one_does() {
        let stretches = [
            stretch(0, 3, [0, 0, 10]),
            stretch(1, 5, [2, 14, 20]),
            stretch(2, 9, [0, 10, 14]),
        ];
        assert_eq!(inversions(&stretches), (4, 4));
    }

    #[test]
    fn a_process_that_runs_something_as_urgent_is_served() {
        let other = stretch(1, 9, [0, 0, 10]);
        let waits = stretch(0, 5, [0, 10, 20]);
        for (level, suffered) in [(4, 0), (5, 0), (6, 10)] {
            let own = stretch(0, level, [0, 0, 10]);
            assert_eq!(inversions(&[other, waits, own]), (suffered, suffered));
        }
    }

    #[test]
    fn the_total_counts_an_instant_once_and_the_longest_is_one_wait() {
        // One is less urgent from 0 to 12; two wait, for 12 and for 4 of it. Later one waits for 5.
        let stretches = [
            stretch(0, 9, [0, 0, 12]),
            stretch(1, 1, [0, 12, 14]),
            stretch(2, 2, [8, 14, 16]),
            stretch(0, 9, [16, 16, 30]),
            stretch(1, 1, [25, 30, 31]),
        ];
        assert_eq!(inversions(&stretches), (17, 12));
    }

    #[test]
    fn what_is_written_down_is_read_again() {
        let one = stretch(7, 63, [1 << 40, u64::MAX - 1, u64::MAX]);
        assert_eq!(Stretch::from_bytes(&one.to_bytes()), one);
    }
}
