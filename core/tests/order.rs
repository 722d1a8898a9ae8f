//! Order of execution, joins, cancellation: the basics, counted exactly.

#![cfg(feature = "std")]

use std::cell::RefCell;
use std::rc::Rc;

use corank::{
    Executor, JoinError, Policy, Pool, Priority, Relaxed, SpawnError, State, Step, spawn, yield_now,
};

fn level(level: u8) -> Priority {
    Priority::new(level).unwrap()
}

#[test]
fn most_urgent_first_then_first_in_first_out() {
    let executor = Executor::new();
    let log = Rc::new(RefCell::new(Vec::new()));
    for (name, priority) in [("a", 5), ("b", 3), ("c", 5), ("d", 3), ("e", 63), ("f", 0)] {
        let log = log.clone();
        drop(executor.spawn(level(priority), async move {
            log.borrow_mut().push(name);
            yield_now().await;
            log.borrow_mut().push(name);
        }));
    }
    assert_eq!(executor.run_until_idle(), 12);
    assert_eq!(log.borrow().join(""), "ffbdbdacacee");
    assert_eq!(executor.live(), 0);
}

#[test]
fn a_run_makes_no_more_polls_than_it_may() {
    let executor = Executor::new();
    for _ in 0..3 {
        drop(executor.spawn(level(5), yield_now()));
    }
    assert_eq!(executor.run_some(&Relaxed, 0), (Step::Ran, 0));
    assert_eq!(executor.run_some(&Relaxed, 2), (Step::Ran, 2));
    assert_eq!(executor.run_some(&Relaxed, 9), (Step::Idle, 4));
}

#[test]
fn join_carries_output_and_urgency() {
    let executor = Executor::new();
    let low = executor
        .spawn(level(40), async {
            yield_now().await;
            7
        })
        .unwrap();
    let low_id = low.id();
    let high = executor
        .spawn(level(2), async move { low.await.unwrap() + 1 })
        .unwrap();
    assert_eq!(executor.step(), Step::Ran);
    assert_eq!(executor.priority(low_id), Some(level(2)));
    assert_eq!(executor.base_priority(low_id), Some(level(40)));
    executor.run_until_idle();
    assert_eq!(executor.state(low_id), None);
    assert_eq!(high.try_join().unwrap().unwrap(), 8);
}

#[test]
fn cancel_ends_the_donation() {
    let executor = Executor::new();
    let low = executor
        .spawn(level(40), std::future::pending::<()>())
        .unwrap();
    let id = low.id();
    let high = executor
        .spawn(level(2), async move { low.await.map(drop) })
        .unwrap();
    executor.run_until_idle();
    assert_eq!(executor.priority(id), Some(level(2)));
    assert!(high.cancel());
    assert!(!high.cancel());
    assert_eq!(executor.priority(id), Some(level(40)));
    assert!(matches!(high.try_join(), Ok(Err(JoinError::Cancelled))));
    drop(executor);
}

#[test]
fn a_panic_ends_its_coroutine_alone() {
    let executor = Executor::new();
    let bad = executor
        .spawn(level(1), async { panic!("on purpose") })
        .unwrap();
    let good = executor.spawn(level(2), async { 1 }).unwrap();
    executor.run_until_idle();
    assert!(matches!(bad.try_join(), Ok(Err(JoinError::Panicked(_)))));
    assert_eq!(good.try_join().unwrap().unwrap(), 1);
}

#[test]
fn bounded_policy_reserves_picks() {
    let executor = Executor::with(corank::Config::new().policy(Policy::bounded(4)));
    let log = Rc::new(RefCell::new(Vec::new()));
    for (name, priority, times) in [("u", 0, 20), ("l", 9, 3)] {
        let log = log.clone();
        drop(executor.spawn(level(priority), async move {
            for _ in 0..times {
                log.borrow_mut().push(name);
                yield_now().await;
            }
        }));
    }
    executor.run_until_idle();
    assert_eq!(&log.borrow().join("")[..16], "uuuuuuuluuuuuuul");
}

#[test]
fn a_pool_refuses_what_does_not_fit() {
    static POOL: Pool<1, 16> = Pool::new();
    let executor = Executor::in_pool(&POOL, corank::Config::new()).unwrap();
    assert!(Executor::in_pool(&POOL, corank::Config::new()).is_err());
    let big = [0u8; 64];
    let refused = executor.spawn(Priority::DEFAULT, async move {
        yield_now().await;
        big
    });
    assert!(matches!(
        refused,
        Err(SpawnError::FutureTooLarge { room: 16, .. })
    ));
    let one = executor.spawn(Priority::DEFAULT, async { 1u8 }).unwrap();
    assert_eq!(
        executor.spawn(Priority::DEFAULT, async {}).unwrap_err(),
        SpawnError::TableFull
    );
    executor.run_until_idle();
    assert_eq!(one.try_join().unwrap().unwrap(), 1);
    drop(executor);
    assert!(Executor::in_pool(&POOL, corank::Config::new()).is_ok());
}

#[test]
fn wakers_work_from_other_threads() {
    let executor = Executor::new();
    let (sender, receiver) = std::sync::mpsc::channel();
    let handle = executor
        .spawn(Priority::DEFAULT, async move {
            let mut first = true;
            std::future::poll_fn(move |cx| {
                if std::mem::take(&mut first) {
                    sender.send(cx.waker().clone()).unwrap();
                    std::task::Poll::Pending
                } else {
                    std::task::Poll::Ready(())
                }
            })
            .await;
            spawn(Priority::DEFAULT, async { 3 })
                .unwrap()
                .await
                .unwrap()
        })
        .unwrap();
    executor.run_until_idle();
    assert_eq!(executor.state(handle.id()), Some(State::Blocked));
    std::thread::spawn(move || receiver.recv().unwrap().wake())
        .join()
        .unwrap();
    executor.run_until_idle();
    assert_eq!(handle.try_join().unwrap().unwrap(), 3);
}

#[test]
fn wakes_within_the_executor_need_no_inbox() {
    let executor = Executor::new();
    let waker = Rc::new(RefCell::new(None));
    let theirs = waker.clone();
    let handle = executor
        .spawn(
            level(9),
            std::future::poll_fn(
                move |cx| match theirs.borrow_mut().replace(cx.waker().clone()) {
                    Some(_) => std::task::Poll::Ready(()),
                    None => std::task::Poll::Pending,
                },
            ),
        )
        .unwrap();
    executor.run_until_idle();
    executor.within(|| waker.borrow().as_ref().unwrap().wake_by_ref());
    assert_eq!(executor.state(handle.id()), Some(State::Ready));
    assert!(executor.published().arriving().is_empty());
    assert_eq!(executor.run_until_idle(), 1);
}
