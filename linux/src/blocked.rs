//! The report of a worker that one poll keeps for long, and the hook that receives it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use corank::{CoroutineId, Priority};

/// Reports a worker that one poll keeps for long; see
/// [`Builder::on_blocked`](crate::Builder::on_blocked).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Blocked {
    /// Names the worker's thread.
    pub worker: String,
    /// Identifies the coroutine that it polls.
    pub coroutine: CoroutineId,
    /// Gives the level of that coroutine.
    pub priority: Priority,
    /// Names the type of its future: for an `async fn` or block, the path of the function that it
    /// stands in.
    pub future: &'static str,
    /// Measures how long the poll has lasted at least.
    ///
    /// The thread may have slept meanwhile, or had no processor.
    pub time: Duration,
    /// Gives the most urgent level that is ready and that no worker serves, if it is more urgent
    /// than this coroutine.
    pub waiting: Option<Priority>,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} has been inside one poll of `{}` (level {}) for {:?}",
            self.worker,
            self.future,
            self.priority.level(),
            self.time
        )?;
        if let Some(waiting) = self.waiting {
            write!(f, " while level {} is ready", waiting.level())?;
        }
        f.write_str(": what blocks or computes for long there belongs into spawn_blocking")
    }
}

/// Holds the hook that receives a blocked-worker report, and the time after which it is called.
#[derive(Clone)]
pub(crate) struct BlockedReport {
    pub(crate) after: Duration,
    pub(crate) report: Arc<dyn Fn(&Blocked) + Send + Sync>,
}

impl fmt::Debug for BlockedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockedReport")
            .field("after", &self.after)
            .finish_non_exhaustive()
    }
}
