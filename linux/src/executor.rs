//! The executor of a runtime: one set of queues for all workers, or a shard for each.

use corank::{
    Config, CoroutineId, ExecutorId, Levels, Polling, Priority, ShardWorker, ShardedExecutor,
    Shared, SharedExecutor, SharedHandle, SpawnError, Step, SystemView, Worker, WorkerId,
};
use std::task::Waker;

use crate::builder::Order;

/// The executor of a runtime.
pub(crate) enum Executor {
    Exact(SharedExecutor),
    Bounded(ShardedExecutor),
}

/// The worker of an executor on one thread.
pub(crate) enum AnyWorker<'e> {
    Exact(Worker<'e>),
    Bounded(ShardWorker<'e>),
}

impl Executor {
    /// Makes the executor for so many workers; `config` returns the configuration of a shard whose
    /// capacity is this.
    pub(crate) fn new(
        order: Order,
        workers: usize,
        capacity: usize,
        config: impl Fn(usize) -> Config,
    ) -> Self {
        match order {
            Order::Exact => Self::Exact(SharedExecutor::with(config(capacity))),
            Order::Bounded => Self::Bounded(ShardedExecutor::with(workers, |shard| {
                // Their sum is the capacity.
                config(capacity / workers + usize::from(shard < capacity % workers))
            })),
        }
    }

    /// Returns the executors of which this one consists, by number.
    pub(crate) fn shards(&self) -> &[SharedExecutor] {
        match self {
            Self::Exact(executor) => std::slice::from_ref(executor),
            Self::Bounded(executor) => executor.shards(),
        }
    }

    /// Returns the executor that has one set of queues.
    ///
    /// # Panics
    /// Panics if it has several. The builder refuses what needs one set then.
    pub(crate) fn exact(&self) -> &SharedExecutor {
        match self {
            Self::Exact(executor) => executor,
            Self::Bounded(_) => unreachable!("the builder has refused this for shards"),
        }
    }

    /// Returns whether there are several sets of queues.
    pub(crate) fn is_bounded(&self) -> bool {
        matches!(self, Self::Bounded(_))
    }

    /// Adds the worker with this number.
    pub(crate) fn worker(&self, number: usize, call: Waker) -> AnyWorker<'_> {
        match self {
            Self::Exact(executor) => AnyWorker::Exact(executor.worker(call)),
            Self::Bounded(executor) => AnyWorker::Bounded(executor.worker(number, call)),
        }
    }

    /// Tests whether this is the executor of that name, or one of its shards is.
    pub(crate) fn has(&self, id: ExecutorId) -> bool {
        self.shards().iter().any(|shard| shard.id() == Some(id))
    }

    /// Returns the shard that runs here, or the first one.
    pub(crate) fn owner(&self) -> Shared {
        let number = match self {
            Self::Exact(_) => None,
            Self::Bounded(executor) => executor.here(),
        };
        Shared::from(&self.shards()[number.unwrap_or(0)])
    }

    #[inline]
    pub(crate) fn spawn<F>(
        &self,
        priority: Priority,
        future: F,
    ) -> Result<SharedHandle<F::Output>, SpawnError>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        match self {
            Self::Exact(executor) => executor.spawn(priority, future),
            Self::Bounded(executor) => executor.spawn(priority, future),
        }
    }

    /// Returns the shard of a coroutine, if the identifier is of one.
    fn shard_of(&self, id: CoroutineId) -> Option<&SharedExecutor> {
        match self {
            Self::Exact(executor) => Some(executor),
            Self::Bounded(executor) => executor.shard_of(id),
        }
    }

    pub(crate) fn reprioritize(&self, id: CoroutineId, priority: Priority) -> bool {
        (self.shard_of(id)).is_some_and(|shard| shard.reprioritize(id, priority))
    }

    pub(crate) fn cancel(&self, id: CoroutineId) -> bool {
        self.shard_of(id).is_some_and(|shard| shard.cancel(id))
    }

    pub(crate) fn priority(&self, id: CoroutineId) -> Option<Priority> {
        self.shard_of(id)?.priority(id)
    }

    pub(crate) fn base_priority(&self, id: CoroutineId) -> Option<Priority> {
        self.shard_of(id)?.base_priority(id)
    }

    pub(crate) fn live(&self) -> usize {
        match self {
            Self::Exact(executor) => executor.live(),
            Self::Bounded(executor) => executor.live(),
        }
    }

    pub(crate) fn close(&self) {
        self.shards().iter().for_each(SharedExecutor::close);
    }

    pub(crate) fn next_deadline(&self) -> Option<u64> {
        (self
            .shards()
            .iter()
            .filter_map(SharedExecutor::next_deadline))
        .min()
    }

    /// Fires the timers of other shards that are due, for a worker that has nothing to do.
    ///
    /// Returns how many have fired. A worker fires those of its own shard when it runs.
    pub(crate) fn fire_due(&self, now: u64) -> usize {
        match self {
            Self::Exact(_) => 0,
            Self::Bounded(executor) => (executor.shards().iter())
                .filter(|shard| shard.next_deadline().is_some_and(|due| due <= now))
                .map(|shard| shard.advance(now))
                .sum(),
        }
    }

    /// Returns the levels of what is ready, has arrived or is shown, and that no worker serves.
    pub(crate) fn waiting(&self) -> Levels {
        let waiting = |shard: &SharedExecutor| {
            let published = shard.published();
            published.ready().union(published.arriving())
        };
        (self.shards().iter().map(waiting)).fold(Levels::NONE, Levels::union)
    }

    /// Returns what a worker polls, in its own shard or `elsewhere`.
    pub(crate) fn polling(&self, worker: WorkerId, elsewhere: Option<WorkerId>) -> Option<Polling> {
        let mut names = [Some(worker), elsewhere].into_iter().flatten();
        names.find_map(|name| self.shards().iter().find_map(|shard| shard.polling(name)))
    }

    /// Notes that the poll of a worker lasts, so that others come for what is ready in its shard.
    pub(crate) fn note_long_poll(&self, number: usize) {
        if let Self::Bounded(executor) = self {
            executor.note_long_poll(number);
        }
    }
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exact(executor) => executor.fmt(f),
            Self::Bounded(executor) => executor.fmt(f),
        }
    }
}

