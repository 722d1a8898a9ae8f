//! The clock that all processes of the machine share.

use crate::claim::Nanoseconds;
use rustix::time::{ClockId, clock_gettime};

/// Reads `CLOCK_MONOTONIC`. It costs about 25 ns, without entering the kernel.
pub(crate) fn now() -> Nanoseconds {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}
