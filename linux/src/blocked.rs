//! The report of a worker that one poll keeps for long, and the hook that receives it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use corank::{CoroutineId, Priority};

/// A worker that is held up inside one poll; see [`Builder::on_blocked`](crate::Builder::on_blocked).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Blocked {
    /// The name of the worker's thread.
    pub worker: String,
    /// The coroutine that it polls.
    pub coroutine: CoroutineId,
    /// That one's level.
    pub priority: Priority,
    /// The type of its future: for an `async fn` or block, the path of the function that it stands in.
    pub future: &'static str,
    /// How long the poll has lasted at least, whatever the thread did meanwhile: it may have slept, or had no processor.
    pub time: Duration,
    /// The most urgent level that is ready and that no worker serves, if that is more urgent.
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

/// What is called for a blocked worker, and after what time.
#[derive(Clone)]
pub(crate) struct BlockedReport {
    pub(crate) after: Duration,
    pub(crate) tell: Arc<dyn Fn(&Blocked) + Send + Sync>,
}

impl fmt::Debug for BlockedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockedReport")
            .field("after", &self.after)
            .finish_non_exhaustive()
    }
}
