//! Every interleaving of what the coroutines of one shared executor share (`corank::workers`),
//! explored by loom.
//!
//! Run it with
//! `RUSTFLAGS="--cfg loom" cargo test --release -p corank --test loom_workers --target-dir target/loom`.
//!
//! Loom itself detects
//!
//! - two threads that have a mutex's value at once or without an order between them,
//! - two threads that hold the scheduler lock,
//! - a waiter that sleeps for ever, and
//! - an executor's table that is freed never or twice.
//!
//! Each operation is done under the scheduler lock. That is asserted where state is touched
//! (`assert_held`), here and wherever debug assertions are on. `workers.rs` and `traces.rs` were
//! seen to fail for each operation that is not. These tests were also seen to fail when
//!
//! | what is broken | test that fails |
//! |---|---|
//! | a try to lock without the scheduler lock | `try_lock_races_with_unlock` |
//! | a permit taken, given or waited for without it | `release_races_with_acquire` |
//! | an event that is set, or waited for, without it | `set_races_with_wait` |
//! | a key signalled, or waited for, without it | `signal_races_with_wait` |
//! | a timer set without it; a timer that fired while its waker was cloned is not seen | `advance_races_with_sleep` |
//! | a listener that begins or ends its wait without it | `a_listener_is_notified_of_changes_in_turn` |
//! | a poll that turns out to last passes nothing on | `a_poll_that_lasts_calls_a_sleeping_worker` |
//! | a sleep, or a primitive, never lets go of its anchor | all that have one |
//! | a sleep, or a primitive, has no anchor; an earlier deadline calls no worker | the run is aborted |
#![cfg(loom)]

mod explored;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use corank::workers::{
    Channel, Event, Keys, Mutex, PriorityListener, Semaphore, Shared, sleep_until,
};
use corank::{Priority, SharedExecutor, Step, Worker, yield_now};
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use explored::{Park, Payload, block_on, explore, level};

/// Polls once, by a waker that does nothing.
fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn new() -> Arc<SharedExecutor> {
    Arc::new(SharedExecutor::new())
}

/// Runs what a worker finds.
fn run(executor: &SharedExecutor) {
    executor.worker(Waker::noop().clone()).run_until_idle();
}

/// Two workers poll two coroutines that want the same lock.
///
/// One has it at a time, and each gets it.
#[test]
fn two_workers_exclude_each_other_by_a_lock() {
    explore(2, || {
        let executor = new();
        let mutex = Arc::new(Mutex::new_in(&*executor, Payload::new()));
        for at in [3, 5] {
            let mutex = mutex.clone();
            let locks = async move {
                let guard = mutex.lock().await;
                yield_now().await;
                guard.add();
            };
            drop(executor.spawn(level(at), locks).unwrap());
        }
        let theirs = executor.clone();
        let other = thread::spawn(move || run(&theirs));
        run(&executor);
        other.join().unwrap();
        assert_eq!(executor.live(), 0);
        assert_eq!(mutex.try_lock().unwrap().read(), 2);
    });
}

/// A thread that is no worker waits for a lock while its holder unlocks it.
#[test]
fn unlock_races_with_lock_from_outside() {
    explore(2, || {
        let executor = new();
        let mutex = Arc::new(Mutex::new_in(&*executor, Payload::new()));
        let theirs = mutex.clone();
        let other = thread::spawn(move || block_on(theirs.lock()).add());
        block_on(mutex.lock()).add();
        other.join().unwrap();
        assert_eq!(mutex.try_lock().unwrap().read(), 2);
    });
}

/// A thread that does not wait takes the lock if it is free, and never in between.
#[test]
fn try_lock_races_with_unlock() {
    explore(3, || {
        let executor = new();
        let mutex = Arc::new(Mutex::new_in(&*executor, Payload::new()));
        let theirs = mutex.clone();
        let other = thread::spawn(move || theirs.try_lock().map(|guard| guard.add()).is_some());
        mutex.try_lock().map(|guard| guard.add());
        let _ = mutex.is_locked();
        other.join().unwrap();
        assert!((1..=2).contains(&mutex.try_lock().unwrap().read()));
    });
}

