//! Wakers (rules W1 to W8): how many polls a wake makes.
//!
//! Also what a waker still reaches when its coroutine is gone.

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Wake, Waker};

use crate::common::{Counter, Slot, executor, executor_with, level, spawn};
use corank::{Config, State};

/// Wakes by a clone that the wake uses up.
fn wake_by_clone(waker: &Waker) {
    let clone = waker.clone();
    let kept = clone.clone();
    clone.wake();
    drop(kept);
}

#[test]
fn many_wakes_are_one_poll() {
    let executor = executor();
    let (slot, polls) = (Slot::new(), Counter::new());
    let handle = spawn(&executor, 5, slot.wait(&polls, usize::MAX));
    assert_eq!(executor.run_until_idle(), 1);
    let waker = slot.take();
    for round in 2..5 {
        for _ in 0..3 {
            waker.wake_by_ref();
            wake_by_clone(&waker);
            assert!(executor.wake(handle.id()));
        }
        assert_eq!(executor.run_until_idle(), 1);
        assert_eq!(polls.count(), round);
    }
}

#[test]
fn wake_of_a_ready_coroutine_keeps_its_place() {
    let executor = executor();
    let log = crate::common::Log::default();
    let handles: Vec<_> = ["a", "b"]
        .map(|name| {
            let log = log.clone();
            spawn(&executor, 5, async move { log.push(name) })
        })
        .into();
    assert!(executor.wake(handles[0].id()));
    handles[0].remote().wake();
    assert_eq!(executor.run_until_idle(), 2);
    assert_eq!(log.take(), "a b");
}

#[test]
fn wakes_during_a_poll_are_remembered_once() {
    let executor = executor();
    let polls = Counter::new();
    let count = polls.clone();
    drop(spawn(
        &executor,
        5,
        poll_fn(move |cx| -> Poll<()> {
            count.add();
            if count.count() == 1 {
                cx.waker().wake_by_ref();
                wake_by_clone(cx.waker());
                corank::wake(corank::current().unwrap());
            }
            Poll::Pending
        }),
    ));
    assert_eq!(executor.run_until_idle(), 2);
    assert_eq!(polls.count(), 2);
}

#[test]
fn dropping_wakers_wakes_nothing() {
    let executor = executor();
    let (slot, polls) = (Slot::new(), Counter::new());
    let handle = spawn(&executor, 5, slot.wait(&polls, usize::MAX));
    executor.run_until_idle();
    let waker = slot.take();
    drop((waker.clone(), waker));
    assert_eq!(executor.run_until_idle(), 0);
    assert_eq!(executor.state(handle.id()), Some(State::Blocked));
}

#[test]
fn will_wake_tells_coroutines_apart() {
    let executor = executor();
    let (one, two, polls) = (Slot::new(), Slot::new(), Counter::new());
    let handles = [&one, &two].map(|slot| spawn(&executor, 5, slot.wait(&polls, usize::MAX)));
    executor.run_until_idle();
    let (one, two) = (one.take(), two.take());
    assert!(one.will_wake(&one.clone()));
    assert!(!one.will_wake(&two));
    drop(handles);
}

#[test]
fn waker_outlives_its_coroutine_and_reaches_no_other() {
    let executor = executor();
    let (slot, polls) = (Slot::new(), Counter::new());
    let handle = spawn(&executor, 5, slot.wait(&polls, 2));
    let index = handle.id().to_bits() as u32;
    executor.run_until_idle();
    let waker = slot.take();
    waker.wake_by_ref();
    executor.run_until_idle();
    drop((handle, slot.try_take()));
    // The slot is not used again while the waker lives.
    let strangers: Vec<_> = (0..20)
        .map(|_| spawn(&executor, 5, pending::<()>()))
        .collect();
    assert!(
        strangers
            .iter()
            .all(|handle| handle.id().to_bits() as u32 != index)
    );
    executor.run_until_idle();
    waker.wake_by_ref();
    wake_by_clone(&waker);
    assert_eq!(executor.run_until_idle(), 0);
    // The last one makes it free.
    drop(waker);
    executor.run_until_idle();
    let next = spawn(&executor, 5, async {});
    assert_eq!(next.id().to_bits() as u32, index);
    drop(strangers);
}

