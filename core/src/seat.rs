//! A *seat*: the place from which one thread or hart runs a scheduler. The context slot points to
//! it.
//!
//! An [`Executor`](crate::Executor) has one seat. A shared one has a seat for each worker, and a
//! passing one for whoever acts on it from elsewhere (see [`crate::scheduler`], "Several workers").

use core::cell::Cell;
use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};
#[cfg(feature = "heap")]
use core::task::Waker;

use crate::atomic::{AtomicU8, AtomicU32, Ordering};
#[cfg(feature = "heap")]
use crate::baton::pause;
use crate::block::BlockRef;
use crate::kept_waker::KeptWaker;
use crate::priority::LevelCell;
use crate::scheduler::Scheduler;

/// See the module's documentation. The cells are touched by the seat's own thread; those that say
/// so also by others, under the baton.
#[repr(C)]
pub(crate) struct Seat {
    scheduler: Cell<*const Scheduler>,
    /// The coroutine that is being polled from here. Read by others.
    pub(crate) current: Cell<Option<BlockRef>>,
    /// The one that has woken itself in the poll that goes on here. Only its own thread knows of
    /// that, so it costs no scheduler lock; when the poll ends it counts as any other wake (rule
    /// W3).
    pub(crate) woke_itself: Cell<Option<BlockRef>>,
    /// The level that is published as running from here. Read and written by others.
    pub(crate) running: LevelCell,
    /// Whether the scheduler lock is held from here.
    pub(crate) holds: Cell<bool>,
    /// Whether its worker takes in events and looks at the queues next: until then it calls nobody
    /// for what it finds.
    pub(crate) takes_in: Cell<bool>,
    /// Whether its polls end soon: then it takes in during each.
    pub(crate) brief: Cell<bool>,
    /// Whether something was still ready when its last poll began.
    pub(crate) leaves: Cell<bool>,
    role: Role,
    /// The next seat of the scheduler. Written by others.
    pub(crate) next: Cell<Option<NonNull<Seat>>>,
}

/// Whose seat it is. Not an `Option`, whose layout is Rust's own.
#[repr(C, u8)]
enum Role {
    /// That of an executor of one thread, or of someone who passes by.
    Passing,
    #[cfg_attr(
        not(feature = "heap"),
        allow(dead_code, reason = "workers need a heap")
    )]
    Worker(Calling),
}

/// How a worker is called when there is something for it to do.
#[repr(C)]
pub(crate) struct Calling {
    waker: KeptWaker,
    /// Whether a call also reaches it while it polls: then it is called for what is more urgent.
    interruptible: AtomicU8,
    /// Where its scheduler knows that any worker ever was; null before that is told. Behind a
    /// pointer because not everybody who has a seat sees into the scheduler (see [`crate::image`]).
    any_interruptible: Cell<*const AtomicU8>,
    /// Its last step found nothing to do. Read by others.
    pub(crate) idle: Cell<bool>,
    /// It was called and has not looked since. Read and written by others.
    pub(crate) called: Cell<bool>,
    /// Calls that are under way: the seat stays until there are none.
    pending: AtomicU32,
    /// Loom reports a call to a seat that is gone.
    #[cfg(loom)]
    alive: loom::cell::UnsafeCell<()>,
}

impl Seat {
    /// A passing seat, or the only one of an executor of one thread.
    pub(crate) fn new(scheduler: *const Scheduler) -> Self {
        Self {
            scheduler: Cell::new(scheduler),
            current: Cell::new(None),
            woke_itself: Cell::new(None),
            running: LevelCell::new(),
            holds: Cell::new(false),
            takes_in: Cell::new(false),
            brief: Cell::new(false),
            leaves: Cell::new(false),
            role: Role::Passing,
            next: Cell::new(None),
        }
    }

    /// A passing seat, which has nothing to drop.
    #[inline]
    pub(crate) fn passing(scheduler: *const Scheduler) -> ManuallyDrop<Self> {
        ManuallyDrop::new(Self::new(scheduler))
    }

