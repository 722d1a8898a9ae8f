//! What belongs to one thread, in an executor with several workers.

use std::future::{Future, pending, poll_fn};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::thread;

use super::{Act, KEPT, Wait, poll_now};
use crate::common::level;
use corank::key::Keys;
use corank::sync::{Channel, Event, Mutex, Semaphore};
use corank::{SharedExecutor, State};

/// Returns waits in primitives of one thread, each with what ends it.
fn waits_of_one_thread() -> Vec<(Wait, Act)> {
    let mutex = Rc::new(Mutex::new(()));
    let held = mutex.clone();
    let mut holder: Wait = Box::pin(async move {
        let _held = held.lock().await;
        pending::<()>().await;
    });
    assert!(poll_now(&mut holder, Waker::noop()).is_pending());
    let lock: Wait = Box::pin(async move { drop(mutex.lock().await) });

    let semaphore = Rc::new(Semaphore::new(0));
    let gives = semaphore.clone();
    let acquire: Wait = Box::pin(async move { semaphore.acquire().await.forget() });

    let event = Rc::new(Event::new());
    let sets = event.clone();
    let happens: Wait = Box::pin(async move { event.wait().await });

    let channel = Rc::new(Channel::<u8, 1>::new());
    let sends = channel.clone();
    let receive: Wait = Box::pin(async move { assert_eq!(channel.receive().await, Some(7)) });

    let keys = Rc::new(Keys::new());
    let signals = keys.clone();
    let key: Wait = Box::pin(async move { keys.wait(3).await.unwrap() });

    vec![
        (lock, Box::new(move || drop(holder))),
        (acquire, Box::new(move || gives.release())),
        (happens, Box::new(move || sets.set())),
        (receive, Box::new(move || sends.try_send(7).unwrap())),
        (key, Box::new(move || signals.signal(3).unwrap())),
    ]
}

/// Polls the wait that its thread keeps.
fn polls_kept() -> impl Future<Output = ()> + Send + 'static {
    poll_fn(|cx| KEPT.with_borrow_mut(|kept| kept.as_mut().expect("a wait").as_mut().poll(cx)))
}

/// A coroutine polls a wait in a primitive of one thread, and is cancelled on another thread.
///
/// Meanwhile its first thread ends that wait. Nothing orders the two, so nothing may be touched by
/// both.
#[test]
fn a_wait_of_one_thread_is_not_known_to_a_shared_executor() {
    for kind in 0..waits_of_one_thread().len() {
        let executor = SharedExecutor::new();
        let coroutine = executor.spawn(level(9), polls_kept()).unwrap();
        let (polled, cancelled) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                let (wait, end) = waits_of_one_thread().swap_remove(kind);
                KEPT.set(Some(wait));
                assert_eq!(executor.worker(Waker::noop().clone()).run_until_idle(), 1);
                polled.store(true, Ordering::Relaxed);
                while !cancelled.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
                drop(KEPT.take());
                end();
            });
            while !polled.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            assert!(coroutine.cancel());
            cancelled.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn a_coroutine_of_several_workers_waits_in_what_belongs_to_one_thread() {
    for (wait, end) in waits_of_one_thread() {
        let executor = SharedExecutor::new();
        let worker = executor.worker(Waker::noop().clone());
        let coroutine = executor.spawn(level(9), polls_kept()).unwrap();
        KEPT.set(Some(wait));
        assert_eq!(worker.run_until_idle(), 1);
        assert_eq!(executor.state(coroutine.id()), Some(State::Blocked));
        end();
        assert_eq!(worker.run_until_idle(), 1);
        assert!(coroutine.has_exited());
        drop(KEPT.take());
    }
}

/// A coroutine of several workers does not inherit through a lock of one thread.
///
/// Its level may be read on another thread.
#[test]
fn a_lock_of_one_thread_donates_nothing_to_a_coroutine_of_several_workers() {
    let executor = SharedExecutor::new();
    let worker = executor.worker(Waker::noop().clone());
    let mutex = Rc::new(Mutex::new(()));
    let held = mutex.clone();
    KEPT.set(Some(Box::pin(async move {
        let _held = held.lock().await;
        pending::<()>().await;
    })));
    let holder = executor.spawn(level(40), polls_kept()).unwrap();
    worker.run_until_idle();
    let holds = KEPT.take();
    assert!(mutex.is_locked());
    let waits = mutex.clone();
    KEPT.set(Some(Box::pin(async move { drop(waits.lock().await) })));
    let waiter = executor.spawn(level(3), polls_kept()).unwrap();
    worker.run_until_idle();
    assert_eq!(executor.priority(holder.id()), Some(level(40)));
    drop(holds);
    worker.run_until_idle();
    assert!(waiter.has_exited());
    drop(KEPT.take());
}
