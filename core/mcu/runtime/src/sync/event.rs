//! An event that stays set until it is reset (rules N7, N8).

use core::cell::Cell;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::queue::{Queue, wait, wake};
use crate::critical;
use crate::waiter::{WaitState, Waiter};

/// An event. It may stand in a `static`, and an interrupt handler may [`set`](Self::set) it.
pub struct Event {
    is_set: Cell<bool>,
    waiting: Queue,
}

// SAFETY: the state is touched with interrupts masked.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl core::fmt::Debug for Event {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Event").finish_non_exhaustive()
    }
}

impl Default for Event {
    fn default() -> Self {
        Self::new()
    }
}

impl Event {
    /// Creates an event that is not set.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            is_set: Cell::new(false),
            waiting: Queue::new(),
        }
    }

    /// Sets the event and lets all go through that wait now, the most urgent first. From any
    /// context; interrupts are masked for one waiter at a time.
    pub fn set(&self) {
        let mut waiting = critical(|| {
            self.is_set.set(true);
            self.waiting.waiters().count()
        });
        // Waiters that came after that go through without waiting.
        while waiting > 0 {
            wake(critical(|| {
                let waiter = self.waiting.take_most_urgent()?;
                waiter.state.set(WaitState::Granted);
                waiter.take_waker()
            }));
            waiting -= 1;
        }
    }

    /// Resets the event. From any context.
    pub fn reset(&self) {
        critical(|| self.is_set.set(false));
    }

    /// Tests whether the event is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        critical(|| self.is_set.get())
    }

    /// Waits until the event is set.
    pub fn wait(&self) -> WaitForEvent<'_> {
        WaitForEvent {
            event: self,
            waiter: Waiter::new(),
        }
    }
}

/// Future of [`Event::wait`].
#[must_use = "a future does nothing unless awaited"]
pub struct WaitForEvent<'a> {
    event: &'a Event,
    waiter: Waiter,
}

// SAFETY: the waiter is touched with interrupts masked once others know it.
unsafe impl Send for WaitForEvent<'_> {}

impl core::fmt::Debug for WaitForEvent<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("WaitForEvent").finish_non_exhaustive()
    }
}

impl Future for WaitForEvent<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let (event, waiter) = (self.event, &self.waiter);
        let waker = cx.waker().clone();
        let (polled, _former) = critical(|| {
            match waiter.state.get() {
                WaitState::Granted => waiter.end(),
                WaitState::Out if event.is_set.get() => {}
                state => {
                    if state == WaitState::Out {
                        event.waiting.push(waiter);
                    }
                    return (Poll::Pending, wait(waiter, waker, None));
                }
            }
            (Poll::Ready(()), waiter.take_waker())
        });
        polled
    }
}

impl Drop for WaitForEvent<'_> {
    fn drop(&mut self) {
        let (event, waiter) = (self.event, &self.waiter);
        if waiter.state.get() == WaitState::Out {
            return;
        }
        drop(critical(|| {
            if waiter.state.get() == WaitState::Queued {
                event.waiting.remove(waiter);
            }
            waiter.end();
            waiter.take_waker()
        }));
    }
}
