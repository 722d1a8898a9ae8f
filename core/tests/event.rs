//! The event (rules N7, N8).

use std::rc::Rc;

use crate::common::{Log, executor, poll_once, spawn};
use corank::State;
use corank::sync::Event;

#[test]
fn set_lets_all_waiters_through_most_urgent_first() {
    let executor = executor();
    let (event, log) = (Rc::new(Event::new()), Log::default());
    for (at, name) in [(20, "c"), (10, "a"), (20, "d"), (10, "b")] {
        let (event, log) = (event.clone(), log.clone());
        drop(spawn(&executor, at, async move {
            event.wait().await;
            log.push(name);
        }));
    }
    assert_eq!(executor.run_until_idle(), 4);
    event.set();
    assert_eq!(executor.run_until_idle(), 4);
    assert_eq!(log.take(), "a b c d");
}

#[test]
fn it_stays_set_until_it_is_reset() {
    let executor = executor();
    let event = Rc::new(Event::new());
    event.set();
    event.set();
    let wait = |event: &Rc<Event>| {
        let event = event.clone();
        async move { event.wait().await }
    };
    for _ in 0..2 {
        drop(spawn(&executor, 1, wait(&event)));
        assert_eq!(executor.run_until_idle(), 1);
        assert_eq!(executor.live(), 0);
    }
    event.reset();
    assert!(!event.is_set());
    drop(spawn(&executor, 1, wait(&event)));
    executor.run_until_idle();
    assert_eq!(executor.live(), 1);
}

#[test]
fn a_waiter_goes_through_even_if_it_is_reset_at_once() {
    let executor = executor();
    let event = Rc::new(Event::new());
    let theirs = event.clone();
    let waiter = spawn(&executor, 1, async move { theirs.wait().await });
    executor.run_until_idle();
    event.set();
    event.reset();
    assert_eq!(executor.run_until_idle(), 1);
    assert!(waiter.try_join().unwrap().is_ok());
}

#[test]
fn a_waiter_may_leave_at_any_time() {
    let executor = executor();
    let event = Rc::new(Event::new());
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let event = event.clone();
            spawn(&executor, 1, async move { event.wait().await })
        })
        .collect();
    executor.run_until_idle();
    assert!(waiters[1].cancel()); // in the queue
    event.set();
    assert!(waiters[0].cancel()); // let through, and not polled since
    assert_eq!(executor.run_until_idle(), 1);
    assert_eq!(executor.state(waiters[2].id()), Some(State::Exited));

    event.reset();
    let theirs = event.clone();
    drop(spawn(&executor, 1, async move {
        let mut wait = Box::pin(theirs.wait());
        assert!(poll_once(&mut wait).await.is_pending());
        assert!(poll_once(&mut wait).await.is_pending());
        drop(wait);
        theirs.set();
    }));
    assert_eq!(executor.run_until_idle(), 1);
}
