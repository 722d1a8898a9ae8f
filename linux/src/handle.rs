//! The handle to a runtime, and the runtime that is current on a thread.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Arc;

use corank::{CoroutineId, ExecutorId, Priority, SharedHandle, SpawnError};

use crate::reactor::Reactor;
use crate::shared::{self, Shared};
use crate::snapshot::Metrics;

/// Owns the result of a coroutine.
///
/// Await it to get the output; drop it to let the coroutine continue detached.
///
/// It also cancels ([`cancel`](corank::JoinHandle::cancel)), re-prioritises and gives a
/// [`Remote`](corank::Remote). A coroutine that awaits the handle donates its priority to the
/// coroutine that it waits for. The handle is `Unpin`, so `select` takes it as it is.
///
/// `cancel` drops the future on the thread that calls it, unless the coroutine is running. On
/// whatever thread that is, the coroutine's runtime is current there while the destructors run, so
/// they may spawn.
pub type JoinHandle<T> = SharedHandle<T>;

thread_local! {
    /// The runtime whose worker this thread is, or that was entered here.
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

/// A runtime that was entered.
#[derive(Debug)]
struct Current {
    handle: Handle,
    /// The executor that ran here when it was entered, if one did.
    within: Option<ExecutorId>,
}

impl Current {
    /// Tests whether it is the current runtime while an executor runs here.
    ///
    /// It is not if a thread that has entered it acts on another executor now: then destructors of
    /// that one's coroutines may run.
    fn counts_in(&self, executor: ExecutorId) -> bool {
        self.within == Some(executor) || self.handle.0.executor.has(executor)
    }
}

/// Reaches a runtime from anywhere: spawns, cancels, re-prioritises.
///
/// Cheap to clone; it does not keep the workers running.
#[derive(Clone)]
pub struct Handle(pub(crate) Arc<Shared>);

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.0.executor).finish()
    }
}

impl Handle {
    /// Returns the runtime of the calling coroutine, destructor, blocking call or thread; `None`
    /// outside of a runtime.
    pub fn current() -> Option<Self> {
        with_current(|current| current.cloned())
    }

    /// Adds a coroutine, ready at the tail of its level.
    ///
    /// # Errors
    /// Fails if the table is full, if memory is exhausted, or if the runtime is gone
    /// ([`SpawnError::Closed`]).
    pub fn spawn<F>(
        &self,
        priority: Priority,
        future: F,
    ) -> Result<JoinHandle<F::Output>, SpawnError>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        #[cfg(feature = "tracing")]
        let future = crate::span::unnamed(priority, future);
        self.spawn_bare(priority, future)
    }

    /// Spawns as [`spawn`](Self::spawn), without a span.
    pub(crate) fn spawn_bare<F>(
        &self,
        priority: Priority,
        future: F,
    ) -> Result<JoinHandle<F::Output>, SpawnError>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        if self.0.reactor.is_in_child() {
            return Err(SpawnError::Closed);
        }
        let spawned = self.0.executor.spawn(priority, future);
        #[cfg(feature = "recording")]
        if let (Some(recorder), Ok(handle)) = (self.0.recorder, &spawned) {
            recorder.name(handle.id(), name_of::<F>());
        }
        spawned
    }

    /// Sets a coroutine's base priority, at once. Returns false if the coroutine has exited.
    pub fn reprioritize(&self, id: CoroutineId, priority: Priority) -> bool {
        self.0.executor.reprioritize(id, priority)
    }

    /// Cancels a coroutine. Returns false if it was too late.
    ///
    /// Unless the coroutine is running, its future is dropped here before this returns. Its
    /// destructors run on this thread with this runtime current, so they may spawn.
    pub fn cancel(&self, id: CoroutineId) -> bool {
        self.0.executor.cancel(id)
    }

    /// Returns a coroutine's effective priority: its own, or a more urgent one that it has
    /// inherited.
    ///
    /// Returns `None` if it has exited.
    pub fn priority(&self, id: CoroutineId) -> Option<Priority> {
        self.0.executor.priority(id)
    }

    /// Counts the coroutines that have not exited.
    pub fn live(&self) -> usize {
        self.0.executor.live()
    }

    /// Returns the figures of the runtime at this moment.
    ///
    /// Those of the workers, of spare workers and of live coroutines are always there: each worker
    /// stores its times once for each batch of polls. Those by level are there if the runtime
    /// counts its coroutines; see [`Metrics::coroutines`]. A call takes some microseconds and
    /// holds no lock that a poll needs.
    pub fn metrics(&self) -> Metrics {
        self.0.metrics()
    }

    /// Returns the handle of the tokio runtime that this runtime hosts; `None` if it hosts none.
    ///
    /// Threads outside of the runtime use it to [`enter`](::tokio::runtime::Handle::enter) tokio,
    /// or to run futures that are not `Send` ([`block_on`](::tokio::runtime::Handle::block_on)).
    #[cfg(feature = "tokio")]
    pub fn tokio(&self) -> Option<::tokio::runtime::Handle> {
        Some(self.0.tokio.get()?.handle.clone())
    }

    /// Counts how often the runtime has asked the kernel for events.
    pub fn event_checks(&self) -> u64 {
        self.0.reactor.checks()
    }
}

