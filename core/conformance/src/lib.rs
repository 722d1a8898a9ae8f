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
pub use served::Workers;

/// Replays every trace on all kinds of executors.
#[must_use]
pub fn verdict() -> Verdict {
    let mut all = Verdict::default();
    for workers in [
        Workers::None,
        Workers::One,
        #[cfg(feature = "std")]
        Workers::Threads,
    ] {
        let verdict = replay_all(workers);
        all.passed += verdict.passed;
        all.skipped += verdict.skipped;
        all.failures.extend(verdict.failures);
    }
    all
}
