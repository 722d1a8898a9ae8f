//! The mutex: which waiter gets it, which coroutine inherits, and what happens when one leaves.
//!
//! These are rules M1 to M8 and I1 to I8.

use std::pin::pin;
use std::rc::Rc;

use crate::common::{Log, executor, forever, level, poll_once, spawn};
use corank::sync::{Event, Mutex, MutexGuard};
use corank::{Executor, JoinHandle, State, yield_now};

type Shared<T> = Rc<Mutex<T>>;

/// Spawns a coroutine that takes the lock, logs its name, and keeps the lock until `gate` is set.
fn holder(
    executor: &Executor,
    at: u8,
    name: &'static str,
    mutex: &Shared<()>,
    gate: &Rc<Event>,
    log: &Log,
) -> JoinHandle<()> {
    let (mutex, gate, log) = (mutex.clone(), gate.clone(), log.clone());
    spawn(executor, at, async move {
        let _guard = mutex.lock().await;
        log.push(name);
        gate.wait().await;
    })
}

fn shared() -> (Executor, Shared<()>, Rc<Event>, Log) {
    (
        executor(),
        Rc::new(Mutex::new(())),
        Rc::new(Event::new()),
        Log::default(),
    )
}

#[test]
fn a_free_lock_is_taken_without_blocking() {
    let executor = executor();
    let mutex = Rc::new(Mutex::new(1));
    let theirs = mutex.clone();
    drop(spawn(&executor, 5, async move {
        for _ in 0..10 {
            *theirs.lock().await += 1;
        }
        assert!(theirs.try_lock().is_some());
    }));
    assert_eq!(executor.run_until_idle(), 1);
    let mut mutex = Rc::into_inner(mutex).unwrap();
    *mutex.get_mut() += 1;
    assert!(!mutex.is_locked());
    assert_eq!(format!("{mutex:?}"), "Mutex { value: 12 }");
    assert_eq!(mutex.into_inner(), 12);
}

#[test]
fn the_most_urgent_waiter_is_next_and_the_first_among_equals() {
    let (executor, mutex, gate, log) = shared();
    drop(holder(&executor, 30, "holder", &mutex, &gate, &log));
    executor.run_until_idle();
    for (at, name) in [(20, "c"), (10, "a"), (20, "d"), (10, "b"), (40, "e")] {
        drop(holder(&executor, at, name, &mutex, &gate, &log));
        executor.run_until_idle();
    }
    gate.set();
    // One poll of the holder to let go, and one for each waiter.
    assert_eq!(executor.run_until_idle(), 6);
    assert_eq!(log.take(), "holder a b c d e");
    assert!(!mutex.is_locked());
}

#[test]
fn the_lock_is_handed_over_and_cannot_be_snatched() {
    let (executor, mutex, gate, log) = shared();
    drop(holder(&executor, 30, "holder", &mutex, &gate, &log));
    executor.run_until_idle();
    let waiter = holder(&executor, 50, "waiter", &mutex, &gate, &log);
    executor.run_until_idle();
    gate.set();
    executor.step();
    assert_eq!(executor.state(waiter.id()), Some(State::Ready));
    assert!(mutex.is_locked());
    assert!(mutex.try_lock().is_none());
    let newcomer = holder(&executor, 1, "newcomer", &mutex, &gate, &log);
    executor.step();
    // The newcomer waits, and donates its urgency to the owner of the lock, which has not run yet.
    assert_eq!(executor.state(newcomer.id()), Some(State::Blocked));
    assert_eq!(executor.priority(waiter.id()), Some(level(1)));
    executor.run_until_idle();
    assert_eq!(log.take(), "holder waiter newcomer");
}

