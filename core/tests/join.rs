//! Join handles (rules X5 to X8): outputs, exact polls, where outputs are dropped.

use std::cell::RefCell;
use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::common::{Counter, executor, level, poll_once, spawn};
use corank::{JoinError, JoinHandle, State, yield_now};

#[test]
fn one_poll_to_wait_and_one_to_take() {
    let executor = executor();
    let polls = Counter::new();
    let inner = spawn(&executor, 9, async {
        for _ in 0..5 {
            yield_now().await;
        }
        "output"
    });
    let count = polls.clone();
    let outer = spawn(&executor, 3, async move {
        let mut inner = pin!(inner);
        std::future::poll_fn(|cx| {
            count.add();
            inner.as_mut().poll(cx)
        })
        .await
        .unwrap()
    });
    assert_eq!(executor.run_until_idle(), 6 + 2);
    assert_eq!(polls.count(), 2);
    assert_eq!(outer.try_join().unwrap().unwrap(), "output");
}

#[test]
fn handle_of_an_exited_coroutine_does_not_block() {
    let executor = executor();
    let inner = spawn(&executor, 9, async { 1 });
    executor.run_until_idle();
    assert!(inner.has_exited());
    let outer = spawn(&executor, 3, async move { inner.await.unwrap() + 1 });
    assert_eq!(executor.run_until_idle(), 1);
    assert_eq!(outer.try_join().unwrap().unwrap(), 2);
}

#[test]
fn try_join_gives_the_handle_back_until_then() {
    let executor = executor();
    let handle = spawn(&executor, 9, async { 1 });
    let handle = handle.try_join().unwrap_err();
    executor.run_until_idle();
    assert_eq!(handle.try_join().unwrap().unwrap(), 1);
}

#[test]
#[should_panic(expected = "polled after it had given its result")]
fn result_is_given_once() {
    let executor = executor();
    let mut handle = pin!(spawn(&executor, 9, async { 1 }));
    executor.run_until_idle();
    let mut cx = Context::from_waker(Waker::noop());
    assert!(matches!(handle.as_mut().poll(&mut cx), Poll::Ready(Ok(1))));
    let _ = handle.as_mut().poll(&mut cx);
}

#[test]
fn output_is_dropped_once_wherever_it_ends() {
    let executor = executor();
    let drops = Counter::new();
    let finish = |executor: &corank::Executor| {
        let guard = drops.guard();
        spawn(executor, 9, async move { guard })
    };
    // Detached before it runs: dropped at the exit.
    drop(finish(&executor));
    assert_eq!(drops.count(), 0);
    executor.run_until_idle();
    assert_eq!(drops.count(), 1);
    // Detached after the exit: dropped with the handle.
    let handle = finish(&executor);
    executor.run_until_idle();
    assert_eq!(drops.count(), 1);
    drop(handle);
    assert_eq!(drops.count(), 2);
    // Taken: dropped by its new owner.
    let handle = finish(&executor);
    executor.run_until_idle();
    let output = handle.try_join().unwrap().unwrap();
    assert_eq!(drops.count(), 2);
    drop(output);
    assert_eq!(drops.count(), 3);
    // Never taken, and the handle outlives the executor.
    let handle = finish(&executor);
    executor.run_until_idle();
    drop(executor);
    assert_eq!(drops.count(), 3);
    drop(handle);
    assert_eq!(drops.count(), 4);
}

#[test]
fn output_survives_the_executor() {
    let executor = executor();
    let handle = spawn(&executor, 9, async { String::from("kept") });
    executor.run_until_idle();
    drop(executor);
    assert_eq!(handle.try_join().unwrap().unwrap(), "kept");
}

#[test]
fn output_may_be_larger_than_the_future() {
    let executor = executor();
    let handle = spawn(&executor, 9, async { [7u64; 40] });
    executor.run_until_idle();
    assert_eq!(handle.try_join().unwrap().unwrap(), [7; 40]);
}

