//! What the tests have in common. They run with every set of features: without `alloc`, the executor lives in a pool.

#![allow(
    dead_code,
    reason = "each test file is a crate of its own and uses a part"
)]

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use corank::{Config, Executor, JoinHandle, Priority};

#[cfg(not(feature = "std"))]
mod slot {
    use std::cell::Cell;

    std::thread_local! {
        static SLOT: Cell<*const ()> = const { Cell::new(std::ptr::null()) };
    }

    corank::context_slot! {
        get: || SLOT.get(),
        set: |context| SLOT.set(context),
    }
}

pub(crate) fn executor() -> Executor {
    executor_with(Config::new())
}

#[cfg(feature = "alloc")]
pub(crate) fn executor_with(config: Config) -> Executor {
    Executor::with(config)
}

#[cfg(not(feature = "alloc"))]
pub(crate) fn executor_with(config: Config) -> Executor {
    let pool = Box::leak(Box::new(corank::Pool::<64, 1024>::new()));
    Executor::in_pool(pool, config).unwrap()
}

pub(crate) fn level(level: u8) -> Priority {
    Priority::new(level).unwrap()
}

/// Spawns at a level.
pub(crate) fn spawn<F: Future + 'static>(
    executor: &Executor,
    at: u8,
    future: F,
) -> JoinHandle<F::Output> {
    executor.spawn(level(at), future).unwrap()
}

/// What happened, in order.
#[derive(Clone, Default)]
pub(crate) struct Log(Rc<RefCell<Vec<String>>>);

impl Log {
    pub(crate) fn push(&self, entry: impl Into<String>) {
        self.0.borrow_mut().push(entry.into());
    }

    /// Everything since the last call.
    pub(crate) fn take(&self) -> String {
        self.0.borrow_mut().drain(..).collect::<Vec<_>>().join(" ")
    }
}

/// Polls a future once and gives back what it said.
pub(crate) async fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    std::future::poll_fn(|cx: &mut Context<'_>| Poll::Ready(Pin::new(&mut *future).poll(cx))).await
}
