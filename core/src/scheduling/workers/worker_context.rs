//! A *worker context*: the state from which one thread or hart runs a scheduler.
//!
//! The context slot points to it. An [`Executor`](crate::Executor) has one worker context. A shared
//! one has a worker context for each worker, and a passing one for each caller that acts on it from
//! elsewhere (see [`crate::scheduling::scheduler`], "Several workers").

use core::cell::Cell;
use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};
#[cfg(feature = "heap")]
use core::task::Waker;

use crate::atomic::{AtomicU8, AtomicU32, Ordering};
use crate::priority::{LevelCell, Levels};
use crate::scheduling::scheduler::Scheduler;
use crate::scheduling::table::block::{BlockRef, Flags};
use crate::scheduling::wake::stored_waker::StoredWaker;
#[cfg(all(feature = "heap", not(feature = "image")))]
use crate::scheduling::workers::budget::spending::Spending;
#[cfg(feature = "heap")]
use crate::scheduling::workers::scheduler_lock::pause;
use crate::scheduling::workers::wake_policy::WakePolicy;

/// What a scheduler knows of one worker.
///
/// The cells are touched by its own thread. Those that say so are also touched by others, under the
/// scheduler lock.
#[repr(C)]
pub(crate) struct WorkerContext {
    scheduler: Cell<*const Scheduler>,
    /// The coroutine that is being polled from here. Read by others.
    pub(crate) current: Cell<Option<BlockRef>>,
    /// The coroutine that has woken itself in the poll that goes on here.
    ///
    /// Only its own thread reads and writes this, so it costs no scheduler lock. When the poll ends
    /// it counts as any other wake (rule W3).
    pub(crate) woke_itself: Cell<Option<BlockRef>>,
    /// The level that is published as running from here. Read and written by others.
    pub(crate) running: LevelCell,
    /// Whether the scheduler lock is held from here.
    pub(crate) holds: Cell<bool>,
    pub(crate) wake_policy: WakePolicy,
    #[cfg(all(feature = "heap", not(feature = "image")))]
    pub(crate) spending: Spending,
    /// When the poll that goes on here began, or its part since a preemption, in nanoseconds.
    ///
    /// Set only where the use of coroutines is counted in time (rule B13).
    pub(crate) part_began: Cell<u64>,
    role: Role,
    /// Of a passing one: the worker context from which the thread polls a coroutine of another
    /// executor, if it does.
    #[cfg(feature = "std")]
    pub(crate) outer: Cell<*const WorkerContext>,
    /// The next worker context of the scheduler. Written by others.
    pub(crate) next: Cell<Option<NonNull<WorkerContext>>>,
}

/// The kind of a worker context. Not an `Option`, whose layout is Rust's own.
#[repr(C, u8)]
enum Role {
    /// That of an executor of one thread, or of a caller from elsewhere.
    Passing,
    #[cfg_attr(
        not(feature = "heap"),
        allow(dead_code, reason = "workers need a heap")
    )]
    Worker(Notifier),
}

/// The means by which a worker is called when there is something for it to do.
#[repr(C)]
pub(crate) struct Notifier {
    waker: StoredWaker,
    /// Whether a call also reaches it while it polls: then it is called for what is more urgent.
    interruptible: AtomicU8,
    /// Where its scheduler notes that any worker ever was interruptible; null before that is set.
    ///
    /// It is behind a pointer because not every client that has a worker context sees into the
    /// scheduler (see [`crate::scheduling::image`]).
    any_interruptible: Cell<*const AtomicU8>,
    /// Whether its last step found nothing to do. Read by others.
    pub(crate) idle: Cell<bool>,
    /// Whether it was called and has not checked the queues since. Read and written by others.
    pub(crate) called: Cell<bool>,
    /// Calls that are under way: the worker context stays until there are none.
    pending: AtomicU32,
    /// Which worker acts for which one. Read and written by others.
    #[cfg(feature = "std")]
    takeover: Takeover,
    /// The levels that it takes. Read by others.
    #[cfg(feature = "std")]
    takes: Cell<Levels>,
    /// Loom reports a call to a worker context that is gone.
    #[cfg(loom)]
    alive: loom::cell::UnsafeCell<()>,
}

