//! The counting semaphore behind the semaphores, mutexes and condition variables of programs.
//!
//! Waiters form a queue. A permit goes to the first of them that has none, which may go from then
//! on. So no waiter overtakes another, and an `up` before the waiter runs is not lost. A program
//! chooses how many wait, so no operation visits them all.
use crate::lock::Mutex;
use crate::memory::account::Charge;
use crate::wait::WaitMode;
use alloc::collections::BTreeMap;
use core::future::poll_fn;
use core::task::{Context, Poll, Waker};

#[derive(Debug, Default)]
struct State {
    /// The number of permits that no waiter has. Not 0 only where each waiter has one.
    permits: usize,
    /// The number of waiters that have permits.
    given: usize,
    /// Waiters with tickets up to this one have permits.
    given_up_to: u64,
    waiters: Waiters,
    last_ticket: u64,
}

/// Waiters by their tickets, which are given out in order.
///
/// Most queues never hold more than one, so the first needs no allocation.
#[derive(Debug, Default)]
struct Waiters {
    /// The one with the lowest ticket. Without it there are no others.
    first: Option<(u64, Waker)>,
    others: BTreeMap<u64, Waker>,
}

impl Waiters {
    /// Adds a waiter with a ticket that is higher than all others.
    fn push(&mut self, ticket: u64, waker: Waker) {
        if self.first.is_none() {
            self.first = Some((ticket, waker));
        } else {
            self.others.insert(ticket, waker);
        }
    }

    /// Takes a waiter out.
    fn remove(&mut self, ticket: u64) -> Option<Waker> {
        if self.first.as_ref().is_some_and(|first| first.0 == ticket) {
            let second = if self.others.is_empty() {
                None
            } else {
                self.others.pop_first()
            };
            return core::mem::replace(&mut self.first, second).map(|first| first.1);
        }
        self.others.remove(&ticket)
    }

    /// Returns the first waiter with a ticket that is higher than this one.
    fn behind(&self, ticket: u64) -> Option<(u64, &Waker)> {
        let first = self.first.as_ref()?;
        if first.0 > ticket {
            return Some((first.0, &first.1));
        }
        let mut behind = self.others.range(ticket + 1..);
        behind.next().map(|(ticket, waker)| (*ticket, waker))
    }
}

/// A counting semaphore.
#[derive(Debug)]
pub(crate) struct Semaphore {
    state: Mutex<State>,
    _charge: Charge,
}

impl Semaphore {
    /// Makes a semaphore with this many permits, which this charge pays for.
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

    /// Adds a permit and wakes the waiter that it is for.
    pub(crate) fn up(&self) {
        self.state.lock().add();
    }

    /// Adds a permit if there is none, as a mutex does when it is unlocked.
    ///
    /// Returns false if there was one.
    pub(crate) fn up_to_one(&self) -> bool {
        let mut state = self.state.lock();
        let none = state.permits == 0 && state.given == 0;
        if none {
            state.add();
        }
        none
    }

    /// Adds a permit if a waiter has none, as a condition variable does when it is signalled.
    pub(crate) fn up_if_awaited(&self) {
        self.state.lock().give();
    }

    /// Takes a permit if it can be had without waiting.
    pub(crate) fn try_down(&self) -> bool {
        let mut state = self.state.lock();
        let free = state.permits > 0;
        if free {
            state.permits -= 1;
        }
        free
    }

    /// Takes a permit, when one is there and no waiter came earlier.
    pub(crate) async fn down(&self, mode: WaitMode) {
        if mode == WaitMode::Yield {
            while !self.try_down() {
                corank::yield_now().await;
            }
            return;
        }
        let mut waiter = self.new_waiter();
        poll_fn(|context| waiter.poll(context)).await;
    }

    /// Returns a waiter, which enters the queue when the caller begins to wait.
    pub(crate) fn new_waiter(&self) -> WaitEntry<'_> {
        WaitEntry {
            semaphore: self,
            ticket: 0,
        }
    }
}

impl State {
    /// Adds a permit.
    fn add(&mut self) {
        if !self.give() {
            self.permits += 1;
        }
    }

    /// Gives a permit to the first waiter that has none, and wakes it.
    ///
    /// Returns false if there is none.
    fn give(&mut self) -> bool {
        let Some((ticket, waker)) = self.waiters.behind(self.given_up_to) else {
            return false;
        };
        waker.wake_by_ref();
        self.given_up_to = ticket;
        self.given += 1;
        true
    }

    /// Takes a waiter that has a permit out of the queue.
    fn leave(&mut self, ticket: u64) -> Option<Waker> {
        self.given -= 1;
        self.waiters.remove(ticket)
    }
}

/// A waiter of a semaphore.
///
/// Dropped before a permit came, it leaves the queue.
#[derive(Debug)]
pub(crate) struct WaitEntry<'a> {
    semaphore: &'a Semaphore,
    ticket: u64,
}

impl WaitEntry<'_> {
    /// Enters the queue, then calls `then`, then waits for the permit.
    ///
    /// If `then` returns false, this returns at once without a permit.
    pub(crate) async fn wait_after(mut self, then: impl FnOnce() -> bool) -> bool {
        let mut then = Some(then);
        poll_fn(move |context| {
            let polled = self.poll(context);
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
            if state.permits > 0 {
                state.permits -= 1;
                return Poll::Ready(());
            }
            state.last_ticket += 1;
            self.ticket = state.last_ticket;
            state.waiters.push(self.ticket, context.waker().clone());
            return Poll::Pending;
        }
        if self.ticket > state.given_up_to {
            return Poll::Pending;
        }
        let waker = state.leave(self.ticket);
        self.ticket = 0;
        drop(state);
        drop(waker);
        Poll::Ready(())
    }
}

impl Drop for WaitEntry<'_> {
    fn drop(&mut self) {
        if self.ticket == 0 {
            return;
        }
        let mut state = self.semaphore.state.lock();
        let waker = if self.ticket > state.given_up_to {
            state.waiters.remove(self.ticket)
        } else {
            // Another waiter gets its permit.
            let waker = state.leave(self.ticket);
            state.add();
            waker
        };
        drop(state);
        drop(waker);
    }
}
