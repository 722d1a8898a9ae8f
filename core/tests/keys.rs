//! Wake by key, whichever side comes first (rules K1 to K5).

use std::rc::Rc;

#[cfg(feature = "alloc")]
use crate::common::times;
use crate::common::{Log, executor, forever, level, poll_once, spawn};
use corank::key::{KeySlot, Keys, KeysFull};
use corank::{Executor, JoinHandle, State};

/// Returns both kinds of table, with which every test runs.
fn tables() -> Vec<Rc<Keys>> {
    let slots = forever([const { KeySlot::new() }; 8]);
    vec![
        Rc::new(Keys::in_slots(slots)),
        #[cfg(feature = "alloc")]
        Rc::new(Keys::new()),
    ]
}

fn waiter(
    executor: &Executor,
    at: u8,
    keys: &Rc<Keys>,
    key: u64,
    name: &'static str,
    log: &Log,
) -> JoinHandle<()> {
    let (keys, log) = (keys.clone(), log.clone());
    spawn(executor, at, async move {
        keys.wait(key).await.unwrap();
        log.push(name);
    })
}

#[test]
fn whichever_comes_first_the_waiter_proceeds() {
    for keys in tables() {
        let (executor, log) = (executor(), Log::default());
        // The waiter first: one poll to wait, one to go on.
        drop(waiter(&executor, 1, &keys, 7, "waiter-first", &log));
        assert_eq!(executor.run_until_idle(), 1);
        keys.signal(7).unwrap();
        assert_eq!(executor.run_until_idle(), 1);
        // The signal first: the wait does not block.
        keys.signal(8).unwrap();
        drop(waiter(&executor, 1, &keys, 8, "signal-first", &log));
        assert_eq!(executor.run_until_idle(), 1);
        assert_eq!(log.take(), "waiter-first signal-first");
        assert!(keys.is_empty());
    }
}

#[test]
fn one_signal_lets_one_wait_through_and_signals_do_not_accumulate() {
    for keys in tables() {
        let (executor, log) = (executor(), Log::default());
        for _ in 0..3 {
            keys.signal(7).unwrap();
        }
        for name in ["a", "b", "c"] {
            drop(waiter(&executor, 1, &keys, 7, name, &log));
        }
        executor.run_until_idle();
        assert_eq!(log.take(), "a");
        keys.signal(7).unwrap();
        keys.signal(7).unwrap();
        executor.run_until_idle();
        assert_eq!(log.take(), "b c");
        assert!(keys.is_empty());
    }
}

#[test]
fn keys_are_independent() {
    for keys in tables() {
        let (executor, log) = (executor(), Log::default());
        drop(waiter(&executor, 1, &keys, 1, "one", &log));
        drop(waiter(&executor, 1, &keys, u64::MAX, "max", &log));
        executor.run_until_idle();
        keys.signal(u64::MAX).unwrap();
        keys.signal(0).unwrap();
        executor.run_until_idle();
        assert_eq!(log.take(), "max");
        assert_eq!(keys.len(), 2);
    }
}

#[test]
fn the_most_urgent_waiter_of_a_key_is_first() {
    for keys in tables() {
        let (executor, log) = (executor(), Log::default());
        for (at, name) in [(20, "c"), (10, "a"), (20, "d"), (10, "b")] {
            drop(waiter(&executor, at, &keys, 7, name, &log));
            executor.run_until_idle();
        }
        let late = waiter(&executor, 60, &keys, 7, "e", &log);
        executor.run_until_idle();
        late.reprioritize(level(1));
        for _ in 0..5 {
            keys.signal(7).unwrap();
            assert_eq!(executor.run_until_idle(), 1);
        }
        assert_eq!(log.take(), "e a b c d");
    }
}