#[test]
fn urgency_travels_along_a_chain_and_back() {
    let executor = executor();
    let gate = Rc::new(Event::new());
    let mutexes: Vec<_> = (0..5).map(|_| Rc::new(Mutex::new(()))).collect();
    // Link i holds mutex i and waits for mutex i - 1. Link 0 waits for the gate.
    let links: Vec<_> = (0..5)
        .map(|i: usize| {
            let own = mutexes[i].clone();
            let before = i.checked_sub(1).map(|before| mutexes[before].clone());
            let gate = gate.clone();
            let link = spawn(&executor, 40 + i as u8, async move {
                let _own = own.lock().await;
                match before {
                    Some(before) => drop(before.lock().await),
                    None => gate.wait().await,
                }
            });
            executor.run_until_idle();
            link
        })
        .collect();
    let levels = || -> Vec<u8> {
        links
            .iter()
            .map(|link| executor.priority(link.id()).unwrap().level())
            .collect()
    };
    assert_eq!(levels(), [40, 41, 42, 43, 44]);
    let last = mutexes[4].clone();
    let urgent = spawn(&executor, 3, async move { drop(last.lock().await) });
    executor.run_until_idle();
    assert_eq!(levels(), [3; 5]);
    assert_eq!(executor.base_priority(links[0].id()), Some(level(40)));

    executor.reprioritize(urgent.id(), level(1));
    assert_eq!(levels(), [1; 5]);
    executor.reprioritize(urgent.id(), level(42));
    assert_eq!(levels(), [40, 41, 42, 42, 42]);
    executor.reprioritize(urgent.id(), level(0));
    assert_eq!(levels(), [0; 5]);
    // A link in the middle becomes less urgent by itself: nothing changes while it inherits.
    executor.reprioritize(links[2].id(), level(63));
    assert_eq!(levels(), [0; 5]);
    urgent.cancel();
    assert_eq!(levels(), [40, 41, 43, 43, 44]);
    // Cancelling a link in the middle cuts the chain and frees the next one.
    links[2].cancel();
    assert_eq!(executor.state(links[3].id()), Some(State::Ready));
    gate.set();
    executor.run_until_idle();
    assert_eq!(executor.live(), 0);
    assert!(mutexes.iter().all(|mutex| !mutex.is_locked()));
}

#[test]
fn urgency_travels_through_handles_and_locks_alike() {
    let (executor, mutex, gate, log) = shared();
    let low = holder(&executor, 50, "low", &mutex, &gate, &log);
    executor.run_until_idle();
    let middle = holder(&executor, 40, "middle", &mutex, &gate, &log);
    let middle_id = middle.id();
    let high = spawn(&executor, 2, async move { middle.await.unwrap() });
    executor.run_until_idle();
    assert_eq!(executor.priority(middle_id), Some(level(2)));
    assert_eq!(executor.priority(low.id()), Some(level(2)));
    drop(high); // detached: it goes on waiting
    assert_eq!(executor.priority(low.id()), Some(level(2)));
    gate.set();
    executor.run_until_idle();
    assert_eq!(log.take(), "low middle");
    assert_eq!(executor.live(), 0);
}

#[test]
fn remaining_waiters_donate_to_the_new_holder() {
    let (executor, mutex, gate, log) = shared();
    let first = holder(&executor, 60, "first", &mutex, &gate, &log);
    executor.run_until_idle();
    let second = holder(&executor, 20, "second", &mutex, &gate, &log);
    executor.run_until_idle();
    let third = holder(&executor, 30, "third", &mutex, &gate, &log);
    executor.run_until_idle();
    assert_eq!(executor.priority(first.id()), Some(level(20)));
    // The second one becomes the least urgent of the two, and so the last to get the lock.
    second.reprioritize(level(50));
    assert_eq!(executor.priority(first.id()), Some(level(30)));
    first.cancel();
    assert_eq!(executor.state(third.id()), Some(State::Ready));
    assert_eq!(executor.state(second.id()), Some(State::Blocked));
    second.reprioritize(level(7));
    assert_eq!(executor.priority(third.id()), Some(level(7)));
    third.cancel();
    assert_eq!(executor.state(second.id()), Some(State::Ready));
    assert_eq!(executor.priority(second.id()), Some(level(7)));
    gate.set();
    executor.run_until_idle();
    assert_eq!(log.take(), "first second");
}

