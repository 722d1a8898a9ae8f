//! The span of each coroutine, for `tracing`.

use std::any::type_name;
use std::pin::Pin;
use std::task::{Context, Poll};

use corank::{Priority, current};
use pin_project_lite::pin_project;
use tracing::instrument::{Instrument, Instrumented};
use tracing::{Span, debug_span, field};

pin_project! {
    /// Records the coroutine's identifier in its span at the first poll.
    pub(crate) struct Identified<F> {
        is_identified: bool,
        #[pin]
        future: F,
    }
}

/// Extracts the type name of the future inside what [`coroutine`] returns; returns `name` itself if
/// there is none.
pub(crate) fn name_within(name: &'static str) -> &'static str {
    let outer = name.strip_prefix("tracing::instrument::Instrumented<");
    let inner = outer.and_then(|outer| outer.strip_prefix("corank_linux::span::Identified<"));
    inner
        .and_then(|inner| inner.strip_suffix(">>"))
        .unwrap_or(name)
}

/// Wraps a future in a span that has the name of its type.
pub(crate) fn unnamed<F: Future>(priority: Priority, future: F) -> Instrumented<Identified<F>> {
    coroutine(type_name::<F>(), priority, future)
}

/// Wraps a future in the span of its coroutine.
pub(crate) fn coroutine<F: Future>(
    name: &str,
    priority: Priority,
    future: F,
) -> Instrumented<Identified<F>> {
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
