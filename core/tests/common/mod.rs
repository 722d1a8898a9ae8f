//! What several of the tests use: executors, levels, drop counters, logs, coroutines that count.
//!
//! Tests that use nothing else run with every set of features. Without `alloc`, the executor lives
//! in a pool.

#![allow(
    dead_code,
    reason = "each test program uses a part of what is shared here"
)]

#[cfg(feature = "alloc")]
#[path = "../../conformance/src/served.rs"]
#[allow(unreachable_pub, reason = "public in the crate whose part it is")]
pub(crate) mod served;

pub(crate) mod asserts;
pub(crate) mod calls;

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::AtomicPtr;
use std::task::{Poll, Waker};

use corank::{Config, Executor, JoinHandle, Priority};

/// Returns the priority of a level that is known to be valid.
pub(crate) fn level(level: u8) -> Priority {
    Priority::new(level).unwrap()
}

/// Returns how often a test does something.
///
/// Where Miri interprets it, that is a hundredth of `native`, and at least twice.
pub(crate) const fn times(native: usize) -> usize {
    if cfg!(miri) && native > 200 {
        native / 100
    } else if cfg!(miri) && native > 2 {
        2
    } else {
        native
    }
}

/// Keeps a value for ever.
///
/// Unlike a leak it stays reachable, so that a search for leaks finds real ones only.
pub(crate) fn forever<T>(value: T) -> &'static mut T {
    static KEPT: std::sync::Mutex<Vec<AtomicPtr<()>>> = std::sync::Mutex::new(Vec::new());
    let kept = Box::leak(Box::new(value));
    KEPT.lock()
        .unwrap()
        .push(AtomicPtr::new((&raw mut *kept).cast()));
    kept
}

/// A counter of drops of guards, polls or wakes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counter(Rc<Cell<usize>>);

impl Counter {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.get()
    }

    pub(crate) fn add(&self) {
        self.0.set(self.0.get() + 1);
    }

    /// Returns a guard whose drop is counted.
    pub(crate) fn guard(&self) -> Guard {
        Guard(self.clone())
    }
}

/// A guard that counts its own drop.
#[derive(Debug)]
pub(crate) struct Guard(Counter);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.add();
    }
}

/// The slot where a coroutine leaves its waker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slot(Rc<RefCell<Option<Waker>>>);

impl Slot {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn take(&self) -> Waker {
        self.0.take().expect("the coroutine has left its waker")
    }

    pub(crate) fn try_take(&self) -> Option<Waker> {
        self.0.take()
    }

    /// Returns a future that counts its polls and leaves its waker at each.
    ///
    /// It is ready at poll number `ready_at`.
    pub(crate) fn wait(
        &self,
        polls: &Counter,
        ready_at: usize,
    ) -> impl Future<Output = ()> + 'static {
        let (slot, polls) = (self.clone(), polls.clone());
        poll_fn(move |cx| {
            polls.add();
            if polls.count() >= ready_at {
                return Poll::Ready(());
            }
            *slot.0.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
    }
}

#[cfg(not(feature = "std"))]
mod slot {
    use std::cell::Cell;

    std::thread_local! {
        static SLOT: Cell<*const ()> = const { Cell::new(std::ptr::null()) };
    }

    struct Slot;
    // SAFETY: each thread has its own, and there are no interrupts.
    unsafe impl corank::ContextSlot for Slot {
        fn get() -> *const () {
            SLOT.get()
        }

        fn set(context: *const ()) {
            SLOT.set(context);
        }
    }
    corank::context_slot!(Slot);
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
    let pool = forever(corank::Pool::<64, 1024>::new());
    Executor::in_pool(pool, config).unwrap()
}

/// Spawns a coroutine at a level.
pub(crate) fn spawn<F: Future + 'static>(
    executor: &Executor,
    at: u8,
    future: F,
) -> JoinHandle<F::Output> {
    executor.spawn(level(at), future).unwrap()
}

/// A log of what happened, in order.
#[derive(Clone, Default)]
pub(crate) struct Log(Rc<RefCell<Vec<String>>>);

impl Log {
    pub(crate) fn push(&self, entry: impl Into<String>) {
        self.0.borrow_mut().push(entry.into());
    }

    /// Returns everything since the last call.
    pub(crate) fn take(&self) -> String {
        self.0.borrow_mut().drain(..).collect::<Vec<_>>().join(" ")
    }
}

/// Polls a future once and returns its answer.
pub(crate) async fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *future).poll(cx))).await
}