impl AnyWorker<'_> {
    pub(crate) fn id(&self) -> WorkerId {
        match self {
            Self::Exact(worker) => worker.id(),
            Self::Bounded(worker) => worker.id(),
        }
    }

    /// Returns the worker's name in other shards, if there are any.
    pub(crate) fn id_elsewhere(&self) -> Option<WorkerId> {
        match self {
            Self::Exact(_) => None,
            Self::Bounded(worker) => Some(worker.id_elsewhere()),
        }
    }

    #[inline]
    pub(crate) fn run_some(&self, view: &impl SystemView, limit: u64) -> (Step, u64) {
        match self {
            Self::Exact(worker) => worker.run_some(view, limit),
            Self::Bounded(worker) => worker.run_some(view, limit),
        }
    }

    pub(crate) fn within<T>(&self, act: impl FnOnce() -> T) -> T {
        match self {
            Self::Exact(worker) => worker.within(act),
            Self::Bounded(worker) => worker.within(act),
        }
    }

    /// Limits the worker to these levels; for one of a shard these are all.
    pub(crate) fn set_levels(&self, levels: Levels) {
        if let Self::Exact(worker) = self {
            worker.set_levels(levels);
        }
    }

    /// Sets whether a worker of a shard takes what is ready there by itself.
    #[inline]
    pub(crate) fn keep_to_itself(&self, has_short_polls: bool) {
        if let Self::Bounded(worker) = self {
            worker.set_short_polls(has_short_polls);
        }
    }
}
