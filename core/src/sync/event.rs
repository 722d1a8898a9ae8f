//! An event: it has happened, or not yet (rules N7, N8).

use core::cell::Cell;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};

#[cfg(feature = "alloc")]
use crate::ownership::Shared;
use crate::ownership::{Local, Ownership};
use crate::sync::queue::{Entry, EntryState, Queue};

/// An event that lets every waiter through once it is set, until it is reset.
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
pub struct Event<O: Ownership = Local> {
    owner: O,
    set: Cell<bool>,
    waiting: Queue<O>,
}

// SAFETY: what it is made of is touched in the owner's turns only.
#[cfg(feature = "alloc")]
unsafe impl Send for Event<Shared> {}
// SAFETY: as above.
#[cfg(feature = "alloc")]
unsafe impl Sync for Event<Shared> {}

impl Event {
    /// Creates an event that is not set, for one thread.
    #[must_use]
    pub const fn new() -> Self {
        Self::at(Local::HERE)
    }
}

#[cfg(feature = "alloc")]
impl Event<Shared> {
    /// Creates an event that is not set, for the coroutines of a
    /// [`SharedExecutor`](crate::SharedExecutor).
    #[must_use]
    pub fn new_in(owner: impl Into<Shared>) -> Self {
        Self::at(owner.into())
    }
}

impl<O: Ownership> Event<O> {
    const fn at(owner: O) -> Self {
        Self {
            owner,
            set: Cell::new(false),
            waiting: Queue::new(),
        }
    }

    /// Sets the event.
    ///
    /// Lets every waiter through, and every later one until [`reset`](Self::reset). O(waiters).
    pub fn set(&self) {
        self.owner.hold(|| {
            self.state().0.set(true);
            self.let_through();
        });
    }

    /// Resets the event, so that callers have to wait again.
    ///
    /// A waiter that waited when the event was set still goes through.
    pub fn reset(&self) {
        self.owner.hold(|| {
            // The caller of `set` may not have let all earlier waiters through yet, and must not
            // find later ones.
            self.let_through();
            self.state().0.set(false);
        });
    }

    /// Returns the event's flag and its waiters.
    ///
    /// Requires the owner's turn.
    fn state(&self) -> (&Cell<bool>, &Queue<O>) {
        self.owner.assert_held();
        (&self.set, &self.waiting)
    }

    /// Lets the waiters through while the event is set.
    ///
    /// While it is set, no entry waits unless a call of this function is about to let it through.
    /// Waking a waiter may run any code, and other operations may come in between.
    fn let_through(&self) {
        // In order of arrival; the ready queues sort them by level.
        while self.state().0.get()
            && let Some(entry) = self.state().1.take_first()
        {
            entry
                .finish(EntryState::Granted)
                .wake(self.owner.scheduler());
        }
    }

    /// Tests whether the event is set.
    pub fn is_set(&self) -> bool {
        self.owner.hold(|| self.state().0.get())
    }

    /// Waits until the event is set.
    pub fn wait(&self) -> EventWait<'_, O> {
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

impl<O: Ownership> fmt::Debug for Event<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("set", &self.is_set())
            .finish_non_exhaustive()
    }
}

/// Future of [`Event::wait`].
#[must_use = "a future does nothing unless awaited"]
pub struct EventWait<'a, O: Ownership = Local> {
    event: &'a Event<O>,
    entry: Entry<O>,
}

impl<O: Ownership> Future for EventWait<'_, O> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.as_ref().get_ref();
        // SAFETY: the entry is part of the pinned future.
        let entry = unsafe { Pin::new_unchecked(&this.entry) };
        let event = this.event;
        event.owner.hold(|| {
            loop {
                match entry.state() {
                    EntryState::Granted | EntryState::Refused => {
                        entry.end_wait(&event.owner);
                        return Poll::Ready(());
                    }
                    EntryState::Out if event.state().0.get() => {
                        return match event.owner.proceed(cx) {
                            true => Poll::Ready(()),
                            false => Poll::Pending,
                        };
                    }
                    // SAFETY: `drop` removes it.
                    EntryState::Out => unsafe { event.state().1.push(entry) },
                    EntryState::Queued => {}
                }
                if entry.wait(&event.owner, cx, || None) {
                    return Poll::Pending;
                }
            }
        })
    }
}

impl<O: Ownership> Drop for EventWait<'_, O> {
    fn drop(&mut self) {
        let (event, entry) = (self.event, &self.entry);
        if entry.is_known() {
            event.owner.hold(|| {
                if entry.state() == EntryState::Queued {
                    event.state().1.remove(entry);
                }
                entry.end_wait(&event.owner);
            });
        }
    }
}

impl<O: Ownership> fmt::Debug for EventWait<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventWait").finish_non_exhaustive()
    }
}
