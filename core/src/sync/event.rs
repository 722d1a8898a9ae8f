//! An event: it has happened, or not yet (rules N7, N8).

use core::cell::Cell;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};

#[cfg(feature = "alloc")]
use crate::place::Shared;
use crate::place::{OneThread, Place};
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
pub struct Event<P: Place = OneThread> {
    place: P,
    set: Cell<bool>,
    waiting: Queue<P>,
}

// SAFETY: what it is made of is touched in the place's turns only.
#[cfg(feature = "alloc")]
unsafe impl Send for Event<Shared> {}
// SAFETY: as above.
#[cfg(feature = "alloc")]
unsafe impl Sync for Event<Shared> {}

impl Event {
    /// An event that is not set, for one thread.
    #[must_use]
    pub const fn new() -> Self {
        Self::at(OneThread::HERE)
    }
}

#[cfg(feature = "alloc")]
impl Event<Shared> {
    /// An event that is not set, for the coroutines of a [`SharedExecutor`](crate::SharedExecutor).
    #[must_use]
    pub fn new_in(place: impl Into<Shared>) -> Self {
        Self::at(place.into())
    }
}

impl<P: Place> Event<P> {
    const fn at(place: P) -> Self {
        Self {
            place,
            set: Cell::new(false),
            waiting: Queue::new(),
        }
    }

    /// Lets through everybody who waits, and everybody who comes until [`reset`](Self::reset).
    /// O(waiters).
    pub fn set(&self) {
        self.place.hold(|| {
            self.state().0.set(true);
            self.let_through();
        });
    }

    /// From now on one has to wait again. Who waited when the event was set goes through
    /// nevertheless.
    pub fn reset(&self) {
        self.place.hold(|| {
            // Whoever sets it may not be done with those who waited, and must not find those who
            // come from now on.
            self.let_through();
            self.state().0.set(false);
        });
    }

    /// In the place's turn: whether it is set, and who waits.
    fn state(&self) -> (&Cell<bool>, &Queue<P>) {
        self.place.assert_held();
        (&self.set, &self.waiting)
    }

    /// Nobody waits while the event is set, unless someone is here to let them through: who is let
    /// through may be woken by code of anyone's, and others come in between.
    fn let_through(&self) {
        // In order of arrival; the ready queues sort them by level.
        while self.state().0.get()
            && let Some(entry) = self.state().1.take_first()
        {
            entry.finish(Standing::Granted).wake(self.place.scheduler());
        }
    }

    /// Whether the event is set.
    pub fn is_set(&self) -> bool {
        self.place.hold(|| self.state().0.get())
    }

    /// Waits until the event is set.
    pub fn wait(&self) -> EventWait<'_, P> {
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

impl<P: Place> fmt::Debug for Event<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("set", &self.is_set())
            .finish_non_exhaustive()
    }
}

/// Future of [`Event::wait`].
#[must_use = "a future does nothing unless awaited"]
pub struct EventWait<'a, P: Place = OneThread> {
    event: &'a Event<P>,
    entry: Entry<P>,
}

impl<P: Place> Future for EventWait<'_, P> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.as_ref().get_ref();
        // SAFETY: the entry is part of the pinned future.
        let entry = unsafe { Pin::new_unchecked(&this.entry) };
        let event = this.event;
        event.place.hold(|| {
            loop {
                match entry.standing() {
                    Standing::Granted | Standing::Refused => {
                        entry.settle(&event.place);
                        return Poll::Ready(());
                    }
                    Standing::Out if event.state().0.get() => return Poll::Ready(()),
                    // SAFETY: `drop` removes it.
                    Standing::Out => unsafe { event.state().1.push(entry) },
                    Standing::Queued => {}
                }
                if entry.wait(&event.place, cx, || None) {
                    return Poll::Pending;
                }
            }
        })
    }
}

impl<P: Place> Drop for EventWait<'_, P> {
    fn drop(&mut self) {
        let (event, entry) = (self.event, &self.entry);
        if entry.is_known() {
            event.place.hold(|| {
                if entry.standing() == Standing::Queued {
                    event.state().1.remove(entry);
                }
                entry.settle(&event.place);
            });
        }
    }
}

impl<P: Place> fmt::Debug for EventWait<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventWait").finish_non_exhaustive()
    }
}
