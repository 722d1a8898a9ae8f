//! A counting semaphore (rules N5, N6).

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};

#[cfg(feature = "alloc")]
use crate::place::Shared;
use crate::place::{OneThread, Place};
use crate::sync::permits::Permits;
use crate::sync::queue::Entry;

/// A number of permits, handed out to the most urgent first.
///
/// A permit has no holder, so who waits for one lends its urgency to nobody (rule I5); use a
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
pub struct Semaphore<P: Place = OneThread> {
    place: P,
    permits: Permits<P>,
}

// SAFETY: the permits are touched in the place's turns only.
#[cfg(feature = "alloc")]
unsafe impl Send for Semaphore<Shared> {}
// SAFETY: as above.
#[cfg(feature = "alloc")]
unsafe impl Sync for Semaphore<Shared> {}

impl Semaphore {
    /// A semaphore with this many free permits, for one thread.
    #[must_use]
    pub const fn new(permits: usize) -> Self {
        Self {
            place: OneThread::HERE,
            permits: Permits::new(permits),
        }
    }
}

#[cfg(feature = "alloc")]
impl Semaphore<Shared> {
    /// A semaphore with this many free permits, for the coroutines of a
    /// [`SharedExecutor`](crate::SharedExecutor).
    #[must_use]
    pub fn new_in(place: impl Into<Shared>, permits: usize) -> Self {
        Self {
            place: place.into(),
            permits: Permits::new(permits),
        }
    }
}

impl<P: Place> Semaphore<P> {
    /// Waits for a permit. O(1), and O(waiters) for whoever gives one.
    pub fn acquire(&self) -> Acquire<'_, P> {
        Acquire {
            semaphore: self,
            entry: Entry::new(),
        }
    }

    /// A permit if one is free, which means that nobody waits either.
    pub fn try_acquire(&self) -> Option<Permit<'_, P>> {
        let taken = self.place.hold(|| self.permits().take());
        taken.then(|| Permit { semaphore: self })
    }

    /// Adds a permit, whoever has it: the V of Dijkstra. Stays at `usize::MAX`.
    pub fn release(&self) {
        self.place.hold(|| self.permits().release(&self.place));
    }

    /// In the place's turn.
    fn permits(&self) -> &Permits<P> {
        self.place.assert_held();
        &self.permits
    }

    /// How many permits are free.
    pub fn free(&self) -> usize {
        self.place.hold(|| self.permits().free())
    }
}

impl<P: Place> fmt::Debug for Semaphore<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("free", &self.free())
            .finish_non_exhaustive()
    }
}

/// A permit of a [`Semaphore`]; dropping it gives it back.
#[must_use = "a permit that is dropped is given back at once"]
#[derive(Debug)]
pub struct Permit<'a, P: Place = OneThread> {
    semaphore: &'a Semaphore<P>,
}

impl<P: Place> Permit<'_, P> {
    /// Uses the permit up: it does not come back. With [`Semaphore::release`], one side counts what
    /// the other side makes.
    pub fn forget(self) {
        core::mem::forget(self);
    }
}

impl<P: Place> Drop for Permit<'_, P> {
    fn drop(&mut self) {
        self.semaphore.release();
    }
}

/// Future of [`Semaphore::acquire`].
#[must_use = "a future does nothing unless awaited"]
pub struct Acquire<'a, P: Place = OneThread> {
    semaphore: &'a Semaphore<P>,
    entry: Entry<P>,
}

impl<'a, P: Place> Future for Acquire<'a, P> {
    type Output = Permit<'a, P>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Permit<'a, P>> {
        let this = self.as_ref().get_ref();
        // SAFETY: the entry is part of the pinned future, whose `drop` lets it leave.
        let entry = unsafe { Pin::new_unchecked(&this.entry) };
        let semaphore = this.semaphore;
        let place = &semaphore.place;
        // SAFETY: as above.
        let permit = place.hold(|| unsafe { semaphore.permits().poll(place, entry, cx) });
        // Nobody closes a semaphore.
        permit.map(|_| Permit { semaphore })
    }
}

impl<P: Place> Drop for Acquire<'_, P> {
    fn drop(&mut self) {
        if self.entry.is_known() {
            let semaphore = self.semaphore;
            let place = &semaphore.place;
            place.hold(|| {
                let next = semaphore.permits().leave(place, &self.entry, usize::MAX);
                next.wake(place.scheduler());
            });
        }
    }
}

impl<P: Place> fmt::Debug for Acquire<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire").finish_non_exhaustive()
    }
}
