//! Whether one direction of a file descriptor may be tried, and who waits for that.
//!
//! The kernel tells each change once (edge-triggered), so what it has told is remembered here until an attempt finds that
//! there is nothing (any more):
//!
//! ```text
//!            announce                     clear, if nothing was announced since the attempt began
//!   not yet ──────────▶ ready (event n) ──────────────────────────────────────────────▶ not yet
//! ```
//!
//! An event that comes between an attempt and its `clear` has another number, so it is not forgotten. One registration of a descriptor follows another in
//! the same place: each has a number as well, and an event that comes too late for one does not reach the next.

#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
use std::io;
use std::mem;
use std::sync::PoisonError;
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use smallvec::SmallVec;

/// See the module's documentation.
pub(crate) struct Readiness(Mutex<State>);

struct State {
    /// Which registration it is.
    number: u32,
    ready: bool,
    /// The other side is done, or there was an error: told once, and seen by whoever tries.
    over: bool,
    /// Events so far. A number that comes again after 2^64 of them is no danger.
    events: u64,
    /// Who is told of the next event, each once. Mostly one, which needs no memory of its own.
    waiting: SmallVec<[Waker; 1]>,
}

/// What was known when an attempt began.
#[derive(Clone, Copy)]
pub(crate) struct Seen(u64);

impl Readiness {
    /// Of no registration yet.
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State {
            number: 0,
            ready: false,
            over: false,
            events: 0,
            waiting: SmallVec::new(),
        }))
    }

    /// A registration begins. `ready`: whether to try before anything was announced.
    pub(crate) fn begin(&self, number: u32, ready: bool) {
        let mut state = self.state();
        state.number = number;
        state.ready = ready;
        state.over = false;
    }

    /// The registration is over: nobody waits any more.
    pub(crate) fn end(&self) {
        let waiting = mem::take(&mut self.state().waiting);
        // Their destructors may do anything, and nothing is locked.
        drop(waiting);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code between two states panics; a waker's `clone` may, and changes nothing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ready if it is worth trying; else whoever polls is woken by the next event.
    ///
    /// # Errors
    /// Others wait already, and there is no memory for one more.
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

    /// An attempt that began with `seen` found that there is nothing any more.
    pub(crate) fn clear(&self, seen: Seen) {
        let mut state = self.state();
        if state.events == seen.0 {
            state.ready = false;
        }
    }

    /// An attempt that began with `seen` took all there was, as far as one can tell without another. Not so if the other side is done:
    /// the next attempt finds that, and there may be no event any more.
    pub(crate) fn suppose_clear(&self, seen: Seen) {
        let mut state = self.state();
        if state.events == seen.0 && !state.over {
            state.ready = false;
        }
    }

    /// An event of a registration: adds those who wait to `woken`, which are to be woken without any lock. `over`: the other side is done, or there is an
    /// error.
    ///
    /// False if `woken` is full, and there is no memory to make it larger: then some still wait, and this is to be called again when those are woken.
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
