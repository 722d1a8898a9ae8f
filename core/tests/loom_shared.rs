//! Every interleaving of the workers of one shared executor, explored by loom.
//!
//! Run it with
//! `RUSTFLAGS="--cfg loom" cargo test --release -p corank --test loom_shared --target-dir target/loom`.
//!
//! Loom itself detects
//!
//! - two threads that hold the scheduler lock at once or without an order between them
//!   (`cfg(loom)` in `core/src/scheduling/workers/scheduler_lock.rs`),
//! - data races on the coroutines' own memory,
//! - a worker that sleeps for ever, and
//! - a table that is freed never or twice.
//!
//! The tests were seen to fail when the protocol is broken in any of these ways:
//!
//! | what is broken | test that fails |
//! |---|---|
//! | locking or unlocking the scheduler lock is relaxed | all |
//! | unlocked in two steps; a notification leaves no mark, or is ignored; no notification is sent; what arrives does not count | `wake_from_outside_reaches_an_idle_worker` |
//! | an idle worker is not noted | `idle_worker_is_called` |
//! | a worker picks something less urgent | `no_less_urgent_poll_begins_while_something_urgent_is_ready` |
//! | a worker that has checked still counts as called | `idle_worker_is_called_again` |
//! | a wake, a cancellation, or a re-prioritisation without the scheduler lock | the test of that name |
//! | a joiner does not check again after its waker was cloned | `exit_races_with_join_from_outside` |
//! | the lock is read again after a released handle has unlocked it | `release_races_with_the_end_of_the_executor`, `release_calls_a_worker_and_races_with_the_end_of_the_executor` |
//! | a handle is dropped without the scheduler lock | `exit_races_with_join`, `cancel_while_it_runs_elsewhere` |
//! | a worker context goes while it is called, because its worker does not wait for that, or does not when it leaves | `worker_leaves_while_it_is_called` |
//! | the scheduler is unlocked for a moment between pick and poll | `cancel_while_it_runs_elsewhere` |
//!
#![cfg(loom)]

mod explored;

use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::task::{Poll, Waker};

use corank::{JoinError, Priority, SharedExecutor, State, Step, SystemView, Worker, yield_now};
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;

use explored::{Park, Payload, block_on, explore, level};

/// Serves the executor until `over`, asleep while nothing is ready.
///
/// Loom reports a deadlock if a call is missing.
fn serve(executor: &SharedExecutor, over: impl Fn() -> bool) {
    let park = Park::new();
    let worker = executor.worker(Waker::from(park.clone()));
    while !over() {
        if worker.step() == Step::Idle && !over() {
            park.wait();
        }
    }
}

/// Runs what a worker finds.
fn run(executor: &SharedExecutor) {
    executor.worker(Waker::noop().clone()).run_until_idle();
}

/// Two workers poll several coroutines.
///
/// Each poll is made once, by one worker, and sees what the poll before it did.
#[test]
fn two_workers_share_what_is_ready() {
    explore(2, || {
        let executor = Arc::new(SharedExecutor::new());
        let payload = Arc::new(Payload::new());
        let ours = payload.clone();
        let twice = executor
            .spawn(level(1), async move {
                ours.add();
                yield_now().await;
                ours.add();
            })
            .unwrap();
        let once = executor.spawn(level(2), async { 7 }).unwrap();
        let theirs = executor.clone();
        let other = thread::spawn(move || run(&theirs));
        run(&executor);
        other.join().unwrap();
        assert_eq!(executor.live(), 0);
        assert!(matches!(twice.try_join(), Ok(Ok(()))));
        assert!(matches!(once.try_join(), Ok(Ok(7))));
        assert_eq!(payload.read(), 2);
        assert!(executor.published().urgency().is_empty());
    });
}

loom::thread_local! {
    /// True if something urgent was ready, and no worker served it, at the last pick of this
    /// thread's worker.
    static WAITED: Cell<bool> = Cell::new(false);
}

