//! A counting semaphore (rules N5, N6).

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};

use crate::sync::permits::Permits;
use crate::sync::queue::Entry;

/// A number of permits, handed out to the most urgent first.
///
/// A permit has no holder, so who waits for one lends its urgency to nobody (rule I5); use a [`Mutex`](crate::sync::Mutex)
/// where that matters.
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
pub struct Semaphore {
    permits: Permits,
}

impl Semaphore {
    /// A semaphore with this many free permits.
    #[must_use]
    pub const fn new(permits: usize) -> Self {
        Self {
            permits: Permits::new(permits),
        }
    }

    /// Waits for a permit. O(1), and O(waiters) for whoever gives one.
    pub fn acquire(&self) -> Acquire<'_> {
        Acquire {
            semaphore: self,
            entry: Entry::new(),
        }
    }

    /// A permit if one is free, which means that nobody waits either.
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        self.permits.take().then(|| Permit { semaphore: self })
    }

    /// Adds a permit, whoever has it: the V of Dijkstra. Stays at `usize::MAX`.
    pub fn release(&self) {
        self.permits.release();
    }

    /// How many permits are free.
    pub fn free(&self) -> usize {
        self.permits.free()
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("free", &self.free())
            .finish_non_exhaustive()
    }
}

/// A permit of a [`Semaphore`]; dropping it gives it back.
#[must_use = "a permit that is dropped is given back at once"]
#[derive(Debug)]
pub struct Permit<'a> {
    semaphore: &'a Semaphore,
}

impl Permit<'_> {
    /// Uses the permit up: it does not come back. With [`Semaphore::release`], one side counts what the other side makes.
    pub fn forget(self) {
        core::mem::forget(self);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.semaphore.release();
    }
}

/// Future of [`Semaphore::acquire`].
#[must_use = "a future does nothing unless awaited"]
pub struct Acquire<'a> {
    semaphore: &'a Semaphore,
    entry: Entry,
}

impl<'a> Future for Acquire<'a> {
    type Output = Permit<'a>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Permit<'a>> {
        let this = self.as_ref().get_ref();
        // SAFETY: the entry is part of the pinned future, whose `drop` lets it leave.
        let permit = unsafe {
            let entry = Pin::new_unchecked(&this.entry);
            this.semaphore.permits.poll(entry, cx)
        };
        // Nobody closes a semaphore.
        permit.map(|_| Permit {
            semaphore: this.semaphore,
        })
    }
}

impl Drop for Acquire<'_> {
    fn drop(&mut self) {
        self.semaphore.permits.leave(&self.entry, usize::MAX).wake();
    }
}

impl fmt::Debug for Acquire<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire").finish_non_exhaustive()
    }
}
