//! Turns: how code becomes a scheduler's owner for a time, and lets others be the owner meanwhile.
//!
//! It is the same for a scheduler that is built in and for one behind an image (see
//! [`crate::scheduling::image`]).

use core::ptr::NonNull;

use crate::scheduling::scheduler::Scheduler;
use crate::scheduling::table::block::BlockRef;
use crate::scheduling::workers::context::{self, Entered};
use crate::scheduling::workers::worker_context::WorkerContext;

impl Scheduler {
    /// Returns the scheduler of a block.
    #[inline]
    pub(crate) fn of<'a>(block: BlockRef) -> &'a Scheduler {
        // SAFETY: a scheduler lives as long as its blocks (the anchors see to that), and nothing
        // has a `&mut` to it. The lifetime is not longer than the use: the result is never stored.
        unsafe { block.scheduler().as_ref() }
    }

    /// Returns the pointer from which the scheduler was made.
    ///
    /// What outlives a borrow of the scheduler keeps this pointer. Memory must not be freed by a
    /// pointer that was made from a reference.
    #[inline]
    pub(crate) fn pointer(&self) -> NonNull<Scheduler> {
        // SAFETY: the worker context has held the scheduler's address since the scheduler was put
        // in its place.
        unsafe { NonNull::new_unchecked(self.worker_context().scheduler().cast_mut()) }
    }

    /// Runs `act` as the owner, where it is not known at compile time whether the scheduler is
    /// shared.
    ///
    /// `act` should be a call rather than code, because it is compiled twice. Where it is known,
    /// [`Ownership`](crate::Ownership) says it.
    #[inline(always)]
    pub(crate) fn locked<R>(&self, act: impl FnOnce() -> R) -> R {
        if self.is_shared() {
            self.take_turn(act)
        } else {
            act()
        }
    }

    /// Runs `act` as the owner of a shared scheduler.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_turn<R>(&self, act: impl FnOnce() -> R) -> R {
        match context::worker_context_of(self) {
            Some(worker_context) if worker_context.holds.get() => act(),
            Some(worker_context) => {
                let _held = Held::new(self, worker_context);
                act()
            }
            None => {
                let worker_context: &WorkerContext = &WorkerContext::passing(self);
                #[cfg(feature = "std")]
                if let Some(outer) = context::worker_context() {
                    worker_context.outer.set(outer);
                }
                let _entered = Entered::new(worker_context);
                let _held = Held::new(self, worker_context);
                act()
            }
        }
    }

    /// Runs `act` without the scheduler lock, so that another thread may be the owner meanwhile.
    ///
    /// Wraps every piece of the user's code.
    #[inline(always)]
    pub(crate) fn unlocked<R>(&self, act: impl FnOnce() -> R) -> R {
        if self.is_shared() {
            self.step_aside(act)
        } else {
            act()
        }
    }

    #[cold]
    #[inline(never)]
    fn step_aside<R>(&self, act: impl FnOnce() -> R) -> R {
        let worker_context =
            context::worker_context_of(self).filter(|worker_context| worker_context.holds.get());
        let _aside = worker_context.map(|worker_context| Aside::new(self, worker_context));
        act()
    }

    /// Asserts, in debug builds and under loom, that the caller is the owner.
    ///
    /// Only the owner changes the queues.
    #[inline(always)]
    pub(crate) fn assert_owned(&self) {
        #[cfg(any(loom, debug_assertions))]
        assert!(
            !self.is_shared()
                || context::worker_context_of(self)
                    .is_some_and(|worker_context| worker_context.holds.get()),
            "a shared scheduler was changed without its scheduler lock"
        );
    }
}

/// A guard that holds the scheduler lock from a worker context until it is dropped.
pub(crate) struct Held<'a> {
    scheduler: &'a Scheduler,
    worker_context: &'a WorkerContext,
}

impl<'a> Held<'a> {
    #[inline]
    pub(crate) fn new(scheduler: &'a Scheduler, worker_context: &'a WorkerContext) -> Self {
        scheduler.lock(worker_context);
        Self {
            scheduler,
            worker_context,
        }
    }

    /// Acquires the lock, or returns `None` if it is held from the worker context already.
    ///
    /// Code that is called with the lock held, as a `SystemView` is, may run the worker again.
    #[cfg(feature = "alloc")]
    #[inline]
    pub(crate) fn unless_held(
        scheduler: &'a Scheduler,
        worker_context: &'a WorkerContext,
    ) -> Option<Self> {
        (!worker_context.holds.get()).then(|| Self::new(scheduler, worker_context))
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.scheduler.unlock(self.worker_context);
    }
}

/// A guard as [`Held`] is, for code after which nothing keeps the scheduler for it.
///
/// Nothing touches the scheduler after the guard has released the scheduler lock.
pub(crate) struct HeldAtLast<'a> {
    scheduler: NonNull<Scheduler>,
    worker_context: &'a WorkerContext,
}

impl<'a> HeldAtLast<'a> {
    #[inline]
    pub(crate) fn new(scheduler: NonNull<Scheduler>, worker_context: &'a WorkerContext) -> Self {
        // SAFETY: the caller keeps the scheduler until it has released the scheduler lock.
        unsafe { scheduler.as_ref() }.lock(worker_context);
        Self {
            scheduler,
            worker_context,
        }
    }
}

impl Drop for HeldAtLast<'_> {
    fn drop(&mut self) {
        // SAFETY: the scheduler lock is held from the worker context, and its holder keeps the
        // scheduler.
        unsafe { Scheduler::unlock_for_good(self.scheduler, self.worker_context) }
    }
}

/// A guard that keeps the scheduler lock released from a worker context until it is dropped.
struct Aside<'a> {
    scheduler: &'a Scheduler,
    worker_context: &'a WorkerContext,
}

impl<'a> Aside<'a> {
    fn new(scheduler: &'a Scheduler, worker_context: &'a WorkerContext) -> Self {
        scheduler.unlock(worker_context);
        Self {
            scheduler,
            worker_context,
        }
    }
}

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        self.scheduler.lock(self.worker_context);
    }
}
