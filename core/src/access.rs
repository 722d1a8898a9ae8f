//! How the rest of the crate reaches a scheduler: as its owner for the time being, aside from it,
//! by identifier.
//!
//! The same for a scheduler that is built in and for one behind an image (see [`crate::image`]).

use crate::block::{BlockRef, Flags, State};
use crate::context::{self, Entered};
use crate::executor::SpawnError;
use crate::id::CoroutineId;
use crate::kept_waker::KeptWaker;
use crate::priority::Priority;
use crate::scheduler::Scheduler;
use crate::seat::Seat;
use crate::waiter::Waiter;
use core::ptr::NonNull;

impl Scheduler {
    /// The scheduler of a block.
    #[inline]
    pub(crate) fn of<'a>(block: BlockRef) -> &'a Scheduler {
        // SAFETY: a scheduler lives as long as its blocks (the anchors see to that), and nothing
        // has a `&mut` to it. The lifetime is not longer than the use: the result is never stored.
        unsafe { block.scheduler().as_ref() }
    }

    /// Returns the pointer from which the scheduler was made. What outlives a borrow of the
    /// scheduler keeps this one: memory must not be freed by a pointer that was made of a
    /// reference.
    #[inline]
    pub(crate) fn pointer(&self) -> NonNull<Scheduler> {
        // SAFETY: the seat has known the scheduler's address since the scheduler was put in its
        // place.
        unsafe { NonNull::new_unchecked(self.seat().scheduler().cast_mut()) }
    }

    /// Around every operation that someone asks for: runs `act` as the owner. Where `SHARED`, what
    /// `is_shared` says, is known at compile time, an executor of one thread does not even ask.
    #[inline(always)]
    pub(crate) fn owned<const SHARED: bool, R>(&self, act: impl FnOnce() -> R) -> R {
        if SHARED { self.take_turn(act) } else { act() }
    }

    /// As [`owned`](Self::owned), where it is not known. `act` should be a call rather than code:
    /// it is compiled twice.
    #[inline(always)]
    pub(crate) fn held<R>(&self, act: impl FnOnce() -> R) -> R {
        if self.is_shared() {
            self.take_turn(act)
        } else {
            act()
        }
    }

    #[cold]
    #[inline(never)]
    fn take_turn<R>(&self, act: impl FnOnce() -> R) -> R {
        match context::seat_of(self) {
            Some(seat) if seat.holds.get() => act(),
            Some(seat) => {
                let _held = Held::new(self, seat);
                act()
            }
            None => {
                let seat: &Seat = &Seat::passing(self);
                let _entered = Entered::new(seat);
                let _held = Held::new(self, seat);
                act()
            }
        }
    }

    /// Around every piece of code of the user's: lets others be the owner meanwhile.
    #[inline(always)]
    pub(crate) fn aside<R>(&self, act: impl FnOnce() -> R) -> R {
        if self.is_shared() {
            self.step_aside(act)
        } else {
            act()
        }
    }

    #[cold]
    #[inline(never)]
    fn step_aside<R>(&self, act: impl FnOnce() -> R) -> R {
        let seat = context::seat_of(self).filter(|seat| seat.holds.get());
        let _aside = seat.map(|seat| Aside::new(self, seat));
        act()
    }

    /// Whoever changes the queues is the owner.
    #[inline(always)]
    pub(crate) fn assert_owned(&self) {
        #[cfg(any(loom, debug_assertions))]
        assert!(
            !self.is_shared() || context::seat_of(self).is_some_and(|seat| seat.holds.get()),
            "a shared scheduler was changed without its baton"
        );
    }

    /// Acts on the live coroutine with this identifier; `None` for a stale one (rule C2).
    pub(crate) fn on<R>(&self, id: CoroutineId, act: impl FnOnce(BlockRef) -> R) -> Option<R> {
        self.find(id).map(act)
    }

    /// As [`wake`](Self::wake). False if the identifier is stale, or the coroutine has exited.
    pub(crate) fn wake_by_id(&self, id: CoroutineId) -> bool {
        let woken = self.on(id, |block| {
            self.wake(block);
            block.state.get() != State::Exited
        });
        woken.unwrap_or(false)
    }

