//! One scheduler, several workers: threads or harts that always run the globally most urgent
//! coroutine (rules H1 to H14).

use alloc::boxed::Box;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::task::Waker;

use crate::executor::current::ExecutorId;
use crate::executor::join::JoinHandle;
use crate::ownership::Shared;
use crate::ownership::turns::Turns;
use crate::priority::published::Published;
use crate::priority::{Levels, Priority};
use crate::scheduling::config::{Config, Relaxed, SpawnError, Step, SystemView};
use crate::scheduling::scheduler::Scheduler;
use crate::scheduling::table::block::State;
use crate::scheduling::table::id::{CoroutineId, next_serial};
use crate::scheduling::turn::Held;
use crate::scheduling::workers::context::Entered;
use crate::scheduling::workers::worker_context::WorkerContext;

/// An executor that any number of threads or harts serve, each through a [`Worker`].
///
/// There is one set of ready queues, and each pick is made under one lock, the *scheduler lock*. It
/// is free while coroutines, destructors and wakers run. So a coroutine that is ready never waits
/// while a worker picks a less urgent one. The rules and the code are those of an
/// [`Executor`](crate::Executor). Rules H1 to H14 say what several workers add.
///
/// Cost: a poll releases the scheduler lock and acquires it again. That is two atomic
/// read-modify-writes more than in an `Executor`. Every operation from inside a coroutine or from
/// elsewhere costs the same, except when a coroutine wakes itself. A worker that releases the
/// scheduler lock while a worker is idle or can be interrupted also checks each worker. A
/// `SharedExecutor` is made for a handful of workers whose polls are not much shorter than a
/// microsecond.
///
/// Coroutines are `Send`. Locks, channels, timers and the like for them are in [`crate::workers`];
/// those of [`crate::sync`], [`crate::time`] and [`crate::key`] belong to one thread.
///
/// ```
/// # #[cfg(all(feature = "std", not(loom)))] {
/// use std::task::Waker;
/// use corank::{Priority, SharedExecutor};
///
/// let executor = SharedExecutor::new();
/// let sum = executor.spawn(Priority::DEFAULT, async { 1 + 1 })?;
/// std::thread::scope(|scope| {
///     for _ in 0..2 {
///         // A worker that sleeps while it is idle gives a waker that ends its sleep.
///         scope.spawn(|| executor.worker(Waker::noop().clone()).run_until_idle());
///     }
/// });
/// assert_eq!(sum.try_join().unwrap().unwrap(), 2);
/// # }
/// # Ok::<(), corank::SpawnError>(())
/// ```
pub struct SharedExecutor {
    scheduler: NonNull<Scheduler>,
}

// SAFETY: the scheduler is shared: each method holds the scheduler lock while it touches more than
// atomics, and coroutines and their outputs are `Send`.
unsafe impl Send for SharedExecutor {}
// SAFETY: as above.
unsafe impl Sync for SharedExecutor {}

impl SharedExecutor {
    /// Makes an executor without workers.
    #[must_use]
    pub fn new() -> Self {
        Self::with(Config::new())
    }

    /// Makes an executor without workers, by a configuration.
    ///
    /// `notify` is called besides the workers for what comes from outside. The clock and an
    /// observer must not wait for another worker, because they are called under the scheduler lock.
    #[must_use]
    pub fn with(mut config: Config) -> Self {
        config.shared = true;
        config.serial = next_serial();
        Self {
            scheduler: crate::scheduling::table::storage::heap_scheduler(
                config,
                crate::scheduling::table::storage::Memory::GLOBAL,
            )
            .expect("memory for a scheduler"),
        }
    }

    pub(crate) fn scheduler(&self) -> &Scheduler {
        // SAFETY: the executor's anchor keeps it until `drop`.
        unsafe { self.scheduler.as_ref() }
    }

    pub(crate) fn own<R>(&self, act: impl FnOnce(&Scheduler) -> R) -> R {
        let scheduler = self.scheduler();
        Shared::own(scheduler, || act(scheduler))
    }