/// A waiter is dropped while the lock is handed to it.
///
/// The lock goes on to the next waiter.
#[test]
fn unlock_races_with_a_waiter_that_leaves() {
    explore(3, || {
        let executor = new();
        let mutex = Arc::new(Mutex::new_in(&*executor, Payload::new()));
        let guard = mutex.try_lock().unwrap();
        let [leaves, mut stays] = [(); 2].map(|()| {
            let theirs = mutex.clone();
            let mut waits = Box::pin(async move { theirs.lock().await.add() });
            assert!(poll_once(waits.as_mut()).is_pending());
            waits
        });
        let other = thread::spawn(move || drop(leaves));
        guard.add();
        drop(guard);
        block_on(stays.as_mut());
        other.join().unwrap();
        assert_eq!(mutex.try_lock().unwrap().read(), 2);
    });
}

/// A permit that is released while a thread begins to wait is not lost.
#[test]
fn release_races_with_acquire() {
    explore(3, || {
        let executor = new();
        let semaphore = Arc::new(Semaphore::new_in(&*executor, 0));
        let payload = Arc::new(Payload::new());
        let (theirs, written) = (semaphore.clone(), payload.clone());
        let takes = thread::spawn(move || {
            let permit = theirs.try_acquire();
            match permit {
                Some(permit) => permit.forget(),
                None => block_on(theirs.acquire()).forget(),
            }
            assert_eq!(written.read(), 1);
        });
        payload.add();
        semaphore.release();
        takes.join().unwrap();
        assert!(semaphore.try_acquire().is_none());
    });
}

/// A permit that goes to a waiter that is dropped at the same time is not lost either.
#[test]
fn release_races_with_a_waiter_that_leaves() {
    explore(3, || {
        let executor = new();
        let semaphore = Arc::new(Semaphore::new_in(&*executor, 0));
        let [leaves, mut stays] = [(); 2].map(|()| {
            let theirs = semaphore.clone();
            let mut waits = Box::pin(async move { theirs.acquire().await.forget() });
            assert!(poll_once(waits.as_mut()).is_pending());
            waits
        });
        let other = thread::spawn(move || drop(leaves));
        semaphore.release();
        block_on(stays.as_mut());
        other.join().unwrap();
        assert_eq!(semaphore.free(), 0);
    });
}

#[test]
fn set_races_with_wait() {
    explore(3, || {
        let executor = new();
        let event = Arc::new(Event::new_in(&*executor));
        let payload = Arc::new(Payload::new());
        let (theirs, written) = (event.clone(), payload.clone());
        let waits = thread::spawn(move || {
            if !theirs.is_set() {
                block_on(theirs.wait());
            }
            assert_eq!(written.read(), 1);
        });
        payload.add();
        event.set();
        waits.join().unwrap();
    });
}

/// An event is set and reset while another thread begins to wait.
///
/// A waiter from before goes through, and one that comes later waits.
#[test]
fn reset_races_with_wait() {
    explore(3, || {
        let executor = new();
        let event = Arc::new(Event::new_in(&*executor));
        let theirs = event.clone();
        let waits = thread::spawn(move || block_on(theirs.wait()));
        event.set();
        event.reset();
        event.set();
        waits.join().unwrap();
    });
}

/// Messages come out once each and in order, whichever side waits.
#[test]
fn send_races_with_receive() {
    explore(2, || {
        let executor = new();
        let channel = Arc::new(Channel::<u32, 1>::new_in(&*executor));
        let theirs = channel.clone();
        let sends = thread::spawn(move || {
            block_on(theirs.send(1)).unwrap();
            block_on(theirs.send(2)).unwrap();
            theirs.close();
        });
        assert_eq!(block_on(channel.receive()), Some(1));
        assert_eq!(block_on(channel.receive()), Some(2));
        assert_eq!(block_on(channel.receive()), None);
        sends.join().unwrap();
    });
}

/// The same holds without waiting, with a close in between.
#[test]
fn close_races_with_send() {
    explore(3, || {
        let executor = new();
        let channel = Arc::new(Channel::<u32, 1>::new_in(&*executor));
        let theirs = channel.clone();
        let sends = thread::spawn(move || {
            let sent = [theirs.try_send(1).is_ok(), block_on(theirs.send(2)).is_ok()];
            sent.into_iter().filter(|&sent| sent).count()
        });
        let first = channel.try_receive().is_ok();
        channel.close();
        let sent = sends.join().unwrap();
        assert_eq!(usize::from(first) + channel.len(), sent);
        assert!(channel.is_closed());
    });
}

