//! The calling thread's sleep while its executor is idle, and its clock.

use std::sync::Arc;
use std::sync::OnceLock;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

struct Unparker(Thread);

impl Wake for Unparker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Returns a waker that wakes the calling thread from [`thread::park`].
///
/// A wake that comes before the thread parks is kept.
pub(crate) fn unparker() -> Waker {
    Arc::new(Unparker(thread::current())).into()
}

/// Returns the time of the system's monotonic clock, in nanoseconds since the first call.
pub(crate) fn monotonic() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

/// Parks the thread until it is unparked, or until `deadline` on the clock of [`monotonic`].
pub(crate) fn park_until(deadline: Option<u64>) {
    match deadline {
        Some(deadline) => {
            thread::park_timeout(Duration::from_nanos(deadline.saturating_sub(monotonic())));
        }
        None => thread::park(),
    }
}
