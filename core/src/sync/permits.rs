//! Permits and those who wait for one: what semaphores, channels and keys are made of.

use core::cell::Cell;
use core::pin::Pin;
use core::task::{Context, Poll};

use crate::sync::queue::{Entry, Queue, Standing};
use crate::waiter::Wakeup;

/// Permits are free only while nobody waits.
pub(crate) struct Permits {
    free: Cell<usize>,
    waiting: Queue,
}

/// Everybody who waits was told to give up.
pub(crate) struct Refused;

impl Permits {
    pub(crate) const fn new(free: usize) -> Self {
        Self {
            free: Cell::new(free),
            waiting: Queue::new(),
        }
    }

    pub(crate) fn free(&self) -> usize {
        self.free.get()
    }

    pub(crate) fn has_waiters(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes a permit if one is free.
    pub(crate) fn take(&self) -> bool {
        let Some(left) = self.free.get().checked_sub(1) else {
            return false;
        };
        self.free.set(left);
        true
    }

    /// Gives a permit to the most urgent waiter, whom the caller then wakes, or adds it to the free ones. At most `most`
    /// are kept.
    #[must_use]
    pub(crate) fn give(&self, most: usize) -> Wakeup {
        match self.waiting.take_most_urgent() {
            Some(entry) => entry.finish(Standing::Granted),
            None => {
                self.free.set(self.free.get().saturating_add(1).min(most));
                Wakeup::Nobody
            }
        }
    }

    /// Gives a permit back.
    pub(crate) fn release(&self) {
        self.give(usize::MAX).wake();
    }

    /// Ends the wait of everybody who waits now.
    pub(crate) fn refuse(&self) {
        while let Some(entry) = self.waiting.take_first() {
            entry.finish(Standing::Refused).wake();
        }
    }

    /// A permit for the future that `entry` is part of.
    ///
    /// # Safety
    /// The future calls [`leave`](Self::leave) when it is dropped.
    pub(crate) unsafe fn poll(
        &self,
        entry: Pin<&Entry>,
        cx: &Context<'_>,
    ) -> Poll<Result<(), Refused>> {
        match entry.standing() {
            Standing::Granted => {
                entry.settle();
                Poll::Ready(Ok(()))
            }
            Standing::Refused => {
                entry.settle();
                Poll::Ready(Err(Refused))
            }
            Standing::Out if self.take() => Poll::Ready(Ok(())),
            Standing::Out => {
                // SAFETY: `leave` removes it; the caller's promise.
                unsafe { self.queue(entry) };
                entry.wait(cx);
                Poll::Pending
            }
            Standing::Queued => {
                entry.wait(cx);
                Poll::Pending
            }
        }
    }

    /// To the end of the queue, since no permit is free.
    ///
    /// # Safety
    /// As for [`poll`](Self::poll).
    pub(crate) unsafe fn queue(&self, entry: Pin<&Entry>) {
        debug_assert_eq!(self.free(), 0);
        // SAFETY: `leave` removes it; the caller's promise.
        unsafe { self.waiting.push(entry) };
    }

    /// The future is dropped. A permit that it was given and has not used goes on to the next; the caller wakes that one.
    #[must_use]
    pub(crate) fn leave(&self, entry: &Entry, most: usize) -> Wakeup {
        match entry.standing() {
            Standing::Queued => self.waiting.remove(entry),
            Standing::Granted => {
                entry.settle();
                return self.give(most);
            }
            Standing::Out | Standing::Refused => {}
        }
        Wakeup::Nobody
    }
}
