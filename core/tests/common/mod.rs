//! What several of the tests use: levels, drop counters, coroutines that count.

#![allow(
    dead_code,
    reason = "each test program uses a part of what is shared here"
)]

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::{Poll, Waker};

use corank::Priority;

/// The priority of a level that is known to be valid.
pub(crate) fn level(level: u8) -> Priority {
    Priority::new(level).unwrap()
}

/// Counts something: drops of guards, polls, wakes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counter(Rc<Cell<usize>>);

impl Counter {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.get()
    }

    pub(crate) fn add(&self) {
        self.0.set(self.0.get() + 1);
    }

    /// Something whose drop is counted.
    pub(crate) fn guard(&self) -> Guard {
        Guard(self.clone())
    }
}

/// Counts its own drop.
#[derive(Debug)]
pub(crate) struct Guard(Counter);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.add();
    }
}

/// Where a coroutine leaves its waker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slot(Rc<RefCell<Option<Waker>>>);

impl Slot {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn take(&self) -> Waker {
        self.0.take().expect("the coroutine has left its waker")
    }

    /// A future that counts its polls, leaves its waker at each, and is ready at poll number `ready_at`.
    pub(crate) fn wait(
        &self,
        polls: &Counter,
        ready_at: usize,
    ) -> impl Future<Output = ()> + 'static {
        let (slot, polls) = (self.clone(), polls.clone());
        poll_fn(move |cx| {
            polls.add();
            if polls.count() >= ready_at {
                return Poll::Ready(());
            }
            *slot.0.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
    }
}
