//! Permits and their waiters, of which semaphores, channels and keys are made.

use core::cell::Cell;
use core::pin::Pin;
use core::task::{Context, Poll};

use crate::ownership::Ownership;
use crate::scheduling::waiter::Wakeup;
use crate::sync::queue::{Entry, EntryState, Queue};

/// A number of free permits, or the waiters for one.
///
/// Permits are free only while nothing waits. Each method is part of one turn of the owner that
/// they belong to.
pub(crate) struct Permits<O> {
    free: Cell<usize>,
    waiting: Queue<O>,
}

/// The outcome of a wait that [`Permits::refuse`] has ended.
pub(crate) struct Refused;

impl<O: Ownership> Permits<O> {
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

    /// Gives a permit to the most urgent waiter, or adds it to the free ones.
    ///
    /// The caller then wakes that waiter. At most `most` free permits are kept.
    #[must_use]
    pub(crate) fn give(&self, most: usize) -> Wakeup {
        match self.waiting.take_most_urgent() {
            Some(entry) => entry.finish(EntryState::Granted),
            None => {
                self.free.set(self.free.get().saturating_add(1).min(most));
                Wakeup::None
            }
        }
    }

    /// Gives a permit back.
    pub(crate) fn release(&self, owner: &O) {
        self.give(usize::MAX).wake(owner.scheduler());
    }

    /// Ends the wait of every entry that waits now.
    pub(crate) fn refuse(&self, owner: &O) {
        while let Some(entry) = self.waiting.take_first() {
            entry.finish(EntryState::Refused).wake(owner.scheduler());
        }
    }

    /// Takes a permit for the future that `entry` is part of, or lets that future wait.
    ///
    /// # Safety
    /// The future calls [`leave`](Self::leave) when it is dropped.
    pub(crate) unsafe fn poll(
        &self,
        owner: &O,
        entry: Pin<&Entry<O>>,
        cx: &Context<'_>,
    ) -> Poll<Result<(), Refused>> {
        loop {
            match entry.state() {
                EntryState::Granted => {
                    entry.end_wait(owner);
                    return Poll::Ready(Ok(()));
                }
                EntryState::Refused => {
                    entry.end_wait(owner);
                    return Poll::Ready(Err(Refused));
                }
                EntryState::Out if self.free() > 0 => {
                    if !owner.proceed(cx) {
                        return Poll::Pending;
                    }
                    self.take();
                    return Poll::Ready(Ok(()));
                }
                // SAFETY: `leave` removes it; the caller's promise.
                EntryState::Out => unsafe { self.queue(entry) },
                EntryState::Queued => {}
            }
            if entry.wait(owner, cx, || None) {
                return Poll::Pending;
            }
        }
    }

    /// Adds `entry` to the end of the queue, since no permit is free.
    ///
    /// # Safety
    /// As for [`poll`](Self::poll).
    pub(crate) unsafe fn queue(&self, entry: Pin<&Entry<O>>) {
        debug_assert_eq!(self.free(), 0);
        // SAFETY: `leave` removes it; the caller's promise.
        unsafe { self.waiting.push(entry) };
    }

    /// Takes a waiting entry out of the queue.
    pub(crate) fn remove(&self, entry: &Entry<O>) {
        self.waiting.remove(entry);
    }

    /// Ends the wait of a future that is dropped.
    ///
    /// A permit that it was given and has not used goes on to the next waiter, which the caller
    /// wakes.
    #[must_use]
    pub(crate) fn leave(&self, owner: &O, entry: &Entry<O>, most: usize) -> Wakeup {
        owner.assert_held();
        let state = entry.state();
        if state == EntryState::Queued {
            self.remove(entry);
        }
        entry.end_wait(owner);
        match state {
            EntryState::Granted => self.give(most),
            _ => Wakeup::None,
        }
    }
}
