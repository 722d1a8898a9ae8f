//! A priority listener of a shared executor learns the live level of its coroutine.
//!
//! It works for that coroutine, and any thread may change the level (rules I2, I4, I9).

#![cfg(feature = "std")]

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;

use crate::common::level;
use corank::workers::{PriorityListener, Shared};
use corank::{Priority, SharedExecutor};

/// A listener that records its notifications.
struct Notes {
    listener: PriorityListener<Mutex<Vec<u8>>>,
}

fn note(listener: &PriorityListener<Mutex<Vec<u8>>>, level: Priority) {
    listener.data().lock().unwrap().push(level.level());
}

impl Notes {
    fn new(executor: &SharedExecutor) -> Pin<Arc<Self>> {
        // SAFETY: noting calls nothing of the crate, and no caller of it holds the lock.
        let listener =
            unsafe { PriorityListener::with_data(Shared::from(executor), Mutex::default(), note) };
        Arc::pin(Self { listener })
    }

    fn wait(self: Pin<&Self>) {
        // SAFETY: pinned with the rest.
        unsafe { self.map_unchecked(|notes| &notes.listener) }.wait();
    }

    /// Returns the notifications since the last call.
    fn told(&self) -> Vec<u8> {
        std::mem::take(&mut self.listener.data().lock().unwrap())
    }
}

/// Waits for ever.
fn waits(notes: &Pin<Arc<Notes>>) -> impl Future<Output = ()> + Send + 'static {
    let notes = notes.clone();
    poll_fn(move |_| {
        notes.as_ref().wait();
        Poll::Pending
    })
}

fn run(executor: &SharedExecutor) {
    executor.worker(Waker::noop().clone()).run_until_idle();
}

#[test]
fn a_listener_is_notified_of_each_change() {
    let executor = SharedExecutor::new();
    let notes = Notes::new(&executor);
    let coroutine = executor.spawn(level(20), waits(&notes)).unwrap();
    run(&executor);
    assert_eq!(notes.told(), [20], "when the wait begins");
    let id = coroutine.id();
    thread::scope(|scope| {
        scope.spawn(|| executor.reprioritize(id, level(30)));
    });
    executor.reprioritize(id, level(30));
    assert_eq!(notes.told(), [30]);
    // Donated by the coroutine that waits for its handle, and given back.
    let awaits = async move { coroutine.await.is_ok() };
    let awaits = executor.spawn(level(4), awaits).unwrap();
    run(&executor);
    assert_eq!(notes.told(), [4]);
    executor.reprioritize(awaits.id(), level(2));
    awaits.cancel();
    assert_eq!(notes.told(), [2, 30]);
    assert!(executor.wake(id));
    run(&executor);
    assert_eq!(notes.told(), [30], "each poll begins the wait anew");
    executor.cancel(id);
    assert_eq!(notes.told(), []);
}

/// The coroutine that polls last is the one that waits.
///
/// Code that is no coroutine of the executor counts as the default level.
#[test]
fn a_listener_follows_the_coroutine_that_polls() {
    let executor = SharedExecutor::new();
    let notes = Notes::new(&executor);
    let first = executor.spawn(level(20), waits(&notes)).unwrap();
    run(&executor);
    let second = executor.spawn(level(40), waits(&notes)).unwrap();
    run(&executor);
    assert_eq!(notes.told(), [20, 40]);
    executor.reprioritize(first.id(), level(1));
    assert_eq!(notes.told(), []);
    executor.reprioritize(second.id(), level(3));
    assert_eq!(notes.told(), [3]);
    notes.as_ref().wait();
    let other = SharedExecutor::new();
    drop(other.spawn(level(7), waits(&notes)).unwrap());
    run(&other);
    let default = Priority::DEFAULT.level();
    assert_eq!(notes.told(), [default, default]);
    executor.reprioritize(second.id(), level(5));
    assert_eq!(notes.told(), []);
}

/// It may end before the coroutine does, on any thread, and outlive its executor.
#[test]
fn a_listener_may_end_on_any_thread() {
    let executor = SharedExecutor::new();
    let notes = Notes::new(&executor);
    let kept = notes.clone();
    let mut polled = Some(notes.clone());
    let once = poll_fn(move |_: &mut Context<'_>| {
        if let Some(notes) = polled.take() {
            notes.as_ref().wait();
        }
        Poll::<()>::Pending
    });
    let coroutine = executor.spawn(level(9), once).unwrap();
    run(&executor);
    assert_eq!(notes.told(), [9]);
    drop(notes);
    thread::spawn(move || drop(kept)).join().unwrap();
    assert!(
        executor.reprioritize(coroutine.id(), level(8)),
        "no function is called"
    );

    let late = Notes::new(&executor);
    let waits = executor.spawn(level(6), waits(&late)).unwrap();
    run(&executor);
    drop((executor, waits, coroutine));
    assert_eq!(late.told(), [6]);
    late.as_ref().wait();
    assert_eq!(late.told(), [Priority::DEFAULT.level()]);
}
