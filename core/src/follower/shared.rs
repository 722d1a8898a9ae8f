//! Urgency on loan from the coroutines of a shared executor to what works for them outside (rule I9).

use core::fmt;
use core::pin::Pin;
use core::ptr::NonNull;

use crate::call::define_c_fn;
use crate::context;
use crate::place::{Shared, turns::Turns};
use crate::priority::Priority;
use crate::waiter::Waiter;

/// Told of the effective level of the coroutine that waits: when its wait begins, and whenever that is another one. Called under the baton, in the
/// middle of whatever changed it, so it must not call back into the executor (see [`Follower::new`]).
pub type Changed = fn(&Follower, Priority);

/// The live level of a coroutine of a [`SharedExecutor`](crate::SharedExecutor) that waits for something outside: as
/// [`corank::Follower`](crate::Follower), but `Send`, for one that any worker may poll. It wakes nobody: what is outside keeps a waker for that.
///
/// It lives inside the future that waits, pinned. Dropping it ends the wait. Each call holds the baton for a few instructions.
#[repr(C)]
pub struct Follower {
    /// First, so that a pointer to it is one to the follower.
    waiter: Waiter,
    changed: Changed,
    place: Shared,
}

// SAFETY: the waiter is touched under the baton of its place alone; what else it has is `Send` and `Sync`.
unsafe impl Send for Follower {}
// SAFETY: as above.
unsafe impl Sync for Follower {}

impl Follower {
    /// Follows nobody yet. `place` is the executor whose coroutines wait: mostly [`Shared::here`].
    ///
    /// # Safety
    /// `changed` calls nothing of this crate, and waits for nobody who might: it runs under the baton, while the lists of who waits for whom are being
    /// read. So it must not wake or cancel anybody, drop a future or end a wait. Entering a kernel, sending a message, and noting the level under a lock that
    /// nobody holds while he calls this crate are all right.
    #[must_use]
    pub unsafe fn new(place: Shared, changed: Changed) -> Self {
        Self {
            waiter: Waiter::of_follower(Some(tell)),
            changed,
            place,
        }
    }

    /// The coroutine that runs here waits from now on, and its level is told. To be called in each poll that ends pending: another coroutine may poll each
    /// time. What is no coroutine of the executor counts as [`Priority::DEFAULT`].
    pub fn wait(self: Pin<&Self>) {
        let own = NonNull::from(self.place.get());
        let lender = context::current().filter(|lender| lender.scheduler() == own);
        self.place.hold(|| {
            // SAFETY: pinned with the follower, which it is part of.
            let waiter = unsafe { self.map_unchecked(|follower| &follower.waiter) };
            waiter.wait_as(lender, None);
            (self.changed)(self.get_ref(), waiter.level());
        });
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let waker = self.place.hold(|| self.waiter.end_held());
        debug_assert!(waker.is_none(), "it keeps none");
    }
}

define_c_fn! {
/// What the engine calls: see [`Tell`](crate::waiter::Tell).
///
/// # Safety
/// The waiter is part of a shared follower.
fn tell(waiter: NonNull<Waiter>, level: Priority) {
    // SAFETY: the caller's promise; the waiter comes first.
    let follower: &Follower = unsafe { waiter.cast().as_ref() };
    (follower.changed)(follower, level);
}
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower").finish_non_exhaustive()
    }
}
