//! An executor of one thread, or a shared one that one worker serves, under one interface: what a test says of the one
//! holds for the other.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use corank::{
    Config, CoroutineId, Executor, JoinError, JoinHandle, Levels, Priority, Published,
    SharedExecutor, SharedHandle, SpawnError, State, Step, SystemView,
};

pub(crate) enum Served {
    Single(Executor),
    Shared(SharedExecutor),
}

/// A future for a shared executor that one thread uses, and drops.
pub(crate) struct OnOneThread<F>(pub(crate) F);

// SAFETY: it is not sent anywhere.
unsafe impl<F> Send for OnOneThread<F> {}

impl<F: Future<Output: Send>> Future for OnOneThread<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future is pinned with its wrapper.
        unsafe { self.map_unchecked_mut(|this| &mut this.0) }.poll(cx)
    }
}

/// Calls the method of either.
macro_rules! either {
    ($served:expr, $executor:ident => $call:expr) => {
        match $served {
            Served::Single($executor) => $call,
            Served::Shared($executor) => $call,
        }
    };
}

impl Served {
    pub(crate) fn new(config: Config, shared: bool) -> Self {
        if shared {
            Self::Shared(SharedExecutor::with(config))
        } else {
            Self::Single(Executor::with(config))
        }
    }

    pub(crate) fn spawn<F>(
        &self,
        priority: Priority,
        future: F,
    ) -> Result<Handle<F::Output>, SpawnError>
    where
        F: Future<Output: Send> + 'static,
    {
        Ok(match self {
            Self::Single(executor) => Handle::Single(executor.spawn(priority, future)?),
            Self::Shared(executor) => {
                Handle::Shared(executor.spawn(priority, OnOneThread(future))?)
            }
        })
    }

    pub(crate) fn step_under(&self, view: &impl SystemView) -> Step {
        match self {
            Self::Single(executor) => executor.step_under(view),
            // Workers come and go between two steps.
            Self::Shared(executor) => (executor.worker(Waker::noop().clone())).step_under(view),
        }
    }

    pub(crate) fn wake(&self, id: CoroutineId) -> bool {
        either!(self, executor => executor.wake(id))
    }

    pub(crate) fn reprioritize(&self, id: CoroutineId, priority: Priority) -> bool {
        either!(self, executor => executor.reprioritize(id, priority))
    }

    pub(crate) fn cancel(&self, id: CoroutineId) -> bool {
        either!(self, executor => executor.cancel(id))
    }

    pub(crate) fn state(&self, id: CoroutineId) -> Option<State> {
        either!(self, executor => executor.state(id))
    }

    pub(crate) fn priority(&self, id: CoroutineId) -> Option<Priority> {
        either!(self, executor => executor.priority(id))
    }

    pub(crate) fn ready(&self) -> Levels {
        either!(self, executor => executor.ready())
    }

    pub(crate) fn advance(&self, now: u64) -> usize {
        either!(self, executor => executor.advance(now))
    }

    pub(crate) fn published(&self) -> &Published {
        either!(self, executor => executor.published())
    }
}

pub(crate) enum Handle<T> {
    Single(JoinHandle<T>),
    Shared(SharedHandle<T>),
}

impl<T> Handle<T> {
    pub(crate) fn id(&self) -> CoroutineId {
        match self {
            Self::Single(handle) => handle.id(),
            Self::Shared(handle) => handle.id(),
        }
    }

    pub(crate) fn try_join(self) -> Result<Result<T, JoinError>, Self> {
        match self {
            Self::Single(handle) => handle.try_join().map_err(Self::Single),
            Self::Shared(handle) => handle.try_join().map_err(Self::Shared),
        }
    }
}

impl<T> Future for Handle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the handle inside is pinned with this one.
        unsafe {
            match self.get_unchecked_mut() {
                Self::Single(handle) => Pin::new_unchecked(handle).poll(cx),
                Self::Shared(handle) => Pin::new_unchecked(handle).poll(cx),
            }
        }
    }
}
