//! What is dropped, when and how often: futures, outputs, handles, wakers and executors in every
//! order.

#![cfg(feature = "std")]

use std::cell::RefCell;
use std::future::{Future, pending};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use crate::common::{Counter, Log, Slot, executor, level, spawn};
use corank::{Executor, JoinError, JoinHandle, Priority, SpawnError, State, yield_now};

/// Regression: the handle that a dropped coroutine owned was the last one.
///
/// It took the executor's own anchor with it.
#[test]
fn executor_drops_the_coroutine_that_owns_the_last_handle() {
    let executor = executor();
    let drops = Counter::new();
    let guard = drops.guard();
    let inner = executor
        .spawn(level(9), async move {
            pending::<()>().await;
            drop(guard);
        })
        .unwrap();
    let guard = drops.guard();
    drop(executor.spawn(level(3), async move {
        inner.await.unwrap();
        drop(guard);
    }));
    executor.run_until_idle();
    assert_eq!(drops.count(), 0);
    drop(executor);
    assert_eq!(drops.count(), 2);
}

/// Regression: a remote made after the executor had gone gave back an anchor.
///
/// No anchor had been taken for it.
#[test]
fn remote_made_after_the_executor_is_gone() {
    let executor = executor();
    let handle = executor.spawn(Priority::DEFAULT, pending::<()>()).unwrap();
    drop(executor);
    for _ in 0..3 {
        let remote = handle.remote();
        let second = remote.clone();
        drop(remote);
        assert!(!second.wake() && !second.cancel() && !second.reprioritize(level(1)));
    }
    assert!(matches!(handle.try_join(), Ok(Err(JoinError::Cancelled))));
}

thread_local! {
    static HELD: RefCell<Option<Pin<Box<JoinHandle<String>>>>> = const { RefCell::new(None) };
}

/// A waker of another runtime that drops what it was to wake.
struct DropsTheHandle;

impl Wake for DropsTheHandle {
    fn wake(self: Arc<Self>) {
        drop(HELD.take());
    }
}

