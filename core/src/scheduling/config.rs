//! The configuration of an executor, and the values at its boundary.

use core::fmt;
#[cfg(all(feature = "heap", not(feature = "image")))]
use core::num::NonZeroU32;
use core::task::Waker;
#[cfg(all(feature = "heap", not(feature = "image")))]
use core::time::Duration;

use crate::priority::Priority;
use crate::priority::policy::{Demotion, Policy};
use crate::priority::published::Published;
#[cfg(target_has_atomic = "64")]
use crate::scheduling::time::deadlines::Deadlines;
use crate::scheduling::time::timers::Clock;
use crate::scheduling::wake::stored_waker::StoredWaker;
#[cfg(all(feature = "heap", not(feature = "image")))]
use crate::scheduling::workers::budget::spending::Budget;

/// The configuration of an executor.
#[derive(Debug)]
#[must_use]
pub struct Config {
    pub(crate) policy: Policy,
    pub(crate) demotion: Demotion,
    pub(crate) capacity: usize,
    /// The number from [`crate::scheduling::table::id::next_serial`], set when the executor is
    /// made.
    pub(crate) serial: usize,
    pub(crate) published: Option<&'static Published>,
    pub(crate) notify: Option<StoredWaker>,
    pub(crate) clock: Option<Clock>,
    #[cfg(target_has_atomic = "64")]
    pub(crate) deadlines: Option<&'static Deadlines>,
    /// Whether there are several workers: set by [`SharedExecutor`](crate::SharedExecutor) alone.
    pub(crate) shared: bool,
    pub(crate) relax: Option<extern "C" fn()>,
    /// Its place on a board, if it is a shard: set by
    /// [`ShardedExecutor`](crate::ShardedExecutor) alone.
    #[cfg(all(feature = "std", target_has_atomic = "64"))]
    pub(crate) post: Option<crate::scheduling::workers::board::Post>,
    #[cfg(all(feature = "heap", not(feature = "image")))]
    pub(crate) budget: Option<Budget>,
    #[cfg(feature = "hooks")]
    pub(crate) observer: crate::scheduling::instrumentation::hooks::Watch,
}

impl Config {
    /// Returns the default configuration.
    ///
    /// The policy is strict, and there are as many coroutines as memory allows. Nothing is
    /// published, and nothing is notified.
    pub const fn new() -> Self {
        Self {
            policy: Policy::Strict,
            demotion: Demotion::OFF,
            capacity: usize::MAX,
            serial: 0,
            published: None,
            notify: None,
            clock: None,
            #[cfg(target_has_atomic = "64")]
            deadlines: None,
            shared: false,
            relax: None,
            #[cfg(all(feature = "std", target_has_atomic = "64"))]
            post: None,
            #[cfg(all(feature = "heap", not(feature = "image")))]
            budget: None,
            #[cfg(feature = "hooks")]
            observer: crate::scheduling::instrumentation::hooks::Watch(None),
        }
    }

    /// Sets the policy that chooses the next coroutine.
    pub const fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Demotes coroutines that compute for long (rules B7 to B14).
    ///
    /// If it is not set, none is demoted.
    pub const fn demotion(mut self, demotion: Demotion) -> Self {
        self.demotion = demotion;
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
    /// [`POLLS_PER_CLOCK_READ`](crate::time::POLLS_PER_CLOCK_READ) polls. [`Demotion::after`] needs
    /// the clock as well.
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

    /// Sets the budget of each poll (rule O8): the operations that it makes without waiting, and
    /// their time.
    ///
    /// An operation is one `await` of a primitive of this crate that need not wait, or of what
    /// calls [`poll_proceed`](crate::poll_proceed). When a poll has made so many, when something
    /// strictly more urgent is ready, or when `time` is over, the next one makes the coroutine
    /// yield first. The first operation of a poll is always made. The time needs a
    /// [clock](Self::clock). It runs from the first operation in one call that runs coroutines.
    /// When it is over, the call returns after the poll, with [`Step::Ran`].
    ///
    /// Without it, a coroutine runs until it waits or yields. There is none without a heap (feature
    /// `alloc`), and none in an image.
    #[cfg(all(feature = "heap", not(feature = "image")))]
    pub const fn budget(mut self, operations: NonZeroU32, time: Duration) -> Self {
        self.budget = Some(Budget::new(operations, time));
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
    /// Something strictly more urgent waits elsewhere: the port should yield to it (rule G3).
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

/// A view in which nothing else counts: the executor never yields to the system by itself.
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
    /// [`Executor::spawn`](crate::Executor::spawn).
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

/// Converts by `?`. Allocates nothing if memory is exhausted.
#[cfg(feature = "std")]
impl From<SpawnError> for std::io::Error {
    fn from(error: SpawnError) -> Self {
        match error {
            SpawnError::OutOfMemory => std::io::ErrorKind::OutOfMemory.into(),
            _ => Self::other(error),
        }
    }
}

/// The way in which a preempted coroutine waits (rule S8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupted {
    /// The coroutine could continue at once: *ready with stack*.
    Ready,
    /// The coroutine waits for something, such as a blocking system call: *blocked with stack*.
    ///
    /// It counts as ready nowhere.
    Blocked,
}
