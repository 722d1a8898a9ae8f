//! Priority inversions in a log of what several processes' coroutines did.
//!
//! `xtask` runs the tests on the host.
//!
//! At an instant, a coroutine suffers an *inversion* under three conditions. It is ready and does
//! not run. Its own process does not run anything at least as urgent (an executor has one thread,
//! and serves its most urgent one). Some hart runs a coroutine of strictly less urgency.
//! `inversion-total` is the time with any inversion. `inversion-longest` is the longest that one
//! coroutine suffers between becoming ready and running.

use alloc::vec::Vec;

/// A stretch of time in which a coroutine ran, and when it had become ready; in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// When the coroutine became ready.
    pub(crate) ready: u64,
    /// When it began to run.
    pub(crate) start: u64,
    /// When it ended.
    pub(crate) end: u64,
    /// The coroutine's level.
    pub(crate) level: u8,
    /// The coroutine's process.
    pub(crate) process: u8,
}

impl Stretch {
    /// Bytes of a stretch in a log.
    pub(crate) const BYTES: usize = 26;

    /// Encodes the stretch, numbers with their least significant byte first.
    #[must_use]
    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (place, number) in [self.ready, self.start, self.end].iter().enumerate() {
            bytes[8 * place..][..8].copy_from_slice(&number.to_le_bytes());
        }
        bytes[24..].copy_from_slice(&[self.level, self.process]);
        bytes
    }

    /// Decodes what [`to_bytes`](Self::to_bytes) encoded.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub(crate) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
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

/// An event at an instant: a stretch's coroutine becomes ready, starts, or ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    End,
    Ready,
    Start,
}

/// Returns for how long there was any inversion, and the longest that one wait suffered.
///
/// Costs the number of stretches times the number of those that run or wait at once, after sorting
/// them.
#[must_use]
pub(crate) fn inversions(stretches: &[Stretch]) -> (u64, u64) {
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
    fn without_less_urgent_work_there_is_no_inversion() {
        assert_eq!(inversions(&[]), (0, 0));
        // The coroutine waits for a more urgent one, then for its equal.
        let stretches = [
            stretch(0, 3, [0, 0, 10]),
            stretch(1, 5, [0, 20, 30]),
            stretch(2, 5, [0, 10, 20]),
        ];
        assert_eq!(inversions(&stretches), (0, 0));
    }

    #[test]
    fn an_inversion_lasts_while_less_urgent_work_runs() {
        // The hart is idle from 10 to 15.
        let stretches = [stretch(0, 9, [0, 0, 10]), stretch(1, 5, [4, 15, 30])];
        assert_eq!(inversions(&stretches), (6, 6));
    }

    #[test]
    fn an_inversion_begins_when_less_urgent_work_begins() {
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
    fn an_encoded_stretch_is_decoded() {
        let one = stretch(7, 63, [1 << 40, u64::MAX - 1, u64::MAX]);
        assert_eq!(Stretch::from_bytes(&one.to_bytes()), one);
    }
}