    /// Adds a worker, for the thread or hart that calls this.
    ///
    /// `call` is woken when the worker should check the queues: it is idle, and something is ready
    /// for which no other worker was called. It is called at most once until the worker
    /// [steps](Worker::step) again, from any worker or thread and without the scheduler lock. A
    /// call that comes before the worker has gone to sleep must not be lost, as with
    /// `std::thread::park`.
    pub fn worker(&self, call: Waker) -> Worker<'_> {
        self.add_worker(call, WorkerContext::of_worker)
    }

    pub(crate) fn add_worker(
        &self,
        call: Waker,
        make: fn(*const Scheduler, Waker) -> WorkerContext,
    ) -> Worker<'_> {
        let worker_context = make(self.scheduler.as_ptr(), call);
        let worker_context = NonNull::from(Box::leak(Box::new(worker_context)));
        self.scheduler().enter(worker_context);
        Worker {
            executor: self,
            worker_context,
            _local: PhantomData,
        }
    }

    /// Adds a coroutine, ready at the tail of its level.
    ///
    /// # Errors
    /// A full table and exhausted memory are errors, and change nothing.
    pub fn spawn<F>(
        &self,
        priority: Priority,
        future: F,
    ) -> Result<SharedHandle<F::Output>, SpawnError>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.spawn_with(priority, move || future)
    }

    /// Spawns as [`spawn`](Self::spawn), but `make` builds the future where it will stay.
    ///
    /// So large futures are not moved. `make` does nothing else: the other workers wait meanwhile.
    /// It is dropped, and not called, if there is no room for the future.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn).
    #[inline]
    pub fn spawn_with<F>(
        &self,
        priority: Priority,
        make: impl FnOnce() -> F,
    ) -> Result<SharedHandle<F::Output>, SpawnError>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.scheduler().spawn::<F, Shared>(priority, make)
    }

    /// Wakes a coroutine (rules W1 to W3). Returns false if the identifier is stale.
    pub fn wake(&self, id: CoroutineId) -> bool {
        self.own(|scheduler| scheduler.wake_by_id(id))
    }

    /// Gives a coroutine another base priority, at once (rules R1 to R4, H6).
    ///
    /// Returns false if it has exited.
    pub fn reprioritize(&self, id: CoroutineId, priority: Priority) -> bool {
        self.own(|scheduler| {
            scheduler
                .on(id, |block| scheduler.reprioritize(block, priority))
                .unwrap_or(false)
        })
    }

    /// Cancels a coroutine (rules X1 to X4, H5).
    ///
    /// Unless it is running, its future is dropped here before this returns. Returns false if it
    /// was too late.
    pub fn cancel(&self, id: CoroutineId) -> bool {
        self.own(|scheduler| {
            scheduler
                .on(id, |block| scheduler.cancel(block))
                .unwrap_or(false)
        })
    }

    /// Returns the executor's name, to compare it with that of the one that [runs
    /// here](crate::current_executor).
    ///
    /// Returns `None` if the program has used up all names, one for each executor.
    pub fn id(&self) -> Option<ExecutorId> {
        ExecutorId::of(self.scheduler())
    }

    /// Returns a coroutine's state; `None` if the identifier is stale.
    pub fn state(&self, id: CoroutineId) -> Option<State> {
        self.own(|scheduler| scheduler.on(id, |block| block.state.get()))
    }

    /// Returns a coroutine's effective priority: its own, or a more urgent one that it has
    /// inherited.
    pub fn priority(&self, id: CoroutineId) -> Option<Priority> {
        self.own(|scheduler| scheduler.on(id, |block| block.level()))
    }

    /// Returns the priority that a coroutine has by itself.
    pub fn base_priority(&self, id: CoroutineId) -> Option<Priority> {
        self.own(|scheduler| scheduler.on(id, |block| block.base()))
    }

    /// Returns the levels with ready coroutines that no worker serves.
    ///
    /// What has arrived from outside enters the ready queues first.
    pub fn ready(&self) -> Levels {
        self.own(|scheduler| {
            scheduler.drain_inbox();
            scheduler.ready()
        })
    }

    /// Returns the number of coroutines that have not exited.
    pub fn live(&self) -> usize {
        self.own(|scheduler| scheduler.live())
    }

    /// Returns what the executor publishes.
    ///
    /// `ready` and `arriving` are what no worker serves; `running` has a level for each worker that
    /// polls.
    pub fn published(&self) -> &Published {
        self.scheduler().published()
    }

    /// Advances the time to `now`; see [`Executor::advance`](crate::Executor::advance).
    pub fn advance(&self, now: u64) -> usize {
        self.own(|scheduler| scheduler.fire_timers(now))
    }

    /// Returns when the next timer is due, in nanoseconds; `None` if there is none.
    pub fn next_deadline(&self) -> Option<u64> {
        self.own(|scheduler| scheduler.next_deadline())
    }

    /// Spawns nothing from now on ([`SpawnError::Closed`]), and cancels every coroutine (rules X1
    /// to X4).
    ///
    /// When this returns, only the coroutines that workers poll at this moment have not exited, and
    /// they do when their poll ends. It is for a platform that shuts down while others still hold
    /// the executor.
    #[cfg(not(feature = "image-client"))]
    pub fn close(&self) {
        self.own(|scheduler| {
            scheduler.cancel_all();
        });
    }

    /// Gives memory of futures that are gone back to the allocator; see
    /// [`Executor::trim`](crate::Executor::trim).
    pub fn trim(&self) {
        self.own(Scheduler::trim);
    }

    /// Gives memory of futures back to the allocator that no coroutine has used for a *round*: at
    /// most `limit` futures' memory, so that other workers do not wait for long.
    ///
    /// Returns how many it was. If that is less than `limit`, the round has ended, and the next one
    /// begins. A platform ends a round each second, for instance: then memory goes back after one
    /// to two seconds without use. The same as by [`trim`](Self::trim), but a coroutine that is
    /// spawned meanwhile finds what was used recently.
    ///
    /// Cost: O(`limit`) calls of the allocator, under the scheduler lock.
    #[cfg(not(feature = "image"))]
    pub fn reclaim(&self, limit: usize) -> usize {
        self.own(|scheduler| scheduler.storage().reclaim(limit))
    }

    /// Tests whether the executor keeps memory of futures that are gone.
    #[cfg(not(feature = "image"))]
    pub fn keeps_memory(&self) -> bool {
        self.own(|scheduler| scheduler.storage().keeps_memory())
    }
}

