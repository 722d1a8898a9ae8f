//! Ownership of what coroutines share: by one thread, or by the workers of one
//! [`SharedExecutor`](crate::SharedExecutor).
//!
//! Join handles and the types of [`crate::sync`], [`crate::key`] and [`crate::time`] have one
//! source for both. Its `O: Ownership` says how an operation becomes one step for all others. On
//! one thread it is one step by itself. Among workers it is done under their executor's scheduler
//! lock. With one thread, nothing of this is left when the program is compiled.

#[cfg(feature = "alloc")]
use core::fmt;
use core::marker::PhantomData;
#[cfg(feature = "alloc")]
use core::ptr::NonNull;

use crate::scheduling::join_waiter::{InHandle, JoinWaiter};
use crate::scheduling::scheduler::Scheduler;
use crate::scheduling::table::block::BlockRef;
use crate::scheduling::workers::{budget, context};

/// The owner of what coroutines share: [`Local`] or [`Shared`].
pub trait Ownership: turns::Turns + 'static {}

/// Ownership by one thread, to which its coroutines also belong.
///
/// It is neither `Send` nor `Sync`, and free of cost.
///
/// A coroutine of a [`SharedExecutor`](crate::SharedExecutor) can reach such a thing only through a
/// thread-local variable. It waits there like code that is no coroutine: it is woken by its waker,
/// counts as [`Priority::DEFAULT`](crate::Priority::DEFAULT), and donates and inherits nothing.
#[derive(Clone, Copy, Debug)]
pub struct Local(PhantomData<*const ()>);

impl Local {
    pub(crate) const HERE: Self = Self(PhantomData);
}

/// Ownership by a [`SharedExecutor`](crate::SharedExecutor).
///
/// Coroutines that any of its workers polls may share what it owns, and so may other threads.
///
/// It keeps the executor's table in memory, and not its coroutines: it may outlive the executor.
/// Priorities are inherited among the coroutines of that executor. Any other waiter is woken, and
/// counts as [`Priority::DEFAULT`](crate::Priority::DEFAULT).
#[cfg(feature = "alloc")]
pub struct Shared {
    /// The scheduler, kept by an anchor.
    scheduler: NonNull<Scheduler>,
}

pub(crate) mod turns {
    /// The crate's own part of `Ownership`.
    #[allow(unreachable_pub, reason = "it seals a public trait")]
    #[allow(private_interfaces, reason = "no code outside can call it")]
    pub trait Turns {
        /// Whether several workers may use what is owned.
        const SHARED: bool;

        /// Where the waiter of a join handle is.
        type JoinWaiter: super::JoinWaiter;

        /// Returns the scheduler with the lock that guards what is owned, if it is shared.
        fn scheduler(&self) -> Option<&super::Scheduler>;

        /// Runs `act` as the owner of a scheduler, which is shared as `SHARED` says.
        ///
        /// Wraps every operation that a caller asks for. An executor of one thread does not even
        /// check what the owner is.
        fn own<R>(scheduler: &super::Scheduler, act: impl FnOnce() -> R) -> R;

        /// Runs `act` as one step.
        ///
        /// Code of the user's is called [unlocked](Self::unlocked) only.
        fn hold<R>(&self, act: impl FnOnce() -> R) -> R;

        /// Asserts that the caller is within [`hold`](Self::hold), as code that touches what is
        /// owned must be.
        fn assert_held(&self);

        /// Returns the coroutine that is polled here, if it can wait in what is owned, and hold it,
        /// by itself.
        ///
        /// Every other one is remembered by its waker alone, donates nothing and inherits nothing.
        ///
        /// Only this function keeps coroutines of a shared executor out of the lists of one thread.
        /// Another worker may end such a coroutine, and free its block, at any time. Called within
        /// [`hold`](Self::hold).
        fn current(&self) -> Option<super::BlockRef>;

        /// Runs `act`, which is code of the user's, within [`hold`](Self::hold).
        ///
        /// Others may come in between.
        fn unlocked<R>(&self, act: impl FnOnce() -> R) -> R;

        /// Takes an operation that need not wait from the budget of the poll that goes on here
        /// (rule O8), within [`hold`](Self::hold).
        ///
        /// Returns false if it is not to be made now: then the task is woken, others may have come
        /// in between, and the poll is to end pending.
        #[inline]
        fn proceed(&self, cx: &core::task::Context<'_>) -> bool {
            let granted = super::budget::take();
            if !granted {
                self.unlocked(|| cx.waker().wake_by_ref());
            }
            granted
        }
    }
}

impl Ownership for Local {}

#[allow(private_interfaces, reason = "as in the trait")]
impl turns::Turns for Local {
    const SHARED: bool = false;
    type JoinWaiter = InHandle;

    #[inline(always)]
    fn own<R>(_: &Scheduler, act: impl FnOnce() -> R) -> R {
        act()
    }

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
    fn unlocked<R>(&self, act: impl FnOnce() -> R) -> R {
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
    /// Returns the executor of the worker that runs here; `None` outside the coroutines of a
    /// [`SharedExecutor`](crate::SharedExecutor).
    #[must_use]
    pub fn here() -> Option<Self> {
        let scheduler = context::here().filter(|scheduler| scheduler.is_shared())?;
        Some(Self::new(scheduler))
    }

    /// Returns the ownership by the executor of this scheduler, which is shared.
    pub(crate) fn new(scheduler: &Scheduler) -> Self {
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
impl Ownership for Shared {}

#[cfg(feature = "alloc")]
#[allow(private_interfaces, reason = "as in the trait")]
impl turns::Turns for Shared {
    const SHARED: bool = true;
    #[cfg(not(feature = "image"))]
    type JoinWaiter = crate::scheduling::join_waiter::OnHeap;
    #[cfg(feature = "image")]
    type JoinWaiter = InHandle;

    #[inline(always)]
    fn own<R>(scheduler: &Scheduler, act: impl FnOnce() -> R) -> R {
        scheduler.take_turn(act)
    }

    #[inline]
    fn scheduler(&self) -> Option<&Scheduler> {
        Some(self.get())
    }

    #[inline]
    fn hold<R>(&self, act: impl FnOnce() -> R) -> R {
        Self::own(self.get(), act)
    }

    #[inline]
    fn assert_held(&self) {
        self.get().assert_owned();
    }

    /// Returns the coroutine that is polled here.
    ///
    /// It belongs to the executor, because the holder of the scheduler lock has entered that.
    #[inline]
    fn current(&self) -> Option<BlockRef> {
        context::current()
    }

    #[inline]
    fn unlocked<R>(&self, act: impl FnOnce() -> R) -> R {
        self.get().unlocked(act)
    }
}