#[test]
fn unlocking_gives_back_this_loan_and_keeps_the_others() {
    let executor = executor();
    let gate = Rc::new(Event::new());
    let (a, b) = (Rc::new(Mutex::new(())), Rc::new(Mutex::new(())));
    let (a2, b2, gate2) = (a.clone(), b.clone(), gate.clone());
    let low = spawn(&executor, 60, async move {
        let a = a2.lock().await;
        let _b = b2.lock().await;
        gate2.wait().await;
        drop(a);
        std::future::pending::<()>().await;
    });
    executor.run_until_idle();
    for (at, mutex) in [(5, a), (9, b)] {
        drop(spawn(
            &executor,
            at,
            async move { drop(mutex.lock().await) },
        ));
    }
    executor.run_until_idle();
    assert_eq!(executor.priority(low.id()), Some(level(5)));
    gate.set();
    executor.run_until_idle();
    assert_eq!(executor.priority(low.id()), Some(level(9)));
    low.cancel();
    executor.run_until_idle();
    assert_eq!(executor.live(), 0);
}

#[test]
fn a_waiter_may_leave_before_and_after_it_was_given_the_lock() {
    let (executor, mutex, gate, log) = shared();
    drop(holder(&executor, 30, "holder", &mutex, &gate, &log));
    executor.run_until_idle();
    let waiters: Vec<_> = ["a", "b", "c"]
        .map(|name| {
            let waiter = holder(&executor, 10, name, &mutex, &gate, &log);
            executor.run_until_idle();
            waiter
        })
        .into();
    assert!(waiters[1].cancel()); // still in the queue
    gate.set();
    executor.step(); // the holder lets go
    assert_eq!(executor.state(waiters[0].id()), Some(State::Ready));
    assert!(waiters[0].cancel()); // owns the lock and has not run since
    assert_eq!(executor.state(waiters[2].id()), Some(State::Ready));
    assert!(mutex.is_locked());
    assert_eq!(executor.run_until_idle(), 1);
    assert_eq!(log.take(), "holder c");
    assert!(!mutex.is_locked());
}

#[test]
fn a_future_dropped_by_its_own_coroutine_leaves_as_well() {
    let executor = executor();
    let mutex = Rc::new(Mutex::new(()));
    let guard = mutex.try_lock().unwrap();
    let theirs = mutex.clone();
    let gate = Rc::new(Event::new());
    let opened = gate.clone();
    let waiter = spawn(&executor, 1, async move {
        {
            let mut lock = Box::pin(theirs.lock());
            assert!(poll_once(&mut lock).await.is_pending());
        } // dropped in the queue
        let mut lock = Box::pin(theirs.lock());
        assert!(poll_once(&mut lock).await.is_pending());
        opened.wait().await;
        assert!(theirs.try_lock().is_none());
        drop(lock); // dropped with the lock in its hands
        assert!(theirs.try_lock().is_some());
    });
    executor.run_until_idle();
    drop(guard);
    assert!(mutex.is_locked());
    gate.set();
    executor.run_until_idle();
    assert_eq!(executor.state(waiter.id()), Some(State::Exited));
    assert!(waiter.try_join().unwrap().is_ok());
}

#[test]
fn a_poll_without_cause_keeps_the_position_in_the_queue() {
    let (executor, mutex, gate, log) = shared();
    drop(holder(&executor, 30, "holder", &mutex, &gate, &log));
    executor.run_until_idle();
    let first = holder(&executor, 10, "a", &mutex, &gate, &log);
    executor.run_until_idle();
    drop(holder(&executor, 10, "b", &mutex, &gate, &log));
    executor.run_until_idle();
    executor.wake(first.id());
    assert_eq!(executor.run_until_idle(), 1);
    gate.set();
    executor.run_until_idle();
    assert_eq!(log.take(), "holder a b");
}

#[test]
fn a_cancelled_holder_unlocks() {
    let (executor, mutex, gate, log) = shared();
    let first = holder(&executor, 30, "first", &mutex, &gate, &log);
    executor.run_until_idle();
    drop(holder(&executor, 40, "second", &mutex, &gate, &log));
    executor.run_until_idle();
    first.cancel();
    gate.set();
    executor.run_until_idle();
    assert_eq!(log.take(), "first second");
}

