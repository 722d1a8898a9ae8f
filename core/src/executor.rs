//! The executor, which a port builds, feeds and runs.

pub(crate) mod access;
pub(crate) mod current;
pub(crate) mod join;
#[cfg(feature = "std")]
pub(crate) mod poll_context;
#[cfg(feature = "std")]
pub(crate) mod polling;
pub(crate) mod preempt;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
pub(crate) mod shard_worker;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
pub(crate) mod sharded;
#[cfg(feature = "alloc")]
pub(crate) mod shared;
#[cfg(feature = "std")]
pub(crate) mod spare;
#[cfg(feature = "stats")]
mod stats;

use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::executor::join::JoinHandle;
use crate::ownership::Local;
use crate::priority::published::Published;
use crate::priority::{Levels, Priority};
use crate::scheduling::config::{Config, Relaxed, SpawnError, Step, SystemView};
use crate::scheduling::scheduler::Scheduler;
use crate::scheduling::table::block::State;
use crate::scheduling::table::id::{CoroutineId, next_serial};
#[cfg(feature = "alloc")]
use crate::scheduling::table::storage::Memory;
#[cfg(not(feature = "image-client"))]
use crate::scheduling::table::storage::{Pool, PoolInUse};
use crate::scheduling::workers::context::Entered;

/// An executor that runs coroutines, the most urgent first, on one thread or hart.
///
/// Spawn, wake and pick take constant time, whatever the number of coroutines. So does
/// re-prioritising one that takes part in no wait; otherwise the cost is that of inheritance.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use corank::{Executor, Priority};
///
/// let executor = Executor::new();
/// let sum = executor.spawn(Priority::DEFAULT, async { 1 + 1 })?;
/// executor.run_until_idle();
/// assert_eq!(sum.try_join().unwrap().unwrap(), 2);
/// # }
/// # Ok::<(), corank::SpawnError>(())
/// ```
pub struct Executor {
    scheduler: NonNull<Scheduler>,
    /// A marker that keeps the executor where it is, because its coroutines need not be `Send`.
    _local: PhantomData<*const ()>,
}

impl Executor {
    /// Makes an executor with a table that grows on the heap.
    ///
    /// # Panics
    /// As [`with`](Self::with).
    #[cfg(feature = "alloc")]
    #[must_use]
    pub fn new() -> Self {
        Self::with(Config::new())
    }

    /// Makes an executor with this configuration and a table that grows on the heap.
    ///
    /// # Panics
    /// If there is no memory for the scheduler itself.
    #[cfg(feature = "alloc")]
    #[must_use]
    pub fn with(mut config: Config) -> Self {
        config.serial = next_serial();
        Self {
            scheduler: crate::scheduling::table::storage::heap_scheduler(config, Memory::GLOBAL)
                .expect("memory for a scheduler"),
            _local: PhantomData,
        }
    }

    /// Makes an executor that lives in static memory and allocates nothing.
    #[cfg(not(feature = "image-client"))]
    pub fn in_pool<const COROUTINES: usize, const BYTES: usize>(
        pool: &'static Pool<COROUTINES, BYTES>,
        mut config: Config,
    ) -> Result<Self, PoolInUse> {
        config.serial = next_serial();
        Ok(Self {
            scheduler: pool.scheduler(config)?,
            _local: PhantomData,
        })
    }

    pub(crate) fn scheduler(&self) -> &Scheduler {
        // SAFETY: the executor's anchor keeps it until `drop`.
        unsafe { self.scheduler.as_ref() }
    }

    /// Adds a coroutine, ready at the tail of its level. The future need not be `Send`.
    ///
    /// # Errors
    /// A full table or pool and exhausted memory are errors, and change nothing.
    #[inline]
    pub fn spawn<F>(
        &self,
        priority: Priority,
        future: F,
    ) -> Result<JoinHandle<F::Output>, SpawnError>
    where
        F: Future + 'static,
    {
        self.spawn_with(priority, move || future)
    }

    /// Adds a coroutine as [`spawn`](Self::spawn) does, but `make` builds the future where it will
    /// stay.
    ///
    /// So large futures are not moved. `make` does nothing else. It is dropped, and not called, if
    /// there is no place for the future.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn).
    #[inline]
    pub fn spawn_with<F>(
        &self,
        priority: Priority,
        make: impl FnOnce() -> F,
    ) -> Result<JoinHandle<F::Output>, SpawnError>
    where
        F: Future + 'static,
    {
        self.scheduler().spawn::<F, Local>(priority, make)
    }

    /// Picks the most urgent coroutine and polls it once.
    pub fn step(&self) -> Step {
        self.step_under(&Relaxed)
    }

