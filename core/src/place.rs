//! To whom belongs what coroutines share: to one thread, or to the workers of one
//! [`SharedExecutor`](crate::SharedExecutor).
//!
//! The types of [`crate::sync`], [`crate::key`] and [`crate::time`] have one source for both. Its
//! `P: Place` says how an operation becomes one step for everybody else: on one thread it is that
//! by itself, and among workers it is done under their executor's baton. Where this is one thread,
//! nothing of it is left when the program is compiled.

#[cfg(feature = "alloc")]
use core::fmt;
use core::marker::PhantomData;
#[cfg(feature = "alloc")]
use core::ptr::NonNull;

use crate::block::BlockRef;
use crate::context;
use crate::scheduler::Scheduler;
#[cfg(feature = "alloc")]
use crate::shared::SharedExecutor;

/// [`OneThread`] or [`Shared`].
pub trait Place: turns::Turns + 'static {}

/// What belongs to one thread, as its coroutines do. Neither `Send` nor `Sync`, and free of cost.
///
/// A coroutine of a [`SharedExecutor`](crate::SharedExecutor) can reach such a thing only through a
/// thread-local variable. It waits there like code that is no coroutine: it is woken by its waker,
/// counts as [`Priority::DEFAULT`](crate::Priority::DEFAULT), and lends and inherits nothing.
#[derive(Clone, Copy, Debug)]
pub struct OneThread(PhantomData<*const ()>);

impl OneThread {
    pub(crate) const HERE: Self = Self(PhantomData);
}

/// What belongs to a [`SharedExecutor`]: coroutines that any of its workers polls may share it, and
/// other threads as well.
///
/// It keeps the executor's table in memory, and not its coroutines: it may outlive the executor.
/// Urgency is lent among the coroutines of that executor; whoever else waits is woken, and counts
/// as [`Priority::DEFAULT`](crate::Priority::DEFAULT).
#[cfg(feature = "alloc")]
pub struct Shared {
    /// Kept by an anchor.
    scheduler: NonNull<Scheduler>,
}

pub(crate) mod turns {
    /// What the crate knows of a place.
    #[allow(unreachable_pub, reason = "it seals a public trait")]
    #[allow(private_interfaces, reason = "nobody outside can call it")]
    pub trait Turns {
        /// Whether several workers may come.
        const SHARED: bool;

        /// The scheduler whose lock guards the place, if it is shared.
        fn scheduler(&self) -> Option<&super::Scheduler>;

        /// Runs `act` as one step. Code of the user's is called [aside](Self::aside) only.
        fn hold<R>(&self, act: impl FnOnce() -> R) -> R;

        /// Whoever touches what belongs to the place has its turn.
        fn assert_held(&self);

        /// Returns the coroutine that is polled here, if it can wait in what belongs to the place,
        /// and hold it, by itself. Every other one is remembered by its waker alone, lends nothing
        /// and inherits nothing.
        ///
        /// This is the one place that keeps coroutines of a shared executor out of the lists of one
        /// thread: another worker may end such a coroutine, and free its block, at any time. Within
        /// [`hold`](Self::hold).
        fn current(&self) -> Option<super::BlockRef>;

        /// Around code of the user's, within [`hold`](Self::hold): others may come in between.
        fn aside<R>(&self, act: impl FnOnce() -> R) -> R;
    }
}

impl Place for OneThread {}

#[allow(private_interfaces, reason = "as in the trait")]
impl turns::Turns for OneThread {
    const SHARED: bool = false;

    #[inline(always)]
    fn scheduler(&self) -> Option<&Scheduler> {
        None
    }

    #[inline(always)]
    fn hold<R>(&self, act: impl FnOnce() -> R) -> R {
        act()
    }

    #[inline(always)]
    fn assert_held(&self) {}

    #[inline]
    fn current(&self) -> Option<BlockRef> {
        context::current_of_one_thread()
    }

    #[inline(always)]
    fn aside<R>(&self, act: impl FnOnce() -> R) -> R {
        act()
    }
}

// SAFETY: it reaches nothing of the scheduler but what is done under the scheduler lock, and the
// count of anchors, which is atomic.
#[cfg(feature = "alloc")]
unsafe impl Send for Shared {}
// SAFETY: as above.
#[cfg(feature = "alloc")]
unsafe impl Sync for Shared {}

#[cfg(feature = "alloc")]
impl Shared {
    /// The executor whose worker runs here; `None` outside the coroutines of a [`SharedExecutor`].
    #[must_use]
    pub fn here() -> Option<Self> {
        let scheduler = context::here().filter(|scheduler| scheduler.is_shared())?;
        Some(Self::new(scheduler))
    }

    fn new(scheduler: &Scheduler) -> Self {
        scheduler.anchor();
        Self {
            scheduler: scheduler.pointer(),
        }
    }

    #[inline]
    pub(crate) fn get(&self) -> &Scheduler {
        // SAFETY: our anchor keeps it.
        unsafe { self.scheduler.as_ref() }
    }
}

#[cfg(feature = "alloc")]
impl From<&SharedExecutor> for Shared {
    fn from(executor: &SharedExecutor) -> Self {
        Self::new(executor.scheduler())
    }
}

#[cfg(feature = "alloc")]
impl Clone for Shared {
    fn clone(&self) -> Self {
        Self::new(self.get())
    }
}

#[cfg(feature = "alloc")]
impl Drop for Shared {
    fn drop(&mut self) {
        Scheduler::unanchor(self.scheduler);
    }
}

#[cfg(feature = "alloc")]
impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

#[cfg(feature = "alloc")]
impl Place for Shared {}

#[cfg(feature = "alloc")]
#[allow(private_interfaces, reason = "as in the trait")]
impl turns::Turns for Shared {
    const SHARED: bool = true;

    #[inline]
    fn scheduler(&self) -> Option<&Scheduler> {
        Some(self.get())
    }

    #[inline]
    fn hold<R>(&self, act: impl FnOnce() -> R) -> R {
        self.get().owned::<true, R>(act)
    }

    #[inline]
    fn assert_held(&self) {
        self.get().assert_owned();
    }

    /// The holder of the scheduler lock has entered the executor: what is current there is a
    /// coroutine of it.
    #[inline]
    fn current(&self) -> Option<BlockRef> {
        context::current()
    }

    #[inline]
    fn aside<R>(&self, act: impl FnOnce() -> R) -> R {
        self.get().aside(act)
    }
}
