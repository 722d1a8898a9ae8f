//! Cancelling (rules X1 to X4): when the future is dropped, how often it was polled, what the
//! handle says.

use std::cell::RefCell;
use std::future::pending;
use std::rc::Rc;

use crate::common::{Counter, Log, Slot, executor, level, spawn};
use corank::{CoroutineId, JoinError, Priority, SpawnError, State, Step, yield_now};

fn is_cancelled<T>(handle: corank::JoinHandle<T>) -> bool {
    matches!(handle.try_join(), Ok(Err(JoinError::Cancelled)))
}

#[test]
fn ready_coroutine_is_never_polled() {
    let executor = executor();
    let (polls, drops) = (Counter::new(), Counter::new());
    let (count, guard) = (polls.clone(), drops.guard());
    let handle = spawn(&executor, 5, async move {
        count.add();
        drop(guard);
    });
    let id = handle.id();
    assert!(handle.cancel());
    assert_eq!((polls.count(), drops.count()), (0, 1));
    assert_eq!(executor.state(id), Some(State::Exited));
    assert!(executor.ready().is_empty());
    assert_eq!(executor.live(), 0);
    assert_eq!(executor.step(), Step::Idle);
    assert!(is_cancelled(handle));
    assert_eq!(executor.state(id), None);
    assert_eq!((polls.count(), drops.count()), (0, 1));
}

#[test]
fn blocked_coroutine_is_dropped_at_once() {
    let executor = executor();
    let (slot, polls, drops) = (Slot::new(), Counter::new(), Counter::new());
    let (wait, guard) = (slot.wait(&polls, 9), drops.guard());
    let handle = spawn(&executor, 5, async move {
        wait.await;
        drop(guard);
    });
    assert_eq!(executor.run_until_idle(), 1);
    assert!(handle.cancel());
    assert_eq!(drops.count(), 1);
    slot.take().wake();
    assert_eq!(executor.run_until_idle(), 0);
    assert_eq!(polls.count(), 1);
    assert!(is_cancelled(handle));
}

#[test]
fn second_cancel_and_late_cancel_do_nothing() {
    let executor = executor();
    let handle = spawn(&executor, 5, pending::<()>());
    let id = handle.id();
    assert!(executor.cancel(id));
    assert!(!executor.cancel(id));
    assert!(!handle.cancel());
    drop(handle);
    assert!(!executor.cancel(id));

    let finished = spawn(&executor, 5, async { 3 });
    executor.run_until_idle();
    assert!(!finished.cancel());
    assert_eq!(finished.try_join().unwrap().unwrap(), 3);
}

#[test]
fn others_of_the_level_keep_their_order() {
    for victim in 0..5 {
        let executor = executor();
        let log = Log::default();
        let handles: Vec<_> = ["a", "b", "c", "d", "e"]
            .map(|name| {
                let log = log.clone();
                spawn(&executor, 5, async move { log.push(name) })
            })
            .into();
        assert!(handles[victim].cancel());
        assert_eq!(executor.run_until_idle(), 4);
        let left: Vec<_> = (0..5).filter(|&i| i != victim).collect();
        let expected: Vec<_> = left.iter().map(|&i| ["a", "b", "c", "d", "e"][i]).collect();
        assert_eq!(log.take(), expected.join(" "));
    }
}

/// Spawns a coroutine that cancels itself and then ends its poll in some way.
fn cancels_itself(finish: bool, woken: bool) {
    let executor = executor();
    let (drops, polls) = (Counter::new(), Counter::new());
    let (guard, count) = (drops.guard(), polls.clone());
    let handle = spawn(&executor, 5, async move {
        count.add();
        let me: CoroutineId = corank::current().unwrap();
        assert!(corank::cancel(me));
        // The second one says that it was not the first.
        assert!(!corank::cancel(me));
        if woken {
            corank::wake(me);
        }
        if !finish {
            pending::<()>().await;
        }
        drop(guard);
        count.add();
        "finished"
    });
    assert_eq!(executor.step(), Step::Ran);
    assert_eq!(drops.count(), 1);
    assert_eq!(executor.step(), Step::Idle);
    if finish {
        assert_eq!(polls.count(), 2);
        assert_eq!(handle.try_join().unwrap().unwrap(), "finished");
    } else {
        assert_eq!(polls.count(), 1);
        assert!(is_cancelled(handle));
    }
}

