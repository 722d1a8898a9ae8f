//! Destructors that act, and the function that builds a future.

use std::cell::Cell;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::Waker;

use super::{EXECUTOR, HANDLE};
use crate::common::asserts::on_purpose;
use crate::common::{executor, level, spawn};
use corank::{SharedExecutor, yield_now};

/// A value that acts when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn the_destructor_of_a_future_drops_its_executor() {
    let executor = executor();
    let ends = OnDrop(|| drop(EXECUTOR.take()));
    let coroutine = spawn(&executor, 9, async move {
        let _ends = ends;
        pending::<()>().await;
    });
    executor.run_until_idle();
    EXECUTOR.set(Some(executor));
    assert!(coroutine.cancel());
    assert!(coroutine.has_exited());
}

#[test]
fn the_destructor_of_an_output_drops_its_executor() {
    let executor = executor();
    let ends = OnDrop(|| {
        drop(HANDLE.take());
        drop(EXECUTOR.take());
    });
    let coroutine = spawn(&executor, 9, async move { ends });
    HANDLE.set(Some(spawn(&executor, 10, pending::<()>())));
    executor.run_until_idle();
    EXECUTOR.set(Some(executor));
    drop(coroutine);
    assert!(EXECUTOR.take().is_none());
}

#[test]
fn the_destructor_of_a_future_acts_on_its_own_coroutine() {
    let executor = Rc::new(executor());
    let (inner, id) = (executor.clone(), Rc::new(Cell::new(None)));
    let own = id.clone();
    let acts = OnDrop(move || {
        let id = own.get().unwrap();
        assert!(!inner.cancel(id));
        inner.wake(id);
        inner.reprioritize(id, level(1));
        drop(HANDLE.take());
        drop(spawn(&inner, 2, async {}));
        inner.run_until_idle();
    });
    let coroutine = spawn(&executor, 9, async move {
        let _acts = acts;
        pending::<()>().await;
    });
    id.set(Some(coroutine.id()));
    executor.run_until_idle();
    HANDLE.set(Some(coroutine));
    executor.cancel(id.get().unwrap());
    assert_eq!(
        (executor.live(), executor.state(id.get().unwrap())),
        (0, None)
    );
}

#[test]
fn a_function_that_builds_a_future_spawns_cancels_and_panics() {
    let executor = executor();
    let other = spawn(&executor, 9, pending::<()>());
    let built = executor.spawn_with(level(5), || {
        assert!(other.cancel());
        drop(spawn(&executor, 3, yield_now()));
        executor.run_until_idle();
        yield_now()
    });
    on_purpose(|| {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            drop(executor.spawn_with(level(5), || -> YieldsNever { panic!("on purpose") }));
        }));
        assert!(panicked.is_err());
    });
    executor.run_until_idle();
    assert!(built.unwrap().has_exited());
    assert_eq!(executor.live(), 0);

    let executor = SharedExecutor::new();
    let worker = executor.worker(Waker::noop().clone());
    let built = executor.spawn_with(level(5), || {
        drop(executor.spawn(level(3), yield_now()).unwrap());
        assert_eq!(executor.live(), 1);
        yield_now()
    });
    worker.run_until_idle();
    assert!(built.unwrap().has_exited());
}

type YieldsNever = std::future::Pending<()>;
