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

use std::any::type_name;
use std::pin::Pin;
use std::task::{Context, Poll};

use corank::{Priority, SpawnError, current};
use pin_project_lite::pin_project;
use tracing::instrument::{Instrument, Instrumented};
use tracing::{Level, Span, debug_span, event, field};

use crate::runtime::{Handle, JoinHandle};
use crate::watchdog::Blocked;

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
    let future = coroutine(name, priority, future);
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

pin_project! {
    /// A coroutine whose span has its identifier, from its first poll on.
    pub(crate) struct Identified<F> {
        is_identified: bool,
        #[pin]
        future: F,
    }
}

/// The name of the type inside of what [`coroutine`] makes, as far as it can be told from the name of the whole.
pub(crate) fn name_within(name: &'static str) -> &'static str {
    let outer = name.strip_prefix("tracing::instrument::Instrumented<");
    let inner = outer.and_then(|outer| outer.strip_prefix("corank_linux::trace::Identified<"));
    inner
        .and_then(|inner| inner.strip_suffix(">>"))
        .unwrap_or(name)
}

/// A coroutine that has no name of its own.
pub(crate) fn unnamed<F: Future>(priority: Priority, future: F) -> Instrumented<Identified<F>> {
    coroutine(type_name::<F>(), priority, future)
}

/// A coroutine in its span.
fn coroutine<F: Future>(name: &str, priority: Priority, future: F) -> Instrumented<Identified<F>> {
    let span = debug_span!(
        target: "corank",
        "coroutine",
        name,
        level = priority.level(),
        id = field::Empty,
    );
    let identified = Identified {
        is_identified: false,
        future,
    };
    identified.instrument(span)
}

impl<F: Future> Future for Identified<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        if !*this.is_identified
            && let Some(id) = current()
        {
            *this.is_identified = true;
            Span::current().record("id", field::debug(id));
        }
        this.future.poll(cx)
    }
}
