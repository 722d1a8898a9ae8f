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
//! An event that comes between an attempt and its `clear` has another number, so it is not forgotten.

#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
use std::sync::PoisonError;
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

/// See the module's documentation.
pub(crate) struct Readiness(Mutex<State>);

struct State {
    ready: bool,
    /// The other side is done, or there was an error: told once, and seen by whoever tries.
    over: bool,
    /// Events so far. A number that comes again after 2^64 of them is no danger.
    events: u64,
    /// Who is told of the next event, each once.
    waiting: Vec<Waker>,
}

/// What was known when an attempt began.
#[derive(Clone, Copy)]
pub(crate) struct Seen(u64);

impl Readiness {
    /// `ready`: whether to try before anything was announced.
    pub(crate) fn new(ready: bool) -> Self {
        Self(Mutex::new(State {
            ready,
            over: false,
            events: 0,
            waiting: Vec::new(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code between two states panics; a waker's `clone` may, and changes nothing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ready if it is worth trying; else whoever polls is woken by the next event.
    pub(crate) fn poll_ready(&self, cx: &Context<'_>) -> Poll<Seen> {
        let mut state = self.state();
        if state.ready {
            return Poll::Ready(Seen(state.events));
        }
        if !(state.waiting.iter()).any(|waker| waker.will_wake(cx.waker())) {
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

    /// An event: adds those who wait to `woken`, which are to be woken without any lock. `over`: the other side is done, or there is an
    /// error.
    pub(crate) fn announce(&self, over: bool, woken: &mut Vec<Waker>) {
        let mut state = self.state();
        state.ready = true;
        state.over |= over;
        state.events += 1;
        woken.append(&mut state.waiting);
    }
}