impl From<&SharedExecutor> for Shared {
    fn from(executor: &SharedExecutor) -> Self {
        Self::new(executor.scheduler())
    }
}

impl Default for SharedExecutor {
    fn default() -> Self {
        Self::new()
    }
}

/// Drops every coroutine that is left, on this thread. All workers have gone before: they borrow
/// the executor.
impl Drop for SharedExecutor {
    fn drop(&mut self) {
        Scheduler::close(self.scheduler);
    }
}

impl fmt::Debug for SharedExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedExecutor")
            .field("live", &self.live())
            .finish_non_exhaustive()
    }
}

/// A worker of a [`SharedExecutor`].
///
/// Mostly it stays on its thread or hart. It may move to another one between two calls of its
/// methods, for a platform whose own scheduler decides where the loop of a worker runs.
pub struct Worker<'e> {
    executor: &'e SharedExecutor,
    /// Its worker context, which is in the executor's list of them until `drop`.
    worker_context: NonNull<WorkerContext>,
    _local: PhantomData<*const ()>,
}

// SAFETY: only the methods put the worker context in the context slot of a thread, and they take it
// out before they return. A coroutine that the worker polls cannot move it, because its methods
// borrow it. Moving it to a thread makes visible what the methods wrote before.
unsafe impl Send for Worker<'_> {}