#[test]
fn signal_races_with_wait() {
    explore(3, || {
        let executor = new();
        let keys = Arc::new(Keys::new_in(&*executor));
        let payload = Arc::new(Payload::new());
        let (theirs, written) = (keys.clone(), payload.clone());
        let waits = thread::spawn(move || {
            block_on(theirs.wait(7)).unwrap();
            assert_eq!(written.read(), 1);
            theirs.fresh()
        });
        payload.add();
        keys.signal(7).unwrap();
        let mine = keys.fresh();
        assert_ne!(waits.join().unwrap(), mine);
        assert!(keys.is_empty());
    });
}

/// A signal to a waiter that is dropped at the same time is given again.
#[test]
fn signal_races_with_a_waiter_that_leaves() {
    explore(2, || {
        let executor = new();
        let keys = Arc::new(Keys::new_in(&*executor));
        let theirs = keys.clone();
        let leaves = thread::spawn(move || {
            let mut wait = pin!(theirs.wait(7));
            poll_once(wait.as_mut()).is_ready()
        });
        keys.signal(7).unwrap();
        if !leaves.join().unwrap() {
            block_on(keys.wait(7)).unwrap();
        }
        assert!(keys.is_empty());
    });
}

/// A timer fires while its sleeper is polled by another worker, or dropped.
#[test]
fn advance_races_with_sleep() {
    explore(3, || {
        let executor = new();
        let payload = Arc::new(Payload::new());
        let written = payload.clone();
        let sleeper = executor
            .spawn(level(3), async move {
                sleep_until(5).await;
                written.read()
            })
            .unwrap();
        let theirs = executor.clone();
        let worker = thread::spawn(move || run(&theirs));
        payload.add();
        executor.advance(5);
        worker.join().unwrap();
        run(&executor);
        assert_eq!(sleeper.try_join().unwrap().unwrap(), 1);
        assert_eq!(executor.next_deadline(), None);
    });
}

/// A sleeper is dropped on one thread while its timer fires on another.
#[test]
fn advance_races_with_a_sleeper_that_leaves() {
    explore(3, || {
        let executor = new();
        let mut sleep = Box::pin(sleep_until(5));
        let one = executor.worker(Waker::noop().clone());
        assert!(one.within(|| poll_once(sleep.as_mut())).is_pending());
        drop(one);
        let leaves = thread::spawn(move || drop(sleep));
        executor.advance(5);
        leaves.join().unwrap();
        assert_eq!(executor.next_deadline(), None);
    });
}

/// The executor goes while others still have what belongs to it.
///
/// Its table stays until they are done.
#[test]
fn the_executor_goes_first() {
    explore(3, || {
        let executor = SharedExecutor::new();
        let mut sleep = Box::pin(sleep_until(5));
        let one = executor.worker(Waker::noop().clone());
        assert!(one.within(|| poll_once(sleep.as_mut())).is_pending());
        drop(one);
        let semaphore = Semaphore::new_in(&executor, 0);
        let leaves = thread::spawn(move || {
            drop(sleep);
            semaphore.release();
            assert_eq!(semaphore.free(), 1);
        });
        drop(executor);
        leaves.join().unwrap();
    });
}

/// The plain memory that a listener writes.
struct Told(Payload);

// SAFETY: it is touched under the executor's scheduler lock alone, which is what the test is about.
unsafe impl Sync for Told {}

fn note(listener: &PriorityListener<Told>, _: Priority) {
    listener.data().0.add();
}

/// I9, H6: a coroutine waits for something outside, and ends, while another thread changes its
/// level.
///
/// Each change is reported by itself or not at all. Nothing is reported once the listener has gone.
#[test]
fn a_listener_is_notified_of_changes_in_turn() {
    explore(3, || {
        let executor = new();
        // SAFETY: adding calls nothing of the crate.
        let listener = unsafe {
            PriorityListener::with_data(Shared::from(&*executor), Told(Payload::new()), note)
        };
        let listener = Box::pin(listener);
        let waits = async move {
            listener.as_ref().wait();
            yield_now().await;
            drop(listener);
        };
        let coroutine = executor.spawn(level(20), waits).unwrap();
        let (theirs, id) = (executor.clone(), coroutine.id());
        let other = thread::spawn(move || {
            theirs.reprioritize(id, level(9));
            theirs.reprioritize(id, level(30));
        });
        run(&executor);
        other.join().unwrap();
        run(&executor);
        assert!(matches!(coroutine.try_join(), Ok(Ok(()))));
        assert_eq!(executor.live(), 0);
    });
}

