//! Refusal of requests that would wait too long, less urgent levels first.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use corank::{LEVELS, Priority};

use super::accounts::{Accounts, Capacity, Ticket};
use crate::handle::Handle;
use crate::time::{clock, nanoseconds};

/// Limits the waits of requests, by level; for [`PriorityLayer::shed`](super::PriorityLayer::shed).
///
/// A request is refused at once if its wait is predicted to exceed the limit of its level. The
/// *wait* is the time from its arrival at the layer until its work is done, or until it first waits
/// for something other than a worker, such as a database.
///
/// # The prediction
/// The layer counts the requests that it has admitted on each level and that are ready or running,
/// and measures how long their polls take. Before a new request come those that are at least as
/// urgent. While it waits, more urgent ones keep the share of the workers that they had in the last
/// 50 ms. Where waits turn out longer than predicted, the predictions of that level grow until all
/// but one in 200 keep them.
///
/// So urgent levels are refused last: less urgent requests do not count for them. A request is
/// never refused while fewer requests than there are workers are ready on its level and the more
/// urgent ones. Nor is one before the layer knows anything of how long requests take, which is when
/// the first one has yielded or ended.
///
/// What is not counted: work outside of the layer, such as reading the request, and work that a
/// request leaves to other coroutines or to `spawn_blocking`. It shows only as waits that are
/// longer than predicted. A request that yields with tokio's `yield_now` counts as one that waits
/// for something else: use [`yield_now`](crate::yield_now). Each layer has accounts of its own, for
/// the runtime that serves its first request; its clones and services share them.
///
/// # Cost
/// Two readings of the clock for each poll, about 60 ns; for each request another one, and a few
/// loads and atomic additions. There is no lock. A layer has 4 KiB of accounts.
///
/// ```
/// use std::time::Duration;
/// use corank_linux::{Priority, tower::Shedding};
///
/// let shedding = Shedding::new()
///     .limit(Priority::MOST_URGENT, Duration::from_secs(2))
///     .limit(Priority::BULK, Duration::from_millis(100));
/// # let _ = shedding;
/// ```
#[derive(Clone)]
#[must_use]
pub struct Shedding {
    /// In nanoseconds.
    limits: [Option<u64>; LEVELS],
}

impl Shedding {
    /// Creates limits for no level: nothing is refused.
    pub fn new() -> Self {
        Self {
            limits: [None; LEVELS],
        }
    }

    /// Limits the wait on the levels `from` and less urgent, in place of limits that they had.
    ///
    /// A limit above 584 years counts as that.
    pub fn limit(mut self, from: Priority, wait: Duration) -> Self {
        let wait = wait.min(Duration::from_nanos(u64::MAX));
        self.limits[usize::from(from.level())..].fill(Some(nanoseconds(wait)));
        self
    }

    fn of(&self, level: Priority) -> Option<u64> {
        self.limits[usize::from(level.level())]
    }
}

impl Default for Shedding {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Shedding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = self.limits.iter().enumerate();
        let limits = limits.filter_map(|(level, &limit)| Some((level, limit?)));
        f.debug_map()
            .entries(limits.map(|(level, limit)| (level, Duration::from_nanos(limit))))
            .finish()
    }
}

/// Says why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    level: Priority,
    wait: Duration,
    limit: Duration,
}

impl Refusal {
    /// Returns the level of the request.
    pub fn level(&self) -> Priority {
        self.level
    }

    /// Returns the predicted wait.
    pub fn wait(&self) -> Duration {
        self.wait
    }

    /// Returns the limit of the level's wait.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Returns the time after which another try makes sense, in whole seconds: the predicted wait,
    /// at least 1.
    pub fn retry_after(&self) -> u64 {
        let more = u64::from(self.wait.subsec_nanos() > 0);
        self.wait.as_secs().saturating_add(more).max(1)
    }
}

/// Makes the answer to a refused request; functions of the refusal do so.
pub trait Refuse<Response> {
    /// Returns the answer.
    fn refuse(&self, refusal: &Refusal) -> Response;
}

impl<F, Response> Refuse<Response> for F
where
    F: Fn(&Refusal) -> Response,
{
    fn refuse(&self, refusal: &Refusal) -> Response {
        self(refusal)
    }
}

/// Refuses a request of HTTP with the status 503 (service unavailable), the header `Retry-After`
/// and an empty body.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServiceUnavailable;

impl<B: Default> Refuse<http::Response<B>> for ServiceUnavailable {
    fn refuse(&self, refusal: &Refusal) -> http::Response<B> {
        let mut response = http::Response::new(B::default());
        *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
        let retry_after = http::HeaderValue::from(refusal.retry_after());
        (response.headers_mut()).insert(http::header::RETRY_AFTER, retry_after);
        response
    }
}

/// Decides about each request of a layer: [`AdmitAll`] or [`Shed`].
///
/// Other types cannot implement it.
pub trait Admission<Response>: sealed::Sealed {
    /// Admits a request, or returns the answer of a refused one.
    #[doc(hidden)]
    fn admit(&self, level: Priority) -> Result<Option<Ticket>, Response>;
}

mod sealed {
    pub trait Sealed {}
}

/// Admits each request, and measures nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdmitAll;

impl sealed::Sealed for AdmitAll {}

impl<Response> Admission<Response> for AdmitAll {
    #[inline]
    fn admit(&self, _: Priority) -> Result<Option<Ticket>, Response> {
        Ok(None)
    }
}

/// Refuses requests whose wait would exceed its limit; see [`Shedding`].
///
/// Clones share their accounts.
#[derive(Clone)]
pub struct Shed<A> {
    shared: Arc<Shared>,
    answer: A,
}

/// What the services of a layer share.
struct Shared {
    shedding: Shedding,
    accounts: Arc<Accounts>,
    capacity: OnceLock<Capacity>,
}

impl<A> Shed<A> {
    pub(super) fn new(shedding: Shedding, answer: A) -> Self {
        let shared = Shared {
            shedding,
            accounts: Arc::new(Accounts::new()),
            capacity: OnceLock::new(),
        };
        Self {
            shared: Arc::new(shared),
            answer,
        }
    }
}

impl Shared {
    /// Returns the threads of the runtime that serves the first request.
    fn capacity(&self) -> Capacity {
        if let Some(&capacity) = self.capacity.get() {
            return capacity;
        }
        let Some(runtime) = Handle::current() else {
            // The request's future panics.
            return Capacity {
                workers: 1,
                bulk_from: None,
            };
        };
        *self.capacity.get_or_init(|| Capacity {
            workers: runtime.0.workers as u64,
            bulk_from: runtime.0.bulk.map(|(from, _)| from),
        })
    }

    fn admit(&self, level: Priority) -> Result<Ticket, Refusal> {
        let now = clock();
        let forecast = self.accounts.forecast(level, self.capacity(), now);
        let limit = self.shedding.of(level);
        match limit {
            Some(limit) if forecast.wait > limit && !forecast.at_once => Err(Refusal {
                level,
                wait: Duration::from_nanos(forecast.wait),
                limit: Duration::from_nanos(limit),
            }),
            _ => Ok(self.accounts.admit(level, forecast, limit, now)),
        }
    }
}

impl<A> sealed::Sealed for Shed<A> {}

impl<A: Refuse<Response>, Response> Admission<Response> for Shed<A> {
    fn admit(&self, level: Priority) -> Result<Option<Ticket>, Response> {
        (self.shared.admit(level).map(Some)).map_err(|refusal| self.answer.refuse(&refusal))
    }
}

impl<A> fmt::Debug for Shed<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shed")
            .field("limits", &self.shared.shedding)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
