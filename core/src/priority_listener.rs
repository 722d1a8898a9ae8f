//! Priority inheritance for what is outside the executor (rule I9): a system call, a device, a
//! peer.

use core::fmt;
use core::pin::Pin;
use core::ptr::NonNull;
use core::task::Context;

use crate::callback::define_c_fn;
use crate::executor::current;
use crate::priority::Priority;
use crate::scheduling::table::block::State;
use crate::scheduling::table::id::CoroutineId;
use crate::scheduling::waiter::{Waiter, Wants};
use crate::scheduling::workers::context;

#[cfg(feature = "alloc")]
pub(crate) mod shared;

/// A callback for a new effective level of the coroutine that waits.
///
/// It is called in the middle of the operation that changed the level, so it must not call back
/// into the executor (see [`PriorityListener::new`]).
pub type Changed<T = ()> = fn(&PriorityListener<T>, Priority);

/// One coroutine's wait for something outside its executor: the coroutine to wake when that is
/// done, and how urgent the wait is *now*.
///
/// A coroutine donates its level to another one that it awaits or whose lock it wants. A listener
/// is the same edge, with the outside in place of the borrower. The coroutine's effective level
/// changes by re-prioritisation, or because a more urgent waiter began to wait for it. `changed` is
/// called at the same moment, and what works outside can follow.
///
/// It lives inside the future that waits, pinned with it, and belongs to the executor's thread.
/// Dropping it ends the wait. It costs a few stores to begin and to end a wait, no allocation and
/// no reference count; nothing where it is not used.
///
/// It follows coroutines of one thread. A coroutine that several workers may poll waits here like
/// code outside a coroutine. For such coroutines there is
/// [`workers::PriorityListener`](crate::workers::PriorityListener).
#[repr(C)]
pub struct PriorityListener<T = ()> {
    /// The first field, so that a pointer to it is one to the listener.
    waiter: Waiter,
    changed: Changed<T>,
    data: T,
}

impl PriorityListener {
    /// Makes a listener that follows no coroutine yet.
    ///
    /// # Safety
    /// `changed` calls nothing of this crate. It runs while the lists of waiters are being read,
    /// and so it must not wake or cancel a coroutine, drop a future or end a wait. Entering a
    /// kernel, sending a message and noting the level are all right.
    #[must_use]
    pub const unsafe fn new(changed: Changed) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::with_data((), changed) }
    }
}

impl<T> PriorityListener<T> {
    /// Makes a listener as [`new`](PriorityListener::new) does, with data for `changed`.
    ///
    /// # Safety
    /// As for [`new`](PriorityListener::new).
    #[must_use]
    pub const unsafe fn with_data(data: T, changed: Changed<T>) -> Self {
        Self {
            waiter: Waiter::of_listener(Some(tell::<T>)),
            changed,
            data,
        }
    }

    /// Returns the data that it was made with.
    pub const fn data(&self) -> &T {
        &self.data
    }

    /// Begins the wait of the coroutine, or of the other code, that polls.
    ///
    /// Call this in each poll that ends pending, because the waker may be another one each time.
    pub fn wait(self: Pin<&Self>, cx: &Context<'_>) {
        let (this, waiter) = self.waiter();
        let lender = context::current_of_one_thread();
        waiter.wait_at(this, cx, None, lender, || Wants::Something);
    }

    /// Begins the wait of the coroutine `id` of the executor that runs here, from wherever it is
    /// polled.
    ///
    /// Returns false if it has exited, or if several workers may poll it; then no coroutine waits.
    pub fn wait_as(self: Pin<&Self>, id: CoroutineId) -> bool {
        let one_thread = context::here().filter(|scheduler| !scheduler.is_shared());
        let lender = one_thread.and_then(|_| current::on(id, |_, block| block));
        let lender = lender.filter(|block| block.state.get() != State::Exited);
        let (this, waiter) = self.waiter();
        waiter.wait_as(this, lender, None);
        lender.is_some()
    }

    /// Returns the live level of the waiting coroutine; [`Priority::DEFAULT`] for what is no
    /// coroutine.
    #[must_use]
    pub fn level(&self) -> Priority {
        self.waiter.level()
    }

    /// Wakes what waits here.
    ///
    /// Call it on the executor's thread, from code that runs in it (see
    /// [`Executor::within`](crate::Executor::within)). Call it last: the waker may run any code,
    /// which may drop the listener.
    pub fn wake(&self) {
        self.waiter.take_wakeup().wake(None);
    }

    /// Ends the wait: nothing waits here any more.
    pub fn end(&self) {
        self.waiter.end();
    }

    /// Returns the waiter, and the pointer by which the engine finds the whole listener.
    fn waiter(self: Pin<&Self>) -> (NonNull<Waiter>, Pin<&Waiter>) {
        let this = NonNull::from(self.get_ref()).cast();
        // SAFETY: pinned with the listener, which it is part of.
        let waiter = unsafe { self.map_unchecked(|listener| &listener.waiter) };
        (this, waiter)
    }
}

define_c_fn! {
/// Calls `changed`; the engine calls this through [`Tell`](crate::scheduling::waiter::Tell).
///
/// # Safety
/// The waiter is part of a listener with this data, and the pointer was made of a reference to the
/// whole listener.
fn tell[T](waiter: NonNull<Waiter>, level: Priority) {
    // SAFETY: the caller's promise; the waiter comes first.
    let listener: &PriorityListener<T> = unsafe { waiter.cast().as_ref() };
    (listener.changed)(listener, level);
}
}

impl<T: fmt::Debug> fmt::Debug for PriorityListener<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PriorityListener")
            .field("level", &self.level())
            .field("data", &self.data)
            .finish_non_exhaustive()
    }
}
