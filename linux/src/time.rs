//! Sleeping, time limits and ticks, for the coroutines of a runtime.
//!
//! Time is the system's monotonic clock. A sleeping future holds its own timer: sleeping allocates nothing, and any number of coroutines
//! can sleep. A timer fires when the next look at the clock finds it due: an idle worker's sleep ends then; a busy one looks after at most
//! [`POLLS_PER_CHECK`](crate::POLLS_PER_CHECK) polls.
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

/// When the clock was first asked: zero.
fn start() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now)
}

/// An instant in nanoseconds of the runtimes' clock; those before its beginning are its beginning.
fn since_start(instant: Instant) -> u64 {
    let elapsed = instant.saturating_duration_since(start());
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds of the system's monotonic clock since it was first asked.
pub(crate) fn clock() -> u64 {
    since_start(Instant::now())
}

/// Converts a duration of at most 584 years to nanoseconds.
pub(crate) const fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// Waits until `deadline`. Ready at once if that has been reached. The first poll panics outside a runtime.
pub fn sleep_until(deadline: Instant) -> Sleep {
    corank::workers::sleep_until(since_start(deadline))
}

/// As [`timeout`], up to a point in time.
///
/// # Errors
/// [`Elapsed`] if the time was over first.
pub fn timeout_at<F: Future>(deadline: Instant, future: F) -> Timeout<F> {
    let left: Duration = deadline.saturating_duration_since(Instant::now());
    timeout(left, future)
}
