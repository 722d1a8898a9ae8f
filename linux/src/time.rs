//! Sleeping, time limits and ticks, for the coroutines of a runtime.
//!
//! Time is the system's monotonic clock. A sleeping future holds its own timer: sleeping allocates
//! nothing, and any number of coroutines can sleep. A timer fires at the first reading of the clock
//! that finds it due. It ends the sleep of an idle worker; a busy worker reads the clock after at
//! most [`POLLS_PER_CHECK`](crate::POLLS_PER_CHECK) polls.
//!
//! ```
//! use std::time::{Duration, Instant};
//! use corank_linux::time::{Elapsed, sleep, timeout};
//!
//! # let runtime = corank_linux::Runtime::new()?;
//! runtime.block_on(async {
//!     let start = Instant::now();
//!     sleep(Duration::from_millis(2)).await;
//!     assert!(start.elapsed() >= Duration::from_millis(2));
//!
//!     let never = std::future::pending::<()>();
//!     assert_eq!(timeout(Duration::from_millis(1), never).await, Err(Elapsed));
//! });
//! # Ok::<(), std::io::Error>(())
//! ```

use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub use corank::time::Elapsed;
pub use corank::workers::{Sleep, Ticker, Timeout, sleep, ticker, timeout};

/// Returns the instant at which the clock was first read: its zero.
fn start() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now)
}

/// Converts an instant to nanoseconds of the runtimes' clock; an instant before its start becomes
/// 0.
fn since_start(instant: Instant) -> u64 {
    let elapsed = instant.saturating_duration_since(start());
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

/// Reads the system's monotonic clock, in nanoseconds since it was first read.
pub(crate) fn clock() -> u64 {
    since_start(Instant::now())
}

/// Reads the same clock, in nanoseconds since the machine's start; for differences.
///
/// It costs a quarter less.
#[cfg(any(feature = "figures", feature = "metrics", feature = "recording"))]
pub(crate) fn monotonic() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Converts a duration of at most 584 years to nanoseconds.
pub(crate) const fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// Waits until `deadline`.
///
/// Ready at once if the deadline has passed. The first poll panics outside of a runtime.
pub fn sleep_until(deadline: Instant) -> Sleep {
    corank::workers::sleep_until(since_start(deadline))
}

/// Limits a future as [`timeout`] does, up to a point in time.
///
/// # Errors
/// Returns [`Elapsed`] if the deadline came first.
pub fn timeout_at<F: Future>(deadline: Instant, future: F) -> Timeout<F> {
    let left: Duration = deadline.saturating_duration_since(Instant::now());
    timeout(left, future)
}
