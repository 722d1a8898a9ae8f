//! A stretch of a coroutine on another level.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use corank::{CoroutineId, Priority, current};

use crate::handle::Handle;

/// Runs `future` on another level: the coroutine that awaits this has that base priority until the future is finished or dropped, and then
/// the one that it had. For a server that learns from a request how urgent it is.
///
/// It takes effect before the future is first polled: if anything more urgent is ready, that runs first. Outside a coroutine the
/// future is just polled.
///
/// ```
/// use corank_linux::{Handle, Priority, at, current};
///
/// # let runtime = corank_linux::Runtime::new()?;
/// let bulk = Priority::new(50).expect("below 64");
/// runtime.block_on(async move {
///     let level = || Handle::current().zip(current()).and_then(|(runtime, me)| runtime.priority(me));
///     assert_eq!(at(bulk, async { level() }).await, Some(bulk));
///     assert_eq!(level(), Some(Priority::DEFAULT));
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn at<F: Future>(priority: Priority, future: F) -> At<F> {
    At {
        stay: Stay {
            priority,
            before: None,
            began: false,
        },
        future,
    }
}

/// Future of [`at`].
#[must_use = "a future does nothing unless awaited"]
pub struct At<F> {
    /// Dropped before the future, whose destructor runs on the former level then.
    stay: Stay,
    future: F,
}

/// A coroutine's stay on another level.
struct Stay {
    priority: Priority,
    /// Where it is, who stays, and the base priority before.
    before: Option<(Handle, CoroutineId, Priority)>,
    began: bool,
}

impl Stay {
    /// Begins the stay. True if the coroutine should let others run first.
    fn begin(&mut self) -> bool {
        self.began = true;
        let Some((handle, me)) = Handle::current().zip(current()) else {
            return false;
        };
        let Some(before) = handle.0.executor.base_priority(me) else {
            return false;
        };
        handle.reprioritize(me, self.priority);
        self.before = Some((handle, me, before));
        before.is_more_urgent_than(self.priority)
    }

    fn end(&mut self) {
        if let Some((handle, who, before)) = self.before.take() {
            handle.reprioritize(who, before);
        }
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.end();
    }
}

impl<F: Future> Future for At<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: `future` is pinned whenever this is: nothing moves it out. `stay` never is.
        let (stay, future) = unsafe {
            let this = self.get_unchecked_mut();
            (&mut this.stay, Pin::new_unchecked(&mut this.future))
        };
        if !stay.began && stay.begin() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let output = ready!(future.poll(cx));
        stay.end();
        Poll::Ready(output)
    }
}

impl<F> fmt::Debug for At<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("At")
            .field("priority", &self.stay.priority)
            .finish_non_exhaustive()
    }
}
