//! Every interleaving of the workers of one sharded executor, explored by loom.
//!
//! Run it with
//! `RUSTFLAGS="--cfg loom" cargo test --release -p corank --test loom_sharded --target-dir target/loom`.
//!
//! Loom itself detects what `loom_shared.rs` lists. `core/src/scheduling/workers/board.rs` has the
//! tests of the words alone.
#![cfg(loom)]

mod explored;

use std::sync::Arc;
use std::task::{Wake, Waker};

use corank::workers::Mutex;
use corank::{Priority, Relaxed, ShardedExecutor, Step, SystemView, yield_now};
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;

use explored::{Park, Payload, explore, level};

/// Serves a shard until `over`, asleep while nothing is ready.
///
/// Loom reports a deadlock if a call is missing.
fn serve(executor: &ShardedExecutor, shard: usize, park: &Arc<Park>, over: impl Fn() -> bool) {
    let worker = executor.worker(shard, Waker::from(park.clone()));
    while !over() {
        if worker.step() == Step::Idle && !over() {
            park.wait();
        }
    }
}

fn run(executor: &ShardedExecutor, shard: usize) {
    executor
        .worker(shard, Waker::noop().clone())
        .run_until_idle();
}

/// H1, H16: two workers poll coroutines of both shards. Each poll is made once, by one worker, and
/// sees what the poll before it did.
#[test]
fn a_helper_and_the_own_worker_share_what_is_ready() {
    explore(2, || {
        let executor = Arc::new(ShardedExecutor::new(2));
        let payload = Arc::new(Payload::new());
        let ours = payload.clone();
        let twice = executor.spawn_on(1, level(1), async move {
            ours.add();
            yield_now().await;
            ours.add();
        });
        let once = executor.spawn_on(1, level(2), async { 7 });
        let theirs = executor.clone();
        let other = thread::spawn(move || run(&theirs, 1));
        run(&executor, 0);
        other.join().unwrap();
        assert!(matches!(twice.unwrap().try_join(), Ok(Ok(()))));
        assert!(matches!(once.unwrap().try_join(), Ok(Ok(7))));
        assert_eq!(payload.read(), 2);
        assert!(executor.shown().is_empty());
    });
}

/// H17: a worker goes to sleep while a coroutine becomes ready in a shard whose worker is in a poll
/// that waits for it.
#[test]
fn a_poll_that_lasts_calls_a_worker_of_another_shard() {
    explore(1, || {
        let executor = Arc::new(ShardedExecutor::new(2));
        let done = Arc::new(AtomicBool::new(false));
        let [ended, here, there] = [(); 3].map(|()| Park::new());
        let inner = Arc::downgrade(&executor);
        let (is_done, parks) = (done.clone(), [ended.clone(), here.clone(), there.clone()]);
        let lasts = async move {
            let executor = inner.upgrade().unwrap();
            let short = async move {
                is_done.store(true, Ordering::Relaxed);
                parks.into_iter().for_each(Wake::wake);
            };
            drop(executor.spawn_on(0, level(9), short));
            // This poll ends when the other worker has made that one.
            ended.wait();
        };
        drop(executor.spawn_on(0, level(1), lasts));
        let (theirs, is_done) = (executor.clone(), done.clone());
        let over = move || is_done.load(Ordering::Relaxed);
        let other = thread::spawn(move || serve(&theirs, 1, &there, over));
        serve(&executor, 0, &here, || done.load(Ordering::Relaxed));
        other.join().unwrap();
        assert_eq!(executor.live(), 0);
    });
}

/// H17: the same where the polls count as short until another thread finds that one lasts.
#[test]
fn a_poll_that_was_to_be_short_calls_a_worker_when_it_lasts() {
    explore(2, || {
        let executor = Arc::new(ShardedExecutor::new(2));
        let done = Arc::new(AtomicBool::new(false));
        let (theirs, is_done) = (executor.clone(), done.clone());
        let over = move || is_done.load(Ordering::Relaxed);
        let other = thread::spawn(move || serve(&theirs, 1, &Park::new(), over));
        let worker = executor.worker(0, Waker::noop().clone());
        worker.set_short_polls(true);
        drop(executor.spawn_on(0, level(9), async move {
            done.store(true, Ordering::Relaxed);
        }));
        executor.note_long_poll(0);
        other.join().unwrap();
        assert_eq!(executor.live(), 0);
    });
}

