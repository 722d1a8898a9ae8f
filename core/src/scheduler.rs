//! The scheduler behind an [`Executor`](crate::Executor): ready queues, table of control blocks,
//! inbox.
//!
//! Its owner is one thread or hart. The owner's part is made of `Cell`s; the inbox, the signals in
//! each block and the count of anchors are all that others touch. No method keeps a borrow across
//! code of the user's, so a future, a destructor or a waker may call back into the scheduler.
//!
//! # Several workers
//! Of a *shared* scheduler the owner is the holder of the [scheduler lock](crate::baton). Two
//! methods say where it changes hands: `held` is around every operation that someone asks for, and
//! `aside` around every piece of code of the user's. So what one operation does between two such
//! pieces is one step for everybody, and as user code may call back in the middle of an operation,
//! so may another worker come in between. A scheduler of one owner has nothing to pick up, and both
//! do nothing.
//!
//! Some functions of the user's are called with the scheduler lock held, such as `SystemView`, the
//! clock and an `Observer`: the table in `call.rs` lists them. They must not wait for another
//! worker.
//!
//! - `clock`: timers;
//! - `queues`: who is ready, in which order;
//! - `operations`: spawn, wake, re-prioritise, cancel;
//! - `run`: pick, poll, exit;
//! - `preempt`: what runs in the middle of a poll;
//! - `slots`: the table;
//! - `waiters`: urgency on loan;
//! - `outside`: what other threads do;
//! - `sharing`: the scheduler lock, and calling workers.

use core::cell::{Cell, UnsafeCell};
use core::ptr::{self, NonNull};

use crate::atomic::{AtomicU8, AtomicU32, AtomicUsize};
use crate::baton::Baton;
use crate::block::NONE;
use crate::context;
use crate::deadlines::Bounds;
use crate::executor::Config;
use crate::kept_waker::KeptWaker;
use crate::link::Link;
use crate::notes::Notes;
use crate::policy::Chooser;
use crate::priority::{LEVELS, LevelCell, Levels};
use crate::published::Published;
use crate::seat::Seat;
use crate::storage::{Directory, Storage};
use crate::timers::Timers;

mod clock;
mod operations;
mod outside;
mod preempt;
mod queues;
mod run;
mod sharing;
mod slots;
mod waiters;

use queues::Queue;

/// See the module's documentation.
#[cfg_attr(feature = "image", repr(C))]
pub(crate) struct Scheduler {
    /// Whether it has several workers. Clients of an image read this and the three that follow: see
    /// `image::client`.
    shared: bool,
    /// Coroutines that have not exited.
    live: Cell<usize>,
    /// See [`crate::id::next_serial`].
    serial: usize,
    /// Where the one owner runs. If the scheduler is shared, only its pointer to the scheduler is
    /// used.
    seat: Seat,
    ready: Cell<Levels>,
    /// The first of `ready`, which changes less often than it is asked for.
    most_urgent: LevelCell,
    queues: [Queue; LEVELS],
    chooser: Chooser,
    /// Coroutines that were preempted, the latest first; the others follow by `Block::next`.
    preempted: Cell<Link>,
    /// Levels of those of them that are ready with stack.
    with_stack: Cell<Levels>,
    /// Every seat from which coroutines are run: the one above, or those of the workers.
    seats: Cell<Option<NonNull<Seat>>>,
    baton: Baton,
    /// Workers that are idle.
    idle: AtomicU32,
    /// Not 0 once any worker has been interruptible; stays so.
    interrupts: AtomicU8,
    /// A timer was set that is due before any that the idle ones may have asked for.
    sooner: Cell<bool>,
    /// First free slot; the others follow by `Block::next`.
    free: Cell<Link>,
    capacity: usize,
    /// Nothing is spawned any more.
    refusing: Cell<bool>,
    /// Set when the executor is being dropped: the last handle lets go of the table.
    closing: Cell<bool>,
    storage: UnsafeCell<Storage>,
    /// Where the storage's blocks are.
    directory: Cell<Directory>,
    /// Join handles that exist.
    handles: Cell<usize>,
    pub(crate) timers: Timers,
    #[cfg_attr(
        not(any(feature = "stats", feature = "hooks")),
        allow(dead_code, reason = "nothing is noted")
    )]
    pub(crate) notes: Notes,
    own_published: Published,
    /// The home's, or our own: set by [`place`](Self::place).
    published: Cell<*const Published>,
    notify: Option<KeptWaker>,
    /// Last block pushed by anyone from outside, or [`NONE`]; the others follow by
    /// `Block::inbox_next`.
    inbox: AtomicU32,
    /// Taken from the inbox and not looked at yet, oldest first.
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
        && core::mem::offset_of!(Scheduler, live) == crate::image::LIVE
        && core::mem::offset_of!(Scheduler, serial) == crate::image::SERIAL
        && core::mem::offset_of!(Scheduler, seat) == crate::image::SEAT
);

impl Scheduler {
    pub(crate) fn new(config: Config, storage: Storage) -> Self {
        Self {
            ready: Cell::new(Levels::NONE),
            most_urgent: LevelCell::new(),
            queues: [const { Queue::new() }; LEVELS],
            chooser: Chooser::new(config.policy),
            preempted: Cell::new(Link::NONE),
            with_stack: Cell::new(Levels::NONE),
            seat: Seat::new(Seat::NOWHERE),
            seats: Cell::new(None),
            shared: config.shared,
            baton: Baton::new(config.give_way),
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
            notes: Notes::new(&config),
            own_published: Published::new(),
            published: Cell::new(config.published.map_or(ptr::null(), ptr::from_ref)),
            notify: config.notify,
            inbox: AtomicU32::new(NONE),
            taken: Cell::new(NONE),
            anchors: AtomicUsize::new(1),
            #[cfg(loom)]
            _freed_once: loom::alloc::Track::new(()),
        }
    }

    /// Called once the scheduler is where it stays.
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
        this.seat.place(scheduler.as_ptr());
        if !this.shared {
            this.seats.set(Some(NonNull::from(&this.seat)));
        }
    }

    /// For reading. No reference is kept while the storage grows.
    pub(crate) fn storage(&self) -> &Storage {
        // SAFETY: only the owner or, after it, whoever lets go of the last anchor calls this, and
        // nothing grows meanwhile.
        unsafe { &*self.storage.get() }
    }

    pub(crate) fn published(&self) -> &Published {
        // SAFETY: `place` has made it point to the home's, which is `'static`, or to our own.
        unsafe { &*self.published.get() }
    }

    /// Where the one owner runs, of a scheduler that is not shared.
    #[inline]
    pub(crate) fn seat(&self) -> &Seat {
        &self.seat
    }

    /// Whether its one owner runs here.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        context::is_seated(&self.seat)
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

    /// See [`crate::id::next_serial`].
    pub(crate) fn serial(&self) -> usize {
        self.serial
    }

    pub(crate) fn live(&self) -> usize {
        self.live.get()
    }

    pub(crate) fn ready(&self) -> Levels {
        self.ready.get()
    }
}
