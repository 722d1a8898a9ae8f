//! What the workers of a shared executor do, for someone who watches over them.

use core::ptr::NonNull;

use crate::id::CoroutineId;
use crate::priority::Priority;
use crate::seat::Seat;
use crate::shared::{SharedExecutor, Worker};

/// Names one of an executor's workers. When that one has gone, it names nobody or a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkerId(usize);

/// What a worker is polling; see [`SharedExecutor::polling`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Polling {
    /// The coroutine.
    pub id: CoroutineId,
    /// Its level at this moment, which may have been lent to it.
    pub priority: Priority,
    /// The type of its future: for an `async fn` or block, the path of the function that it stands
    /// in.
    pub future: &'static str,
}

impl Worker<'_> {
    /// A name for this worker that other threads can use.
    #[must_use]
    pub fn id(&self) -> WorkerId {
        WorkerId(NonNull::from(self.seat()).addr().get())
    }
}

impl SharedExecutor {
    /// What the worker polls at this moment; `None` if nothing. From any thread; it costs the
    /// scheduler lock once, and a look at each worker.
    pub fn polling(&self, worker: WorkerId) -> Option<Polling> {
        self.own(|scheduler| {
            let is_it = |seat: &&Seat| NonNull::from(*seat).addr().get() == worker.0;
            let block = scheduler.seats().find(is_it)?.current.get()?;
            let vtable = block.vtable.get()?;
            Some(Polling {
                id: block.id(),
                priority: block.level(),
                future: (vtable.name)(),
            })
        })
    }
}