/// H8, H17: a wake from outside reaches the shard's worker, or another one, as both go to sleep.
#[test]
fn a_spawn_from_outside_reaches_a_worker() {
    explore(1, || {
        let executor = Arc::new(ShardedExecutor::new(2));
        let done = Arc::new(AtomicUsize::new(0));
        let parks = [(); 2].map(|()| Park::new());
        let serve = |shard: usize| {
            let (theirs, done, park) = (executor.clone(), done.clone(), parks[shard].clone());
            thread::spawn(move || {
                serve(&theirs, shard, &park, || done.load(Ordering::Relaxed) == 2)
            })
        };
        let others = [serve(0), serve(1)];
        for shard in [1, 0] {
            let (done, parks) = (done.clone(), parks.clone());
            let counts = async move {
                if done.fetch_add(1, Ordering::Relaxed) == 1 {
                    parks.into_iter().for_each(Wake::wake);
                }
            };
            drop(executor.spawn_on(shard, level(5), counts));
        }
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(executor.live(), 0);
    });
}

loom::thread_local! {
    /// Whether something urgent waited in the other shard when this thread's worker last asked.
    static WAITED: std::cell::Cell<bool> = std::cell::Cell::new(false);
}

/// A system view that notes whether the urgent coroutine is ready: it is asked just before the
/// union is read.
struct NotesWhatWaits {
    executor: Arc<ShardedExecutor>,
    spawned: Arc<AtomicBool>,
}

impl SystemView for NotesWhatWaits {
    fn most_urgent_elsewhere(&self) -> Option<Priority> {
        // What another worker serves meanwhile does not wait: that is read first.
        let waits = self.spawned.load(Ordering::Acquire)
            && self.executor.shards()[1].ready().contains(level(1));
        WAITED.with(|waited| waited.set(waits));
        None
    }
}

/// H16: a worker begins a poll while something more urgent is ready in another shard only if that
/// became ready after the worker's last check, or was taken by another worker meanwhile.
#[test]
fn what_was_ready_at_the_last_check_is_not_passed_over() {
    explore(2, || {
        let executor = Arc::new(ShardedExecutor::new(2));
        let (spawned, served) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        );
        let is_served = served.clone();
        let bulk = executor.spawn_on(0, level(9), async move {
            // Nothing but this worker serves the other shard.
            !WAITED.with(std::cell::Cell::get) || is_served.load(Ordering::Relaxed)
        });
        let (theirs, is_spawned) = (executor.clone(), spawned.clone());
        let other = thread::spawn(move || {
            let urgent = async move { served.store(true, Ordering::Relaxed) };
            drop(theirs.spawn_on(1, level(1), urgent));
            is_spawned.store(true, Ordering::Release);
        });
        let view = NotesWhatWaits {
            executor: executor.clone(),
            spawned,
        };
        let worker = executor.worker(0, Waker::noop().clone());
        worker.run_some(&view, u64::MAX);
        other.join().unwrap();
        worker.run_some(&Relaxed, u64::MAX);
        drop(worker);
        assert!(matches!(bulk.unwrap().try_join(), Ok(Ok(true))));
        assert_eq!(executor.live(), 0);
    });
}

/// H18: a lock of one shard is handed to and fro between coroutines of two.
#[test]
fn a_lock_excludes_across_shards() {
    explore(2, || {
        let executor = Arc::new(ShardedExecutor::new(2));
        let mutex = Arc::new(Mutex::new_in(&executor.shards()[0], Payload::new()));
        for shard in [0, 1] {
            let mutex = mutex.clone();
            let locks = async move { mutex.lock().await.add() };
            drop(executor.spawn_on(shard, level(5), locks));
        }
        let theirs = executor.clone();
        let other = thread::spawn(move || run(&theirs, 1));
        run(&executor, 0);
        other.join().unwrap();
        run(&executor, 0);
        assert_eq!(executor.live(), 0);
        assert_eq!(mutex.try_lock().unwrap().read(), 2);
    });
}

/// X10: the executor is closed while a worker polls in another shard, and leaves.
#[test]
fn close_races_with_a_worker_in_another_shard() {
    explore(2, || {
        let executor = Arc::new(ShardedExecutor::new(2));
        let payload = Arc::new(Payload::new());
        let ours = payload.clone();
        drop(executor.spawn_on(1, level(1), async move {
            ours.add();
            yield_now().await;
            ours.add();
        }));
        let theirs = executor.clone();
        let other = thread::spawn(move || run(&theirs, 0));
        executor.close();
        other.join().unwrap();
        assert_eq!(executor.live(), 0);
        assert!(payload.read() <= 2);
    });
}
