//! The waiters of a primitive, in order of arrival, and permits (rules N1 to N4).
//!
//! Every method requires masked interrupts, unless it says otherwise.

use core::cell::Cell;
use core::ptr;
use core::task::{Context, Poll, Waker};

use crate::critical;
use crate::scheduler::current_task;
use crate::task::Header;
use crate::waiter::{WaitState, Waiter};

/// A list through the waiters. It may be moved: no waiter points to it.
pub(crate) struct Queue(Cell<*const Waiter>);

impl Queue {
    pub(crate) const fn new() -> Self {
        Self(Cell::new(ptr::null()))
    }

    pub(crate) fn waiters(&self) -> impl Iterator<Item = &Waiter> {
        let mut next = self.0.get();
        core::iter::from_fn(move || {
            // SAFETY: waiters are pinned, and removed before they are dropped.
            let waiter = unsafe { next.as_ref() }?;
            next = waiter.next.get();
            Some(waiter)
        })
    }

    /// Adds a waiter, which is pinned and is removed before it is dropped, unless it was taken.
    pub(crate) fn push(&self, waiter: &Waiter) {
        let last = self.waiters().last();
        last.map_or(&self.0, |last| &last.next).set(waiter);
        waiter.next.set(ptr::null());
        waiter.state.set(WaitState::Queued);
    }

    pub(crate) fn remove(&self, waiter: &Waiter) {
        let before = self
            .waiters()
            .find(|other| ptr::eq(other.next.get(), waiter));
        before
            .map_or(&self.0, |before| &before.next)
            .set(waiter.next.get());
        waiter.state.set(WaitState::Out);
    }

    /// Takes the waiter with the most urgent level now, the first among equals.
    ///
    /// O(number of waiters).
    pub(crate) fn take_most_urgent(&self) -> Option<&Waiter> {
        let waiter = self.waiters().min_by_key(|waiter| waiter.level())?;
        self.remove(waiter);
        Some(waiter)
    }
}

/// Lets the running task wait, without an end in sight or for `borrower`.
pub(crate) fn wait(
    waiter: &Waiter,
    waker: Waker,
    borrower: Option<&'static Header>,
) -> Option<Waker> {
    let lender = current_task();
    // A task that waits for itself, in another branch of a `join!`, donates nothing.
    let borrower = borrower.filter(|&borrower| lender.is_none_or(|task| !ptr::eq(task, borrower)));
    waiter.wait(waker, lender, borrower)
}

/// A number of free permits, or the waiters for one. Permits are free only while nothing waits.
pub(crate) struct Permits {
    free: Cell<usize>,
    waiting: Queue,
}

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
        self.waiting.waiters().next().is_some()
    }

    /// Takes a permit if one is free.
    pub(crate) fn take(&self) -> bool {
        let left = self.free.get().checked_sub(1);
        left.map(|left| self.free.set(left)).is_some()
    }

    /// Gives a permit to the most urgent waiter, whose waker is returned, to be woken without
    /// masking, or adds it to the free ones, of which at most `most` are kept.
    #[must_use]
    pub(crate) fn give(&self, most: usize) -> Option<Waker> {
        let Some(waiter) = self.waiting.take_most_urgent() else {
            self.free.set(self.free.get().saturating_add(1).min(most));
            return None;
        };
        waiter.state.set(WaitState::Granted);
        waiter.take_waker()
    }

    /// Takes a permit for the future that `waiter` is part of, or lets that future wait. `taken` is
    /// called in the same step. Without masked interrupts.
    ///
    /// The waiter is pinned, and the future calls [`leave`](Self::leave) when it is dropped.
    pub(crate) fn poll<R>(
        &self,
        waiter: &Waiter,
        cx: &Context<'_>,
        taken: impl FnOnce() -> R,
    ) -> Poll<R> {
        let waker = cx.waker().clone();
        let (polled, _former) = critical(|| {
            match waiter.state.get() {
                WaitState::Granted => waiter.end(),
                WaitState::Out if self.take() => {}
                state => {
                    if state == WaitState::Out {
                        self.waiting.push(waiter);
                    }
                    return (Poll::Pending, wait(waiter, waker, None));
                }
            }
            (Poll::Ready(taken()), waiter.take_waker())
        });
        polled
    }

    /// Ends the wait of a future that is dropped; a permit that it was given and has not used goes
    /// on (rule N3). Without masked interrupts.
    pub(crate) fn leave(&self, waiter: &Waiter, most: usize) {
        if waiter.state.get() == WaitState::Out {
            return;
        }
        let (_former, woken) = critical(|| {
            let granted = waiter.state.get() == WaitState::Granted;
            if !granted {
                self.waiting.remove(waiter);
            }
            waiter.end();
            let woken = if granted { self.give(most) } else { None };
            (waiter.take_waker(), woken)
        });
        wake(woken);
    }
}

/// Wakes what was waiting, if anything was. Without masked interrupts.
pub(crate) fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
