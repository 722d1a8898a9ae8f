//! How the rest of the crate reaches a scheduler: as its owner for a time, unlocked, or by
//! identifier.
//!
//! It is the same for a scheduler that is built in and for one behind an image (see
//! [`crate::scheduling::image`]).

use crate::priority::Priority;
use crate::scheduling::config::SpawnError;
use crate::scheduling::scheduler::Scheduler;
use crate::scheduling::table::block::{BlockRef, Flags, State};
use crate::scheduling::table::id::CoroutineId;
use crate::scheduling::waiter::Waiter;
use crate::scheduling::wake::stored_waker::StoredWaker;
use crate::scheduling::workers::context::{self, Entered};
use crate::scheduling::workers::worker_context::WorkerContext;
use core::ptr::NonNull;

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

    /// Runs `act` as the owner.
    ///
    /// Wraps every operation that a caller asks for. Where `SHARED`, the result of `is_shared`, is
    /// known at compile time, an executor of one thread does not even check it.
    #[inline(always)]
    pub(crate) fn owned<const SHARED: bool, R>(&self, act: impl FnOnce() -> R) -> R {
        if SHARED { self.take_turn(act) } else { act() }
    }

    /// Runs `act` as the owner, where it is not known at compile time whether the scheduler is
    /// shared.
    ///
    /// `act` should be a call rather than code, because it is compiled twice. See
    /// [`owned`](Self::owned).
    #[inline(always)]
    pub(crate) fn locked<R>(&self, act: impl FnOnce() -> R) -> R {
        if self.is_shared() {
            self.take_turn(act)
        } else {
            act()
        }
    }

    #[cold]
    #[inline(never)]
    fn take_turn<R>(&self, act: impl FnOnce() -> R) -> R {
        match context::worker_context_of(self) {
            Some(worker_context) if worker_context.holds.get() => act(),
            Some(worker_context) => {
                let _held = Held::new(self, worker_context);
                act()
            }
            None => {
                let worker_context: &WorkerContext = &WorkerContext::passing(self);
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

    /// Acts on the live coroutine with this identifier; `None` for a stale one (rule C2).
    pub(crate) fn on<R>(&self, id: CoroutineId, act: impl FnOnce(BlockRef) -> R) -> Option<R> {
        self.find(id).map(act)
    }

    /// Wakes the coroutine with this identifier, as [`wake`](Self::wake) does.
    ///
    /// Returns false if the identifier is stale, or the coroutine has exited.
    pub(crate) fn wake_by_id(&self, id: CoroutineId) -> bool {
        let woken = self.on(id, |block| {
            self.wake(block);
            block.state.get() != State::Exited
        });
        woken.unwrap_or(false)
    }

    /// Creates a coroutine (*create*), ready at the tail of its level.
    ///
    /// `make` builds its future where it will stay, so that the future is never moved. It calls
    /// nothing of the scheduler's, and is dropped if there is no place. With a shared scheduler,
    /// the future and its output are `Send`; the caller ensures that.
    #[inline]
    pub(crate) fn spawn<F: Future + 'static, const SHARED: bool>(
        &self,
        priority: Priority,
        make: impl FnOnce() -> F,
    ) -> Result<BlockRef, SpawnError> {
        let mut make = Some(make);
        let spawned = self.owned::<SHARED, _>(|| self.admit(priority, &mut make));
        // Now that nothing is held: if it is still there, its destructor is the user's code.
        drop(make);
        spawned
    }

    /// Releases the handle of `block`, with the output or without it, and ends its wait.
    ///
    /// Returns what remains of the wait: a waker, for the caller to drop.
    #[must_use]
    pub(crate) fn release_handle<const SHARED: bool>(
        block: BlockRef,
        waiter: &Waiter,
    ) -> Option<StoredWaker> {
        if SHARED {
            return Self::release_shared(block, waiter);
        }
        let scheduler = block.scheduler();
        let this = Self::of(block);
        let waker = waiter.end_held();
        if this.forget_handle(block) {
            Self::unanchor(scheduler);
        }
        waker
    }

    /// Releases a handle of a shared scheduler, as [`release_handle`](Self::release_handle) does.
    ///
    /// This is the one operation after which nothing keeps the scheduler for the caller. Once the
    /// scheduler lock is free, other threads may end and free the scheduler. Nothing here touches
    /// it after that, unless an anchor is to be released.
    #[cold]
    #[inline(never)]
    fn release_shared(block: BlockRef, waiter: &Waiter) -> Option<StoredWaker> {
        let scheduler = block.scheduler();
        let release = || {
            // SAFETY: the scheduler lock is held, and the handle still counts.
            let this = unsafe { scheduler.as_ref() };
            (waiter.end_held(), this.forget_handle(block))
        };
        let (waker, was_last) = match context::worker_context_of(scheduler.as_ptr()) {
            // The outer operation keeps the scheduler, and frees the scheduler lock.
            Some(worker_context) if worker_context.holds.get() => release(),
            Some(worker_context) => {
                let _held = HeldAtLast::new(scheduler, worker_context);
                release()
            }
            None => {
                let worker_context: &WorkerContext = &WorkerContext::passing(scheduler.as_ptr());
                let _entered = Entered::new(worker_context);
                let _held = HeldAtLast::new(scheduler, worker_context);
                release()
            }
        };
        if was_last {
            Self::unanchor(scheduler);
        }
        waker
    }

    /// Takes the output of a finished coroutine, once.
    ///
    /// # Safety
    /// `T` is the output's type, and the flag `OUTPUT` is set.
    pub(crate) unsafe fn take_output<T>(&self, block: BlockRef) -> T {
        block.remove(Flags::OUTPUT);
        // SAFETY: the caller's promise; the memory counts as empty from here on.
        let output = unsafe { block.memory.get().cast::<T>().read() };
        self.free_memory(block);
        output
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

/// A guard as [`Held`] is, for [`Scheduler::release_shared`].
struct HeldAtLast<'a> {
    scheduler: NonNull<Scheduler>,
    worker_context: &'a WorkerContext,
}

impl<'a> HeldAtLast<'a> {
    #[inline]
    fn new(scheduler: NonNull<Scheduler>, worker_context: &'a WorkerContext) -> Self {
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
