//! The core in the hands of the conformance traces (`spec/traces/`): the same program on the host, in the operating system's
//! kernel and in its processes.
#![no_std]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod home;
mod primitives;
mod served;

pub use home::{CoreHome, Verdict, replay_all};

/// Replays every trace on both kinds of executors.
#[must_use]
pub fn verdict() -> Verdict {
    let mut both = replay_all(false);
    let shared = replay_all(true);
    both.passed += shared.passed;
    both.skipped += shared.skipped;
    both.failures.extend(shared.failures);
    both
}
