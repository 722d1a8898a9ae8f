//! The readiness of one direction of a file descriptor, and the wakers that wait for it.
//!
//! The kernel reports each change once (edge-triggered), so the readiness is remembered here until
//! an attempt finds nothing any more:
//!
//! ```text
//!            announce                     clear, if nothing was announced since the attempt began
//!   not yet ──────────▶ ready (event n) ──────────────────────────────────────────────▶ not yet
//! ```
//!
//! An event between an attempt and its `clear` has another number, so it is not forgotten. An entry
//! serves one registration after another. Each has a number too, so a late event of one does not
//! reach the next.

#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
use std::io;
use std::mem;
use std::sync::PoisonError;
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use smallvec::SmallVec;

/// Remembers whether an attempt may succeed, and wakes the waiting coroutines.
pub(crate) struct Readiness(Mutex<State>);

struct State {
    /// The number of the registration.
    number: u32,
    ready: bool,
    /// Set if the other side is done or there was an error: reported once, and seen by each
    /// attempt.
    over: bool,
    /// Number of events. It would repeat after 2^64 events.
    events: u64,
    /// The wakers of the next event, each once. Mostly one, which needs no memory of its own.
    waiting: SmallVec<[Waker; 1]>,
}

/// The number of events when an attempt began.
#[derive(Clone, Copy)]
pub(crate) struct Seen(u64);

impl Readiness {
    /// Creates the readiness of an entry without a registration.
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State {
            number: 0,
            ready: false,
            over: false,
            events: 0,
            waiting: SmallVec::new(),
        }))
    }

    /// Begins a registration. `ready`: whether to try before an event was announced.
    pub(crate) fn begin(&self, number: u32, ready: bool) {
        let mut state = self.state();
        state.number = number;
        state.ready = ready;
        state.over = false;
    }

    /// Ends the registration, and drops the waiting wakers.
    pub(crate) fn end(&self) {
        let waiting = mem::take(&mut self.state().waiting);
        // Their destructors are foreign code, so no lock is held.
        drop(waiting);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code between two states panics; a waker's `clone` may, and changes nothing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns ready if an attempt may succeed. Otherwise the next event wakes the task.
    ///
    /// # Errors
    /// Fails if other tasks wait already and there is no memory for one more.
    pub(crate) fn poll_ready(&self, cx: &Context<'_>) -> Poll<io::Result<Seen>> {
        let mut state = self.state();
        if state.ready {
            return Poll::Ready(Ok(Seen(state.events)));
        }
        if !(state.waiting.iter()).any(|waker| waker.will_wake(cx.waker())) {
            if state.waiting.try_reserve(1).is_err() {
                return Poll::Ready(Err(io::ErrorKind::OutOfMemory.into()));
            }
            state.waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Notes that an attempt that began with `seen` found nothing.
    pub(crate) fn clear(&self, seen: Seen) {
        let mut state = self.state();
        if state.events == seen.0 {
            state.ready = false;
        }
    }

    /// Notes that an attempt that began with `seen` took all data, as far as a short read shows.
    ///
    /// Has no effect if the other side is done: the next attempt finds that, and there may be no
    /// further event.
    pub(crate) fn suppose_clear(&self, seen: Seen) {
        let mut state = self.state();
        if state.events == seen.0 && !state.over {
            state.ready = false;
        }
    }

    /// Announces an event of a registration: adds the waiting wakers to `woken`, to be woken
    /// without a lock.
    ///
    /// `over` is set if the other side is done, or if there is an error.
    ///
    /// Returns false if `woken` is full and there is no memory to grow it. Then some tasks still
    /// wait, and this is to be called again after those in `woken` are woken.
    pub(crate) fn announce(&self, number: u32, over: bool, woken: &mut Vec<Waker>) -> bool {
        let mut state = self.state();
        if state.number != number {
            return true;
        }
        state.ready = true;
        state.over |= over;
        state.events += 1;
        let count = state.waiting.len();
        let fits = match woken.try_reserve(count) {
            Ok(()) => count,
            Err(_) => count.min(woken.capacity() - woken.len()),
        };
        woken.extend(state.waiting.drain(..fits));
        state.waiting.is_empty()
    }
}
