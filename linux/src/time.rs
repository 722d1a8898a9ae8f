//! The runtime's clock.

use std::sync::OnceLock;
use std::time::Instant;

/// Nanoseconds of the system's monotonic clock since it was first asked.
pub(crate) fn clock() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}
