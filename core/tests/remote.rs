//! Remotes: what is asked from another thread takes effect before the executor picks again (rule
//! W4).

use std::future::pending;
use std::thread;

use crate::common::{Counter, Log, Slot, executor, level, spawn, times};
use corank::{JoinError, State, Step, yield_now};

/// Runs `act` on another thread, and waits for that to end.
fn elsewhere<R: Send + 'static>(act: impl FnOnce() -> R + Send + 'static) -> R {
    thread::spawn(act).join().unwrap()
}

#[test]
fn a_remote_wakes_from_another_thread() {
    let executor = executor();
    let (slot, polls) = (Slot::new(), Counter::new());
    let handle = spawn(&executor, 5, slot.wait(&polls, 2));
    executor.run_until_idle();
    let remote = handle.remote();
    assert!(elsewhere(move || remote.wake()));
    // Nothing has changed until the executor checks its inbox.
    assert_eq!(executor.state(handle.id()), Some(State::Blocked));
    assert_eq!(executor.ready().most_urgent(), Some(level(5)));
    assert_eq!(executor.run_until_idle(), 1);
    assert!(handle.has_exited());
}

#[test]
fn wakes_arrive_in_order() {
    let executor = executor();
    let log = Log::default();
    let remotes: Vec<_> = ["a", "b", "c", "d"]
        .map(|name| {
            let log = log.clone();
            spawn(&executor, 5, async move {
                let mut first = true;
                std::future::poll_fn(|_| match std::mem::take(&mut first) {
                    true => std::task::Poll::Pending,
                    false => std::task::Poll::Ready(()),
                })
                .await;
                log.push(name);
            })
            .remote()
        })
        .into();
    executor.run_until_idle();
    elsewhere(move || [2, 0, 3, 0, 1].map(|i: usize| remotes[i].wake()));
    assert_eq!(executor.run_until_idle(), 4);
    assert_eq!(log.take(), "c a d b");
}

#[test]
fn cancels_ready_and_blocked() {
    let executor = executor();
    let drops = Counter::new();
    for polled in [false, true] {
        let guard = drops.guard();
        let handle = spawn(&executor, 5, async move {
            let _guard = guard;
            pending::<()>().await;
        });
        if polled {
            executor.run_until_idle();
        }
        let before = drops.count();
        let remote = handle.remote();
        assert!(elsewhere(move || remote.cancel()));
        assert_eq!(drops.count(), before);
        assert_eq!(executor.step(), Step::Idle);
        assert_eq!(drops.count(), before + 1);
        assert!(matches!(handle.try_join(), Ok(Err(JoinError::Cancelled))));
    }
}

#[test]
fn cancel_beats_wake() {
    let executor = executor();
    let polls = Counter::new();
    let handle = spawn(&executor, 5, Slot::new().wait(&polls, usize::MAX));
    executor.run_until_idle();
    let remote = handle.remote();
    elsewhere(move || {
        remote.wake();
        remote.cancel();
        remote.wake();
    });
    assert_eq!(executor.run_until_idle(), 0);
    assert_eq!(polls.count(), 1);
    assert!(handle.has_exited());
}

#[test]
fn last_priority_counts() {
    let executor = executor();
    let handle = spawn(&executor, 5, pending::<()>());
    executor.run_until_idle();
    let (one, two) = (handle.remote(), handle.remote());
    elsewhere(move || {
        assert!(one.reprioritize(level(9)));
        assert!(two.reprioritize(level(0)));
        assert!(one.reprioritize(level(63)));
    });
    assert_eq!(executor.base_priority(handle.id()), Some(level(5)));
    executor.run_until_idle();
    assert_eq!(executor.base_priority(handle.id()), Some(level(63)));
    // Level 0 is a level like any other.
    let remote = handle.remote();
    elsewhere(move || remote.reprioritize(level(0)));
    executor.run_until_idle();
    assert_eq!(executor.base_priority(handle.id()), Some(level(0)));
}

#[test]
fn new_priority_and_wake_arrive_together() {
    let executor = executor();
    let log = Log::default();
    let (slot, polls) = (Slot::new(), Counter::new());
    let (waits, entry) = (slot.wait(&polls, 2), log.clone());
    let handle = spawn(&executor, 40, async move {
        waits.await;
        entry.push("woken");
    });
    executor.run_until_idle();
    let entry = log.clone();
    drop(spawn(&executor, 20, async move { entry.push("other") }));
    let remote = handle.remote();
    elsewhere(move || {
        remote.wake();
        remote.reprioritize(level(10));
    });
    executor.run_until_idle();
    assert_eq!(log.take(), "woken other");
}

/// A remote goes by the inbox even on the executor's own thread.
///
/// It takes effect before the next pick, not at once.
#[test]
fn a_remote_works_on_the_executors_thread() {
    let executor = executor();
    let log = Log::default();
    let (victim, entry) = (spawn(&executor, 9, pending::<()>()), log.clone());
    let (remote, id) = (victim.remote(), victim.id());
    drop(spawn(&executor, 5, async move {
        assert!(remote.cancel());
        entry.push(format!("{}", corank::wake(id)));
        yield_now().await;
        entry.push(format!("{}", corank::wake(id)));
    }));
    executor.run_until_idle();
    assert_eq!(log.take(), "true false");
}

#[test]
fn a_remote_refuses_what_is_certainly_too_late() {
    let executor = executor();
    let handle = spawn(&executor, 5, async {});
    let remote = handle.remote();
    executor.run_until_idle();
    drop(handle);
    let remote = elsewhere(move || {
        assert!(!remote.wake() && !remote.cancel() && !remote.reprioritize(level(1)));
        remote
    });
    assert_eq!(executor.run_until_idle(), 0);
    drop(executor);
    elsewhere(move || assert!(!remote.wake()));
}

#[test]
fn a_remote_keeps_the_slot_but_not_the_future() {
    let executor = executor();
    let drops = Counter::new();
    let guard = drops.guard();
    let handle = spawn(&executor, 5, async move { drop(guard) });
    let index = handle.id().to_bits() as u32;
    let remote = handle.remote();
    drop(handle);
    executor.run_until_idle();
    assert_eq!(drops.count(), 1);
    let other = spawn(&executor, 5, async {});
    assert_ne!(other.id().to_bits() as u32, index);
    elsewhere(move || drop(remote));
    executor.run_until_idle();
    let next = spawn(&executor, 5, async {});
    assert_eq!(next.id().to_bits() as u32, index);
}

#[test]
fn ten_thousand_remotes_work_on_four_threads() {
    let executor = executor();
    let polls = Counter::new();
    let slots: Vec<_> = (0..40).map(|_| Slot::new()).collect();
    let handles: Vec<_> = slots
        .iter()
        .map(|slot| spawn(&executor, 5, slot.wait(&polls, usize::MAX)))
        .collect();
    executor.run_until_idle();
    assert_eq!(polls.count(), 40);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let remotes: Vec<_> = handles.iter().map(|handle| handle.remote()).collect();
            thread::spawn(move || (0..times(10_000)).all(|i| remotes[i % 40].wake()))
        })
        .collect();
    while !threads.iter().all(|thread| thread.is_finished()) {
        executor.run_until_idle();
    }
    assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
    executor.run_until_idle();
    // How often each was polled depends on the threads. That nothing is left over does not.
    assert!(executor.published().urgency().is_empty());
    assert!(polls.count() >= 80);
    assert!(
        handles
            .iter()
            .all(|handle| executor.state(handle.id()) == Some(State::Blocked))
    );
}
