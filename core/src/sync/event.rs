//! An event: it has happened, or not yet (rules N7, N8).

use core::cell::Cell;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};

use crate::sync::queue::{Entry, Queue, Standing};

/// Lets everybody through once it is set, until it is reset.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use std::rc::Rc;
/// use corank::{Priority, coroutine_run, spawn, sync::Event};
///
/// coroutine_run(async {
///     let ready = Rc::new(Event::new());
///     let theirs = ready.clone();
///     let waiter = spawn(Priority::DEFAULT, async move { theirs.wait().await }).unwrap();
///     ready.set();
///     waiter.await.unwrap();
/// }, Priority::DEFAULT).unwrap();
/// # }
/// ```
pub struct Event {
    set: Cell<bool>,
    waiting: Queue,
}

impl Event {
    /// An event that is not set.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            set: Cell::new(false),
            waiting: Queue::new(),
        }
    }

    /// Lets through everybody who waits, and everybody who comes until [`reset`](Self::reset). O(waiters).
    pub fn set(&self) {
        self.set.set(true);
        // In order of arrival; the ready queues sort them by level.
        while let Some(entry) = self.waiting.take_first() {
            entry.finish(Standing::Granted).wake();
        }
    }

    /// From now on one has to wait again. Who waited when the event was set goes through nevertheless.
    pub fn reset(&self) {
        self.set.set(false);
    }

    /// Whether the event is set.
    pub fn is_set(&self) -> bool {
        self.set.get()
    }

    /// Waits until the event is set.
    pub fn wait(&self) -> EventWait<'_> {
        EventWait {
            event: self,
            entry: Entry::new(),
        }
    }
}

impl Default for Event {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("set", &self.is_set())
            .finish_non_exhaustive()
    }
}

/// Future of [`Event::wait`].
#[must_use = "a future does nothing unless awaited"]
pub struct EventWait<'a> {
    event: &'a Event,
    entry: Entry,
}

impl Future for EventWait<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.as_ref().get_ref();
        let standing = this.entry.standing();
        if standing == Standing::Granted || standing == Standing::Out && this.event.is_set() {
            this.entry.settle();
            return Poll::Ready(());
        }
        // SAFETY: the entry is part of the pinned future.
        let entry = unsafe { Pin::new_unchecked(&this.entry) };
        if standing == Standing::Out {
            // SAFETY: `drop` removes it.
            unsafe { this.event.waiting.push(entry) };
        }
        entry.wait(cx);
        Poll::Pending
    }
}

impl Drop for EventWait<'_> {
    fn drop(&mut self) {
        if self.entry.standing() == Standing::Queued {
            self.event.waiting.remove(&self.entry);
        }
    }
}

impl fmt::Debug for EventWait<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventWait").finish_non_exhaustive()
    }
}
