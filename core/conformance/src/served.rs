//! One interface to an executor of one thread, and to a shared one that one worker or several
//! threads serve.
//!
//! What a test says of the one holds for the others.

use alloc::rc::Rc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use corank::{
    Config, CoroutineId, Executor, JoinError, JoinHandle, Levels, Priority, Published,
    SharedExecutor, SharedHandle, SpawnError, State, Step, SystemView,
};

/// The workers that poll an executor's coroutines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Workers {
    /// It is an executor of one thread.
    #[default]
    None,
    /// It could be shared, and one worker serves it.
    One,
    /// It is shared: each step is made by another thread, beside an idle worker of the test's.
    #[cfg(feature = "std")]
    Threads,
}

/// A scene's executor in the loop of a platform, whose thread or hart polls its coroutines.
///
/// The replayer does on its own thread what a scene does outside of polls. So it must be
/// alone while it does: between two calls of [`step`](Self::step), the loop polls nothing.
pub trait Driver {
    /// Returns the executor, which has the configuration of the scene.
    fn executor(&self) -> &SharedExecutor;

    /// Lets the loop make one step, while the system view says `elsewhere`.
    fn step(&self, elsewhere: Option<Priority>) -> Step;

    /// Makes the time of the executor's clock `now`.
    fn advance(&self, now: u64);
}

pub(crate) enum Served {
    Single(Executor),
    Shared(SharedExecutor),
    #[cfg(feature = "std")]
    Threads(SharedExecutor),
    Driven(Rc<dyn Driver>),
}

/// A future for a shared executor that one thread at a time uses, and drops.
pub(crate) struct OnOneThread<F>(pub(crate) F);

// SAFETY: it is sent only to a thread, and the sender waits for the end of that
// ([`on_another_thread`]).
unsafe impl<F> Send for OnOneThread<F> {}

/// Calls `run` on a thread of its own, and waits until that has ended.
#[cfg(feature = "std")]
fn on_another_thread<R: Send>(run: impl FnOnce() -> R) -> R {
    struct Lent<F>(F);
    // SAFETY: the thread that lends it does nothing until the other one has ended.
    unsafe impl<F> Send for Lent<F> {}
    impl<R, F: FnOnce() -> R> Lent<F> {
        fn call(self) -> R {
            (self.0)()
        }
    }
    let lent = Lent(run);
    std::thread::scope(|scope| scope.spawn(|| lent.call()).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

impl<F: Future<Output: Send>> Future for OnOneThread<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future is pinned with its wrapper.
        unsafe { self.map_unchecked_mut(|this| &mut this.0) }.poll(cx)
    }
}

/// Calls the method of the executor, of whichever kind it is.
macro_rules! either {
    ($served:expr, $executor:ident => $call:expr) => {
        match $served {
            Served::Single($executor) => $call,
            Served::Shared($executor) => $call,
            #[cfg(feature = "std")]
            Served::Threads($executor) => $call,
            Served::Driven(driver) => {
                let $executor = driver.executor();
                $call
            }
        }
    };
}

impl Served {
    pub(crate) fn new(config: Config, workers: Workers) -> Self {
        match workers {
            Workers::None => Self::Single(Executor::with(config)),
            Workers::One => Self::Shared(SharedExecutor::with(config)),
            #[cfg(feature = "std")]
            Workers::Threads => Self::Threads(SharedExecutor::with(config)),
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
            #[cfg(feature = "std")]
            Self::Threads(executor) => {
                Handle::Shared(executor.spawn(priority, OnOneThread(future))?)
            }
            Self::Driven(driver) => {
                Handle::Shared(driver.executor().spawn(priority, OnOneThread(future))?)
            }
        })
    }

    pub(crate) fn step_under(&self, view: &impl SystemView) -> Step {
        match self {
            Self::Single(executor) => executor.step_under(view),
            #[cfg(feature = "std")]
            Self::Threads(executor) => {
                let _idle = executor.worker(Waker::noop().clone());
                on_another_thread(|| (executor.worker(Waker::noop().clone())).step_under(view))
            }
            // Workers come and go between two steps.
            Self::Shared(executor) => (executor.worker(Waker::noop().clone())).step_under(view),
            Self::Driven(driver) => driver.step(view.most_urgent_elsewhere()),
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

    pub(crate) fn advance(&self, now: u64) {
        match self {
            Self::Driven(driver) => driver.advance(now),
            _ => {
                either!(self, executor => executor.advance(now));
            }
        }
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