#[cfg(feature = "std")]
#[test]
fn a_panic_unlocks_and_poisons_nothing() {
    let (executor, mutex, gate, log) = shared();
    let (theirs, opened) = (mutex.clone(), gate.clone());
    let bad = spawn(&executor, 30, async move {
        let _guard = theirs.lock().await;
        opened.wait().await;
        panic!("on purpose");
    });
    executor.run_until_idle();
    let good = holder(&executor, 5, "good", &mutex, &gate, &log);
    executor.run_until_idle();
    assert_eq!(executor.priority(bad.id()), Some(level(5)));
    gate.set();
    executor.run_until_idle();
    assert!(matches!(
        bad.try_join(),
        Ok(Err(corank::JoinError::Panicked(_)))
    ));
    assert_eq!(executor.state(good.id()), Some(State::Exited));
    assert_eq!(log.take(), "good");
    assert!(!mutex.is_locked());
}

#[cfg(feature = "std")]
#[test]
fn a_waiter_that_panics_leaves_and_gives_back_its_loan() {
    let (executor, mutex, gate, log) = shared();
    let low = holder(&executor, 40, "low", &mutex, &gate, &log);
    executor.run_until_idle();
    let theirs = mutex.clone();
    let bad = spawn(&executor, 2, async move {
        let mut lock = Box::pin(theirs.lock());
        assert!(poll_once(&mut lock).await.is_pending());
        yield_now().await;
        panic!("on purpose");
    });
    executor.step();
    assert_eq!(executor.priority(low.id()), Some(level(2)));
    executor.run_until_idle();
    assert!(bad.try_join().unwrap().is_err());
    assert_eq!(executor.priority(low.id()), Some(level(40)));
    low.cancel();
    assert!(!mutex.is_locked());
}

/// Adds to both values, with the second lock and other awaits below the first.
async fn transfer(from: Shared<i32>, to: Shared<i32>, amount: i32) {
    async fn put(to: &Mutex<i32>, amount: i32) -> MutexGuard<'_, i32> {
        let mut to = to.lock().await;
        yield_now().await;
        *to += amount;
        to
    }
    let mut from = from.lock().await;
    let to = put(&to, amount).await;
    yield_now().await;
    *from -= amount;
    drop(to);
}

#[test]
fn locks_are_held_across_nested_awaits() {
    let executor = executor();
    let (a, b) = (Rc::new(Mutex::new(0)), Rc::new(Mutex::new(0)));
    for _ in 0..10 {
        drop(spawn(&executor, 20, transfer(a.clone(), b.clone(), 1)));
    }
    // The first needs 3 polls (2 yields). Each other one needs one poll to begin to wait, then 3 as
    // soon as it is handed the lock.
    assert_eq!(executor.run_until_idle(), 3 + 9 * (1 + 3));
    assert_eq!((*a.try_lock().unwrap(), *b.try_lock().unwrap()), (-10, 10));
    // Cancelled at each await in turn, the transfer lets go of everything, and what it had done by
    // then stays.
    for polls in 1..=2 {
        let transfer = spawn(&executor, 20, transfer(a.clone(), b.clone(), 1));
        for _ in 0..polls {
            executor.step();
        }
        assert!(a.is_locked() && b.is_locked());
        assert!(transfer.cancel());
        assert!(!a.is_locked() && !b.is_locked());
    }
    assert_eq!((*a.try_lock().unwrap(), *b.try_lock().unwrap()), (-10, 11));
}

#[test]
fn one_coroutine_may_wait_for_itself_in_two_branches() {
    let executor = executor();
    let mutex = Rc::new(Mutex::new(String::new()));
    let theirs = mutex.clone();
    let both = spawn(&executor, 5, async move {
        let branch = |name: &'static str| {
            let mutex = theirs.clone();
            async move {
                let mut value = mutex.lock().await;
                yield_now().await;
                value.push_str(name);
            }
        };
        futures::join!(branch("a"), branch("b"), branch("c"));
    });
    executor.run_until_idle();
    assert_eq!(executor.state(both.id()), Some(State::Exited));
    assert_eq!(*mutex.try_lock().unwrap(), "abc");
}

