//! Work that blocks its thread: on threads of their own.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use corank::{JoinError, Payload};

/// What a blocking call gives: its output, or what its panic carried.
type Outcome<T> = Result<T, Box<dyn Any + Send>>;

/// Runs `work` on a thread for blocking calls (there are up to 500; the environment variable `BLOCKING_MAX_THREADS` says otherwise), so that it
/// keeps no worker from other coroutines. Await the result, as that of a coroutine.
///
/// The call can be cancelled until it has begun: by dropping the future. After that it runs to its end, and nobody is told.
///
/// ```
/// # let runtime = corank_linux::Runtime::new()?;
/// let lines = runtime.block_on(async {
///     let read = corank_linux::spawn_blocking(|| std::fs::read_to_string("/proc/self/status"));
///     read.await.expect("no panic").map(|text| text.lines().count())
/// });
/// assert!(lines? > 10);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn spawn_blocking<T, F>(work: F) -> Blocking<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    // Caught there: a panic that came out of the pool's own task would be the pool's.
    Blocking(blocking::unblock(|| catch_unwind(AssertUnwindSafe(work))))
}

/// Future of [`spawn_blocking`].
#[must_use = "dropping it may cancel the call"]
pub struct Blocking<T>(blocking::Task<Outcome<T>>);

impl<T> Blocking<T> {
    /// Lets the call go on alone.
    pub fn detach(self) {
        self.0.detach();
    }
}

impl<T> Future for Blocking<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = Pin::new(&mut self.0).poll(cx);
        result.map(|result| result.map_err(|payload| JoinError::Panicked(Payload::new(payload))))
    }
}

impl<T> fmt::Debug for Blocking<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocking").finish_non_exhaustive()
    }
}
