//! Priority inheritance from the coroutines of a shared executor to what works for them outside
//! (rule I9).

use core::fmt;
use core::pin::Pin;
use core::ptr::NonNull;

use crate::callback::define_c_fn;
use crate::ownership::{Shared, turns::Turns};
use crate::priority::Priority;
use crate::scheduling::table::block::BlockRef;
use crate::scheduling::waiter::Waiter;
use crate::scheduling::workers::context;

/// The type of the function that receives the effective level of the coroutine that waits.
///
/// It is called when the wait begins, and whenever the level is another one. It runs under the
/// scheduler lock, in the middle of the operation that changed the level. So it must not call back
/// into the executor (see [`PriorityListener::new`]).
pub type Changed<T = ()> = fn(&PriorityListener<T>, Priority);

/// The live level of a coroutine of a [`SharedExecutor`](crate::SharedExecutor) that waits for
/// something outside.
///
/// It is like [`corank::PriorityListener`](crate::PriorityListener), but `Send`, for a coroutine
/// that any worker may poll. It wakes no coroutine: what is outside keeps a waker for that.
///
/// It lives inside the future that waits, pinned. Dropping it ends the wait. Each call holds the
/// scheduler lock for a few instructions.
#[repr(C)]
pub struct PriorityListener<T = ()> {
    /// First, so that a pointer to it is one to the listener.
    waiter: Waiter,
    changed: Changed<T>,
    owner: Shared,
    data: T,
}

// SAFETY: the waiter is touched under the scheduler lock of its owner alone; what else it has is
// `Send`. While it waits, other threads have references to it as well: `T` is `Sync`, see
// `with_data`.
unsafe impl<T: Send> Send for PriorityListener<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for PriorityListener<T> {}

impl PriorityListener {
    /// Creates a listener that follows no coroutine yet.
    ///
    /// `owner` is the executor of the coroutines that wait, mostly [`Shared::here`].
    ///
    /// # Safety
    /// `changed` calls nothing of this crate, and waits for nothing that might. It runs under the
    /// scheduler lock, while the lists of waiters are being read. So it must not wake or cancel a
    /// coroutine, drop a future or end a wait. Entering a kernel, sending a message, and noting the
    /// level under a lock that is never held during a call of this crate are all right.
    #[must_use]
    pub unsafe fn new(owner: Shared, changed: Changed) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::with_data(owner, (), changed) }
    }
}

impl<T: Sync> PriorityListener<T> {
    /// Creates a listener as [`new`](PriorityListener::new), with the data that `changed` needs.
    ///
    /// `changed` is called by whichever thread changes the level.
    ///
    /// # Safety
    /// As for [`new`](PriorityListener::new).
    #[must_use]
    pub unsafe fn with_data(owner: Shared, data: T, changed: Changed<T>) -> Self {
        Self {
            waiter: Waiter::of_listener(Some(tell::<T>)),
            changed,
            owner,
            data,
        }
    }
}

impl<T> PriorityListener<T> {
    /// Returns what it was made with.
    pub const fn data(&self) -> &T {
        &self.data
    }

    /// Makes the coroutine that runs here wait from now on, and passes its level to `changed`.
    ///
    /// To be called in each poll that ends pending, because another coroutine may poll each time.
    /// Code that is no coroutine of the executor counts as [`Priority::DEFAULT`].
    pub fn wait(self: Pin<&Self>) {
        let own = NonNull::from(self.owner.get());
        let lender = context::current().filter(|lender| lender.scheduler() == own);
        self.owner.hold(|| self.wait_held(lender));
    }

    fn wait_held(self: Pin<&Self>, lender: Option<BlockRef>) {
        self.owner.assert_held();
        // SAFETY: pinned with the listener, which it is part of.
        let waiter = unsafe { self.map_unchecked(|listener| &listener.waiter) };
        // The pointer by which the engine finds the whole listener.
        waiter.wait_as(NonNull::from(self.get_ref()).cast(), lender, None);
        (self.changed)(self.get_ref(), waiter.level());
    }

    fn end_held(&self) {
        self.owner.assert_held();
        let waker = self.waiter.end_held();
        debug_assert!(waker.is_none(), "it keeps none");
    }
}

impl<T> Drop for PriorityListener<T> {
    fn drop(&mut self) {
        self.owner.hold(|| self.end_held());
    }
}

define_c_fn! {
/// Passes a level to the listener, for the engine: see [`Tell`](crate::scheduling::waiter::Tell).
///
/// # Safety
/// The waiter is part of a shared listener with this data, and the pointer was made of a reference
/// to the whole listener.
fn tell[T](waiter: NonNull<Waiter>, level: Priority) {
    // SAFETY: the caller's promise; the waiter comes first.
    let listener: &PriorityListener<T> = unsafe { waiter.cast().as_ref() };
    (listener.changed)(listener, level);
}
}

impl<T> fmt::Debug for PriorityListener<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PriorityListener").finish_non_exhaustive()
    }
}