#[test]
fn a_guard_may_outlive_its_coroutine() {
    let executor = executor();
    let mutex: &'static Mutex<u32> = forever(Mutex::new(1));
    let gate = Rc::new(Event::new());
    let opened = gate.clone();
    let maker = spawn(&executor, 20, async move {
        let guard = mutex.lock().await;
        opened.wait().await;
        guard
    });
    executor.run_until_idle();
    let waiters: Vec<_> = [30, 10]
        .map(|at| {
            let waiter = spawn(&executor, at, async move {
                let mut value = mutex.lock().await;
                *value = *value * 100 + u32::from(at);
            });
            executor.run_until_idle();
            waiter
        })
        .into();
    gate.set();
    executor.run_until_idle();
    // The maker has exited, so nothing is donated to it any more. The lock is still held.
    assert_eq!(executor.priority(maker.id()), Some(level(20)));
    assert!(mutex.is_locked());
    let Ok(Ok(guard)) = maker.try_join() else {
        panic!("the maker has finished");
    };
    assert_eq!(*guard, 1);
    drop(guard);
    executor.run_until_idle();
    assert!(waiters.into_iter().all(|waiter| waiter.try_join().is_ok()));
    assert_eq!(*mutex.try_lock().unwrap(), 11030);
}

#[test]
fn a_lock_taken_outside_any_coroutine_has_no_holder() {
    let (executor, mutex, gate, log) = shared();
    gate.set();
    let guard = mutex.try_lock().unwrap();
    let waiter = holder(&executor, 3, "waiter", &mutex, &gate, &log);
    assert_eq!(executor.run_until_idle(), 1);
    assert_eq!(executor.state(waiter.id()), Some(State::Blocked));
    drop(guard);
    assert_eq!(executor.run_until_idle(), 1);
    assert_eq!(log.take(), "waiter");
}

#[test]
fn a_holder_without_an_executor_is_no_holder() {
    let mutex: &'static Mutex<()> = forever(Mutex::new(()));
    let first = executor();
    drop(spawn(&first, 5, async move {
        std::mem::forget(mutex.lock().await);
    }));
    first.run_until_idle();
    drop(first);
    let second = executor();
    let waiter = spawn(&second, 5, async move { drop(mutex.lock().await) });
    second.run_until_idle();
    assert_eq!(second.state(waiter.id()), Some(State::Blocked));
    drop(second);
    assert!(waiter.try_join().unwrap().is_err());
    assert!(mutex.is_locked());
}

#[test]
fn dropping_the_executor_unlocks() {
    let (executor, mutex, gate, log) = shared();
    for name in ["a", "b", "c"] {
        drop(holder(&executor, 9, name, &mutex, &gate, &log));
    }
    executor.run_until_idle();
    drop(executor);
    assert!(!mutex.is_locked());
    assert_eq!(log.take(), "a");
}

#[test]
fn a_cycle_of_waiters_is_a_deadlock_and_nothing_worse() {
    let executor = executor();
    let (a, b) = (Rc::new(Mutex::new(())), Rc::new(Mutex::new(())));
    let one = |first: &Shared<()>, second: &Shared<()>| {
        let (first, second) = (first.clone(), second.clone());
        async move {
            let _first = first.lock().await;
            yield_now().await;
            let mut second = pin!(second.lock());
            assert!(poll_once(&mut second).await.is_pending());
            drop(second.await);
        }
    };
    let ab = spawn(&executor, 20, one(&a, &b));
    let ba = spawn(&executor, 20, one(&b, &a));
    executor.run_until_idle();
    ab.reprioritize(level(1));
    ab.reprioritize(level(40));
    ba.cancel();
    assert_eq!(executor.priority(ab.id()), Some(level(40)));
    executor.run_until_idle();
    assert!(ab.try_join().unwrap().is_ok());
    assert!(!a.is_locked() && !b.is_locked());
}
