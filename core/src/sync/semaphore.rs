//! A counting semaphore (rules N5, N6).

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};

#[cfg(feature = "alloc")]
use crate::ownership::Shared;
use crate::ownership::{Local, Ownership};
use crate::sync::permits::Permits;
use crate::sync::queue::Entry;

/// A number of permits, handed out to the most urgent first.
///
/// A permit has no holder, so a waiter for one donates its urgency to no coroutine (rule I5). Use a
/// [`Mutex`](crate::sync::Mutex) where that matters.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use corank::{Priority, coroutine_run, sync::Semaphore};
///
/// coroutine_run(async {
///     let connections = Semaphore::new(2);
///     let first = connections.acquire().await;
///     let second = connections.try_acquire().unwrap();
///     assert!(connections.try_acquire().is_none());
///     drop(first);
///     let third = connections.acquire().await;
/// }, Priority::DEFAULT).unwrap();
/// # }
/// ```
pub struct Semaphore<O: Ownership = Local> {
    owner: O,
    permits: Permits<O>,
}

// SAFETY: the permits are touched in the owner's turns only.
#[cfg(feature = "alloc")]
unsafe impl Send for Semaphore<Shared> {}
// SAFETY: as above.
#[cfg(feature = "alloc")]
unsafe impl Sync for Semaphore<Shared> {}

impl Semaphore {
    /// Creates a semaphore with this many free permits, for one thread.
    #[must_use]
    pub const fn new(permits: usize) -> Self {
        Self {
            owner: Local::HERE,
            permits: Permits::new(permits),
        }
    }
}

#[cfg(feature = "alloc")]
impl Semaphore<Shared> {
    /// Creates a semaphore with this many free permits, for the coroutines of a
    /// [`SharedExecutor`](crate::SharedExecutor).
    #[must_use]
    pub fn new_in(owner: impl Into<Shared>, permits: usize) -> Self {
        Self {
            owner: owner.into(),
            permits: Permits::new(permits),
        }
    }
}

impl<O: Ownership> Semaphore<O> {
    /// Waits for a permit.
    ///
    /// Costs O(1). Giving a permit costs O(waiters).
    pub fn acquire(&self) -> Acquire<'_, O> {
        Acquire {
            semaphore: self,
            entry: Entry::new(),
        }
    }

    /// Returns a permit if one is free, which means that nothing waits either.
    pub fn try_acquire(&self) -> Option<Permit<'_, O>> {
        let taken = self.owner.hold(|| self.permits().take());
        taken.then(|| Permit { semaphore: self })
    }

    /// Adds a permit (Dijkstra's V).
    ///
    /// The caller need not have acquired one. The count saturates at `usize::MAX`.
    pub fn release(&self) {
        self.owner.hold(|| self.permits().release(&self.owner));
    }

    /// Returns the permits.
    ///
    /// Requires the owner's turn.
    fn permits(&self) -> &Permits<O> {
        self.owner.assert_held();
        &self.permits
    }

    /// Returns the number of free permits.
    pub fn free(&self) -> usize {
        self.owner.hold(|| self.permits().free())
    }
}

impl<O: Ownership> fmt::Debug for Semaphore<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("free", &self.free())
            .finish_non_exhaustive()
    }
}

/// A permit of a [`Semaphore`].
///
/// Dropping it gives it back.
#[must_use = "a permit that is dropped is given back at once"]
#[derive(Debug)]
pub struct Permit<'a, O: Ownership = Local> {
    semaphore: &'a Semaphore<O>,
}

impl<O: Ownership> Permit<'_, O> {
    /// Uses the permit up, so that it does not come back.
    ///
    /// With [`Semaphore::release`], one side counts what the other side makes.
    pub fn forget(self) {
        core::mem::forget(self);
    }
}

impl<O: Ownership> Drop for Permit<'_, O> {
    fn drop(&mut self) {
        self.semaphore.release();
    }
}

/// Future of [`Semaphore::acquire`].
#[must_use = "a future does nothing unless awaited"]
pub struct Acquire<'a, O: Ownership = Local> {
    semaphore: &'a Semaphore<O>,
    entry: Entry<O>,
}

impl<'a, O: Ownership> Future for Acquire<'a, O> {
    type Output = Permit<'a, O>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Permit<'a, O>> {
        let this = self.as_ref().get_ref();
        // SAFETY: the entry is part of the pinned future, whose `drop` lets it leave.
        let entry = unsafe { Pin::new_unchecked(&this.entry) };
        let semaphore = this.semaphore;
        let owner = &semaphore.owner;
        // SAFETY: as above.
        let permit = owner.hold(|| unsafe { semaphore.permits().poll(owner, entry, cx) });
        // A semaphore is never closed.
        permit.map(|_| Permit { semaphore })
    }
}

impl<O: Ownership> Drop for Acquire<'_, O> {
    fn drop(&mut self) {
        if self.entry.is_known() {
            let semaphore = self.semaphore;
            let owner = &semaphore.owner;
            owner.hold(|| {
                let next = semaphore.permits().leave(owner, &self.entry, usize::MAX);
                next.wake(owner.scheduler());
            });
        }
    }
}

impl<O: Ownership> fmt::Debug for Acquire<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire").finish_non_exhaustive()
    }
}
