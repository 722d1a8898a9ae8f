//! Every interleaving of a takeover by a spare worker (rules H11 to H13), explored by loom.
//!
//! Run it with
//! `RUSTFLAGS="--cfg loom" cargo test --release -p corank --test loom_spare --target-dir target/loom`.
//!
//! One thread is a worker inside a poll, the other one a spare worker, as a platform would run it
//! whose polls last from the beginning. A poll that waits for something urgent in vain is a
//! deadlock, which loom reports, as it reports two polls of one coroutine at once (they write to
//! one `Payload`). These tests were seen to fail when
//!
//! | what is broken | test that fails |
//! |---|---|
//! | a spare worker that stands by is not called | the first three |
//! | a worker that leaves does not end its takeover | `the_worker_leaves_during_the_takeover` |
#![cfg(loom)]

mod explored;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Wake, Waker};

use corank::{JoinError, Relaxed, SharedExecutor};
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use explored::{Park, Payload, explore, level};

/// A spare worker on a thread of its own, until it is stopped.
struct Spare {
    thread: thread::JoinHandle<()>,
    stopped: Arc<AtomicBool>,
    call: Arc<Park>,
}

impl Spare {
    fn start(executor: &Arc<SharedExecutor>) -> Self {
        let (executor, stopped) = (executor.clone(), Arc::new(AtomicBool::new(false)));
        let call = Park::new();
        let (stop, calls) = (stopped.clone(), call.clone());
        let thread = thread::spawn(move || {
            let spare = executor.spare_worker(Waker::from(calls.clone()));
            while !stop.load(Ordering::Acquire) {
                match spare.stand_by() {
                    Some(worker) => drop(spare.run_for(worker, &Relaxed, 64)),
                    None => calls.wait(),
                }
            }
        });
        Self {
            thread,
            stopped,
            call,
        }
    }

    fn stop(self) {
        self.stopped.store(true, Ordering::Release);
        self.call.wake();
        self.thread.join().unwrap();
    }
}

/// Runs one poll of level 40, in which `lasts` is called, beside a spare worker.
fn beside_a_spare_worker(
    executor: &Arc<SharedExecutor>,
    lasts: impl FnOnce(&SharedExecutor) + Send + 'static,
) {
    let inside = executor.clone();
    drop(executor.spawn(level(40), async move { lasts(&inside) }));
    let spare = Spare::start(executor);
    let worker = executor.worker(Waker::noop().clone());
    worker.run_until_idle();
    drop(worker);
    spare.stop();
    assert_eq!(executor.live(), 0);
}

/// An event for which a thread waits; a thread of loom may wake without one.
#[derive(Clone)]
struct Event(Arc<AtomicBool>, Arc<Park>);

impl Event {
    fn new() -> Self {
        Self(Arc::new(AtomicBool::new(false)), Park::new())
    }

    fn set(&self) {
        self.0.store(true, Ordering::Release);
        self.1.wake_by_ref();
    }

    fn wait(&self) {
        while !self.0.load(Ordering::Acquire) {
            self.1.wait();
        }
    }
}

/// Spawns something urgent that sets the event.
fn urgent(executor: &SharedExecutor, ran: &Event) {
    let ran = ran.clone();
    drop(executor.spawn(level(3), async move { ran.set() }).unwrap());
}

/// The poll itself makes something urgent ready, and does not end before that has run.
#[test]
fn what_the_poll_spawns_runs_before_it_ends() {
    explore(2, || {
        let executor = Arc::new(SharedExecutor::new());
        beside_a_spare_worker(&executor, |executor| {
            let ran = Event::new();
            urgent(executor, &ran);
            ran.wait();
        });
    });
}

/// A third thread spawns while the spare worker begins to stand by.
#[test]
fn what_another_thread_spawns_runs_before_the_poll_ends() {
    explore(1, || {
        let executor = Arc::new(SharedExecutor::new());
        let (theirs, ran) = (executor.clone(), Event::new());
        let event = ran.clone();
        let other = thread::spawn(move || urgent(&theirs, &event));
        beside_a_spare_worker(&executor, move |_| ran.wait());
        other.join().unwrap();
    });
}

