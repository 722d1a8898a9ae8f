//! The executor, which a port builds, feeds and runs.

use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::task::Waker;

use crate::block::State;
use crate::context::Entered;
#[cfg(target_has_atomic = "64")]
use crate::deadlines::Deadlines;
use crate::id::{CoroutineId, next_serial};
use crate::join::JoinHandle;
use crate::policy::Policy;
use crate::priority::{Levels, Priority};
use crate::published::Published;
use crate::scheduler::Scheduler;
#[cfg(feature = "alloc")]
use crate::storage::Memory;
#[cfg(not(feature = "image-client"))]
use crate::storage::{Pool, PoolInUse};
use crate::stored_waker::StoredWaker;
use crate::timers::Clock;

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

/// The configuration of an executor.
#[derive(Debug)]
#[must_use]
pub struct Config {
    pub(crate) policy: Policy,
    pub(crate) capacity: usize,
    /// The number from [`crate::id::next_serial`], set when the executor is made.
    pub(crate) serial: usize,
    pub(crate) published: Option<&'static Published>,
    pub(crate) notify: Option<StoredWaker>,
    pub(crate) clock: Option<Clock>,
    #[cfg(target_has_atomic = "64")]
    pub(crate) deadlines: Option<&'static Deadlines>,
    /// Whether there are several workers: set by [`SharedExecutor`](crate::SharedExecutor) alone.
    pub(crate) shared: bool,
    pub(crate) relax: Option<extern "C" fn()>,
    #[cfg(feature = "hooks")]
    pub(crate) observer: crate::hooks::Watch,
}

impl Config {
    /// Returns the default configuration.
    ///
    /// The policy is strict, and there are as many coroutines as memory allows. Nothing is
    /// published, and nothing is notified.
    pub const fn new() -> Self {
        Self {
            policy: Policy::Strict,
            capacity: usize::MAX,
            serial: 0,
            published: None,
            notify: None,
            clock: None,
            #[cfg(target_has_atomic = "64")]
            deadlines: None,
            shared: false,
            relax: None,
            #[cfg(feature = "hooks")]
            observer: crate::hooks::Watch(None),
        }
    }

    /// Sets the policy that chooses the next coroutine.
    pub const fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the largest number of coroutines that have not exited.
    ///
    /// One more is refused with [`SpawnError::TableFull`].
    pub const fn capacity(mut self, coroutines: usize) -> Self {
        self.capacity = coroutines;
        self
    }

    /// Sets where the executor publishes its urgency.
    pub const fn publish_to(mut self, published: &'static Published) -> Self {
        self.published = Some(published);
        self
    }

    /// Sets the waker for what arrives from another thread, hart or interrupt handler.
    ///
    /// It wakes the code that lets the executor's thread sleep while the executor is idle. It is
    /// called from that other thread, hart or handler, once for each coroutine that is pushed on
    /// the executor's inbox.
    pub fn notify(mut self, notify: Waker) -> Self {
        self.notify = Some(StoredWaker::new(notify));
        self
    }

    /// Sets the clock, which returns nanoseconds that never go back.
    ///
    /// While timers exist, the executor reads the clock, and fires what is due. It does so at the
    /// start of each call that runs it, before it is idle, and every
    /// [`POLLS_PER_LOOK`](crate::time::POLLS_PER_LOOK) polls.
    pub const fn clock(mut self, clock: fn() -> u64) -> Self {
        self.clock = Some(Clock::new(clock));
        self
    }

    /// Sets where the executor publishes when its timers are due (rule T9).
    ///
    /// This is for a system that has to know while the executor does not run. Without it timers
    /// cost nothing for this.
    #[cfg(target_has_atomic = "64")]
    pub const fn publish_deadlines_to(mut self, deadlines: &'static Deadlines) -> Self {
        self.deadlines = Some(deadlines);
        self
    }

    /// Sets what a worker of a [`SharedExecutor`](crate::SharedExecutor) does instead of spinning
    /// on.
    ///
    /// It is called while another thread has the scheduler for longer than some microseconds. That
    /// one has probably lost its processor, and will not get it back as long as all processors are
    /// in use. It is called again and again until the scheduler is free. It is called without the
    /// scheduler lock, so it may use the executor, which may spin again. Without a hook, threads
    /// yield (feature `std`), and others spin.
    pub const fn relax(mut self, relax: extern "C" fn()) -> Self {
        self.relax = Some(relax);
        self
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}

/// The result of one step of an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It polled a coroutine. A call with a limit polled as many times as the limit allows.
    Ran,
    /// No coroutine is ready.
    Idle,
    /// Something strictly more urgent waits elsewhere: the port should give way to it (rule G3).
    Elsewhere,
}