#[test]
fn handle_moves_to_another_waiter() {
    let executor = executor();
    let inner = spawn(&executor, 20, async {
        yield_now().await;
        yield_now().await;
        5
    });
    let id = inner.id();
    type Shared = Rc<RefCell<Option<Pin<Box<JoinHandle<i32>>>>>>;
    let shared = Shared::default();
    *shared.borrow_mut() = Some(Box::pin(inner));
    let first = shared.clone();
    let one = spawn(&executor, 3, async move {
        let mut handle = first.take().unwrap();
        assert!(poll_once(&mut handle).await.is_pending());
        *first.borrow_mut() = Some(handle);
        pending::<()>().await;
    });
    executor.step();
    assert_eq!(executor.priority(id), Some(level(3)));
    let second = shared.clone();
    let two = spawn(&executor, 2, async move {
        let handle = second.take().unwrap();
        handle.await.unwrap()
    });
    executor.step();
    // It inherits from the coroutine that waits now, and from no other.
    assert_eq!(executor.priority(id), Some(level(2)));
    executor.run_until_idle();
    assert_eq!(two.try_join().unwrap().unwrap(), 5);
    assert_eq!(executor.state(one.id()), Some(State::Blocked));
}

#[test]
fn awaiting_oneself_blocks_and_can_be_cancelled() {
    let executor = executor();
    let own: Rc<RefCell<Option<JoinHandle<()>>>> = Rc::default();
    let drops = Counter::new();
    let (slot, guard) = (own.clone(), drops.guard());
    let handle = spawn(&executor, 5, async move {
        let _guard = guard;
        let me = slot.take().unwrap();
        let _ = me.await;
    });
    let id = handle.id();
    *own.borrow_mut() = Some(handle);
    assert_eq!(executor.run_until_idle(), 1);
    assert_eq!(executor.state(id), Some(State::Blocked));
    assert!(executor.cancel(id));
    assert_eq!(drops.count(), 1);
    assert_eq!(executor.state(id), None);
    assert_eq!(executor.live(), 0);
}

#[test]
fn coroutines_that_await_each_other_go_with_the_executor() {
    type Slot = Rc<RefCell<Option<JoinHandle<()>>>>;
    let executor = executor();
    let slots: [Slot; 2] = Default::default();
    let drops = Counter::new();
    for i in 0..2 {
        let (mine, guard) = (slots[i].clone(), drops.guard());
        let handle = spawn(&executor, 5, async move {
            let _guard = guard;
            let other = mine.take().unwrap();
            let _ = other.await;
        });
        *slots[1 - i].borrow_mut() = Some(handle);
    }
    assert_eq!(executor.run_until_idle(), 2);
    assert_eq!(executor.live(), 2);
    drop(executor);
    assert_eq!(drops.count(), 2);
}

/// A handle is awaited in a coroutine of another executor.
///
/// Its waker goes by the inbox, and nothing is donated.
#[test]
fn handle_awaited_on_another_executor() {
    let (here, there) = (executor(), executor());
    let inner = spawn(&there, 40, async { 4 });
    let id = inner.id();
    let outer = spawn(&here, 1, async move { inner.await.unwrap() });
    assert_eq!(here.run_until_idle(), 1);
    assert_eq!(there.priority(id), Some(level(40)));
    assert_eq!(there.run_until_idle(), 1);
    assert!(here.published().arriving().contains(level(1)));
    assert_eq!(here.run_until_idle(), 1);
    assert_eq!(outer.try_join().unwrap().unwrap(), 4);
}

#[test]
fn cancelled_coroutine_wakes_its_joiner() {
    let executor = executor();
    let inner = spawn(&executor, 9, pending::<()>());
    let id = inner.id();
    let outer = spawn(&executor, 3, async move {
        matches!(inner.await, Err(JoinError::Cancelled))
    });
    assert_eq!(executor.run_until_idle(), 2);
    executor.cancel(id);
    assert_eq!(executor.run_until_idle(), 1);
    assert!(outer.try_join().unwrap().unwrap());
}
