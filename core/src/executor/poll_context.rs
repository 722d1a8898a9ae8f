//! A poll that goes on on another thread.

use crate::scheduling::workers::context::{self, Entered};
use crate::scheduling::workers::worker_context::WorkerContext;

/// The poll that goes on here, for another thread that carries it out while this one waits.
///
/// A runtime polls with it what must stay on a thread of its own: the worker that has picked the
/// coroutine waits inside the poll, and for the executor nothing is different.
#[derive(Debug)]
pub struct PollContext(*const WorkerContext);

// SAFETY: it does nothing by itself, and `enter` states what a thread that uses it has to ensure.
unsafe impl Send for PollContext {}

impl PollContext {
    /// Returns that of the poll, or of the destructor of a coroutine, that goes on here.
    ///
    /// Returns `None` where no executor runs.
    #[must_use]
    pub fn here() -> Option<Self> {
        context::worker_context().map(|here| Self(here))
    }

    /// Calls `act` as part of that poll.
    ///
    /// # Safety
    /// The thread on which this was made is still inside the same poll, and waits there until this
    /// has returned; each of the two threads sees what the other one did before.
    pub unsafe fn enter<R>(&self, act: impl FnOnce() -> R) -> R {
        let _entered = Entered::new(self.0);
        act()
    }
}