/// A third thread wakes something urgent by its waker, through the inbox.
#[test]
fn what_another_thread_wakes_runs_before_the_poll_ends() {
    explore(1, || {
        let executor = Arc::new(SharedExecutor::new());
        let ran = Event::new();
        let (event, mut polls) = (ran.clone(), 0);
        let urgent = poll_fn(move |_| {
            polls += 1;
            if polls == 1 {
                return Poll::Pending;
            }
            event.set();
            Poll::Ready(())
        });
        let urgent = executor.spawn(level(3), urgent).unwrap();
        executor.worker(Waker::noop().clone()).run_until_idle();
        let remote = urgent.remote();
        let other = thread::spawn(move || assert!(remote.wake()));
        beside_a_spare_worker(&executor, move |_| ran.wait());
        other.join().unwrap();
    });
}

/// The poll ends while the spare worker takes over, and the worker picks what is left itself.
///
/// Each coroutine is polled once, by one of the two.
#[test]
fn the_poll_ends_during_the_takeover() {
    explore(2, || {
        let executor = Arc::new(SharedExecutor::new());
        let payload = Arc::new(Payload::new());
        let theirs = payload.clone();
        beside_a_spare_worker(&executor, move |executor| {
            for at in [3, 40] {
                let payload = theirs.clone();
                let adds = async move {
                    if at == 3 {
                        payload.add();
                    }
                };
                drop(executor.spawn(level(at), adds).unwrap());
            }
        });
        assert_eq!(payload.read(), 1);
    });
}

/// The coroutine of the poll is woken and cancelled by what the spare worker polls.
///
/// Its polls do not overlap, and it exits when its poll ends (rules H1, H3, H4).
#[test]
fn the_held_coroutine_is_woken_and_cancelled() {
    explore(1, || {
        let executor = Arc::new(SharedExecutor::new());
        let payload = Arc::new(Payload::new());
        let (inside, adds) = (executor.clone(), payload.clone());
        let held = poll_fn(move |cx| {
            adds.add();
            let waker = cx.waker().clone();
            drop(inside.spawn(level(3), async move { waker.wake() }));
            Poll::<()>::Pending
        });
        let held = executor.spawn(level(40), held).unwrap();
        let remote = held.remote();
        let cancels = async move {
            remote.cancel();
        };
        let spare = Spare::start(&executor);
        let (theirs, worker) = (executor.clone(), executor.worker(Waker::noop().clone()));
        worker.step();
        drop(theirs.spawn(level(2), cancels).unwrap());
        worker.run_until_idle();
        drop(worker);
        spare.stop();
        // What the spare worker had begun when it was stopped has ended.
        executor.worker(Waker::noop().clone()).run_until_idle();
        assert!(matches!(held.try_join(), Ok(Err(JoinError::Cancelled))));
        assert_eq!(executor.live(), 0);
        assert!(payload.read() >= 1);
    });
}

/// The worker leaves the executor while the spare one is inside a poll that it began in its place.
#[test]
fn the_worker_leaves_during_the_takeover() {
    explore(2, || {
        let executor = Arc::new(SharedExecutor::new());
        beside_a_spare_worker(&executor, |executor| {
            drop(executor.spawn(level(3), async {}).unwrap());
        });
    });
}

/// The executor is closed in the middle of a takeover: everything is cancelled or has ended.
#[test]
fn close_races_with_the_takeover() {
    explore(1, || {
        let executor = Arc::new(SharedExecutor::new());
        let theirs = executor.clone();
        let other = thread::spawn(move || theirs.close());
        let inside = executor.clone();
        let holds = async move { drop(inside.spawn(level(3), async {})) };
        let _ = executor.spawn(level(40), holds);
        let spare = Spare::start(&executor);
        let worker = executor.worker(Waker::noop().clone());
        worker.run_until_idle();
        drop(worker);
        spare.stop();
        other.join().unwrap();
        executor.worker(Waker::noop().clone()).run_until_idle();
        assert_eq!(executor.live(), 0);
    });
}
