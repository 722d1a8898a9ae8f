//! Urgency on loan to what is outside the executor (rule I9): a system call, a device, a peer.

use core::fmt;
use core::pin::Pin;
use core::ptr::NonNull;
use core::task::Context;

use crate::block::State;
use crate::call::define_c_fn;
use crate::context;
use crate::here;
use crate::id::CoroutineId;
use crate::priority::Priority;
use crate::waiter::{Waiter, Wants};

#[cfg(feature = "alloc")]
pub(crate) mod shared;

/// Told that the effective level of the coroutine that waits is another one now. Called in the
/// middle of whatever changed it, so it must not call back into the executor (see
/// [`Follower::new`]).
pub type Changed<T = ()> = fn(&Follower<T>, Priority);

/// One coroutine's wait for something outside its executor: whom to wake when that is done, and how
/// urgent the wait is *now*.
///
/// It is the same edge by which a coroutine lends its level to another one that it awaits or whose
/// lock it wants, with the outside in place of the borrower: whenever the coroutine's effective
/// level changes, by re-prioritisation or because somebody more urgent began to wait for it,
/// `changed` learns of it at the same moment, and what works outside can follow.
///
/// It lives inside the future that waits, pinned with it, and belongs to the executor's thread.
/// Dropping it ends the wait. Costs a few stores to begin and to end a wait, no allocation and no
/// reference count; nothing where it is not used.
///
/// It follows coroutines of one thread. One that several workers may poll waits here like code that
/// is no coroutine; for those there is [`workers::Follower`](crate::workers::Follower).
#[repr(C)]
pub struct Follower<T = ()> {
    /// First, so that a pointer to it is one to the follower.
    waiter: Waiter,
    changed: Changed<T>,
    data: T,
}

impl Follower {
    /// Follows no coroutine yet.
    ///
    /// # Safety
    /// `changed` calls nothing of this crate: it runs while the lists of who waits for whom are
    /// being read, and so it must not wake or cancel anybody, drop a future or end a wait. Entering
    /// a kernel, sending a message and noting the level are all right.
    #[must_use]
    pub const unsafe fn new(changed: Changed) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::with_data((), changed) }
    }
}

impl<T> Follower<T> {
    /// As [`new`](Follower::new), with what `changed` needs to know.
    ///
    /// # Safety
    /// As for [`new`](Follower::new).
    #[must_use]
    pub const unsafe fn with_data(data: T, changed: Changed<T>) -> Self {
        Self {
            waiter: Waiter::of_follower(Some(tell::<T>)),
            changed,
            data,
        }
    }

    /// Returns what it was made with.
    pub const fn data(&self) -> &T {
        &self.data
    }

    /// Whoever polls waits from now on. To be called in each poll that ends pending: the waker may
    /// be another one each time.
    pub fn wait(self: Pin<&Self>, cx: &Context<'_>) {
        let (this, waiter) = self.waiter();
        let lender = context::current_of_one_thread();
        waiter.wait_at(this, cx, None, lender, || Wants::Something);
    }

    /// The coroutine `id` of the executor that runs here waits from now on, from wherever it is
    /// polled. False if it has exited, or if several workers may poll it; then no coroutine waits.
    pub fn wait_as(self: Pin<&Self>, id: CoroutineId) -> bool {
        let one_thread = context::here().filter(|scheduler| !scheduler.is_shared());
        let lender = one_thread.and_then(|_| here::on(id, |_, block| block));
        let lender = lender.filter(|block| block.state.get() != State::Exited);
        let (this, waiter) = self.waiter();
        waiter.wait_as(this, lender, None);
        lender.is_some()
    }

    /// The live level of whoever waits; [`Priority::DEFAULT`] for what is no coroutine.
    #[must_use]
    pub fn level(&self) -> Priority {
        self.waiter.level()
    }

    /// Wakes whoever waits. Call it on the executor's thread, from code that runs in it (see
    /// [`Executor::within`](crate::Executor::within)), and last: the waker may run anyone's code,
    /// which may drop the follower.
    pub fn wake(&self) {
        self.waiter.take_wakeup().wake(None);
    }

    /// Nobody waits any more.
    pub fn end(&self) {
        self.waiter.end();
    }

    /// The waiter, and the pointer by which the engine finds the whole follower.
    fn waiter(self: Pin<&Self>) -> (NonNull<Waiter>, Pin<&Waiter>) {
        let this = NonNull::from(self.get_ref()).cast();
        // SAFETY: pinned with the follower, which it is part of.
        let waiter = unsafe { self.map_unchecked(|follower| &follower.waiter) };
        (this, waiter)
    }
}

define_c_fn! {
/// What the engine calls: see [`Tell`](crate::waiter::Tell).
///
/// # Safety
/// The waiter is part of a follower with this data, and the pointer was made of a reference to the
/// whole follower.
fn tell[T](waiter: NonNull<Waiter>, level: Priority) {
    // SAFETY: the caller's promise; the waiter comes first.
    let follower: &Follower<T> = unsafe { waiter.cast().as_ref() };
    (follower.changed)(follower, level);
}
}

impl<T: fmt::Debug> fmt::Debug for Follower<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower")
            .field("level", &self.level())
            .field("data", &self.data)
            .finish_non_exhaustive()
    }
}