/// A system view that notes whether the urgent coroutine is ready.
///
/// It is asked under the scheduler lock, before each pick, and reports nothing urgent elsewhere.
struct NotesWhatWaits {
    executor: Arc<SharedExecutor>,
    spawned: Arc<AtomicBool>,
    done: Arc<AtomicBool>,
}

impl SystemView for NotesWhatWaits {
    fn most_urgent_elsewhere(&self) -> Option<Priority> {
        let waits = self.spawned.load(Ordering::SeqCst)
            && !self.executor.published().running().contains(level(1))
            && !self.done.load(Ordering::SeqCst);
        WAITED.with(|waited| waited.set(waits));
        None
    }
}

/// No poll of something less urgent begins while something urgent is ready and not served.
///
/// This is the bound on inversions among workers. The urgent coroutine waits at most for the end of
/// one poll, that of the worker that is free first. If a worker is idle, it waits for none.
#[test]
fn no_less_urgent_poll_begins_while_something_urgent_is_ready() {
    explore(2, || {
        let executor = Arc::new(SharedExecutor::new());
        let (spawned, done) = (Arc::default(), Arc::default());
        let bulk = [0, 1].map(|yields| {
            let body = async move {
                let mut passed_over = WAITED.with(Cell::get);
                for _ in 0..yields {
                    yield_now().await;
                    passed_over |= WAITED.with(Cell::get);
                }
                passed_over
            };
            executor.spawn(level(9), body).unwrap()
        });
        let run = |executor: Arc<SharedExecutor>, spawned, done| {
            let view = NotesWhatWaits {
                executor: executor.clone(),
                spawned,
                done,
            };
            let (step, _) = executor.worker(Waker::noop().clone()).run_under(&view);
            assert_eq!(step, Step::Idle);
        };
        let other = {
            let (executor, spawned, done) =
                (executor.clone(), Arc::clone(&spawned), Arc::clone(&done));
            thread::spawn(move || run(executor, spawned, done))
        };
        let served = done.clone();
        let urgent = async move { AtomicBool::store(&served, true, Ordering::SeqCst) };
        drop(executor.spawn(level(1), urgent).unwrap());
        AtomicBool::store(&spawned, true, Ordering::SeqCst);
        run(executor.clone(), spawned, done.clone());
        other.join().unwrap();
        assert!(done.load(Ordering::SeqCst));
        assert_eq!(executor.live(), 0);
        for bulk in bulk {
            assert!(matches!(bulk.try_join(), Ok(Ok(false))));
        }
    });
}

/// A coroutine is woken from another worker's poll while it still polls, returns, or is blocked.
///
/// It gets one more poll, which sees what was written before the wake.
#[test]
fn wake_while_it_runs_elsewhere() {
    explore(3, || {
        let executor = Arc::new(SharedExecutor::new());
        let payload = Arc::new(Payload::new());
        let (spawner, written, mut polls) = (executor.clone(), payload.clone(), 0);
        let sleeper = executor
            .spawn(
                level(1),
                poll_fn(move |cx| {
                    polls += 1;
                    if polls == 2 {
                        return Poll::Ready(payload.read());
                    }
                    // From here on another worker may run this one.
                    let (waker, written) = (cx.waker().clone(), written.clone());
                    let wakes = async move {
                        written.add();
                        waker.wake();
                    };
                    drop(spawner.spawn(level(2), wakes).unwrap());
                    Poll::Pending
                }),
            )
            .unwrap();
        let theirs = executor.clone();
        let other = thread::spawn(move || run(&theirs));
        run(&executor);
        other.join().unwrap();
        assert!(matches!(sleeper.try_join(), Ok(Ok(1))));
        assert_eq!(executor.live(), 0);
    });
}