    /// A worker's seat.
    #[cfg(feature = "heap")]
    pub(crate) fn of_worker(scheduler: *const Scheduler, waker: Waker) -> Self {
        Self {
            role: Role::Worker(Calling {
                waker: KeptWaker::new(waker),
                interruptible: AtomicU8::new(0),
                any_interruptible: Cell::new(ptr::null()),
                idle: Cell::new(false),
                called: Cell::new(false),
                pending: AtomicU32::new(0),
                #[cfg(loom)]
                alive: loom::cell::UnsafeCell::new(()),
            }),
            ..Self::new(scheduler)
        }
    }

    /// How its worker is called, if it is a worker's.
    #[inline]
    pub(crate) fn worker(&self) -> Option<&Calling> {
        match &self.role {
            Role::Passing => None,
            Role::Worker(calling) => Some(calling),
        }
    }

    /// For a seat whose scheduler is not in its place yet.
    pub(crate) const NOWHERE: *const Scheduler = ptr::null();

    /// Whether `block` is being polled from here and wakes itself: then that is noted. Not so if a
    /// poll around this one has noted its own coroutine.
    #[inline]
    pub(crate) fn wakes_itself(&self, block: BlockRef) -> bool {
        let noted = self.current.get() == Some(block)
            && (self.woke_itself.get()).is_none_or(|noted| noted == block);
        if noted {
            self.woke_itself.set(Some(block));
        }
        noted
    }

    /// The poll of `block` has ended: whether it woke itself.
    #[inline]
    pub(crate) fn has_woken_itself(&self, block: BlockRef) -> bool {
        let woken = self.woke_itself.get() == Some(block);
        if woken {
            self.woke_itself.set(None);
        }
        woken
    }

    pub(crate) fn place(&self, scheduler: *const Scheduler) {
        self.scheduler.set(scheduler);
    }

    #[inline]
    pub(crate) fn scheduler(&self) -> *const Scheduler {
        self.scheduler.get()
    }
}

impl Calling {
    pub(crate) fn is_interruptible(&self) -> bool {
        self.interruptible.load(Ordering::Relaxed) != 0
    }

    /// The worker comes: once it is interruptible, `any` is not 0 any more.
    #[cfg(all(feature = "heap", not(feature = "image-client")))]
    pub(crate) fn tell_interruptible_to(&self, any: &AtomicU8) {
        self.any_interruptible.set(any);
    }

    /// By the worker alone.
    #[cfg(feature = "heap")]
    pub(crate) fn set_interruptible(&self, interruptible: bool) {
        // SAFETY: null, or in the scheduler, which the worker borrows.
        if interruptible && let Some(any) = unsafe { self.any_interruptible.get().as_ref() } {
            any.store(1, Ordering::Relaxed);
        }
        self.interruptible
            .store(u8::from(interruptible), Ordering::Relaxed);
    }

    /// Under the baton: the worker is going to be called by [`call`](Self::call).
    pub(crate) fn announce(&self) {
        self.called.set(true);
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// After the scheduler lock was released. The seat may be gone when this returns.
    ///
    /// # Safety
    /// The worker was [announced](Self::announce), once for each call.
    pub(crate) unsafe fn call(this: NonNull<Self>) {
        // SAFETY: the seat waits until nothing is pending. After the count goes down nothing is
        // borrowed but the count itself.
        unsafe {
            #[cfg(loom)]
            this.as_ref().alive.with(|_| ());
            this.as_ref().waker.wake_by_ref();
            (*this.as_ptr()).pending.fetch_sub(1, Ordering::Release);
        }
    }

    /// Waits until nobody calls any more. Nobody begins to: the seat is not in the list.
    #[cfg(feature = "heap")]
    pub(crate) fn settle(&self) {
        let mut rounds = 0;
        while self.pending.load(Ordering::Acquire) > 0 {
            pause(rounds);
            rounds += 1;
        }
    }
}

#[cfg(loom)]
impl Drop for Calling {
    fn drop(&mut self) {
        self.alive.with_mut(|_| ());
    }
}
