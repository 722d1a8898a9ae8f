//! What the tests under loom share: how far they explore, memory that loom watches, threads that
//! sleep.

#![allow(
    dead_code,
    reason = "each test program uses a part of what is shared here"
)]

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use corank::Priority;
use loom::cell::UnsafeCell;
use loom::sync::Notify;

/// Explores all interleavings with at most this many preemptions of threads that could go on.
pub(crate) fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.max_branches = 20_000;
    builder.check(model);
}

pub(crate) fn level(level: u8) -> Priority {
    Priority::new(level).unwrap()
}

/// Plain memory that a wake, a poll or a lock has to carry from one thread to another.
///
/// Loom fails the test when two accesses are not ordered.
pub(crate) struct Payload(UnsafeCell<u32>);

// SAFETY: loom fails the test when two accesses are not ordered.
unsafe impl Sync for Payload {}
// SAFETY: as above.
unsafe impl Send for Payload {}

impl Payload {
    pub(crate) fn new() -> Self {
        Self(UnsafeCell::new(0))
    }

    pub(crate) fn write(&self, value: u32) {
        // SAFETY: as above.
        self.0.with_mut(|payload| unsafe { *payload = value });
    }

    pub(crate) fn add(&self) {
        // SAFETY: as above.
        self.0.with_mut(|payload| unsafe { *payload += 1 });
    }

    pub(crate) fn read(&self) -> u32 {
        // SAFETY: as above.
        self.0.with(|payload| unsafe { *payload })
    }
}

/// A waker that lets a thread sleep until it is woken.
///
/// Loom reports a deadlock if the wake is missing.
pub(crate) struct Park(Notify);

impl Park {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Notify::new()))
    }

    pub(crate) fn wait(&self) {
        self.0.wait();
    }
}

impl Wake for Park {
    fn wake(self: Arc<Self>) {
        self.0.notify();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.notify();
    }
}

/// Waits for a future on a thread that runs no executor.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let park = Park::new();
    let waker = Waker::from(park.clone());
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => park.wait(),
        }
    }
}
