//! The executor: what a home builds, feeds and runs.

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
use crate::kept_waker::KeptWaker;
use crate::policy::Policy;
use crate::priority::{Levels, Priority};
use crate::published::Published;
use crate::scheduler::Scheduler;
#[cfg(feature = "alloc")]
use crate::storage::Memory;
#[cfg(not(feature = "image-client"))]
use crate::storage::{Pool, PoolInUse};
use crate::timers::Clock;

/// Runs coroutines, the most urgent first, on one thread or hart.
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
    /// Its coroutines need not be `Send`, so it stays where it is.
    _local: PhantomData<*const ()>,
}

/// How an executor is set up.
#[derive(Debug)]
#[must_use]
pub struct Config {
    pub(crate) policy: Policy,
    pub(crate) capacity: usize,
    /// See [`crate::id::next_serial`]. Set when the executor is made.
    pub(crate) serial: usize,
    pub(crate) published: Option<&'static Published>,
    pub(crate) notify: Option<KeptWaker>,
    pub(crate) clock: Option<Clock>,
    #[cfg(target_has_atomic = "64")]
    pub(crate) deadlines: Option<&'static Deadlines>,
    /// Several workers: set by [`SharedExecutor`](crate::SharedExecutor) alone.
    pub(crate) shared: bool,
    pub(crate) give_way: Option<extern "C" fn()>,
    #[cfg(feature = "hooks")]
    pub(crate) observer: crate::hooks::Watch,
}

impl Config {
    /// Strict policy, as many coroutines as memory allows, nothing published, nobody notified.
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
            give_way: None,
            #[cfg(feature = "hooks")]
            observer: crate::hooks::Watch(None),
        }
    }

    /// Which coroutine is next.
    pub const fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// At most this many coroutines that have not exited; one more is refused with
    /// [`SpawnError::TableFull`].
    pub const fn capacity(mut self, coroutines: usize) -> Self {
        self.capacity = coroutines;
        self
    }

    /// Where the executor shows its urgency to others.
    pub const fn publish_to(mut self, published: &'static Published) -> Self {
        self.published = Some(published);
        self
    }

    /// Whom to wake when something arrives from another thread, hart or interrupt handler: whoever
    /// lets the executor's thread sleep while it is idle. Called from there, once for each
    /// coroutine that is pushed on the executor's inbox.
    pub fn notify(mut self, notify: Waker) -> Self {
        self.notify = Some(KeptWaker::new(notify));
        self
    }

    /// Where the time comes from: nanoseconds that never go back. While timers exist, the executor
    /// looks at the clock at the start of each call that runs it, before it is idle, and every
    /// [`POLLS_PER_LOOK`](crate::time::POLLS_PER_LOOK) polls, and fires what is due.
    pub const fn clock(mut self, clock: fn() -> u64) -> Self {
        self.clock = Some(Clock::new(clock));
        self
    }

    /// Where the executor shows when its timers are due, for a system that has to know while the
    /// executor doesn't run (rule T9). Without it timers cost nothing for this.
    #[cfg(target_has_atomic = "64")]
    pub const fn publish_deadlines_to(mut self, deadlines: &'static Deadlines) -> Self {
        self.deadlines = Some(deadlines);
        self
    }

    /// What a worker of a [`SharedExecutor`](crate::SharedExecutor) does, instead of spinning on,
    /// while another one has the scheduler for longer than some microseconds: that one has probably
    /// lost its processor, and won't get it back as long as all of them are in use. Called again
    /// and again until the scheduler is free. It must not call the executor. Without it threads
    /// yield (feature `std`), and others spin.
    pub const fn give_way(mut self, give_way: extern "C" fn()) -> Self {
        self.give_way = Some(give_way);
        self
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}

/// What one step of an executor did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It polled a coroutine; of a call with a limit, as many times as the limit allows.
    Ran,
    /// No coroutine is ready.
    Idle,
    /// Something strictly more urgent waits elsewhere: the home should give way to it (rule G3).
    Elsewhere,
}

/// Who else is more urgent (rules G1 to G4).
pub trait SystemView {
    /// The most urgent level at which anything outside this executor is ready and not served yet.
    /// Asked before each pick, so it should be one load.
    fn most_urgent_elsewhere(&self) -> Option<Priority>;

    /// Whether it never knows of anything: then it need not be asked.
    const NEVER: bool = false;
}

/// Nobody else counts: the executor never gives way by itself. For a system of one executor, and
/// for *relaxed* global scheduling, where the system takes the hart away at a clock tick.
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

