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
use std::task::{Context, Poll};

use corank::Priority;
use tower_layer::Layer;
use tower_service::Service;

use crate::at::{At, at};

/// Runs each request [`at`] the level that a function of the request returns.
///
/// That lasts until the inner service's future is ready or dropped. The rest of the answer, such as
/// a body that is produced while it is sent, is on the connection's level again.
///
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
    S: Service<R>,
    C: Fn(&R) -> Priority,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = At<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        at((self.choose)(&request), self.inner.call(request))
    }
}

impl<S: fmt::Debug, C> fmt::Debug for PriorityService<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PriorityService")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}
