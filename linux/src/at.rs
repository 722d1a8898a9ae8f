//! Parts of a coroutine on another level.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use corank::{CoroutineId, Priority, current};

use crate::handle::Handle;

/// Runs `future` on another level.
///
/// The coroutine that awaits this has that base priority until the future is ready or dropped, and
/// then its former one again. A server uses it to serve a request on a level that it learns from
/// the request.
///
/// The level takes effect before the future is first polled: if a more urgent coroutine is ready,
/// that runs first.
///
/// # Panics
/// The first poll panics outside of a coroutine, where nothing has a level. In a task of
/// `tokio::spawn`, [`spawn`](crate::spawn) a coroutine and await its handle.
///
/// ```
/// use corank_linux::{Handle, Priority, at, current};
///
/// # let runtime = corank_linux::Runtime::new()?;
/// let bulk = Priority::at::<50>();
/// runtime.block_on(async move {
///     let level = || Handle::current().zip(current()).and_then(|(runtime, me)| runtime.priority(me));
///     assert_eq!(at(bulk, async { level() }).await, Some(bulk));
///     assert_eq!(level(), Some(Priority::DEFAULT));
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn at<F: Future>(priority: Priority, future: F) -> At<F> {
    At {
        change: LevelChange {
            priority,
            before: None,
            has_begun: false,
        },
        future,
    }
}

/// Runs its future on another level; see [`at`].
#[must_use = "a future does nothing unless awaited"]
pub struct At<F> {
    /// Dropped before the future, so that the future's destructor runs on the former level.
    change: LevelChange,
    future: F,
}

/// Changes a coroutine's level, and changes it back when dropped.
struct LevelChange {
    priority: Priority,
    /// The runtime, the coroutine, and its base priority before.
    before: Option<(Handle, CoroutineId, Priority)>,
    has_begun: bool,
}

impl LevelChange {
    /// Changes the level. Returns true if the coroutine should let others run first.
    fn begin(&mut self) -> bool {
        self.has_begun = true;
        let Some((handle, me)) = Handle::current().zip(current()) else {
            panic!(
                "at() is polled outside of the coroutines of corank-linux, where nothing has a \
                 level: spawn a coroutine of that level and await its handle"
            );
        };
        let Some(before) = handle.0.executor.base_priority(me) else {
            return false;
        };
        handle.reprioritize(me, self.priority);
        self.before = Some((handle, me, before));
        before.is_more_urgent_than(self.priority)
    }

    fn end(&mut self) {
        if let Some((handle, id, before)) = self.before.take() {
            handle.reprioritize(id, before);
        }
    }
}

impl Drop for LevelChange {
    fn drop(&mut self) {
        self.end();
    }
}

impl<F: Future> Future for At<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: `future` is pinned while this is, because no code moves it out. `change` is never
        // pinned.
        let (change, future) = unsafe {
            let this = self.get_unchecked_mut();
            (&mut this.change, Pin::new_unchecked(&mut this.future))
        };
        if !change.has_begun && change.begin() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let output = ready!(future.poll(cx));
        change.end();
        Poll::Ready(output)
    }
}

impl<F> fmt::Debug for At<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("At")
            .field("priority", &self.change.priority)
            .finish_non_exhaustive()
    }
}
