//! Where the waiter of a join handle is: in the handle, or in memory of its own.
//!
//! A waiter must not move while it waits. In the handle it makes the handle not `Unpin`. In memory
//! of its own, which the coroutine's executor keeps for the next handle, the handle moves freely.
//! The memory is there from the spawn on, so a join never lacks it.

#[cfg(all(feature = "alloc", not(feature = "image")))]
use core::alloc::Layout;
use core::mem::ManuallyDrop;
#[cfg(all(feature = "alloc", not(feature = "image")))]
use core::ptr::NonNull;

use crate::scheduling::config::SpawnError;
use crate::scheduling::scheduler::Scheduler;
use crate::scheduling::waiter::Waiter;

/// The place of a handle's waiter. Each method but [`get`](Self::get) is called by the owner.
#[allow(unreachable_pub, reason = "part of a sealed public trait")]
#[allow(private_interfaces, reason = "no code outside can call it")]
pub trait JoinWaiter: Sized {
    /// The memory for a waiter, if it has memory of its own.
    type Room;

    /// Reserves the memory for a waiter.
    fn reserve(scheduler: &Scheduler) -> Result<Self::Room, SpawnError>;

    /// Gives reserved memory back to the allocator, because there is no coroutine to wait for.
    ///
    /// # Safety
    /// It came from [`reserve`](Self::reserve) of the same scheduler.
    unsafe fn discard(room: Self::Room, scheduler: &Scheduler);

    /// Makes a waiter that does not wait.
    fn new(room: Self::Room) -> Self;

    /// Returns the waiter, which stays where it is while its handle is pinned.
    fn get(&self) -> &Waiter;

    /// Gives its memory back, for the next handle.
    ///
    /// # Safety
    /// Its wait has ended, and neither this nor the waiter is used again.
    unsafe fn release(&self, scheduler: &Scheduler);
}

/// A waiter in its handle. Its wait is ended by the handle.
#[allow(unreachable_pub, reason = "part of a sealed public trait")]
pub struct InHandle(ManuallyDrop<Waiter>);

#[allow(private_interfaces, reason = "as in the trait")]
impl JoinWaiter for InHandle {
    type Room = ();

    #[inline(always)]
    fn reserve(_: &Scheduler) -> Result<(), SpawnError> {
        Ok(())
    }

    unsafe fn discard((): (), _: &Scheduler) {}

    #[inline(always)]
    fn new((): ()) -> Self {
        Self(ManuallyDrop::new(Waiter::new()))
    }

    #[inline]
    fn get(&self) -> &Waiter {
        &self.0
    }

    #[inline]
    unsafe fn release(&self, _: &Scheduler) {}
}

/// A waiter in memory of its own.
#[cfg(all(feature = "alloc", not(feature = "image")))]
#[allow(unreachable_pub, reason = "part of a sealed public trait")]
pub struct OnHeap(NonNull<Waiter>);

#[cfg(all(feature = "alloc", not(feature = "image")))]
const LAYOUT: Layout = Layout::new::<Waiter>();

#[cfg(all(feature = "alloc", not(feature = "image")))]
#[allow(private_interfaces, reason = "as in the trait")]
impl JoinWaiter for OnHeap {
    type Room = NonNull<u8>;

    #[inline]
    fn reserve(scheduler: &Scheduler) -> Result<NonNull<u8>, SpawnError> {
        // A shared scheduler's storage is on the heap, and needs no index.
        let memory = scheduler.storage().allocate(LAYOUT, 0)?;
        NonNull::new(memory).ok_or(SpawnError::OutOfMemory)
    }

    #[cold]
    unsafe fn discard(room: NonNull<u8>, scheduler: &Scheduler) {
        // SAFETY: the caller's promise; `reserve` allocated it with this layout.
        unsafe { scheduler.storage().discard(room.as_ptr(), LAYOUT) }
    }

    #[inline]
    fn new(room: NonNull<u8>) -> Self {
        let waiter = room.cast();
        // SAFETY: the memory was allocated for just that.
        unsafe { waiter.write(Waiter::new()) };
        Self(waiter)
    }

    #[inline]
    fn get(&self) -> &Waiter {
        // SAFETY: the memory is this handle's until `release`, and nothing has a `&mut` to it.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    unsafe fn release(&self, scheduler: &Scheduler) {
        // SAFETY: the caller's promise; `reserve` allocated it with this layout. The waiter has
        // ended its wait, so nothing is left of it to drop.
        unsafe { scheduler.storage().free(self.0.as_ptr().cast(), LAYOUT) }
    }
}
