//! The scheduler behind an [`Executor`](crate::Executor): ready queues, table of control blocks,
//! inbox.
//!
//! Its owner is one thread or hart. The owner's part is made of `Cell`s. Others touch only the
//! inbox, the signals in each block and the count of anchors. No method keeps a borrow across code
//! of the user's, so a future, a destructor or a waker may call back into the scheduler.
//!
//! # Several workers
//! Of a *shared* scheduler the owner is the holder of the [scheduler
//! lock](crate::scheduling::workers::scheduler_lock). Two methods say where it changes hands:
//! `locked` is around every operation that a caller asks for, and `unlocked` around every piece of
//! code of the user's. So what one operation does between two such pieces is one step for every
//! worker. User code may call back in the middle of an operation, and another worker may come in
//! between at the same places. A scheduler of one owner has no lock, and both do nothing.
//!
//! Some functions of the user's are called with the scheduler lock held, such as `SystemView`, the
//! clock and an `Observer`: the table in `callback.rs` lists them. They must not wait for another
//! worker.
//!
//! - `clock`: timers;
//! - `queues`: the ready coroutines and their order;
//! - `demotion`: coroutines that compute for long, and the second queues;
//! - `operations`: spawn, wake, re-prioritise, cancel;
//! - `run`: pick, poll, exit;
//! - `preempt`: what runs in the middle of a poll;
//! - `slots`: the table;
//! - `waiters`: priority inheritance;
//! - `outside`: what other threads do;
//! - `sharing`: the scheduler lock, and calling workers;
//! - `shard`: what a shard shows the others, and polls of other shards' workers;
//! - `spare`: what is polled in the place of a worker whose poll lasts.

use core::cell::{Cell, UnsafeCell};
use core::ptr::{self, NonNull};

use crate::atomic::{AtomicU8, AtomicU32, AtomicUsize};
use crate::priority::policy::{Chooser, Demotion};
use crate::priority::published::Published;
use crate::priority::{LEVELS, LevelCell, Levels};
use crate::scheduling::config::Config;
use crate::scheduling::instrumentation::recorder::Recorder;
use crate::scheduling::table::block::NONE;
use crate::scheduling::table::link::Link;
use crate::scheduling::table::storage::{Directory, Storage};
use crate::scheduling::time::deadlines::Bounds;
use crate::scheduling::time::timers::Timers;
use crate::scheduling::wake::stored_waker::StoredWaker;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
use crate::scheduling::workers::board::Post;
#[cfg(all(feature = "heap", not(feature = "image")))]
use crate::scheduling::workers::budget::spending::Budget;
use crate::scheduling::workers::context;
use crate::scheduling::workers::scheduler_lock::SchedulerLock;
use crate::scheduling::workers::worker_context::WorkerContext;

mod clock;
mod demotion;
mod operations;
mod outside;
mod preempt;
mod queues;
mod run;
#[cfg(all(feature = "std", target_has_atomic = "64"))]
mod shard;
mod sharing;
mod slots;
#[cfg(feature = "std")]
mod spare;
mod waiters;

use queues::Queue;

/// The state of one executor: ready queues, table of control blocks, inbox, timers.
#[cfg_attr(feature = "image", repr(C))]
pub(crate) struct Scheduler {
    /// Whether it has several workers.
    ///
    /// Clients of an image read this and the three that follow: see `image::client`.
    shared: bool,
    /// Coroutines that have not exited.
    live: Cell<usize>,
    /// The serial number of the executor; see [`crate::scheduling::table::id::next_serial`].
    serial: usize,
    /// The worker context of the one owner.
    ///
    /// If the scheduler is shared, only its pointer to the scheduler is used.
    worker_context: WorkerContext,
    ready: Cell<Levels>,
    /// The most urgent level of `ready`, which changes less often than it is read.
    most_urgent: LevelCell,
    queues: [Queue; LEVELS],
    chooser: Chooser,
    demotion: Demotion,
    /// The levels whose second queue is not empty.
    second: Cell<Levels>,
    /// For each level, the picks from its first queue that have passed over its second one.
    passes: [Cell<u8>; LEVELS],
    /// Coroutines that were preempted, the latest first; the others follow by `Block::next`.
    preempted: Cell<Link>,
    /// The levels of those of them that are ready with stack.
    with_stack: Cell<Levels>,
    /// Every worker context from which coroutines are run: the one above, or those of the workers.
    worker_contexts: Cell<Option<NonNull<WorkerContext>>>,
    lock: SchedulerLock,
    /// The number of workers that are idle, and of spare ones that stand by.
    idle: AtomicU32,
    /// Not 0 once any worker has been interruptible; stays so.
    interrupts: AtomicU8,
    /// Its place on the board of a sharded executor, if it is a shard.
    #[cfg(all(feature = "std", target_has_atomic = "64"))]
    pub(crate) post: Option<Post>,
    /// Whether a timer was set that is due before any that the idle workers may have asked for.
    sooner: Cell<bool>,
    /// First free slot; the others follow by `Block::next`.
    free: Cell<Link>,
    capacity: usize,
    /// Whether spawning is refused from now on.
    refusing: Cell<bool>,
    /// Set when the executor is being dropped: the last handle lets go of the table.
    closing: Cell<bool>,
    storage: UnsafeCell<Storage>,
    /// Where the storage's blocks are.
    directory: Cell<Directory>,
    /// The number of join handles that exist.
    handles: Cell<usize>,
    pub(crate) timers: Timers,
    #[cfg(all(feature = "heap", not(feature = "image")))]
    budget: Option<Budget>,
    #[cfg_attr(
        not(any(feature = "stats", feature = "hooks")),
        allow(dead_code, reason = "nothing is recorded")
    )]
    pub(crate) recorder: Recorder,
    own_published: Published,
    /// The platform's [`Published`], or our own: set by [`place`](Self::place).
    published: Cell<*const Published>,
    notify: Option<StoredWaker>,
    /// The last block that was pushed from outside, or [`NONE`]; the others follow by
    /// `Block::inbox_next`.
    inbox: AtomicU32,
    /// Blocks taken from the inbox and not applied yet, oldest first.
    taken: Cell<u32>,
    /// What keeps the table in memory: the executor, and each block with references that outlive
    /// it.
    anchors: AtomicUsize,
    /// Lets loom complain if the table is never freed, or twice.
    #[cfg(loom)]
    _freed_once: loom::alloc::Track<()>,
}

