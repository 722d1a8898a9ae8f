//! Spans and events for `tracing` (feature `tracing`), all with the target `corank`.
//!
//! - Each coroutine has a span `coroutine` of level `DEBUG`, inside the span in which it was
//!   spawned. Its fields are `name`, `level` (when it was spawned) and `id`. The name is that of
//!   [`spawn_named`], or else the type of the future, which contains the path of its function. The
//!   span is entered for each poll, and closed when the coroutine has exited.
//! - [`blocked`] makes an event of level `WARN` of each worker that one poll keeps for long, if it
//!   is the hook of [`Builder::on_blocked`](crate::Builder::on_blocked).
//! - [`spawn_blocking`](crate::spawn_blocking) runs its work in the span in which it is called.
//!
//! Spans of other crates live across polls as they do in other runtimes: use `tracing::Instrument`
//! rather than a guard that is held across an `await`.

use corank::{Priority, SpawnError};
use tracing::{Level, event, field};

use crate::blocked::Blocked;
use crate::handle::{Handle, JoinHandle};
use crate::span;

/// Spawns a coroutine as [`spawn`](crate::spawn) does, with a name for its span.
///
/// # Errors
/// Fails as [`spawn`](crate::spawn) does.
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
    runtime.spawn_bare(priority, future)
}

/// Makes an event of level `WARN` of a blocked-worker report.
///
/// The event is outside of all spans, because the watchdog's thread makes it. Its fields are those
/// of [`Blocked`].
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
