//! The executors that are compared, one file each.

mod async_executor;
mod bare_poll;
mod corank;
mod futures_unordered;
mod tokio;

use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::task::{Context, Poll};

pub(crate) use self::corank::Corank;
use crate::Measured;

/// One executor; an operation that it does not have is `None`.
pub(crate) trait Model {
    /// Returns the name in the results.
    fn name(&self) -> &'static str;

    /// Tests whether coroutines can be spread over priority levels.
    fn has_levels(&self) -> bool {
        false
    }

    /// Lets `n` coroutines yield `rounds` times each.
    fn yield_now(&self, n: usize, levels: usize, rounds: usize) -> Measured;

    /// Spawns and then joins `n` coroutines, `repetitions` times.
    fn spawn_join(&self, _n: usize, _repetitions: usize) -> Measured {
        None
    }

    /// Passes a token `rounds` times round `n` coroutines.
    fn wake(&self, _n: usize, _rounds: usize) -> Measured {
        None
    }

    /// Moves `n` ready coroutines to another level, `rounds` times each.
    fn reprioritize(&self, _n: usize, _levels: usize, _rounds: usize) -> Measured {
        None
    }

    /// Returns the bytes that each of `n` coroutines takes beside its future.
    fn memory(&self, _n: usize) -> Option<f64> {
        None
    }
}

pub(crate) fn all() -> Vec<Box<dyn Model>> {
    vec![
        Box::new(Corank),
        Box::new(tokio::Tokio),
        Box::new(async_executor::AsyncExecutor),
        Box::new(futures_unordered::Unordered),
        Box::new(bare_poll::BarePoll),
    ]
}

/// Yields on an executor without a `yield_now` of its own: wakes the coroutine, then waits.
fn yield_by_waker() -> YieldByWaker {
    YieldByWaker(false)
}

struct YieldByWaker(bool);

impl Future for YieldByWaker {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.0 {
            return Poll::Ready(());
        }
        self.0 = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Runs the body of a coroutine that yields, which is the same for all executors.
async fn yields<Y: Future>(number: usize, rounds: usize, yield_now: fn() -> Y) -> usize {
    for _ in 0..rounds {
        yield_now().await;
    }
    black_box(number)
}

/// Runs the body of a coroutine that is spawned and joined.
async fn returns(number: usize) -> usize {
    black_box(number)
}

/// Checks that every join has returned its number: the sum is that of 0 to n - 1.
fn check(sum: usize, n: usize) {
    assert_eq!(sum, n * (n - 1) / 2, "an output was lost or came twice");
}