#[cfg(feature = "image")]
const _: () = assert!(
    core::mem::offset_of!(Scheduler, shared) == 0
        && core::mem::offset_of!(Scheduler, live) == crate::scheduling::image::LIVE
        && core::mem::offset_of!(Scheduler, serial) == crate::scheduling::image::SERIAL
        && core::mem::offset_of!(Scheduler, worker_context)
            == crate::scheduling::image::WORKER_CONTEXT
);

impl Scheduler {
    pub(crate) fn new(config: Config, storage: Storage) -> Self {
        Self {
            ready: Cell::new(Levels::NONE),
            most_urgent: LevelCell::new(),
            queues: [const { Queue::new() }; LEVELS],
            chooser: Chooser::new(config.policy, config.demotion),
            demotion: config.demotion,
            second: Cell::new(Levels::NONE),
            passes: [const { Cell::new(0) }; LEVELS],
            preempted: Cell::new(Link::NONE),
            with_stack: Cell::new(Levels::NONE),
            worker_context: WorkerContext::new(WorkerContext::NOWHERE),
            worker_contexts: Cell::new(None),
            shared: config.shared,
            lock: SchedulerLock::new(config.relax),
            idle: AtomicU32::new(0),
            interrupts: AtomicU8::new(0),
            sooner: Cell::new(false),
            live: Cell::new(0),
            serial: config.serial,
            free: Cell::new(Link::NONE),
            capacity: config.capacity,
            refusing: Cell::new(false),
            closing: Cell::new(false),
            directory: Cell::new(storage.directory()),
            storage: UnsafeCell::new(storage),
            handles: Cell::new(0),
            timers: Timers::new(config.clock, Bounds::new(&config)),
            #[cfg(all(feature = "heap", not(feature = "image")))]
            budget: config.budget,
            recorder: Recorder::new(&config),
            own_published: Published::new(),
            published: Cell::new(config.published.map_or(ptr::null(), ptr::from_ref)),
            notify: config.notify,
            #[cfg(all(feature = "std", target_has_atomic = "64"))]
            post: config.post,
            inbox: AtomicU32::new(NONE),
            taken: Cell::new(NONE),
            anchors: AtomicUsize::new(1),
            #[cfg(loom)]
            _freed_once: loom::alloc::Track::new(()),
        }
    }

    /// Puts the scheduler in use, once it is where it stays.
    ///
    /// # Safety
    /// `scheduler` is good for reads and writes of the whole scheduler, and to free it by:
    /// everything else that refers to the scheduler is derived from this pointer (see
    /// [`pointer`](Self::pointer)).
    pub(crate) unsafe fn place(scheduler: NonNull<Self>) {
        // SAFETY: the caller's promise.
        let this = unsafe { scheduler.as_ref() };
        if this.published.get().is_null() {
            this.published.set(&this.own_published);
        }
        this.worker_context.set_scheduler(scheduler.as_ptr());
        #[cfg(all(feature = "heap", not(feature = "image")))]
        this.worker_context.spending.allow(this.budget);
        if !this.shared {
            this.worker_contexts
                .set(Some(NonNull::from(&this.worker_context)));
        }
    }

    /// Returns the storage, for reading. No reference is kept while the storage grows.
    pub(crate) fn storage(&self) -> &Storage {
        // SAFETY: only the owner calls this or, after it, the caller that drops the last anchor,
        // and nothing grows meanwhile.
        unsafe { &*self.storage.get() }
    }

    pub(crate) fn published(&self) -> &Published {
        // SAFETY: `place` has made it point to the platform's, which is `'static`, or to our own.
        unsafe { &*self.published.get() }
    }

    /// Returns the worker context of the one owner, of a scheduler that is not shared.
    #[inline]
    pub(crate) fn worker_context(&self) -> &WorkerContext {
        &self.worker_context
    }

    /// Tests whether its one owner runs here.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        context::is_current(&self.worker_context)
    }

    /// Gives memory that is kept for later back to the allocator.
    #[cfg(feature = "heap")]
    pub(crate) fn trim(&self) {
        self.storage().trim();
    }

    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        self.shared
    }

    /// Returns the serial number of the executor; see
    /// [`crate::scheduling::table::id::next_serial`].
    pub(crate) fn serial(&self) -> usize {
        self.serial
    }

    /// Returns the budget of each poll, if there is one.
    #[cfg(all(feature = "heap", not(feature = "image")))]
    #[inline]
    pub(crate) fn budget(&self) -> Option<Budget> {
        self.budget
    }

    pub(crate) fn live(&self) -> usize {
        self.live.get()
    }

    pub(crate) fn ready(&self) -> Levels {
        self.ready.get()
    }
}
