//! Safe code that calls back into the core from everything that the core calls.
//!
//! No such program has undefined behaviour, loses a wake, or donates urgency to an unrelated
//! coroutine. The list of what the core calls is in `core/src/callback.rs`.
//!
//! Many of these tests pass where the core is wrong unless Miri runs them
//! (`cargo xtask test --only miri`).

#![cfg(feature = "std")]
#![forbid(unsafe_code)]

mod callbacks;
mod chains;
mod destructors;
mod exits;
mod notified;
mod one_thread;
mod outlived;

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crate::common::spawn;
use corank::sync::Mutex;
use corank::{Executor, JoinHandle};

type Wait = Pin<Box<dyn Future<Output = ()>>>;
type Act = Box<dyn FnOnce()>;

/// Polls once, outside of any coroutine unless this is called by one.
fn poll_now(wait: &mut Wait, waker: &Waker) -> Poll<()> {
    wait.as_mut().poll(&mut Context::from_waker(waker))
}

thread_local! {
    /// The actions of this thread's wakers, by number.
    static ON_WAKE: RefCell<HashMap<usize, Act>> = RefCell::default();
    static ON_DROP: RefCell<HashMap<usize, Act>> = RefCell::default();
}

struct Trap(usize);

impl Wake for Trap {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let act = ON_WAKE.with_borrow_mut(|acts| acts.remove(&self.0));
        act.into_iter().for_each(|act| act());
    }
}

impl Drop for Trap {
    fn drop(&mut self) {
        let act = ON_DROP
            .try_with(|acts| acts.borrow_mut().remove(&self.0))
            .ok()
            .flatten();
        act.into_iter().for_each(|act| act());
    }
}

/// Returns a waker that runs `on_wake` when it is woken first, and `on_drop` when it is dropped
/// last.
///
/// Both run on this thread.
fn trap(on_wake: impl FnOnce() + 'static, on_drop: impl FnOnce() + 'static) -> Waker {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    ON_WAKE.with_borrow_mut(|acts| acts.insert(number, Box::new(on_wake)));
    ON_DROP.with_borrow_mut(|acts| acts.insert(number, Box::new(on_drop)));
    Arc::new(Trap(number)).into()
}

thread_local! {
    /// A future that need not be `Send`, for coroutines that must be.
    static KEPT: RefCell<Option<Wait>> = const { RefCell::new(None) };
}

thread_local! {
    static HANDLE: RefCell<Option<JoinHandle<()>>> = const { RefCell::new(None) };
    static EXECUTOR: RefCell<Option<Executor>> = const { RefCell::new(None) };
}

/// A future that several coroutines may poll, and that belongs to none of them.
type Common = Rc<RefCell<Wait>>;

/// Spawns a coroutine that polls `wait` by `waker` in its first poll, and exits in the next.
fn polls_once(executor: &Executor, at: u8, wait: &Common, waker: Waker) -> JoinHandle<()> {
    let wait = wait.clone();
    let mut waker = Some(waker);
    let polls = poll_fn(move |_| match waker.take() {
        None => Poll::Ready(()),
        Some(waker) => {
            assert!(poll_now(&mut wait.borrow_mut(), &waker).is_pending());
            Poll::Pending
        }
    });
    spawn(executor, at, polls)
}

fn lock_of(mutex: &Rc<Mutex<()>>) -> Common {
    let mutex = mutex.clone();
    Rc::new(RefCell::new(Box::pin(async move {
        drop(mutex.lock().await);
    })))
}