/// Returns the name of a future's type, without the span around it.
#[cfg(feature = "recording")]
fn name_of<F>() -> &'static str {
    let name = std::any::type_name::<F>();
    #[cfg(feature = "tracing")]
    let name = crate::span::name_within(name);
    name
}

/// Adds a coroutine to the current runtime, ready at the tail of its level.
///
/// # Errors
/// Fails if the table is full or memory is exhausted. Also fails outside a runtime
/// ([`SpawnError::NotRunning`]), and in a runtime that stops ([`SpawnError::Closed`]).
pub fn spawn<F>(priority: Priority, future: F) -> Result<JoinHandle<F::Output>, SpawnError>
where
    F: Future<Output: Send> + Send + 'static,
{
    with_current(|current| match current {
        Some(handle) => handle.spawn(priority, future),
        None => Err(SpawnError::NotRunning),
    })
}

/// Returns the effective priority of the current coroutine; `None` outside of coroutines.
pub(crate) fn own_priority() -> Option<Priority> {
    let me = corank::current()?;
    with_current(|current| current?.priority(me))
}

/// Returns the reactor of the current runtime.
///
/// # Errors
///
/// Fails outside of a runtime.
pub(crate) fn reactor() -> io::Result<Arc<Reactor>> {
    let reactor = with_current(|current| current.map(|handle| handle.0.reactor.clone()));
    reactor.ok_or_else(|| {
        io::Error::other(
            "no runtime runs here: do I/O in a coroutine, or call Runtime::enter first",
        )
    })
}

/// Calls `act` with the runtime that is current here.
///
/// A thread that cancels a coroutine of a runtime runs its destructors as that runtime, whichever
/// runtime the thread has entered.
fn with_current<R>(act: impl FnOnce(Option<&Handle>) -> R) -> R {
    let mut act = Some(act);
    let mut call = |handle: Option<&Handle>| act.take().map(|act| act(handle));
    let here = corank::current_executor();
    let entered = CURRENT.try_with(|current| {
        let current = current.borrow();
        match (current.as_ref(), here) {
            (Some(current), Some(here)) if !current.counts_in(here) => None,
            (Some(current), _) => call(Some(&current.handle)),
            (None, None) => call(None),
            (None, Some(_)) => None,
        }
    });
    if let Ok(Some(result)) = entered {
        return result;
    }
    let runtime = here.and_then(shared::find).map(Handle);
    // An executor that is no runtime's has no runtime; what was entered before counts.
    let runtime = runtime.or_else(|| {
        let entered = CURRENT.try_with(|current| Some(current.borrow().as_ref()?.handle.clone()));
        entered.ok().flatten()
    });
    call(runtime.as_ref()).expect("it is called once")
}

/// Serves for the primitives of [`sync`](crate::sync): `Mutex::new_in(handle, 0)`.
///
/// In a runtime of the order [`Bounded`](crate::Order::Bounded) they belong to the shard of the
/// coroutine that calls this, or to the first one.
impl From<&Handle> for corank::Shared {
    fn from(handle: &Handle) -> Self {
        handle.0.executor.owner()
    }
}

/// Gives a coroutine of the current runtime another base priority, at once.
///
/// Returns false if the coroutine has exited.
pub fn reprioritize(id: CoroutineId, priority: Priority) -> bool {
    corank::reprioritize(id, priority)
        || in_other_shards(|handle| handle.reprioritize(id, priority))
}

/// Cancels a coroutine of the current runtime. Returns false if it was too late.
pub fn cancel(id: CoroutineId) -> bool {
    corank::cancel(id) || in_other_shards(|handle| handle.cancel(id))
}

/// Acts on a coroutine that is none of the shard that runs here.
///
/// Returns false if the runtime has no other shards.
fn in_other_shards(act: impl FnOnce(&Handle) -> bool) -> bool {
    corank::current_executor().is_some()
        && with_current(|current| {
            let current = current.filter(|handle| handle.0.executor.is_bounded());
            current.is_some_and(act)
        })
}

/// Keeps a runtime current on this thread until it is dropped; see
/// [`Runtime::enter`](crate::Runtime::enter).
#[derive(Debug)]
#[must_use = "the runtime is found until this is dropped"]
pub struct Entered {
    outer: Option<Current>,
    /// Its destructor restores the former runtime of this thread, so it stays there.
    _local: std::marker::PhantomData<*const ()>,
}

pub(crate) fn enter(handle: Handle) -> Entered {
    let within = corank::current_executor();
    let current = Current { handle, within };
    Entered {
        outer: CURRENT.replace(Some(current)),
        _local: std::marker::PhantomData,
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let outer = self.outer.take();
        let _ = CURRENT.try_with(|current| current.replace(outer));
    }
}
