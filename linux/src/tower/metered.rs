//! A request's future, whose polls are measured if its layer sheds load.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use corank::woke_itself;
use pin_project_lite::pin_project;

use super::accounts::{After, Ticket};
use crate::time::clock;

pin_project! {
    /// A future with its part in the accounts, if there are any.
    ///
    /// The ticket is dropped after the future, whose destructor is a part of the request.
    pub(super) struct Metered<F> {
        #[pin]
        future: F,
        ticket: Option<Ticket>,
    }
}

impl<F> Metered<F> {
    pub(super) fn new(future: F, ticket: Option<Ticket>) -> Self {
        Self { future, ticket }
    }
}

impl<F: Future> Future for Metered<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let Some(ticket) = this.ticket else {
            return this.future.poll(cx);
        };
        ticket.begin_poll();
        let began = clock();
        let result = this.future.poll(cx);
        let after = match &result {
            Poll::Ready(_) => After::Ends,
            // Or something else in the same coroutine yields; then this is polled again soon.
            Poll::Pending if woke_itself() => After::Yields,
            Poll::Pending => After::Waits,
        };
        ticket.end_poll(began, clock(), after);
        if after == After::Ends {
            *this.ticket = None;
        }
        result
    }
}
