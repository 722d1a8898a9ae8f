//! tower's services (feature `tower`): a layer that runs each request on its own level.
//!
//! ```
//! use corank_linux::{Priority, tower::PriorityLayer};
//! use hyper::Request;
//!
//! let layer = PriorityLayer::new(|request: &Request<()>| {
//!     // Reports take long; all other requests go first.
//!     if request.uri().path().starts_with("/report") { Priority::BULK } else { Priority::DEFAULT }
//! });
//! # let _ = layer;
//! ```
//!
//! With axum it is `Router::layer(PriorityLayer::new(…))`, see `examples/server.rs`.

use std::fmt;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll};

use corank::{JoinError, Priority, current};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::at::{At, at};
use crate::handle::{Handle, JoinHandle};

/// Runs each request [`at`] the level that a function of the request returns.
///
/// That lasts until the inner service's future is ready or dropped. The rest of the answer, such as
/// a body that is produced while it is sent, is on the connection's level again.
///
/// In a task that is no coroutine, such as the connections of `axum::serve` in a runtime that
/// [hosts tokio](crate::Builder::tokio), each request becomes a coroutine on its level, which the
/// task awaits. It is cancelled if the task gives the request up.
///
/// # Panics
/// The request's future panics where no runtime of this crate runs, because there are no levels. In
/// a task that is no coroutine it also panics if the coroutine does, or cannot be spawned.
///
/// # Several requests of a connection
/// Requests of one connection must come one after the other, as in HTTP/1, or run in coroutines of
/// their own, as with hyper's HTTP/2 and [`Spawner`](crate::hyper::Spawner). The reason is that a
/// coroutine is on one level at a time. With coroutines of their own the most urgent request of an
/// HTTP/2 connection is served first, whatever came before it. The connection itself should be at
/// least as urgent as any request, because it reads requests and writes answers.
#[derive(Clone, Copy)]
pub struct PriorityLayer<C> {
    choose: C,
}

impl<C> PriorityLayer<C> {
    /// Creates a layer that calls `choose` once for each request, on the connection's level.
    pub fn new<R>(choose: C) -> Self
    where
        C: Fn(&R) -> Priority,
    {
        Self { choose }
    }
}

impl<S, C: Clone> Layer<S> for PriorityLayer<C> {
    type Service = PriorityService<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        PriorityService {
            inner,
            choose: self.choose.clone(),
        }
    }
}

impl<C> fmt::Debug for PriorityLayer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PriorityLayer").finish_non_exhaustive()
    }
}

/// Runs each request of an inner service on its own level; see [`PriorityLayer`].
#[derive(Clone, Copy)]
pub struct PriorityService<S, C> {
    inner: S,
    choose: C,
}

impl<S, C, R> Service<R> for PriorityService<S, C>
where
    S: Service<R, Future: Send + 'static, Response: Send, Error: Send>,
    C: Fn(&R) -> Priority,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Answer<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        Answer {
            state: State::New {
                priority: (self.choose)(&request),
                future: Some(self.inner.call(request)),
            },
        }
    }
}

pin_project! {
    /// The answer to a request, on the request's level.
    #[must_use = "a future does nothing unless awaited"]
    pub struct Answer<F: Future> {
        #[pin]
        state: State<F>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F: Future> {
        New { priority: Priority, future: Option<F> },
        /// The coroutine that polls it changes its level.
        Here { #[pin] at: At<F> },
        /// A coroutine of its own.
        Spawned { coroutine: Spawned<F::Output> },
    }
}

/// Cancels a coroutine when it is dropped.
struct Spawned<T>(Pin<Box<JoinHandle<T>>>);

impl<T> Drop for Spawned<T> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl<F> Future for Answer<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut state = self.project().state;
        if let StateProjection::New { priority, future } = state.as_mut().project() {
            let (priority, future) = (*priority, future.take().expect("a first poll"));
            state.set(begin(priority, future));
        }
        match state.project() {
            StateProjection::New { .. } => unreachable!("it has begun"),
            StateProjection::Here { at } => at.poll(cx),
            StateProjection::Spawned { coroutine } => {
                coroutine.0.as_mut().poll(cx).map(|result| match result {
                    Ok(output) => output,
                    Err(JoinError::Panicked(payload)) => resume_unwind(payload.into_inner()),
                    Err(error) => panic!("the request has no answer: {error}"),
                })
            }
        }
    }
}

/// Decides where a request runs, by the task of its first poll.
fn begin<F>(priority: Priority, future: F) -> State<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    if current().is_some() {
        return State::Here {
            at: at(priority, future),
        };
    }
    let Some(runtime) = Handle::current() else {
        panic!(
            "PriorityLayer serves a request where no runtime of corank-linux runs: \
             serve it in a coroutine, or in a runtime built with Builder::tokio"
        );
    };
    let coroutine = (runtime.spawn(priority, future))
        .unwrap_or_else(|error| panic!("the request's coroutine cannot be spawned: {error}"));
    State::Spawned {
        coroutine: Spawned(Box::pin(coroutine)),
    }
}

impl<F: Future> fmt::Debug for Answer<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").finish_non_exhaustive()
    }
}

impl<S: fmt::Debug, C> fmt::Debug for PriorityService<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PriorityService")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}