/// A worker's part in takeovers (rules H11 to H13).
#[cfg(feature = "std")]
#[derive(Default)]
struct Takeover {
    /// Whether it polls only in the place of other workers.
    is_spare: bool,
    /// Of a spare worker: the one that it acts for.
    acts_for: Cell<Option<NonNull<WorkerContext>>>,
    /// Whether a spare worker acts for this one.
    has_spare: Cell<bool>,
}

impl WorkerContext {
    /// Makes a passing worker context, or the only one of an executor of one thread.
    pub(crate) fn new(scheduler: *const Scheduler) -> Self {
        Self {
            scheduler: Cell::new(scheduler),
            current: Cell::new(None),
            woke_itself: Cell::new(None),
            running: LevelCell::new(),
            holds: Cell::new(false),
            wake_policy: WakePolicy::new(),
            #[cfg(all(feature = "heap", not(feature = "image")))]
            spending: Spending::default(),
            part_began: Cell::new(0),
            role: Role::Passing,
            #[cfg(feature = "std")]
            outer: Cell::new(ptr::null()),
            next: Cell::new(None),
        }
    }

    /// Makes a passing worker context, which has nothing to drop.
    #[inline]
    pub(crate) fn passing(scheduler: *const Scheduler) -> ManuallyDrop<Self> {
        ManuallyDrop::new(Self::new(scheduler))
    }

    /// Makes the worker context of a worker.
    #[cfg(feature = "heap")]
    pub(crate) fn of_worker(scheduler: *const Scheduler, waker: Waker) -> Self {
        Self {
            role: Role::Worker(Notifier {
                waker: StoredWaker::new(waker),
                interruptible: AtomicU8::new(0),
                any_interruptible: Cell::new(ptr::null()),
                idle: Cell::new(false),
                called: Cell::new(false),
                pending: AtomicU32::new(0),
                #[cfg(feature = "std")]
                takeover: Takeover::default(),
                #[cfg(feature = "std")]
                takes: Cell::new(Levels::ALL),
                #[cfg(loom)]
                alive: loom::cell::UnsafeCell::new(()),
            }),
            ..Self::new(scheduler)
        }
    }

    /// Makes the worker context of a spare worker.
    #[cfg(feature = "std")]
    pub(crate) fn of_spare(scheduler: *const Scheduler, waker: Waker) -> Self {
        let mut worker_context = Self::of_worker(scheduler, waker);
        if let Role::Worker(notifier) = &mut worker_context.role {
            notifier.takeover.is_spare = true;
        }
        worker_context
    }

    /// Returns how its worker is called, if it is a worker's.
    #[inline]
    pub(crate) fn worker(&self) -> Option<&Notifier> {
        match &self.role {
            Role::Passing => None,
            Role::Worker(notifier) => Some(notifier),
        }
    }

    /// The scheduler of a worker context whose scheduler is not in its place yet.
    pub(crate) const NOWHERE: *const Scheduler = ptr::null();

    /// Tests whether `block` is being polled from here and wakes itself; if so, notes that.
    ///
    /// Returns false if a poll around this one has noted its own coroutine.
    #[inline]
    pub(crate) fn wakes_itself(&self, block: BlockRef) -> bool {
        let noted = self.current.get() == Some(block)
            && (self.woke_itself.get()).is_none_or(|noted| noted == block);
        if noted {
            self.woke_itself.set(Some(block));
        }
        noted
    }

    /// Tests whether `block` woke itself in its poll, which has ended, and clears the note.
    #[inline]
    pub(crate) fn has_woken_itself(&self, block: BlockRef) -> bool {
        let woken = self.woke_itself.get() == Some(block);
        if woken {
            self.woke_itself.set(None);
        }
        woken
    }

    /// Tests whether the coroutine that is being polled from here has woken itself so far.
    pub(crate) fn current_woke_itself(&self) -> bool {
        let Some(block) = self.current.get() else {
            return false;
        };
        // The flags of a shared scheduler's block are read under the scheduler lock only.
        match self.worker() {
            Some(_) => self.woke_itself.get() == Some(block),
            None => block.has(Flags::WOKEN),
        }
    }

    pub(crate) fn set_scheduler(&self, scheduler: *const Scheduler) {
        self.scheduler.set(scheduler);
    }

    #[inline]
    pub(crate) fn scheduler(&self) -> *const Scheduler {
        self.scheduler.get()
    }
}