/// A view of what is more urgent outside an executor (rules G1 to G4).
pub trait SystemView {
    /// Returns the most urgent level at which anything outside this executor is ready and not
    /// served yet.
    ///
    /// It is called before each pick, so it should be one load.
    fn most_urgent_elsewhere(&self) -> Option<Priority>;

    /// Whether the method always returns `None`: then it need not be called.
    const NEVER: bool = false;
}

/// A view in which nothing else counts: the executor never gives way by itself.
///
/// It is for a system of one executor, and for *relaxed* global scheduling, where the system takes
/// the hart away at a clock tick.
#[derive(Clone, Copy, Debug, Default)]
pub struct Relaxed;

impl SystemView for Relaxed {
    const NEVER: bool = true;

    #[inline]
    fn most_urgent_elsewhere(&self) -> Option<Priority> {
        None
    }
}

/// *Strict* global scheduling over what one other executor, or the whole system, publishes.
impl SystemView for Published {
    #[inline]
    fn most_urgent_elsewhere(&self) -> Option<Priority> {
        self.ready().union(self.arriving()).most_urgent()
    }
}

/// The reason why no coroutine was spawned.
///
/// The future has been dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpawnError {
    /// As many coroutines live as the executor's capacity or its pool allows.
    TableFull,
    /// The allocator had no memory.
    OutOfMemory,
    /// The future does not fit into a slot of the pool; a larger alignment than 8 does not fit
    /// either.
    FutureTooLarge {
        /// Bytes of the future, or of its output if that is larger.
        needs: usize,
        /// Bytes of a slot.
        room: usize,
    },
    /// The executor that runs here is shared by several workers: use
    /// [`crate::SharedExecutor::spawn`], which asks for a future that is `Send`.
    Shared,
    /// No executor runs here: [`crate::spawn`] works inside a coroutine; elsewhere use
    /// [`Executor::spawn`].
    NotRunning,
    /// The executor is being dropped, or was closed.
    Closed,
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TableFull => f.write_str("the table of coroutines is full"),
            Self::OutOfMemory => f.write_str("no memory for another coroutine"),
            Self::FutureTooLarge { needs, room } => write!(
                f,
                "the future needs {needs} bytes and a slot of the pool has {room}: raise the pool's BYTES or box the future"
            ),
            Self::NotRunning => f.write_str(
                "no executor runs here: call Executor::spawn, or spawn from a coroutine",
            ),
            Self::Shared => f.write_str(
                "the executor that runs here has several workers: spawn through SharedExecutor::spawn",
            ),
            Self::Closed => f.write_str("the executor is being dropped"),
        }
    }
}

impl core::error::Error for SpawnError {}

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
            scheduler: crate::storage::heap_scheduler(config, Memory::GLOBAL)
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
        self.scheduler()
            .spawn::<F, false>(priority, make)
            .map(JoinHandle::new)
    }

    /// Picks the most urgent coroutine and polls it once.
    pub fn step(&self) -> Step {
        self.step_under(&Relaxed)
    }

    /// Steps as [`step`](Self::step) does, but gives way if `view` finds something more urgent.
    pub fn step_under(&self, view: &impl SystemView) -> Step {
        self.run_by_clock(view, 1).0
    }

    /// Steps until no coroutine is ready; returns how many polls that took.
    pub fn run_until_idle(&self) -> u64 {
        self.run_under(&Relaxed).1
    }

    /// Steps until no coroutine is ready or something elsewhere is more urgent.
    ///
    /// Returns which of the two it was, and how many polls it took.
    pub fn run_under(&self, view: &impl SystemView) -> (Step, u64) {
        self.run_by_clock(view, u64::MAX)
    }

    fn run_by_clock(&self, view: &impl SystemView, limit: u64) -> (Step, u64) {
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

    /// Calls `take_in` as code that runs here: coroutines that it wakes go straight into the ready
    /// queues.
    ///
    /// This is for a port that takes in events itself between two steps. The same wakes from
    /// outside would go through the inbox, at several times the cost.
    pub fn within<T>(&self, take_in: impl FnOnce() -> T) -> T {
        let _entered = Entered::new(self.scheduler().worker_context());
        take_in()
    }

    /// Returns the levels with ready coroutines, as of this call.
    ///
    /// What has arrived from outside is taken in first.
    pub fn ready(&self) -> Levels {
        let scheduler = self.scheduler();
        let _entered = Entered::new(scheduler.worker_context());
        scheduler.drain_inbox();
        scheduler.ready()
    }

    /// Returns what sort of coroutine it is (COPS's "type", section 3.1; rule C1).
    ///
    /// The port gives the numbers a meaning. It is 0 unless it was
    /// [set](crate::JoinHandle::set_kind).
    pub fn kind(&self, id: CoroutineId) -> Option<u8> {
        self.scheduler().on(id, |block| block.kind.get())
    }

    /// Returns how many coroutines have not exited.
    pub fn live(&self) -> usize {
        self.scheduler().live()
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