    /// Steps as [`step`](Self::step) does, but yields to the system if `view` finds something more
    /// urgent.
    pub fn step_under(&self, view: &impl SystemView) -> Step {
        self.run_some(view, 1).0
    }

    /// Steps until no coroutine is ready; returns how many polls that took.
    pub fn run_until_idle(&self) -> u64 {
        self.run_under(&Relaxed).1
    }

    /// Steps until no coroutine is ready or something elsewhere is more urgent.
    ///
    /// Returns which of the two it was, and how many polls it took.
    pub fn run_under(&self, view: &impl SystemView) -> (Step, u64) {
        self.run_some(view, u64::MAX)
    }

    /// Works as [`run_under`](Self::run_under), but makes at most `limit` polls.
    ///
    /// After that many, [`Step::Ran`] says that there may be more.
    pub fn run_some(&self, view: &impl SystemView, limit: u64) -> (Step, u64) {
        self.scheduler().run_alone(view, limit)
    }

    /// Wakes a coroutine (rules W1 to W3).
    ///
    /// Returns false if the identifier is stale.
    pub fn wake(&self, id: CoroutineId) -> bool {
        self.scheduler().wake_by_id(id)
    }

    /// Gives a coroutine another base priority, at once (rules R1 to R4).
    ///
    /// Returns false if it has exited.
    pub fn reprioritize(&self, id: CoroutineId, priority: Priority) -> bool {
        let scheduler = self.scheduler();
        scheduler
            .on(id, |block| scheduler.reprioritize(block, priority))
            .unwrap_or(false)
    }

    /// Cancels a coroutine (rules X1 to X4).
    ///
    /// Unless it is running, its future is dropped before this returns. Returns false if it was too
    /// late.
    pub fn cancel(&self, id: CoroutineId) -> bool {
        let scheduler = self.scheduler();
        scheduler
            .on(id, |block| scheduler.cancel(block))
            .unwrap_or(false)
    }

    /// Returns the state of a coroutine; `None` if the identifier is stale.
    pub fn state(&self, id: CoroutineId) -> Option<State> {
        self.scheduler().on(id, |block| block.state.get())
    }

    /// Returns a coroutine's effective priority: its own, or a more urgent one that it has
    /// inherited.
    pub fn priority(&self, id: CoroutineId) -> Option<Priority> {
        self.scheduler().on(id, |block| block.level())
    }

    /// Returns the priority that a coroutine has by itself.
    pub fn base_priority(&self, id: CoroutineId) -> Option<Priority> {
        self.scheduler().on(id, |block| block.base())
    }

    /// Calls `act` as code that runs here: coroutines that it wakes go straight into the ready
    /// queues.
    ///
    /// This is for a port that collects events itself between two steps. The same wakes from
    /// outside would go through the inbox, at several times the cost.
    pub fn within<T>(&self, act: impl FnOnce() -> T) -> T {
        let _entered = Entered::new(self.scheduler().worker_context());
        act()
    }

    /// Returns the levels with ready coroutines, as of this call.
    ///
    /// What has arrived from outside is collected first.
    pub fn ready(&self) -> Levels {
        let scheduler = self.scheduler();
        let _entered = Entered::new(scheduler.worker_context());
        scheduler.drain_inbox();
        scheduler.ready()
    }

    /// Returns how many coroutines have not exited.
    pub fn live(&self) -> usize {
        self.scheduler().live()
    }

    /// Spawns nothing from now on ([`SpawnError::Closed`]), and cancels every coroutine (rules X1
    /// to X4).
    ///
    /// When this returns, only a coroutine that is polled at this moment has not exited, and it
    /// does when its poll ends.
    #[cfg(not(feature = "image-client"))]
    pub fn close(&self) {
        self.scheduler().cancel_all();
    }

    /// Gives memory of futures that are gone back to the allocator.
    ///
    /// Until then the executor keeps it for futures of the same size. The table of control blocks
    /// stays as large as it ever was.
    #[cfg(feature = "alloc")]
    pub fn trim(&self) {
        self.scheduler().trim();
    }

    /// Returns what the executor publishes to others.
    pub fn published(&self) -> &Published {
        self.scheduler().published()
    }
}

#[cfg(feature = "alloc")]
impl Default for Executor {
    fn default() -> Self {
        Self::new()
    }
}

/// Drops every coroutine that is left.
///
/// Their handles return [`Cancelled`](crate::JoinError::Cancelled), and their wakers do nothing any
/// more.
impl Drop for Executor {
    fn drop(&mut self) {
        Scheduler::close(self.scheduler);
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor")
            .field("live", &self.live())
            .field("ready", &self.scheduler().ready())
            .finish_non_exhaustive()
    }
}