#[test]
fn a_waiter_that_leaves_gives_its_signal_to_the_next() {
    for keys in tables() {
        let (executor, log) = (executor(), Log::default());
        let [a, b, c] = ["a", "b", "c"].map(|name| {
            let waiter = waiter(&executor, 1, &keys, 7, name, &log);
            executor.run_until_idle();
            waiter
        });
        assert!(b.cancel()); // still waiting
        keys.signal(7).unwrap();
        assert!(a.cancel()); // let through, and not polled since
        assert_eq!(executor.state(c.id()), Some(State::Ready));
        executor.run_until_idle();
        assert_eq!(log.take(), "c");
        // With no waiter left, the signal is kept.
        let d = waiter(&executor, 1, &keys, 7, "d", &log);
        executor.run_until_idle();
        keys.signal(7).unwrap();
        keys.signal(7).unwrap(); // kept, because the first one is spoken for
        d.cancel(); // comes back, and adds nothing to the one that was kept
        for name in ["e", "f"] {
            drop(waiter(&executor, 1, &keys, 7, name, &log));
        }
        executor.run_until_idle();
        assert_eq!(log.take(), "e");
    }
}

#[test]
fn a_future_dropped_by_its_own_coroutine_leaves_as_well() {
    for keys in tables() {
        let executor = executor();
        let theirs = keys.clone();
        drop(spawn(&executor, 1, async move {
            let mut wait = Box::pin(theirs.wait(7));
            assert!(poll_once(&mut wait).await.is_pending());
            drop(wait);
            assert!(theirs.is_empty());
            let mut wait = Box::pin(theirs.wait(7));
            assert!(poll_once(&mut wait).await.is_pending());
            theirs.signal(7).unwrap();
            drop(wait);
            theirs.wait(7).await.unwrap();
        }));
        assert_eq!(executor.run_until_idle(), 1);
        assert!(keys.is_empty());
    }
}

#[test]
fn a_full_table_is_an_error_and_loses_nothing_that_was_in_it() {
    let (executor, log) = (executor(), Log::default());
    let slots = forever([const { KeySlot::new() }; 2]);
    let keys = Rc::new(Keys::in_slots(slots));
    let first = waiter(&executor, 1, &keys, 1, "first", &log);
    executor.run_until_idle();
    keys.signal(2).unwrap();
    assert_eq!(keys.signal(3), Err(KeysFull));
    let theirs = keys.clone();
    let refused = spawn(&executor, 1, async move { theirs.wait(4).await });
    executor.run_until_idle();
    assert_eq!(refused.try_join().unwrap().unwrap(), Err(KeysFull));
    // Keys that are there already need no more room. Nor does a signal that comes back.
    keys.signal(2).unwrap();
    keys.signal(1).unwrap();
    assert_eq!(keys.signal(3), Err(KeysFull));
    first.cancel();
    drop(waiter(&executor, 1, &keys, 1, "second", &log));
    drop(waiter(&executor, 1, &keys, 2, "third", &log));
    executor.run_until_idle();
    assert_eq!(log.take(), "second third");
    assert!(keys.is_empty());
    keys.signal(3).unwrap();
}

#[test]
fn fresh_keys_are_new() {
    for keys in tables() {
        assert_eq!([keys.fresh(), keys.fresh(), keys.fresh()], [0, 1, 2]);
    }
}

#[cfg(feature = "alloc")]
#[test]
fn waiters_stay_where_they_are_while_the_table_grows() {
    let executor = executor();
    let keys = Rc::new(Keys::new());
    let waiters: Vec<_> = (0..times(1_000) as u64)
        .map(|key| {
            let keys = keys.clone();
            spawn(&executor, 1, async move { keys.wait(key).await.unwrap() })
        })
        .collect();
    assert_eq!(executor.run_until_idle(), times(1_000) as u64);
    for key in (0..times(1_000) as u64).rev() {
        keys.signal(key).unwrap();
        assert_eq!(executor.run_until_idle(), 1);
        assert_eq!(
            executor.state(waiters[key as usize].id()),
            Some(State::Exited)
        );
    }
    assert!(keys.is_empty());
}