impl<'e> Worker<'e> {
    #[cfg(feature = "std")]
    pub(crate) fn scheduler(&self) -> &'e Scheduler {
        self.executor.scheduler()
    }

    pub(crate) fn worker_context(&self) -> &WorkerContext {
        // SAFETY: made by `SharedExecutor::worker`, freed by `drop`.
        unsafe { self.worker_context.as_ref() }
    }

    /// Picks the most urgent coroutine that no worker serves, and polls it once.
    pub fn step(&self) -> Step {
        self.step_under(&Relaxed)
    }

    /// Works as [`step`](Self::step), but yields to the system if `view` reports something more
    /// urgent.
    ///
    /// The view is asked under the scheduler lock.
    pub fn step_under(&self, view: &impl SystemView) -> Step {
        self.run(view, 1).0
    }

    /// Steps until no coroutine is ready; returns how many polls that took.
    ///
    /// Other workers may still be polling: what they make ready calls this worker.
    pub fn run_until_idle(&self) -> u64 {
        self.run(&Relaxed, u64::MAX).1
    }

    /// Steps until no coroutine is ready or something elsewhere is more urgent.
    ///
    /// Returns which of the two, and how many polls it took.
    pub fn run_under(&self, view: &impl SystemView) -> (Step, u64) {
        self.run(view, u64::MAX)
    }

    /// Works as [`run_under`](Self::run_under), but makes at most `limit` polls.
    ///
    /// After that many, [`Step::Ran`] says that there may be more. This is cheaper than as many
    /// steps: the lock is not released between two polls.
    pub fn run_some(&self, view: &impl SystemView, limit: u64) -> (Step, u64) {
        self.run(view, limit)
    }

    fn run(&self, view: &impl SystemView, limit: u64) -> (Step, u64) {
        let (scheduler, worker_context) = (self.executor.scheduler(), self.worker_context());
        // Entered before the lock is held, so that the worker context of the holder can be found.
        let _entered = Entered::new(worker_context);
        let _held = Held::unless_held(scheduler, worker_context);
        scheduler.run_worker(worker_context, view, limit)
    }

    /// Works as [`run_some`](Self::run_some), but the worker does not count as idle when nothing is
    /// ready: it does something else before it [sleeps](Self::sleep).
    #[cfg(all(feature = "std", target_has_atomic = "64"))]
    pub(crate) fn run_awake(&self, view: &impl SystemView, limit: u64) -> (Step, u64) {
        let (scheduler, worker_context) = (self.scheduler(), self.worker_context());
        let _entered = Entered::new(worker_context);
        let _held = Held::unless_held(scheduler, worker_context);
        scheduler.run_levels(worker_context, view, limit)
    }

    /// Makes the worker count as idle from now on; returns false if something is ready.
    #[cfg(all(feature = "std", target_has_atomic = "64"))]
    pub(crate) fn sleep(&self) -> bool {
        let (scheduler, worker_context) = (self.scheduler(), self.worker_context());
        let _entered = Entered::new(worker_context);
        let _held = Held::unless_held(scheduler, worker_context);
        scheduler.begin_sleep(worker_context)
    }

    /// Limits the worker to these levels (rule H14).
    ///
    /// It picks nothing else, and is called for nothing else. Its picks are strict under every
    /// policy, and not counted. It is for a platform whose threads are not alike, and should be set
    /// before the worker runs. The other workers must take what this one does not.
    #[cfg(feature = "std")]
    pub fn set_levels(&self, levels: Levels) {
        self.executor.own(|_| {
            if let Some(worker) = self.worker_context().worker() {
                worker.take_only(levels);
            }
        });
    }

    /// Sets whether the worker is also called while it polls a coroutine that is strictly less
    /// urgent than a ready one (rule H9).
    ///
    /// That happens when no worker is idle and none polls something less urgent still. At first the
    /// worker is not interruptible. This is for a platform that can end a poll; it may be set anew
    /// for each poll.
    pub fn set_interruptible(&self, interruptible: bool) {
        if let Some(worker) = self.worker_context().worker() {
            worker.set_interruptible(interruptible);
        }
    }

    /// Sets whether the polls that this worker makes end soon (rule H8).
    ///
    /// If they do, this worker polls next what they make ready, and what is ready beside them. It
    /// calls another worker only when it leaves something behind for the second poll in a row. So
    /// what one coroutine hands to the next stays here, and no worker is called in vain. At first
    /// the polls do not count as short. This is for a platform that knows which polls last; it may
    /// be set anew in the midst of a poll, and `false` then calls another worker if something is
    /// ready.
    pub fn set_short_polls(&self, are_short: bool) {
        let (scheduler, worker_context) = (self.executor.scheduler(), self.worker_context());
        worker_context.wake_policy.set_short_polls(are_short);
        if worker_context.current.get().is_some() {
            worker_context.wake_policy.suppress(are_short);
            if !are_short {
                scheduler.pass_on(worker_context);
            }
        }
    }

    /// Calls `act` as code that runs here: coroutines that it wakes go straight into the ready
    /// queues.
    ///
    /// This is for a platform that collects events itself between two steps. This worker polls what
    /// is ready next (rule H8): it calls no other worker before it [steps](Self::step), so it must
    /// do that next.
    pub fn within<T>(&self, act: impl FnOnce() -> T) -> T {
        let worker_context = self.worker_context();
        let _entered = Entered::new(worker_context);
        let _suppressed = SuppressedWakes::new(worker_context);
        act()
    }
}

/// The time in which a worker wakes no other one, until this is dropped.
struct SuppressedWakes<'a> {
    worker_context: &'a WorkerContext,
    outer: bool,
}

impl<'a> SuppressedWakes<'a> {
    fn new(worker_context: &'a WorkerContext) -> Self {
        let outer = worker_context.wake_policy.suppress(true);
        Self {
            worker_context,
            outer,
        }
    }
}

impl Drop for SuppressedWakes<'_> {
    fn drop(&mut self) {
        self.worker_context.wake_policy.suppress(self.outer);
    }
}

/// Removes the worker from its executor. Not to be done from inside a coroutine that it polls.
impl Drop for Worker<'_> {
    fn drop(&mut self) {
        self.executor.scheduler().leave(self.worker_context());
        // SAFETY: `SharedExecutor::worker` leaked the box; nothing refers to it after `leave`.
        drop(unsafe { Box::from_raw(self.worker_context.as_ptr()) });
    }
}

impl fmt::Debug for Worker<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").finish_non_exhaustive()
    }
}

/// The [`JoinHandle`] of a coroutine that several workers serve: the same, and `Send`.
pub type SharedHandle<T> = JoinHandle<T, Shared>;
