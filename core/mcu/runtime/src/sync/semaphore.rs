//! A counting semaphore (rules N5, N6).

use core::pin::Pin;
use core::task::{Context, Poll};

use super::queue::{Permits, wake};
use crate::critical;
use crate::waiter::Waiter;

/// A number of permits. It may stand in a `static`, and an interrupt handler may
/// [`release`](Self::release).
pub struct Semaphore(Permits);

// SAFETY: the state is touched with interrupts masked.
unsafe impl Send for Semaphore {}
// SAFETY: as above.
unsafe impl Sync for Semaphore {}

impl core::fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Semaphore").finish_non_exhaustive()
    }
}

impl Semaphore {
    /// Creates a semaphore with so many permits.
    #[must_use]
    pub const fn new(permits: usize) -> Self {
        Self(Permits::new(permits))
    }

    /// Waits for a permit, which comes back when it is dropped.
    pub fn acquire(&self) -> Acquire<'_> {
        Acquire {
            semaphore: self,
            waiter: Waiter::new(),
        }
    }

    /// Returns a permit if one is free.
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        critical(|| self.0.take()).then_some(Permit(self))
    }

    /// Adds a permit, or gives it to the most urgent waiter. From any context.
    pub fn release(&self) {
        wake(critical(|| self.0.give(usize::MAX)));
    }

    /// Returns how many permits are free.
    #[must_use]
    pub fn available(&self) -> usize {
        critical(|| self.0.free())
    }
}

/// A permit of a [`Semaphore`].
#[derive(Debug)]
#[must_use = "a permit that is dropped is free again at once"]
pub struct Permit<'a>(&'a Semaphore);

impl Permit<'_> {
    /// Keeps the permit for ever.
    pub fn forget(self) {
        core::mem::forget(self);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// Future of [`Semaphore::acquire`].
#[must_use = "a future does nothing unless awaited"]
pub struct Acquire<'a> {
    semaphore: &'a Semaphore,
    waiter: Waiter,
}

// SAFETY: the waiter is touched with interrupts masked once others know it.
unsafe impl Send for Acquire<'_> {}

impl core::fmt::Debug for Acquire<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Acquire").finish_non_exhaustive()
    }
}

impl<'a> Future for Acquire<'a> {
    type Output = Permit<'a>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Permit<'a>> {
        let semaphore = self.semaphore;
        semaphore.0.poll(&self.waiter, cx, || Permit(semaphore))
    }
}

impl Drop for Acquire<'_> {
    fn drop(&mut self) {
        self.semaphore.0.leave(&self.waiter, usize::MAX);
    }
}
