//! Work that takes processor time and nothing else.

use corank::Priority;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Processor time between two yields of a coroutine.
pub(crate) const CHUNK: Duration = Duration::from_micros(20);
/// Chunks of one urgent job: 200 µs.
pub(crate) const JOB: u32 = 10;
/// Period of the urgent jobs.
pub(crate) const PERIOD: Duration = Duration::from_millis(1);

pub(crate) const URGENT: Priority = level(4);
pub(crate) const BULK: Priority = level(60);

const fn level(level: u8) -> Priority {
    Priority::new(level).expect("below 64")
}

/// Runs rounds of work, each of which needs the result of the one before.
pub(crate) fn rounds(count: u64) {
    let mut state = black_box(1u64);
    for _ in 0..count {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
    }
    black_box(state);
}

/// Returns how many rounds take [`CHUNK`] where nothing disturbs them.
pub(crate) fn calibrate() -> u64 {
    const TRIAL: u64 = 200_000;
    let fastest = (0..50)
        .map(|_| {
            let began = Instant::now();
            rounds(TRIAL);
            began.elapsed()
        })
        .min()
        .expect("several trials");
    (CHUNK.as_nanos() as u64 * TRIAL) / (fastest.as_nanos() as u64).max(1)
}