    /// *create*: a new coroutine, ready at the tail of its level. `make` builds its future where it
    /// will stay, so that it is never moved; it calls nothing of the scheduler's, and is dropped if
    /// there is no place. Of a shared scheduler, the future and its output are `Send`; the caller
    /// sees to that.
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

    /// The handle of `block` is gone, with the output or without it, and so is its wait. What
    /// remains of that is a waker, for the caller to drop.
    #[must_use]
    pub(crate) fn release_handle<const SHARED: bool>(
        block: BlockRef,
        waiter: &Waiter,
    ) -> Option<KeptWaker> {
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

    /// As [`owned`](Self::owned), for the one operation after which nothing keeps the scheduler for
    /// the caller: once the scheduler lock is free, other threads may end and free the scheduler,
    /// and nothing touches it here, unless an anchor is to be let go.
    #[cold]
    #[inline(never)]
    fn release_shared(block: BlockRef, waiter: &Waiter) -> Option<KeptWaker> {
        let scheduler = block.scheduler();
        let release = || {
            // SAFETY: the scheduler lock is held, and the handle still counts.
            let this = unsafe { scheduler.as_ref() };
            (waiter.end_held(), this.forget_handle(block))
        };
        let (waker, was_last) = match context::seat_of(scheduler.as_ptr()) {
            // The outer operation keeps the scheduler, and frees the scheduler lock.
            Some(seat) if seat.holds.get() => release(),
            Some(seat) => {
                let _held = HeldAtLast::new(scheduler, seat);
                release()
            }
            None => {
                let seat: &Seat = &Seat::passing(scheduler.as_ptr());
                let _entered = Entered::new(seat);
                let _held = HeldAtLast::new(scheduler, seat);
                release()
            }
        };
        if was_last {
            Self::unanchor(scheduler);
        }
        waker
    }

    /// The output of a finished coroutine, once.
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

/// The scheduler lock is held from a seat until this is dropped.
pub(crate) struct Held<'a> {
    scheduler: &'a Scheduler,
    seat: &'a Seat,
}

impl<'a> Held<'a> {
    #[inline]
    pub(crate) fn new(scheduler: &'a Scheduler, seat: &'a Seat) -> Self {
        scheduler.pick_up(seat);
        Self { scheduler, seat }
    }

    /// `None` if the lock is held from the seat already: what is called with it held, as a
    /// `SystemView` is, may run the worker again.
    #[cfg(feature = "alloc")]
    #[inline]
    pub(crate) fn unless_held(scheduler: &'a Scheduler, seat: &'a Seat) -> Option<Self> {
        (!seat.holds.get()).then(|| Self::new(scheduler, seat))
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.scheduler.put_down(self.seat);
    }
}

/// As [`Held`], for [`Scheduler::release_shared`].
struct HeldAtLast<'a> {
    scheduler: NonNull<Scheduler>,
    seat: &'a Seat,
}

impl<'a> HeldAtLast<'a> {
    #[inline]
    fn new(scheduler: NonNull<Scheduler>, seat: &'a Seat) -> Self {
        // SAFETY: the caller keeps the scheduler until it has released the scheduler lock.
        unsafe { scheduler.as_ref() }.pick_up(seat);
        Self { scheduler, seat }
    }
}

impl Drop for HeldAtLast<'_> {
    fn drop(&mut self) {
        // SAFETY: the scheduler lock is held from the seat, and its holder keeps the scheduler.
        unsafe { Scheduler::put_down_for_good(self.scheduler, self.seat) }
    }
}

/// The scheduler lock is not held from a seat until this is dropped.
struct Aside<'a> {
    scheduler: &'a Scheduler,
    seat: &'a Seat,
}

impl<'a> Aside<'a> {
    fn new(scheduler: &'a Scheduler, seat: &'a Seat) -> Self {
        scheduler.put_down(seat);
        Self { scheduler, seat }
    }
}

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        self.scheduler.pick_up(self.seat);
    }
}