#[test]
fn waker_outlives_the_executor() {
    let executor = executor();
    let (slot, polls) = (Slot::new(), Counter::new());
    let handle = spawn(&executor, 5, slot.wait(&polls, usize::MAX));
    executor.run_until_idle();
    let waker = slot.take();
    drop(executor);
    waker.wake_by_ref();
    drop(handle);
    wake_by_clone(&waker);
    waker.wake();
    assert_eq!(polls.count(), 1);
}

#[derive(Default)]
struct Notified(AtomicUsize);

impl Wake for Notified {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The platform is notified of what comes from outside.
///
/// It is notified once each time that something new arrives, and never of what the executor does
/// itself.
#[test]
fn the_platform_is_notified_of_arrivals_only() {
    let notified = Arc::new(Notified::default());
    let executor = executor_with(Config::new().notify(Waker::from(notified.clone())));
    let notified = || notified.0.load(Ordering::Relaxed);
    let (slot, polls) = (Slot::new(), Counter::new());
    let handle = spawn(&executor, 7, slot.wait(&polls, usize::MAX));
    executor.run_until_idle();
    let waker = slot.take();
    let id = handle.id();
    // From outside a run: by the inbox. Two before the executor checks it are one arrival.
    waker.wake_by_ref();
    waker.wake_by_ref();
    assert_eq!(notified(), 1);
    assert_eq!(
        executor.published().arriving().most_urgent(),
        Some(level(7))
    );
    assert_eq!(executor.run_until_idle(), 1);
    assert!(executor.published().arriving().is_empty());
    waker.wake_by_ref();
    assert_eq!(notified(), 2);
    executor.run_until_idle();
    // From a coroutine of the same executor: straight to the queue.
    let local = waker.clone();
    drop(spawn(&executor, 5, async move {
        local.wake();
        assert!(corank::wake(id));
    }));
    assert_eq!(executor.run_until_idle(), 2);
    assert_eq!(notified(), 2);
    // From another thread.
    std::thread::spawn(move || waker.wake()).join().unwrap();
    assert_eq!(notified(), 3);
    assert_eq!(executor.run_until_idle(), 1);
}

/// A poll may give its borrowed waker to other threads for the time of the poll.
#[test]
fn borrowed_waker_on_other_threads() {
    let executor = executor();
    let polls = Counter::new();
    let count = polls.clone();
    drop(spawn(
        &executor,
        5,
        poll_fn(move |cx| {
            count.add();
            if count.count() == 3 {
                return Poll::Ready(());
            }
            let waker = cx.waker();
            std::thread::scope(|scope| {
                scope.spawn(|| waker.wake_by_ref());
                scope.spawn(|| wake_by_clone(waker));
            });
            Poll::Pending
        }),
    ));
    assert_eq!(executor.run_until_idle(), 3);
    assert_eq!((polls.count(), executor.live()), (3, 0));
}

/// A coroutine that makes more wakers than the count has room for panics, and nothing overflows.
#[cfg(feature = "std")]
#[test]
fn too_many_wakers_are_a_panic() {
    let executor = executor();
    let kept: std::rc::Rc<std::cell::RefCell<Vec<Waker>>> = std::rc::Rc::default();
    let wakers = kept.clone();
    let handle = spawn(
        &executor,
        5,
        poll_fn(move |cx| -> Poll<()> {
            loop {
                let waker = cx.waker().clone();
                wakers.borrow_mut().push(waker);
            }
        }),
    );
    std::panic::set_hook(Box::new(|_| {}));
    assert_eq!(executor.run_until_idle(), 1);
    drop(std::panic::take_hook());
    let error = handle.try_join().unwrap().unwrap_err();
    let limit = if cfg!(miri) { 1 << 10 } else { 524_287 };
    assert_eq!(
        error.to_string(),
        format!("the coroutine panicked: more than {limit} wakers of one coroutine")
    );
    assert_eq!(kept.borrow().len(), limit);
    kept.borrow_mut().clear();
    executor.run_until_idle();
    assert_eq!(spawn(&executor, 5, async {}).id().to_bits() as u32, 0);
}
