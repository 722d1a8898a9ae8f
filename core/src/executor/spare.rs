//! Spare workers, which poll in the place of a worker whose poll lasts (rules H11 to H13).

use core::fmt;
use core::ptr::NonNull;
use core::task::Waker;

use crate::executor::polling::WorkerId;
use crate::executor::shared::{SharedExecutor, Worker};
use crate::priority::Levels;
use crate::scheduling::config::{Step, SystemView};
use crate::scheduling::scheduler::Scheduler;
use crate::scheduling::turn::Held;
use crate::scheduling::workers::context::Entered;
use crate::scheduling::workers::worker_context::WorkerContext;

/// A worker that polls only in the place of another one, whose own poll lasts.
///
/// It takes only what is strictly more urgent than that poll. So a platform may have a thread of
/// its own for it, beside the thread that is inside the poll. The spare worker stays on its thread.
///
/// A platform decides when a poll has lasted. Its thread works like this:
/// 1. While no poll lasts, it sleeps by its own means.
/// 2. If all workers are inside polls that have lasted, it [stands by](Self::stand_by) and sleeps
///    until it is called.
/// 3. It [acts for](Self::run_for) the worker that is named, until nothing is left that is more
///    urgent or until a worker's poll ends.
///
/// ```
/// use std::task::Waker;
/// use std::sync::Arc;
/// use corank::{Priority, Relaxed, SharedExecutor, Step};
///
/// let executor = Arc::new(SharedExecutor::new());
/// let inner = executor.clone();
/// executor.spawn(Priority::DEFAULT, async move {
///     inner.spawn(Priority::DEFAULT, async {}).unwrap();
///     // This poll lasts. On a thread of its own there would be a spare worker:
///     let spare = inner.spare_worker(Waker::noop().clone());
///     assert_eq!(spare.stand_by(), None, "nothing is strictly more urgent");
///     inner.spawn(Priority::MOST_URGENT, async {}).unwrap();
///     let held_up = spare.stand_by().expect("a worker holds up something more urgent");
///     assert_eq!(spare.run_for(held_up, &Relaxed, 64), (Step::Idle, 1));
/// })?;
/// executor.worker(Waker::noop().clone()).run_until_idle();
/// # Ok::<(), corank::SpawnError>(())
/// ```
pub struct SpareWorker<'e>(Worker<'e>);

impl SharedExecutor {
    /// Adds a spare worker, for the thread that calls this.
    ///
    /// `call` is woken when the spare worker [stands by](SpareWorker::stand_by) and should act, or
    /// when a timer was set that is due earlier than all others. As for [`worker`](Self::worker), a
    /// call that comes before the sleep must not be lost.
    pub fn spare_worker(&self, call: Waker) -> SpareWorker<'_> {
        SpareWorker(self.add_worker(call, WorkerContext::of_spare))
    }
}

impl SpareWorker<'_> {
    /// Returns a name for this worker that other threads can use.
    #[must_use]
    pub fn id(&self) -> WorkerId {
        self.0.id()
    }

    /// Limits the spare worker to these levels, as [`Worker::set_levels`] does (rule H14).
    ///
    /// It acts only for workers that take what is ready.
    pub fn set_levels(&self, levels: Levels) {
        self.0.set_levels(levels);
    }

    /// Returns the worker to act for: the one with the least urgent poll, if something ready is
    /// strictly more urgent.
    ///
    /// Returns `None` also if a worker is idle, because that one is called first. A worker for
    /// which another spare one acts does not count. Due timers fire before. The spare worker does
    /// not stand by any more.
    #[must_use]
    pub fn held_up(&self) -> Option<WorkerId> {
        self.check(Scheduler::find_held_up)
    }

    /// Works as [`held_up`](Self::held_up); if the result is `None`, the spare worker stands by
    /// from then on.
    ///
    /// It is called when [`held_up`](Self::held_up) would name a worker, until it checks again.
    /// While a spare worker stands by, each unlocking of the executor with something ready costs a
    /// check of each worker.
    #[must_use]
    pub fn stand_by(&self) -> Option<WorkerId> {
        self.check(Scheduler::stand_by)
    }

    fn check(
        &self,
        check: fn(&Scheduler, &WorkerContext) -> Option<NonNull<WorkerContext>>,
    ) -> Option<WorkerId> {
        let (scheduler, worker_context) = (self.0.scheduler(), self.0.worker_context());
        let _entered = Entered::new(worker_context);
        let _held = Held::new(scheduler, worker_context);
        check(scheduler, worker_context).map(WorkerId::of)
    }

    /// Polls what is strictly more urgent than the poll that `worker` is in.
    ///
    /// Makes at most `limit` polls, and at most 64. [`Step::Ran`] says that there may be more.
    /// [`Step::Idle`] says that nothing ready is more urgent than that poll, that the poll has
    /// ended, or that another spare worker acts for `worker`. The view is asked as by
    /// [`Worker::step_under`]. Picks are strict under every policy, and not counted.
    pub fn run_for(&self, worker: WorkerId, view: &impl SystemView, limit: u64) -> (Step, u64) {
        let (scheduler, worker_context) = (self.0.scheduler(), self.0.worker_context());
        let _entered = Entered::new(worker_context);
        let _held = Held::new(scheduler, worker_context);
        scheduler.run_spare(worker_context, worker.address(), view, limit)
    }

    /// Calls `act` as code that runs here, as [`Worker::within`] does.
    ///
    /// No worker is called before [`held_up`](Self::held_up), [`stand_by`](Self::stand_by) or
    /// [`run_for`](Self::run_for), so one of them must come next.
    pub fn within<T>(&self, act: impl FnOnce() -> T) -> T {
        self.0.within(act)
    }
}

impl fmt::Debug for SpareWorker<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpareWorker").finish_non_exhaustive()
    }
}
