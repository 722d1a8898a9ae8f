//! Wakers that act: of timers, of the notifier, of workers.

use std::cell::RefCell;
use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::{Poll, Waker};

use super::{Common, EXECUTOR, HANDLE, KEPT, Wait, poll_now, polls_once, trap};
use crate::common::{Counter, executor, executor_with, forever, level, spawn};
use corank::{Config, SharedExecutor, Worker, time, yield_now};

/// A timer that is set while its executor is being dropped outlives that executor.
///
/// The executor still runs while it is being dropped. Once it is gone, the timer is none of its own
/// any more.
#[test]
fn a_timer_that_is_set_while_its_executor_goes_outlives_it() {
    let executor = executor();
    let waits = spawn(&executor, 9, pending::<()>());
    executor.run_until_idle();
    let set = || {
        let mut sleep: Wait = Box::pin(time::sleep_until(1_000));
        assert!(poll_now(&mut sleep, Waker::noop()).is_pending());
        KEPT.set(Some(sleep));
    };
    let mut awaits: Wait = Box::pin(async move { drop(waits.await) });
    assert!(poll_now(&mut awaits, &trap(set, || ())).is_pending());
    drop(executor);
    drop(awaits);
    let sleep = KEPT.take();
    if let Some(mut sleep) = sleep {
        // In another executor it begins anew.
        let executor = self::executor();
        let mut polls = 0;
        let sleeps = spawn(
            &executor,
            9,
            poll_fn(move |cx| {
                polls += 1;
                assert!(polls < 3);
                sleep.as_mut().poll(cx)
            }),
        );
        executor.run_until_idle();
        executor.advance(1_000);
        executor.run_until_idle();
        assert!(sleeps.has_exited());
    }
}

/// The waker of a timer sets the next timer when the executor abandons it.
#[test]
fn a_waker_that_sets_a_timer_while_its_executor_goes() {
    let executor = executor();
    let sleep: Common = Rc::new(RefCell::new(Box::pin(time::sleep_until(7))));
    let set = || {
        let mut sleep: Wait = Box::pin(time::sleep_until(1_000));
        let _pending_or_not = catch_unwind(AssertUnwindSafe(|| {
            assert!(poll_now(&mut sleep, Waker::noop()).is_pending());
        }));
        KEPT.set(Some(sleep));
    };
    let polls = polls_once(&executor, 9, &sleep, trap(|| (), set));
    executor.run_until_idle();
    drop(executor);
    drop((sleep, polls));
    drop(KEPT.take());
}

/// The notifier is called in the middle of a wake from outside.
#[test]
fn a_notifier_drops_the_executor_that_calls_it() {
    let notify = trap(
        || {
            let executor = EXECUTOR.take().unwrap();
            executor.run_until_idle();
            drop(HANDLE.take());
            drop(executor);
        },
        || (),
    );
    let executor = executor_with(Config::new().notify(notify));
    let mut waker = None;
    let coroutine = spawn(&executor, 9, async {
        pending::<()>().await;
    });
    let remote = coroutine.remote();
    let kept = Rc::new(RefCell::new(None));
    let leaves = kept.clone();
    let other = poll_fn(move |cx| {
        *leaves.borrow_mut() = Some(cx.waker().clone());
        Poll::<()>::Pending
    });
    drop(spawn(&executor, 9, other));
    executor.run_until_idle();
    waker.clone_from(&*kept.borrow());
    HANDLE.set(Some(coroutine));
    EXECUTOR.set(Some(executor));
    waker.expect("it was polled").wake();
    assert!(!remote.wake());
    drop(kept.take());
}

/// A worker is called with nothing held.
#[test]
fn a_worker_runs_while_it_is_called() {
    thread_local!(static WORKER: RefCell<Option<Worker<'static>>> = const { RefCell::new(None) });
    let executor: &'static SharedExecutor = forever(SharedExecutor::new());
    let steps = Counter::new();
    let count = steps.clone();
    let call = trap(
        move || {
            WORKER.with_borrow(|worker| worker.as_ref().unwrap().run_until_idle());
            count.add();
        },
        || (),
    );
    let worker = executor.worker(call);
    worker.run_until_idle();
    WORKER.set(Some(worker));
    let done = executor.spawn(level(4), yield_now()).unwrap();
    assert_eq!(steps.count(), 1);
    assert!(done.has_exited());
    drop(WORKER.take());
}