/// A coroutine is cancelled from another thread at any point of its life.
///
/// The future is dropped once, and the handle says how it ended.
#[test]
fn cancel_while_it_runs_elsewhere() {
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    explore(3, || {
        let executor = Arc::new(SharedExecutor::new());
        let drops = Arc::new(AtomicUsize::new(0));
        let reached = Arc::new(AtomicUsize::new(0));
        let (guard, end) = (Dropped(drops.clone()), reached.clone());
        let handle = executor
            .spawn(level(1), async move {
                yield_now().await;
                end.store(1, Ordering::SeqCst);
                drop(guard);
            })
            .unwrap();
        let theirs = executor.clone();
        let other = thread::spawn(move || run(&theirs));
        let first = handle.cancel();
        let again = handle.cancel();
        assert!(!again, "a second cancel does nothing");
        other.join().unwrap();
        assert_eq!(drops.load(Ordering::SeqCst), 1);
        match handle.try_join().unwrap() {
            Ok(()) => assert_eq!(reached.load(Ordering::SeqCst), 1),
            Err(JoinError::Cancelled) => assert!(first && reached.load(Ordering::SeqCst) == 0),
            Err(other) => panic!("{other:?}"),
        }
        assert_eq!(executor.live(), 0);
    });
}

/// A coroutine is re-prioritised from another thread while a worker picks, polls and puts it back.
///
/// The level counts from then on, and the queues and bits stay in order.
#[test]
fn reprioritize_while_it_runs_elsewhere() {
    explore(3, || {
        let executor = Arc::new(SharedExecutor::new());
        let handle = executor.spawn(level(9), yield_now()).unwrap();
        let theirs = executor.clone();
        let other = thread::spawn(move || {
            let worker = theirs.worker(Waker::noop().clone());
            worker.step()
        });
        assert!(handle.reprioritize(level(3)));
        assert_eq!(executor.priority(handle.id()), Some(level(3)));
        other.join().unwrap();
        assert_eq!(executor.state(handle.id()), Some(State::Ready));
        assert_eq!(executor.ready().most_urgent(), Some(level(3)));
        run(&executor);
        assert_eq!(executor.live(), 0);
        assert!(executor.published().urgency().is_empty());
    });
}

/// A coroutine exits on one worker while another begins to await it.
///
/// The joiner gets the output, and its urgency is not donated for ever.
#[test]
fn exit_races_with_join() {
    explore(2, || {
        let executor = Arc::new(SharedExecutor::new());
        let one = executor.spawn(level(9), async { 7 }).unwrap();
        let joiner = executor
            .spawn(level(1), async move { one.await.unwrap() })
            .unwrap();
        let theirs = executor.clone();
        let other = thread::spawn(move || run(&theirs));
        run(&executor);
        other.join().unwrap();
        run(&executor);
        assert_eq!(joiner.try_join().unwrap().unwrap(), 7);
        assert_eq!(executor.live(), 0);
        assert!(executor.published().urgency().is_empty());
    });
}

/// A thread that is no worker awaits a coroutine that exits, by a waker of its own.
///
/// It does not sleep for ever.
#[test]
fn exit_races_with_join_from_outside() {
    explore(3, || {
        let executor = Arc::new(SharedExecutor::new());
        let handle = executor.spawn(level(9), async { 7 }).unwrap();
        let theirs = executor.clone();
        let other = thread::spawn(move || run(&theirs));
        let output = block_on(handle).unwrap();
        assert_eq!(output, 7);
        other.join().unwrap();
        assert_eq!(executor.live(), 0);
    });
}

/// A handle is dropped while its coroutine exits on another worker.
///
/// The output is dropped once, and the slot comes back.
#[test]
fn exit_races_with_detach() {
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    explore(3, || {
        let executor = Arc::new(SharedExecutor::new());
        let drops = Arc::new(AtomicUsize::new(0));
        let output = Dropped(drops.clone());
        let handle = executor.spawn(level(1), async move { output }).unwrap();
        let theirs = executor.clone();
        let other = thread::spawn(move || run(&theirs));
        drop(handle);
        other.join().unwrap();
        assert_eq!(drops.load(Ordering::SeqCst), 1);
        let indices = [(); 2].map(|()| {
            let handle = executor.spawn(level(1), async {}).unwrap();
            handle.id().to_bits() as u32
        });
        assert_eq!(
            indices.iter().sum::<u32>(),
            1,
            "both slots of the table are free"
        );
    });
}

