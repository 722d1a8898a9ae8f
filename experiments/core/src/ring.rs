//! A token that goes round a ring of tasks, for any executor of one thread.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// One seat per task: whether the token lies there, and who waits for it.
pub(crate) struct Ring {
    seats: Vec<Seat>,
    rounds: usize,
}

#[derive(Default)]
struct Seat {
    token: Cell<bool>,
    waiting: RefCell<Option<Waker>>,
}

impl Ring {
    pub(crate) fn new(n: usize, rounds: usize) -> Rc<Self> {
        let seats = (0..n).map(|_| Seat::default()).collect();
        Rc::new(Self { seats, rounds })
    }

    /// How many times the token goes on in all.
    pub(crate) fn hops(&self) -> usize {
        self.seats.len() * self.rounds
    }

    /// Lays the token before the first task.
    pub(crate) fn start(&self) {
        self.pass_to(0);
    }

    fn pass_to(&self, place: usize) {
        let seat = &self.seats[place];
        seat.token.set(true);
        if let Some(waker) = seat.waiting.take() {
            waker.wake();
        }
    }

    /// The body of the task at `place`.
    pub(crate) async fn sit(self: Rc<Self>, place: usize) {
        let seat = &self.seats[place];
        for _ in 0..self.rounds {
            poll_fn(|cx| {
                if seat.token.take() {
                    return Poll::Ready(());
                }
                let mut waiting = seat.waiting.borrow_mut();
                match &mut *waiting {
                    Some(known) => known.clone_from(cx.waker()),
                    None => *waiting = Some(cx.waker().clone()),
                }
                Poll::Pending
            })
            .await;
            self.pass_to((place + 1) % self.seats.len());
        }
    }
}
