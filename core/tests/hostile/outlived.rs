//! Identifiers and waits that outlive what they name.

use std::cell::RefCell;
use std::future::pending;
use std::rc::Rc;
use std::task::{Context, Waker};

use super::{Common, lock_of, polls_once};
use crate::common::{forever, level, spawn};
use corank::sync::Mutex;
use corank::{Config, Executor, Pool, SharedExecutor, workers};

/// A lock outlives the executor of its holder.
///
/// A later executor in the same memory has a coroutine with the same identifier.
#[test]
fn a_later_executor_at_the_same_place_inherits_nothing() {
    let pool: &'static Pool<4, 256> = forever(Pool::new());
    let mutex = Rc::new(Mutex::new(()));
    let held = mutex.clone();
    let holds: Common = Rc::new(RefCell::new(Box::pin(async move {
        let _held = held.lock().await;
        pending::<()>().await;
    })));
    let first = Executor::in_pool(pool, Config::new()).unwrap();
    drop(polls_once(&first, 60, &holds, Waker::noop().clone()));
    first.run_until_idle();
    drop(first);
    let second = Executor::in_pool(pool, Config::new()).unwrap();
    let stranger = spawn(&second, 60, pending::<()>());
    let waits = lock_of(&mutex);
    let waiter = polls_once(&second, 3, &waits, Waker::noop().clone());
    second.run_until_idle();
    assert!(mutex.is_locked());
    assert_eq!(second.priority(stranger.id()), Some(level(60)));
    drop((waits, waiter, holds));
}

/// A sleep of several workers may go to another executor, and outlive the first.
#[test]
fn a_sleep_of_several_workers_outlives_its_executor() {
    let mut sleep = Box::pin(workers::sleep_until(50));
    let first = SharedExecutor::new();
    let worker = first.worker(Waker::noop().clone());
    let mut cx = Context::from_waker(Waker::noop());
    worker.within(|| assert!(sleep.as_mut().poll(&mut cx).is_pending()));
    drop(worker);
    drop(first);
    let second = SharedExecutor::new();
    let handle = second.spawn(level(5), sleep).unwrap();
    let worker = second.worker(Waker::noop().clone());
    worker.run_until_idle();
    second.advance(50);
    worker.run_until_idle();
    assert!(handle.has_exited());
}