/// A worker is called if it falls asleep while another's poll makes something ready.
#[test]
fn idle_worker_is_called() {
    explore(2, || {
        let executor = Arc::new(SharedExecutor::new());
        let done = Arc::new(AtomicUsize::new(0));
        let (theirs, over) = (executor.clone(), done.clone());
        let other = thread::spawn(move || serve(&theirs, || over.load(Ordering::SeqCst) == 1));
        // No worker runs here: a sleeping worker has to be called.
        let end = done.clone();
        executor
            .spawn(level(1), async move { end.store(1, Ordering::SeqCst) })
            .unwrap();
        other.join().unwrap();
        assert_eq!(executor.live(), 0);
    });
}

/// A worker that was called, has checked, and sleeps again is called for what comes next.
#[test]
fn idle_worker_is_called_again() {
    explore(2, || {
        let executor = Arc::new(SharedExecutor::new());
        let done = Arc::new(AtomicUsize::new(0));
        let (theirs, over) = (executor.clone(), done.clone());
        let other = thread::spawn(move || serve(&theirs, || over.load(Ordering::SeqCst) == 2));
        for _ in 0..2 {
            let end = done.clone();
            let ends = async move {
                end.fetch_add(1, Ordering::SeqCst);
            };
            // The second comes when the worker is through with the first.
            block_on(executor.spawn(level(1), ends).unwrap()).unwrap();
        }
        other.join().unwrap();
        assert_eq!(executor.live(), 0);
    });
}

/// A wake from a thread that is no worker goes through the inbox and notifies the idle worker.
#[test]
fn wake_from_outside_reaches_an_idle_worker() {
    explore(3, || {
        let executor = Arc::new(SharedExecutor::new());
        let done = Arc::new(AtomicUsize::new(0));
        let (end, mut polls) = (done.clone(), 0);
        let handle = executor
            .spawn(
                level(1),
                poll_fn(move |_| {
                    polls += 1;
                    if polls == 1 {
                        return Poll::Pending;
                    }
                    end.store(1, Ordering::SeqCst);
                    Poll::Ready(())
                }),
            )
            .unwrap();
        run(&executor);
        let remote = handle.remote();
        let (theirs, over) = (executor.clone(), done.clone());
        let other = thread::spawn(move || serve(&theirs, || over.load(Ordering::SeqCst) == 1));
        assert!(remote.wake());
        other.join().unwrap();
        assert_eq!(executor.live(), 0);
    });
}

/// A worker leaves while it is being called.
///
/// Its place is not used afterwards.
#[test]
fn worker_leaves_while_it_is_called() {
    explore(3, || {
        let executor = Arc::new(SharedExecutor::new());
        let theirs = executor.clone();
        let other = thread::spawn(move || {
            let worker: Worker<'_> = theirs.worker(Waker::from(Park::new()));
            worker.run_until_idle();
        });
        executor.spawn(level(1), async {}).unwrap();
        other.join().unwrap();
        run(&executor);
        assert_eq!(executor.live(), 0);
    });
}

/// A handle is released while another thread notifies, and then ends the executor.
///
/// Nothing touches the scheduler after it is freed.
#[test]
fn release_races_with_the_end_of_the_executor() {
    explore(3, || {
        let executor = SharedExecutor::new();
        let handle = executor.spawn(level(1), async {}).unwrap();
        let remote = handle.remote();
        let other = thread::spawn(move || drop(handle));
        remote.wake();
        drop(remote);
        drop(executor);
        other.join().unwrap();
    });
}

/// As above, where the release also calls a worker for what was announced meanwhile.
#[test]
fn release_calls_a_worker_and_races_with_the_end_of_the_executor() {
    explore(3, || {
        let executor = SharedExecutor::new();
        let handle = executor.spawn(level(1), pending::<()>()).unwrap();
        let remote = handle.remote();
        let worker = executor.worker(Waker::from(Park::new()));
        worker.run_until_idle();
        let other = thread::spawn(move || drop(handle));
        remote.wake();
        drop(remote);
        drop(worker);
        drop(executor);
        other.join().unwrap();
    });
}