/// Regression: a foreign waker dropped the handle that it was registered with.
///
/// That freed the waiter while the executor still used it, and freed the slot twice.
#[test]
fn waker_drops_the_handle_that_it_was_registered_with() {
    let executor = executor();
    let handle = executor
        .spawn(Priority::DEFAULT, async { String::from("unclaimed") })
        .unwrap();
    let id = handle.id();
    let mut handle = Box::pin(handle);
    let waker = Waker::from(Arc::new(DropsTheHandle));
    assert!(
        handle
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    HELD.set(Some(handle));
    assert_eq!(executor.run_until_idle(), 1);
    assert!(HELD.with_borrow(Option::is_none));
    assert_eq!(executor.state(id), None);
    // The slot is free once, not twice: two newcomers get different ones.
    let one = executor.spawn(Priority::DEFAULT, async { 1 }).unwrap();
    let two = executor.spawn(Priority::DEFAULT, async { 2 }).unwrap();
    assert_ne!(one.id(), two.id());
    executor.run_until_idle();
    assert_eq!(one.try_join().unwrap().unwrap(), 1);
    assert_eq!(two.try_join().unwrap().unwrap(), 2);
}

#[test]
fn executor_drops_whatever_is_left_once() {
    let executor = executor();
    let (futures, outputs) = (Counter::new(), Counter::new());
    let mut handles = Vec::new();
    for i in 0..12 {
        let (future, output) = (futures.guard(), outputs.guard());
        let handle = spawn(&executor, i, async move {
            let _future = future;
            match i % 3 {
                0 => pending().await,
                1 => yield_now().await,
                _ => {}
            }
            output
        });
        // Some are detached, some are joined later.
        if i < 6 {
            drop(handle);
        } else {
            handles.push(handle);
        }
    }
    for _ in 0..12 {
        executor.step();
    }
    // Four are blocked and four have exited. Of four that have yielded some are ready again and
    // some have exited.
    let exited = futures.count();
    assert!((4..12).contains(&exited));
    drop(executor);
    assert_eq!(futures.count(), 12);
    let kept = handles.iter().filter(|handle| handle.has_exited()).count();
    assert_eq!(kept, 6);
    drop(handles);
    assert_eq!(outputs.count(), 12);
}

#[test]
fn an_unused_executor_is_dropped() {
    drop(executor());
}

#[test]
fn everything_outlives_the_executor_in_every_order() {
    for order in 0..6 {
        let executor = executor();
        let (slot, polls) = (Slot::new(), Counter::new());
        let handle = spawn(&executor, 5, slot.wait(&polls, usize::MAX));
        executor.run_until_idle();
        let (waker, remote) = (slot.take(), handle.remote());
        drop(executor);
        let (mut handle, mut waker, mut remote) = (Some(handle), Some(waker), Some(remote));
        for which in [
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ][order]
        {
            match which {
                0 => drop(handle.take()),
                1 => waker.take().unwrap().wake(),
                _ => assert!(!remote.take().unwrap().wake()),
            }
        }
    }
}

/// A future owns its own handle.
///
/// The slot is given back when the coroutine exits, not before.
#[test]
fn handle_dropped_inside_its_own_future() {
    for in_destructor in [false, true] {
        let executor = executor();
        let own: Rc<RefCell<Option<JoinHandle<()>>>> = Rc::default();
        let (slot, drops) = (own.clone(), Counter::new());
        let guard = drops.guard();
        let handle = spawn(&executor, 5, async move {
            let held = slot.take();
            let _guard = guard;
            if !in_destructor {
                drop(held);
                yield_now().await;
                return;
            }
            // Held while the future is dropped.
            let _held = held;
            pending::<()>().await;
        });
        let id = handle.id();
        *own.borrow_mut() = Some(handle);
        executor.run_until_idle();
        if in_destructor {
            assert_eq!(executor.state(id), Some(State::Blocked));
            assert!(executor.cancel(id));
        }
        assert_eq!(drops.count(), 1);
        assert_eq!(executor.state(id), None);
        let next = spawn(&executor, 5, async {});
        assert_eq!(next.id().to_bits() as u32, id.to_bits() as u32);
        assert_ne!(next.id(), id);
    }
}

/// A value that spawns when it is dropped, and logs the result.
struct Spawns(Log);

impl Drop for Spawns {
    fn drop(&mut self) {
        let log = self.0.clone();
        let spawned = corank::spawn(Priority::DEFAULT, async move { log.push("ran") });
        match spawned {
            Ok(handle) => drop(handle),
            Err(error) => self.0.push(format!("{error:?}")),
        }
    }
}

#[test]
fn destructors_spawn() {
    let log = Log::default();
    let waits = |executor: &Executor| {
        let guard = Spawns(log.clone());
        spawn(executor, 5, async move {
            let _guard = guard;
            pending::<()>().await;
        })
    };
    let executor = executor();
    // Cancelled by a coroutine: an executor runs here.
    let handle = waits(&executor);
    drop(spawn(&executor, 9, async move { assert!(handle.cancel()) }));
    assert_eq!(executor.run_until_idle(), 3);
    assert_eq!(log.take(), "ran");
    // Cancelled from outside: none does.
    waits(&executor).cancel();
    assert_eq!(log.take(), "NotRunning");
    // Dropped with the executor, which takes no more.
    drop(waits(&executor));
    drop(executor);
    assert_eq!(log.take(), format!("{:?}", SpawnError::Closed));
}

#[test]
fn output_that_spawns_in_its_destructor() {
    let executor = executor();
    let log = Log::default();
    let output = Spawns(log.clone());
    drop(spawn(&executor, 5, async move { output }));
    assert_eq!(executor.run_until_idle(), 2);
    assert_eq!(log.take(), "ran");
}

#[test]
fn executors_nest() {
    let outer = executor();
    let log = Log::default();
    let entry = log.clone();
    let handle = spawn(&outer, 5, async move {
        let me = corank::current();
        let inner = executor();
        let told = entry.clone();
        drop(spawn(&inner, 5, async move {
            told.push("inner");
            yield_now().await;
            told.push("inner");
        }));
        let _left = spawn(&inner, 5, pending::<()>());
        inner.run_until_idle();
        assert_eq!(corank::current(), me);
        let told = entry.clone();
        drop(corank::spawn(Priority::DEFAULT, async move {
            told.push("outer");
        }));
        drop(inner);
        assert_eq!(corank::current(), me);
        yield_now().await;
    });
    assert_eq!(outer.run_until_idle(), 3);
    assert_eq!(log.take(), "inner inner outer");
    assert!(handle.try_join().unwrap().is_ok());
}

/// An executor belongs to one of its own coroutines.
///
/// It goes when that coroutine is cancelled through its handle.
#[test]
fn executor_owned_by_its_own_coroutine() {
    let own: Rc<RefCell<Option<Executor>>> = Rc::default();
    let drops = Counter::new();
    let executor = executor();
    let (held, guard) = (own.clone(), drops.guard());
    let handle = spawn(&executor, 5, async move {
        struct TakesIt(Rc<RefCell<Option<Executor>>>);
        impl Drop for TakesIt {
            fn drop(&mut self) {
                drop(self.0.take());
            }
        }
        let _held = TakesIt(held);
        let _guard = guard;
        pending::<()>().await;
    });
    let other = drops.guard();
    drop(spawn(&executor, 5, async move {
        let _other = other;
        pending::<()>().await;
    }));
    executor.run_until_idle();
    *own.borrow_mut() = Some(executor);
    assert!(handle.cancel());
    assert_eq!(drops.count(), 2);
    assert!(own.borrow().is_none());
    assert!(matches!(handle.try_join(), Ok(Err(JoinError::Cancelled))));
}

/// Coroutines wake each other from their destructors while the executor goes.
#[test]
fn destructors_wake_others_while_the_executor_goes() {
    struct Wakes(std::task::Waker, Counter);
    impl Drop for Wakes {
        fn drop(&mut self) {
            self.0.wake_by_ref();
            self.1.add();
        }
    }
    let executor = executor();
    let (polls, drops) = (Counter::new(), Counter::new());
    let slots = [Slot::new(), Slot::new()];
    let holds: [Rc<RefCell<Option<Wakes>>>; 2] = Default::default();
    for i in 0..2 {
        let (wait, held) = (slots[i].wait(&polls, usize::MAX), holds[i].clone());
        drop(spawn(&executor, 5, async move {
            wait.await;
            drop(held);
        }));
    }
    executor.run_until_idle();
    for i in 0..2 {
        *holds[i].borrow_mut() = Some(Wakes(slots[1 - i].take(), drops.clone()));
    }
    drop(holds);
    assert_eq!(drops.count(), 0);
    drop(executor);
    assert_eq!((drops.count(), polls.count()), (2, 2));
}