impl Notifier {
    /// Returns the levels that the worker takes.
    #[inline]
    pub(crate) fn takes(&self) -> Levels {
        #[cfg(feature = "std")]
        return self.takes.get();
        #[cfg(not(feature = "std"))]
        Levels::ALL
    }

    /// Sets the levels that the worker takes. Requires the scheduler lock.
    #[cfg(feature = "std")]
    pub(crate) fn take_only(&self, levels: Levels) {
        self.takes.set(levels);
    }

    /// Tests whether the worker polls only in the place of other workers.
    #[inline]
    pub(crate) fn is_spare(&self) -> bool {
        #[cfg(feature = "std")]
        return self.takeover.is_spare;
        #[cfg(not(feature = "std"))]
        false
    }

    /// Tests whether a spare worker acts for this one.
    #[inline]
    pub(crate) fn has_spare(&self) -> bool {
        #[cfg(feature = "std")]
        return self.takeover.has_spare.get();
        #[cfg(not(feature = "std"))]
        false
    }

    /// Returns the worker that this spare one acts for.
    #[cfg(feature = "std")]
    pub(crate) fn acts_for(&self) -> Option<&WorkerContext> {
        // SAFETY: a worker that leaves ends this before it goes, see `Scheduler::leave`.
        (self.takeover.acts_for.get()).map(|worker_context| unsafe { worker_context.as_ref() })
    }

    /// Lets this spare worker act for another one, or for none.
    #[cfg(feature = "std")]
    pub(crate) fn act_for(&self, worker_context: Option<&WorkerContext>) {
        let set = |of: Option<&WorkerContext>, has_spare| {
            if let Some(worker) = of.and_then(WorkerContext::worker) {
                #[cfg(loom)]
                worker.alive.with(|_| ());
                worker.takeover.has_spare.set(has_spare);
            }
        };
        set(self.acts_for(), false);
        set(worker_context, true);
        (self.takeover.acts_for).set(worker_context.map(NonNull::from));
    }

    pub(crate) fn is_interruptible(&self) -> bool {
        self.interruptible.load(Ordering::Relaxed) != 0
    }

    /// Sets the flag of the scheduler that the worker enters: once it is interruptible, `any` is
    /// not 0 any more.
    #[cfg(all(feature = "heap", not(feature = "image-client")))]
    pub(crate) fn tell_interruptible_to(&self, any: &AtomicU8) {
        self.any_interruptible.set(any);
    }

    /// Sets whether a call also reaches the worker while it polls. By the worker alone.
    #[cfg(feature = "heap")]
    pub(crate) fn set_interruptible(&self, interruptible: bool) {
        // SAFETY: null, or in the scheduler, which the worker borrows.
        if interruptible && let Some(any) = unsafe { self.any_interruptible.get().as_ref() } {
            any.store(1, Ordering::Relaxed);
        }
        self.interruptible
            .store(u8::from(interruptible), Ordering::Relaxed);
    }

    /// Announces, under the scheduler lock, that the worker is going to be called by
    /// [`call`](Self::call).
    pub(crate) fn announce(&self) {
        self.called.set(true);
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// Calls the worker, after the scheduler lock was released.
    ///
    /// The worker context may be gone when this returns.
    ///
    /// # Safety
    /// The worker was [announced](Self::announce), once for each call.
    pub(crate) unsafe fn call(this: NonNull<Self>) {
        // SAFETY: the worker context waits until nothing is pending. After the count goes down
        // nothing is borrowed but the count itself.
        unsafe {
            #[cfg(loom)]
            this.as_ref().alive.with(|_| ());
            this.as_ref().waker.wake_by_ref();
            (*this.as_ptr()).pending.fetch_sub(1, Ordering::Release);
        }
    }

    /// Waits until no call is under way. No new one begins, because the worker context is not in
    /// the list.
    #[cfg(feature = "heap")]
    pub(crate) fn wait_for_calls(&self) {
        let mut rounds = 0;
        while self.pending.load(Ordering::Acquire) > 0 {
            pause(rounds);
            rounds += 1;
        }
    }
}

#[cfg(loom)]
impl Drop for Notifier {
    fn drop(&mut self) {
        self.alive.with_mut(|_| ());
    }
}
