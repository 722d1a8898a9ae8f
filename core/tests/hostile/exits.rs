//! Wakers that act when a coroutine exits.

use std::cell::RefCell;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::Waker;

use super::{HANDLE, KEPT, Wait, lock_of, poll_now, polls_once, trap};
use crate::common::asserts::on_purpose;
use crate::common::{Counter, executor, level, spawn};
use corank::sync::{Event, Mutex};
use corank::yield_now;

/// A coroutine exits while a future that it has polled still waits.
///
/// The drop of the future's waker drops the handle. It also lets another coroutine into the slot,
/// and that one waits too.
#[test]
fn the_next_coroutine_in_a_slot_keeps_its_wait() {
    let executor = Rc::new(executor());
    let mutex = Rc::new(Mutex::new(()));
    let guard = mutex.try_lock().unwrap();
    let lock = lock_of(&mutex);
    let event = Rc::new(Event::new());
    let newcomer = Rc::new(RefCell::new(None));
    let move_in = {
        let (executor, newcomer, event) = (executor.clone(), newcomer.clone(), event.clone());
        move || {
            drop(HANDLE.take());
            let waits = spawn(&executor, 5, async move { event.wait().await });
            executor.run_until_idle();
            *newcomer.borrow_mut() = Some(waits);
        }
    };
    let exits = polls_once(&executor, 9, &lock, trap(|| (), move_in));
    executor.run_until_idle();
    let id = exits.id();
    HANDLE.set(Some(exits));
    executor.wake(id);
    executor.run_until_idle();
    drop(guard);
    executor.run_until_idle();
    event.set();
    executor.run_until_idle();
    assert!(newcomer.take().expect("its waker was dropped").has_exited());
}

/// A coroutine exits, and another one gets its slot.
///
/// The first one's joiner drops the handle when it is woken. The next coroutine in the slot has no
/// part in what the first one waited for.
#[test]
fn the_next_coroutine_in_a_slot_donates_nothing() {
    let executor = executor();
    let mutex = Rc::new(Mutex::new(()));
    let theirs = mutex.clone();
    let holder = spawn(&executor, 60, async move {
        let _held = theirs.lock().await;
        pending::<()>().await;
    });
    executor.run_until_idle();
    let lock = lock_of(&mutex);
    let exits = polls_once(&executor, 20, &lock, Waker::noop().clone());
    executor.run_until_idle();
    assert_eq!(executor.priority(holder.id()), Some(level(20)));
    let id = exits.id();
    let mut awaits: Wait = Box::pin(async move { drop(exits.await) });
    let waker = trap(|| drop(KEPT.take()), || ());
    assert!(poll_now(&mut awaits, &waker).is_pending());
    KEPT.set(Some(awaits));
    executor.wake(id);
    executor.run_until_idle();
    let next = spawn(&executor, 30, pending::<()>());
    assert_eq!(next.id().to_bits() as u32, id.to_bits() as u32, "one slot");
    executor.reprioritize(next.id(), level(1));
    assert_eq!(executor.priority(holder.id()), Some(level(60)));
    drop(lock);
}

/// A waker that panics takes no wake from the others.
#[test]
fn a_waker_that_panics_at_exit_loses_no_wake() {
    let executor = executor();
    let mutex = Rc::new(Mutex::new(()));
    let theirs = mutex.clone();
    let ends = spawn(&executor, 9, async move {
        std::mem::forget(theirs.lock().await);
        yield_now().await;
    });
    executor.step();
    // Both wait for the holder; the one that began last is woken first.
    let woken = Counter::new();
    let count = woken.clone();
    let mut awaits: Wait = Box::pin(async move { drop(ends.await) });
    assert!(poll_now(&mut awaits, &trap(move || count.add(), || ())).is_pending());
    let polls = lock_of(&mutex);
    let waiter = polls_once(&executor, 3, &polls, trap(|| panic!("on purpose"), || ()));
    executor.step();
    on_purpose(|| {
        let panicked = catch_unwind(AssertUnwindSafe(|| executor.run_until_idle()));
        assert!(panicked.is_err());
    });
    assert_eq!(woken.count(), 1);
    executor.run_until_idle();
    drop((awaits, polls, waiter));
    assert!(executor.live() <= 1);
}
