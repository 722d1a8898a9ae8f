//! The counting semaphore behind the semaphores, mutexes and condition variables of programs.
//!
//! Waiters form one line. Whoever stands among the first *permits* of it may go: so nobody overtakes, and an `up` before
//! the waiter runs is not lost.
use crate::lock::Mutex;
use crate::memory::account::Charge;
use crate::wait::{Ticketed, WaitMode};
use alloc::collections::VecDeque;
use core::future::poll_fn;
use core::task::{Context, Poll};

#[derive(Debug, Default)]
struct State {
    permits: usize,
    line: VecDeque<Ticketed>,
    last_ticket: u64,
}

/// A counting semaphore.
#[derive(Debug)]
pub(crate) struct Semaphore {
    state: Mutex<State>,
    _charge: Charge,
}

impl Semaphore {
    /// A semaphore with this many permits, which this charge pays for.
    pub(crate) fn new(permits: usize, charge: Charge) -> Semaphore {
        let state = State {
            permits,
            ..State::default()
        };
        Semaphore {
            state: Mutex::new(state),
            _charge: charge,
        }
    }

    /// Adds a permit and wakes whom it is for.
    pub(crate) fn up(&self) {
        self.state.lock().add();
    }

    /// Adds a permit if there is none, as a mutex does when it is unlocked; false if there was one.
    pub(crate) fn up_to_one(&self) -> bool {
        let mut state = self.state.lock();
        let none = state.permits == 0;
        if none {
            state.add();
        }
        none
    }

    /// Adds a permit if someone waits without one, as a condition variable does when it is signalled.
    pub(crate) fn up_if_awaited(&self) {
        let mut state = self.state.lock();
        if state.permits < state.line.len() {
            state.add();
        }
    }

    /// Takes a permit if it can be had without waiting.
    pub(crate) fn try_down(&self) -> bool {
        let mut state = self.state.lock();
        let free = state.permits > state.line.len();
        if free {
            state.permits -= 1;
        }
        free
    }

    /// Takes a permit, when one is there and nobody came earlier.
    pub(crate) async fn down(&self, mode: WaitMode) {
        if mode == WaitMode::Yield {
            while !self.try_down() {
                corank::yield_now().await;
            }
            return;
        }
        let mut place = self.stand_in_line();
        poll_fn(|context| place.poll(context)).await;
    }

    /// A place in the line, taken when one begins to wait.
    pub(crate) fn stand_in_line(&self) -> Place<'_> {
        Place {
            semaphore: self,
            ticket: 0,
        }
    }
}

impl State {
    fn add(&mut self) {
        self.permits += 1;
        self.wake(self.permits - 1);
    }

    fn wake(&mut self, at: usize) {
        if let Some((_, waker)) = self.line.get(at) {
            waker.wake_by_ref();
        }
    }

    /// Where the ticket stands, if it may go.
    fn may_go(&self, ticket: u64) -> Option<usize> {
        self.line
            .iter()
            .take(self.permits)
            .position(|entry| entry.0 == ticket)
    }
}

/// A place in a semaphore's line. Dropped before a permit came, it is given up.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    semaphore: &'a Semaphore,
    ticket: u64,
}

impl Place<'_> {
    /// Stands in line, then does `then`, then waits for the permit. If `then` says false, it goes at once without one.
    pub(crate) async fn wait_after(mut self, then: impl FnOnce() -> bool) -> bool {
        let mut then = Some(then);
        poll_fn(move |context| {
            let polled = self.poll(context);
            if polled.is_pending() && self.ticket == 0 {
                // There was no room in the line yet.
                return Poll::Pending;
            }
            if let Some(then) = then.take()
                && !then()
            {
                return Poll::Ready(false);
            }
            polled.map(|()| true)
        })
        .await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.semaphore.state.lock();
        if self.ticket == 0 {
            if state.permits > state.line.len() {
                state.permits -= 1;
                return Poll::Ready(());
            }
            if state.line.try_reserve(1).is_err() {
                // Asks again when its turn comes, until there is room in the line.
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            state.last_ticket += 1;
            self.ticket = state.last_ticket;
            state.line.push_back((self.ticket, context.waker().clone()));
            return Poll::Pending;
        }
        let Some(place) = state.may_go(self.ticket) else {
            return Poll::Pending;
        };
        if place == 0 {
            // By far the most frequent, and cheaper.
            state.line.pop_front();
        } else {
            state.line.remove(place);
        }
        state.permits -= 1;
        self.ticket = 0;
        Poll::Ready(())
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.ticket == 0 {
            return;
        }
        let mut state = self.semaphore.state.lock();
        if let Some(place) = state.line.iter().position(|entry| entry.0 == self.ticket) {
            state.line.remove(place);
            // Whoever moved up to the last permit may go now.
            if place < state.permits {
                let last = state.permits - 1;
                state.wake(last);
            }
        }
    }
}