/// Why no coroutine was spawned. The future has been dropped.
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
    /// An executor whose table grows on the heap.
    ///
    /// # Panics
    /// As [`with`](Self::with).
    #[cfg(feature = "alloc")]
    #[must_use]
    pub fn new() -> Self {
        Self::with(Config::new())
    }

    /// An executor whose table grows on the heap.
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

    /// An executor that lives in static memory and allocates nothing.
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

    /// As [`spawn`](Self::spawn), but `make` builds the future where it will stay: large ones are
    /// not moved. `make` does nothing else; it is dropped, and not called, if there is no place for
    /// the future.
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

    /// As [`step`](Self::step), but gives way if `view` knows of something more urgent.
    pub fn step_under(&self, view: &impl SystemView) -> Step {
        self.run_by_clock(view, 1).0
    }

    /// Steps until no coroutine is ready; returns how many polls that took.
    pub fn run_until_idle(&self) -> u64 {
        self.run_under(&Relaxed).1
    }

    /// Steps until no coroutine is ready or something elsewhere is more urgent; says which, and how
    /// many polls it took.
    pub fn run_under(&self, view: &impl SystemView) -> (Step, u64) {
        self.run_by_clock(view, u64::MAX)
    }

    fn run_by_clock(&self, view: &impl SystemView, limit: u64) -> (Step, u64) {
        self.scheduler().run_alone(view, limit)
    }

    /// Wakes a coroutine (rules W1 to W3). False if the identifier is stale.
    pub fn wake(&self, id: CoroutineId) -> bool {
        self.scheduler().wake_by_id(id)
    }

    /// Gives a coroutine another base priority, at once (rules R1 to R4). False if it has exited.
    pub fn reprioritize(&self, id: CoroutineId, priority: Priority) -> bool {
        let scheduler = self.scheduler();
        scheduler
            .on(id, |block| scheduler.reprioritize(block, priority))
            .unwrap_or(false)
    }

    /// Cancels a coroutine: unless it is running, its future is dropped before this returns (rules
    /// X1 to X4). False if it was too late.
    pub fn cancel(&self, id: CoroutineId) -> bool {
        let scheduler = self.scheduler();
        scheduler
            .on(id, |block| scheduler.cancel(block))
            .unwrap_or(false)
    }

    /// Where a coroutine is in its life; `None` if the identifier is stale.
    pub fn state(&self, id: CoroutineId) -> Option<State> {
        self.scheduler().on(id, |block| block.state.get())
    }

    /// A coroutine's effective priority: its own, or a more urgent one that it has inherited.
    pub fn priority(&self, id: CoroutineId) -> Option<Priority> {
        self.scheduler().on(id, |block| block.level())
    }

    /// The priority that a coroutine has by itself.
    pub fn base_priority(&self, id: CoroutineId) -> Option<Priority> {
        self.scheduler().on(id, |block| block.base())
    }

    /// Calls `take_in` as code that runs here: coroutines that it wakes go straight into the ready
    /// queues. For a home that takes in events itself between two steps; the same wakes from
    /// outside would go through the inbox, at several times the cost.
    pub fn within<T>(&self, take_in: impl FnOnce() -> T) -> T {
        let _entered = Entered::new(self.scheduler().seat());
        take_in()
    }

    /// Levels with ready coroutines, as far as the executor knows: what has arrived from outside is
    /// taken in first.
    pub fn ready(&self) -> Levels {
        let scheduler = self.scheduler();
        let _entered = Entered::new(scheduler.seat());
        scheduler.drain_inbox();
        scheduler.ready()
    }

    /// What sort of coroutine it is, in numbers that the home gives a meaning to (COPS's "type",
    /// section 3.1; rule C1); 0 unless it was [set](crate::JoinHandle::set_kind).
    pub fn kind(&self, id: CoroutineId) -> Option<u8> {
        self.scheduler().on(id, |block| block.kind.get())
    }

    /// How many coroutines have not exited.
    pub fn live(&self) -> usize {
        self.scheduler().live()
    }

    /// Gives memory of futures that are gone back to the allocator. Until then the executor keeps
    /// it for futures of the same size; the table of control blocks stays as large as it ever was.
    #[cfg(feature = "alloc")]
    pub fn trim(&self) {
        self.scheduler().trim();
    }

    /// What the executor shows to others.
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

/// Drops every coroutine that is left; their handles say
/// [`Cancelled`](crate::JoinError::Cancelled), and their wakers do nothing any more.
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
