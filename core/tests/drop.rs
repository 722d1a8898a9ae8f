//! What is dropped, when, how often: futures, outputs, handles, wakers and executors in every order.

#![cfg(feature = "std")]

mod common;

use std::cell::RefCell;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use common::{Counter, level};
use corank::{Executor, JoinError, JoinHandle, Priority};

/// Regression: the handle that a dropped coroutine owned was the last one, and took the executor's own anchor with it.
#[test]
fn executor_drops_the_coroutine_that_owns_the_last_handle() {
    let executor = Executor::new();
    let drops = Counter::new();
    let guard = drops.guard();
    let inner = executor
        .spawn(level(9), async move {
            pending::<()>().await;
            drop(guard);
        })
        .unwrap();
    let guard = drops.guard();
    drop(executor.spawn(level(3), async move {
        inner.await.unwrap();
        drop(guard);
    }));
    executor.run_until_idle();
    assert_eq!(drops.count(), 0);
    drop(executor);
    assert_eq!(drops.count(), 2);
}

/// Regression: a remote that was made after the executor had gone gave back an anchor that nobody had taken for it.
#[test]
fn remote_made_after_the_executor_is_gone() {
    let executor = Executor::new();
    let handle = executor.spawn(Priority::DEFAULT, pending::<()>()).unwrap();
    drop(executor);
    for _ in 0..3 {
        let remote = handle.remote();
        let second = remote.clone();
        drop(remote);
        assert!(!second.wake() && !second.cancel() && !second.reprioritize(level(1)));
    }
    assert!(matches!(handle.try_join(), Ok(Err(JoinError::Cancelled))));
}

thread_local! {
    static HELD: RefCell<Option<Pin<Box<JoinHandle<String>>>>> = const { RefCell::new(None) };
}

/// A waker of another runtime that drops what it was to wake.
struct DropsTheHandle;

impl Wake for DropsTheHandle {
    fn wake(self: Arc<Self>) {
        drop(HELD.take());
    }
}

/// Regression: a foreign waker that dropped the handle it was registered with freed the waiter under the executor's
/// hands, and the slot twice.
#[test]
fn waker_drops_the_handle_that_it_was_registered_with() {
    let executor = Executor::new();
    let handle = executor
        .spawn(Priority::DEFAULT, async { String::from("unclaimed") })
        .unwrap();
    let id = handle.id();
    let mut handle = Box::pin(handle);
    let waker = Waker::from(Arc::new(DropsTheHandle));
    assert!(
        handle
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    HELD.set(Some(handle));
    assert_eq!(executor.run_until_idle(), 1);
    assert!(HELD.with_borrow(Option::is_none));
    assert_eq!(executor.state(id), None);
    // The slot is free once, not twice: two newcomers get different ones.
    let one = executor.spawn(Priority::DEFAULT, async { 1 }).unwrap();
    let two = executor.spawn(Priority::DEFAULT, async { 2 }).unwrap();
    assert_ne!(one.id(), two.id());
    executor.run_until_idle();
    assert_eq!(one.try_join().unwrap().unwrap(), 1);
    assert_eq!(two.try_join().unwrap().unwrap(), 2);
}