#[test]
fn running_coroutine_exits_when_its_poll_is_pending() {
    cancels_itself(false, false);
}

#[test]
fn running_coroutine_exits_although_it_was_woken() {
    cancels_itself(false, true);
}

#[test]
fn running_coroutine_that_finishes_has_finished() {
    cancels_itself(true, false);
}

/// A closed executor spawns nothing.
///
/// What blocked or was ready has exited, and what runs exits when its poll ends.
#[test]
fn closing_cancels_everything() {
    let executor = Rc::new(executor());
    let blocked = spawn(&executor, 3, pending::<()>());
    assert_eq!(executor.step(), Step::Ran);
    let theirs = executor.clone();
    let running = spawn(&executor, 5, async move {
        theirs.close();
        assert!(blocked.has_exited());
        assert_eq!(theirs.live(), 1);
        yield_now().await;
        unreachable!("it is cancelled");
    });
    let ready = spawn(&executor, 9, async { unreachable!("it is cancelled") });
    assert_eq!(executor.run_until_idle(), 1);
    assert_eq!(executor.live(), 0);
    assert!(is_cancelled::<()>(running) && is_cancelled::<()>(ready));
    let refused = executor.spawn(Priority::DEFAULT, async {});
    assert_eq!(refused.err(), Some(SpawnError::Closed));
}

/// Cancelling one coroutine drops the handle of the next, down a chain.
///
/// The destructor of each cancels the one after it.
#[test]
fn destructors_cancel_others() {
    struct CancelsNext(Option<CoroutineId>, Log, usize);
    impl Drop for CancelsNext {
        fn drop(&mut self) {
            self.1.push(format!("drop{}", self.2));
            if let Some(next) = self.0 {
                // No executor runs here when the first one is cancelled from outside. Then no
                // coroutine is found.
                let found = corank::cancel(next);
                self.1.push(format!("{found}"));
            }
        }
    }
    let executor = executor();
    let log = Log::default();
    let mut next = None;
    let mut handles = Vec::new();
    for i in 0..3 {
        let guard = CancelsNext(next, log.clone(), i);
        let handle = spawn(&executor, 5, async move {
            let _guard = guard;
            pending::<()>().await;
        });
        next = Some(handle.id());
        handles.push(handle);
    }
    executor.run_until_idle();
    let last = handles.pop().unwrap();
    drop(spawn(&executor, 1, async move { assert!(last.cancel()) }));
    executor.run_until_idle();
    assert_eq!(log.take(), "drop2 drop1 drop0 true true");
    assert!(handles.into_iter().all(is_cancelled));
}

#[test]
fn wake_and_reprioritize_from_the_destructor_change_nothing() {
    struct TouchesItself(Rc<RefCell<Option<CoroutineId>>>, Counter);
    impl Drop for TouchesItself {
        fn drop(&mut self) {
            let me = self.0.borrow().unwrap();
            corank::wake(me);
            corank::reprioritize(me, Priority::MOST_URGENT);
            assert!(!corank::cancel(me));
            self.1.add();
        }
    }
    let executor = executor();
    let (me, drops) = (Rc::new(RefCell::new(None)), Counter::new());
    let guard = TouchesItself(me.clone(), drops.clone());
    let handle = spawn(&executor, 5, async move {
        let _guard = guard;
        pending::<()>().await;
    });
    *me.borrow_mut() = Some(handle.id());
    let id = handle.id();
    drop(spawn(&executor, 9, async move {
        assert!(corank::cancel(id));
        yield_now().await;
    }));
    assert_eq!(executor.run_until_idle(), 3);
    assert_eq!(drops.count(), 1);
    assert!(executor.ready().is_empty());
    assert!(!executor.reprioritize(id, level(1)));
    assert!(is_cancelled(handle));
}