/// H8: a worker is called, or sees what is ready, when another one's short poll turns out to last.
///
/// It goes to sleep while that poll makes something ready.
#[test]
fn a_poll_that_lasts_calls_a_sleeping_worker() {
    poll_that_lasts(|executor, short| {
        let executor = executor.clone();
        Box::new(move || drop(executor.spawn(level(3), short).unwrap()))
    });
}

/// The same holds when that poll wakes something by its [`Remote`](corank::Remote).
#[test]
fn a_poll_that_lasts_calls_a_sleeping_worker_for_a_remote_wake() {
    poll_that_lasts(|executor, mut short| {
        let mut polls = 0;
        let waits = poll_fn(move |context| {
            polls += 1;
            match polls {
                1 => Poll::Pending,
                _ => short.as_mut().poll(context),
            }
        });
        let remote = executor.spawn(level(3), waits).unwrap().remote();
        run(executor);
        Box::new(move || assert!(remote.wake()))
    });
}

type Short = Pin<Box<dyn Future<Output = ()> + Send>>;
type MakeReady = Box<dyn FnOnce() + Send>;

/// Runs a poll that lasts, beside a worker that goes to sleep.
///
/// What `prepare` returns makes the future ready.
fn poll_that_lasts(prepare: fn(&Arc<SharedExecutor>, Short) -> MakeReady) {
    /// The worker of the thread that polls.
    struct Here(*const Worker<'static>);
    // SAFETY: only the thread that has the worker uses it.
    unsafe impl Send for Here {}

    explore(2, move || {
        let executor = new();
        let (done, park) = (Arc::new(AtomicBool::new(false)), Park::new());
        let (is_done, ended) = (done.clone(), park.clone());
        let short = async move {
            is_done.store(true, Ordering::Relaxed);
            ended.wake();
        };
        let make_ready = prepare(&executor, Box::pin(short));
        let (is_done, theirs) = (done.clone(), executor.clone());
        let other = thread::spawn(move || {
            let park = Park::new();
            let worker = theirs.worker(Waker::from(park.clone()));
            while !is_done.load(Ordering::Relaxed) {
                if worker.step() == Step::Idle {
                    park.wait();
                }
            }
        });
        let one = executor.worker(Waker::noop().clone());
        one.set_short_polls(true);
        let here = Here(NonNull::from(&one).cast().as_ptr());
        let main = thread::current().id();
        let lasts = async move {
            let here = here;
            // The other worker may poll this: then there is nothing to see.
            if thread::current().id() == main {
                make_ready();
                // SAFETY: the worker is on this thread, and stays longer than what it polls.
                unsafe { &*here.0 }.set_short_polls(false);
                park.wait();
            } else {
                done.store(true, Ordering::Relaxed);
            }
        };
        drop(executor.spawn(level(1), lasts).unwrap());
        one.step();
        drop(one);
        other.join().unwrap();
    });
}

/// H10: a worker goes to sleep until the next deadline while another sets an earlier one.
///
/// It is called, or sees it.
#[test]
fn an_earlier_deadline_reaches_a_sleeping_worker() {
    explore(3, || {
        let executor = new();
        let theirs = executor.clone();
        let other = thread::spawn(move || {
            let park = Park::new();
            let worker = theirs.worker(Waker::from(park.clone()));
            // The clock stands at 5 when a worker sleeps until then.
            loop {
                let step = worker.step();
                if theirs.next_deadline() == Some(5) {
                    break;
                }
                if step == Step::Idle {
                    park.wait();
                }
            }
        });
        let mut sleep = Box::pin(sleep_until(5));
        let one = executor.worker(Waker::noop().clone());
        assert!(one.within(|| poll_once(sleep.as_mut())).is_pending());
        drop(one);
        other.join().unwrap();
        drop(sleep);
    });
}
