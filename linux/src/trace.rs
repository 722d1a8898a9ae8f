//! What `tracing` is told (feature `tracing`), all of it with the target `corank`.
//!
//! - Each coroutine has a span `coroutine`, level `DEBUG`, inside the span in which it was spawned. Its fields are `name` (that of
//!   [`spawn_named`], else the type of the future, which says from which function it is), `level` (when it was spawned) and `id`. It is entered for each poll, and closed when the coroutine is over.
//! - [`blocked`] makes an event, level `WARN`, of each worker that is held up inside one poll, if [`Builder::on_blocked`](crate::Builder::on_blocked) is
//!   given it.
//! - [`spawn_blocking`](crate::spawn_blocking) runs its work in the span in which it is called.
//!
//! Spans of other crates live across polls as they do with other runtimes: use `tracing::Instrument` rather than a guard that is held across an
//! `await`.

use corank::{Priority, SpawnError};
use tracing::{Level, event, field};

use crate::blocked::Blocked;
use crate::handle::{Handle, JoinHandle};
use crate::span;

/// As [`spawn`](crate::spawn), with a name for the coroutine's span.
///
/// # Errors
/// As [`spawn`](crate::spawn).
pub fn spawn_named<F>(
    name: &str,
    priority: Priority,
    future: F,
) -> Result<JoinHandle<F::Output>, SpawnError>
where
    F: Future<Output: Send> + Send + 'static,
{
    let runtime = Handle::current().ok_or(SpawnError::NotRunning)?;
    let future = span::coroutine(name, priority, future);
    runtime.0.executor.spawn(priority, future)
}

/// An event of a worker that is held up inside one poll, level `WARN`. It is outside of all spans, for another thread tells of it; its fields are
/// those of [`Blocked`].
///
/// ```
/// use std::time::Duration;
/// use corank_linux::{Builder, trace};
///
/// let runtime = Builder::new().on_blocked(Duration::from_millis(50), trace::blocked).build()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn blocked(blocked: &Blocked) {
    event!(
        target: "corank",
        Level::WARN,
        worker = blocked.worker,
        coroutine = field::debug(blocked.coroutine),
        level = blocked.priority.level(),
        future = blocked.future,
        time_us = blocked.time.as_micros() as u64,
        waiting = blocked.waiting.map(|waiting| waiting.level()),
        "{blocked}"
    );
}
