//! What the workers of a shared executor are polling, for a watchdog.

use core::ptr::NonNull;

use crate::executor::shared::{SharedExecutor, Worker};
use crate::priority::Priority;
use crate::scheduling::table::id::CoroutineId;
use crate::scheduling::workers::worker_context::WorkerContext;

/// The name of one of an executor's workers.
///
/// When that worker has gone, the name is stale: it names no worker, or a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkerId(usize);

/// What a worker is polling, as returned by [`SharedExecutor::polling`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Polling {
    /// The coroutine.
    pub id: CoroutineId,
    /// Its level at this moment, which may be inherited.
    pub priority: Priority,
    /// The type of its future. For an `async fn` or block, that is the path of the function that
    /// contains it.
    pub future: &'static str,
}

impl WorkerId {
    pub(crate) fn of(worker_context: NonNull<WorkerContext>) -> Self {
        Self(worker_context.addr().get())
    }

    pub(crate) fn address(self) -> usize {
        self.0
    }
}

impl Worker<'_> {
    /// Returns a name for this worker that other threads can use.
    #[must_use]
    pub fn id(&self) -> WorkerId {
        WorkerId::of(NonNull::from(self.worker_context()))
    }
}

impl SharedExecutor {
    /// Returns what the worker is polling at this moment, or `None` if it polls nothing.
    ///
    /// Any thread may call this. It acquires the scheduler lock once, and checks each worker.
    pub fn polling(&self, worker: WorkerId) -> Option<Polling> {
        self.own(|scheduler| {
            let is_it = |worker_context: &&WorkerContext| {
                NonNull::from(*worker_context).addr().get() == worker.0
            };
            let block = scheduler.worker_contexts().find(is_it)?.current.get()?;
            let vtable = block.vtable.get()?;
            Some(Polling {
                id: block.id(),
                priority: block.level(),
                future: (vtable.name)(),
            })
        })
    }
}
