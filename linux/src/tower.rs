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
//!
//! Under more load than the workers can serve, [`PriorityLayer::shed`] refuses requests whose wait
//! would be too long, the least urgent ones first.

mod accounts;
mod metered;
mod shedding;

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
use metered::Metered;

pub use shedding::{Admission, AdmitAll, Refusal, Refuse, ServiceUnavailable, Shed, Shedding};

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
pub struct PriorityLayer<C, A = AdmitAll> {
    choose: C,
    admission: A,
}

impl<C> PriorityLayer<C> {
    /// Creates a layer that calls `choose` once for each request, on the connection's level.
    pub fn new<R>(choose: C) -> Self
    where
        C: Fn(&R) -> Priority,
    {
        Self {
            choose,
            admission: AdmitAll,
        }
    }

    /// Refuses requests of HTTP whose wait would exceed the limit of their level, with the status
    /// 503 and the header `Retry-After`.
    ///
    /// A refused request does not reach the inner service. The body is empty.
    ///
    /// ```
    /// use std::time::Duration;
    /// use corank_linux::{Priority, tower::{PriorityLayer, Shedding}};
    /// use hyper::Request;
    ///
    /// let level = |request: &Request<()>| match request.uri().path() {
    ///     "/report" => Priority::BULK,
    ///     _ => Priority::URGENT,
    /// };
    /// let reports = Shedding::new().limit(Priority::BULK, Duration::from_millis(100));
    /// let layer = PriorityLayer::new(level).shed(reports);
    /// # let _ = layer;
    /// ```
    pub fn shed(self, shedding: Shedding) -> PriorityLayer<C, Shed<ServiceUnavailable>> {
        self.shed_with(shedding, ServiceUnavailable)
    }

    /// Refuses requests as [`shed`](Self::shed) does, with the answer of a function, for other
    /// protocols and bodies.
    ///
    /// ```
    /// use std::time::Duration;
    /// use corank_linux::{Priority, tower::{PriorityLayer, Refusal, Shedding}};
    ///
    /// struct Answer(String);
    ///
    /// let limits = Shedding::new().limit(Priority::MOST_URGENT, Duration::from_secs(1));
    /// let busy = |refusal: &Refusal| Answer(format!("busy: try in {} s", refusal.retry_after()));
    /// let layer = PriorityLayer::new(|&level: &Priority| level).shed_with(limits, busy);
    /// # let _ = layer;
    /// ```
    pub fn shed_with<F>(self, shedding: Shedding, answer: F) -> PriorityLayer<C, Shed<F>> {
        PriorityLayer {
            choose: self.choose,
            admission: Shed::new(shedding, answer),
        }
    }
}

impl<S, C: Clone, A: Clone> Layer<S> for PriorityLayer<C, A> {
    type Service = PriorityService<S, C, A>;

    fn layer(&self, inner: S) -> Self::Service {
        PriorityService {
            inner,
            choose: self.choose.clone(),
            admission: self.admission.clone(),
        }
    }
}

impl<C, A: fmt::Debug> fmt::Debug for PriorityLayer<C, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PriorityLayer")
            .field("admission", &self.admission)
            .finish_non_exhaustive()
    }
}

/// Runs each request of an inner service on its own level; see [`PriorityLayer`].
#[derive(Clone, Copy)]
pub struct PriorityService<S, C, A = AdmitAll> {
    inner: S,
    choose: C,
    admission: A,
}

impl<S, C, A, R> Service<R> for PriorityService<S, C, A>
where
    S: Service<R, Future: Send + 'static, Response: Send, Error: Send>,
    C: Fn(&R) -> Priority,
    A: Admission<S::Response>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Answer<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let priority = (self.choose)(&request);
        let state = match self.admission.admit(priority) {
            Ok(ticket) => State::New {
                priority,
                future: Some(Metered::new(self.inner.call(request), ticket)),
            },
            Err(answer) => State::Refused {
                output: Some(Ok(answer)),
            },
        };
        Answer { state }
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
        New { priority: Priority, future: Option<Metered<F>> },
        /// The coroutine that polls it changes its level.
        Here { #[pin] at: At<Metered<F>> },
        /// A coroutine of its own.
        Spawned { coroutine: Spawned<F::Output> },
        Refused { output: Option<F::Output> },
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
            StateProjection::Refused { output } => {
                Poll::Ready(output.take().expect("it is polled until it is ready"))
            }
        }
    }
}

/// Decides where a request runs, by the task of its first poll.
fn begin<F>(priority: Priority, future: Metered<F>) -> State<F>
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

impl<S: fmt::Debug, C, A: fmt::Debug> fmt::Debug for PriorityService<S, C, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PriorityService")
            .field("inner", &self.inner)
            .field("admission", &self.admission)
            .finish_non_exhaustive()
    }
}
