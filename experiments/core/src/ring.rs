//! A token that goes round a ring of tasks, for any executor of one thread.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// One slot per task, with whether it has the token, and the waker that waits for it.
pub(crate) struct Ring {
    slots: Vec<Slot>,
    rounds: usize,
}

#[derive(Default)]
struct Slot {
    token: Cell<bool>,
    waiting: RefCell<Option<Waker>>,
}

impl Ring {
    pub(crate) fn new(n: usize, rounds: usize) -> Rc<Self> {
        let slots = (0..n).map(|_| Slot::default()).collect();
        Rc::new(Self { slots, rounds })
    }

    /// Returns how many times the token moves in all.
    pub(crate) fn hops(&self) -> usize {
        self.slots.len() * self.rounds
    }

    /// Lays the token before the first task.
    pub(crate) fn start(&self) {
        self.pass_to(0);
    }

    fn pass_to(&self, index: usize) {
        let slot = &self.slots[index];
        slot.token.set(true);
        if let Some(waker) = slot.waiting.take() {
            waker.wake();
        }
    }

    /// Runs the body of the task at `index`.
    pub(crate) async fn sit(self: Rc<Self>, index: usize) {
        let slot = &self.slots[index];
        for _ in 0..self.rounds {
            poll_fn(|cx| {
                if slot.token.take() {
                    return Poll::Ready(());
                }
                let mut waiting = slot.waiting.borrow_mut();
                match &mut *waiting {
                    Some(known) => known.clone_from(cx.waker()),
                    None => *waiting = Some(cx.waker().clone()),
                }
                Poll::Pending
            })
            .await;
            self.pass_to((index + 1) % self.slots.len());
        }
    }
}
