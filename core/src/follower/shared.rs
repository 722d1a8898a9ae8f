//! Urgency on loan from the coroutines of a shared executor to what works for them outside (rule
//! I9).

use core::fmt;
use core::pin::Pin;
use core::ptr::NonNull;

use crate::block::BlockRef;
use crate::call::define_c_fn;
use crate::context;
use crate::place::{Shared, turns::Turns};
use crate::priority::Priority;
use crate::waiter::Waiter;

/// Told of the effective level of the coroutine that waits: when its wait begins, and whenever that
/// is another one. Called under the scheduler lock, in the middle of the operation that changed it,
/// so it must not call back into the executor (see [`Follower::new`]).
pub type Changed<T = ()> = fn(&Follower<T>, Priority);

/// The live level of a coroutine of a [`SharedExecutor`](crate::SharedExecutor) that waits for
/// something outside: as [`corank::Follower`](crate::Follower), but `Send`, for one that any worker
/// may poll. It wakes nobody: what is outside keeps a waker for that.
///
/// It lives inside the future that waits, pinned. Dropping it ends the wait. Each call holds the
/// scheduler lock for a few instructions.
#[repr(C)]
pub struct Follower<T = ()> {
    /// First, so that a pointer to it is one to the follower.
    waiter: Waiter,
    changed: Changed<T>,
    place: Shared,
    data: T,
}

// SAFETY: the waiter is touched under the scheduler lock of its place alone; what else it has is
// `Send`. While it waits, other threads have references to it as well: `T` is `Sync`, see
// `with_data`.
unsafe impl<T: Send> Send for Follower<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Follower<T> {}

impl Follower {
    /// Follows nobody yet. `place` is the executor whose coroutines wait: mostly [`Shared::here`].
    ///
    /// # Safety
    /// `changed` calls nothing of this crate, and waits for nobody who might: it runs under the
    /// scheduler lock, while the lists of who waits for whom are being read. So it must not wake or
    /// cancel anybody, drop a future or end a wait. Entering a kernel, sending a message, and
    /// noting the level under a lock that is never held during a call of this crate are all right.
    #[must_use]
    pub unsafe fn new(place: Shared, changed: Changed) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::with_data(place, (), changed) }
    }
}

impl<T: Sync> Follower<T> {
    /// As [`new`](Follower::new), with what `changed` needs to know: it is called by whichever
    /// thread changes the level.
    ///
    /// # Safety
    /// As for [`new`](Follower::new).
    #[must_use]
    pub unsafe fn with_data(place: Shared, data: T, changed: Changed<T>) -> Self {
        Self {
            waiter: Waiter::of_follower(Some(tell::<T>)),
            changed,
            place,
            data,
        }
    }
}

impl<T> Follower<T> {
    /// Returns what it was made with.
    pub const fn data(&self) -> &T {
        &self.data
    }

    /// The coroutine that runs here waits from now on, and its level is told. To be called in each
    /// poll that ends pending: another coroutine may poll each time. What is no coroutine of the
    /// executor counts as [`Priority::DEFAULT`].
    pub fn wait(self: Pin<&Self>) {
        let own = NonNull::from(self.place.get());
        let lender = context::current().filter(|lender| lender.scheduler() == own);
        self.place.hold(|| self.wait_held(lender));
    }

    fn wait_held(self: Pin<&Self>, lender: Option<BlockRef>) {
        self.place.assert_held();
        // SAFETY: pinned with the follower, which it is part of.
        let waiter = unsafe { self.map_unchecked(|follower| &follower.waiter) };
        // The pointer by which the engine finds the whole follower.
        waiter.wait_as(NonNull::from(self.get_ref()).cast(), lender, None);
        (self.changed)(self.get_ref(), waiter.level());
    }

    fn end_held(&self) {
        self.place.assert_held();
        let waker = self.waiter.end_held();
        debug_assert!(waker.is_none(), "it keeps none");
    }
}

impl<T> Drop for Follower<T> {
    fn drop(&mut self) {
        self.place.hold(|| self.end_held());
    }
}

define_c_fn! {
/// What the engine calls: see [`Tell`](crate::waiter::Tell).
///
/// # Safety
/// The waiter is part of a shared follower with this data, and the pointer was made of a reference
/// to the whole follower.
fn tell[T](waiter: NonNull<Waiter>, level: Priority) {
    // SAFETY: the caller's promise; the waiter comes first.
    let follower: &Follower<T> = unsafe { waiter.cast().as_ref() };
    (follower.changed)(follower, level);
}
}

impl<T> fmt::Debug for Follower<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower").finish_non_exhaustive()
    }
}
