//! The figures of a running runtime: exact where counts are determined, and bounded by times that
//! the test itself measures where they are not.

#![cfg(not(loom))]

#[path = "../../core/tests/common/asserts.rs"]
mod asserts;
mod held;

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use corank_linux::{Builder, Metrics, Priority, Runtime, WorkerRole};
use held::Held;

/// Bounds the waits of a failing test; long enough for any machine.
const LONG: Duration = Duration::from_secs(60);

fn level(level: u8) -> Priority {
    Priority::new(level).unwrap()
}

/// Waits until the figures are as wanted, which they become without the test's doing.
fn wait_until(runtime: &Runtime, wanted: impl Fn(&Metrics) -> bool) -> Metrics {
    let begin = Instant::now();
    loop {
        let metrics = runtime.metrics();
        if wanted(&metrics) {
            return metrics;
        }
        assert!(begin.elapsed() < LONG, "{metrics:?}");
        thread::yield_now();
    }
}

#[test]
fn a_busy_worker_is_busy_all_the_time() {
    let runtime = Builder::new().workers(2).name("fig").build().unwrap();
    let held = Held::new(&runtime, 2);
    let before = runtime.metrics();
    let after = runtime.metrics();
    assert_eq!((after.name.as_str(), after.live), ("fig", 2));
    let mut names: Vec<&str> = (after.workers.iter())
        .filter(|worker| worker.role == WorkerRole::Worker)
        .map(|worker| worker.name.as_str())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["fig-0", "fig-1"]);
    let between = after.since(&before);
    assert!(between.time > Duration::ZERO);
    for worker in &between.workers {
        if worker.role == WorkerRole::Worker {
            // Both are inside one poll, so they are busy for exactly the time in between.
            assert_eq!(worker.busy, between.time);
            assert!((between.busy_share(worker) - 1.0).abs() < 1e-9);
        }
    }
    assert_eq!(after.coroutines, None, "they are not counted");
    held.end(&runtime);
}

#[test]
fn an_idle_worker_is_not_busy() {
    let runtime = Builder::new().workers(1).build().unwrap();
    let held = Held::new(&runtime, 1);
    held.end(&runtime);
    // Once it is parked, its time stands still.
    let parked = |metrics: &Metrics| {
        let busy = metrics.workers[0].busy;
        thread::sleep(Duration::from_millis(2));
        runtime.metrics().workers[0].busy == busy
    };
    let metrics = wait_until(&runtime, parked);
    assert!(metrics.workers[0].busy > Duration::ZERO);
    assert!(metrics.workers[0].busy < metrics.time);
}

#[test]
fn a_poll_that_lasts_is_a_blocked_worker() {
    let runtime = Builder::new().workers(2).build().unwrap();
    assert_eq!(runtime.metrics().blocked_workers(), 0);
    let began = Instant::now();
    let held = Held::new(&runtime, 2);
    let first = wait_until(&runtime, |metrics| metrics.blocked_workers() == 2);
    let second = runtime.metrics();
    for (first, second) in first.workers.iter().zip(&second.workers) {
        if let (Some(first), Some(second)) = (first.blocked, second.blocked) {
            assert!(first < second && second <= began.elapsed());
        }
    }
    held.end(&runtime);
    wait_until(&runtime, |metrics| metrics.blocked_workers() == 0);
}

#[test]
fn a_single_worker_without_a_watchdog_has_figures() {
    let runtime = Builder::new().workers(1).spare_workers(None).build();
    let runtime = runtime.unwrap();
    let held = Held::new(&runtime, 1);
    let metrics = runtime.metrics();
    assert_eq!((metrics.workers.len(), metrics.blocked_workers()), (1, 0));
    held.end(&runtime);
}

#[test]
fn a_takeover_is_counted() {
    let runtime = Builder::new().workers(1).build().unwrap();
    assert_eq!(runtime.metrics().spare_workers.takeovers, 0);
    let held = Held::new(&runtime, 1);
    let before = runtime.metrics();
    let (run, ran) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let urgent = async move {
        run.send(()).unwrap();
        ended.recv_timeout(LONG).expect("the test ends it");
    };
    let urgent = runtime.handle().spawn(level(3), urgent).unwrap();
    ran.recv_timeout(LONG).expect("a spare worker polls it");
    let metrics = runtime.metrics();
    assert_eq!(metrics.spare_workers.acting, 1);
    assert!(metrics.spare_workers.threads >= 1);
    assert!(metrics.since(&before).spare_workers.takeovers >= 1);
    let spare = |worker: &&corank_linux::WorkerMetrics| worker.role == WorkerRole::Spare;
    assert!(
        metrics
            .workers
            .iter()
            .any(|worker| spare(&worker) && worker.busy > Duration::ZERO)
    );
    end.send(()).unwrap();
    held.end(&runtime);
    runtime.block_on(urgent).unwrap();
    wait_until(&runtime, |metrics| metrics.spare_workers.acting == 0);
}

#[test]
fn workers_for_bulk_work_have_a_role() {
    use corank_linux::Class;

    let runtime = Builder::new()
        .workers(1)
        .name("b")
        .bulk(level(30), Class::Batch);
    let runtime = runtime.build().unwrap();
    // Its poll is on the thread for bulk work.
    let held = Held::new(&runtime, 1);
    let metrics = runtime.metrics();
    let bulk = metrics
        .workers
        .iter()
        .find(|worker| worker.role == WorkerRole::Bulk);
    let bulk = bulk.expect("one is for bulk work");
    assert_eq!(bulk.name, "b-bulk-0");
    assert!(bulk.busy > Duration::ZERO);
    held.end(&runtime);
}

#[cfg(feature = "metrics")]
mod by_level {
    use super::*;
    use corank_linux::sync::{Event, Shared};
    use corank_linux::{LevelState, yield_now};

    fn counting() -> Builder {
        Builder::new().metrics(true)
    }

    fn state(metrics: &Metrics, of: u8) -> LevelState {
        let levels = &metrics
            .coroutines
            .as_ref()
            .expect("they are counted")
            .levels;
        let found = levels.iter().find(|state| state.level == level(of));
        found.expect("the level has had coroutines").clone()
    }

    #[test]
    fn polls_and_queues_are_counted_exactly() {
        let runtime = counting().workers(1).spare_workers(None).build().unwrap();
        let yields = async {
            for _ in 0..9 {
                yield_now().await;
            }
        };
        let yields = runtime.handle().spawn(level(7), yields).unwrap();
        runtime.block_on(yields).unwrap();
        let waiting = std::future::pending::<()>();
        let waiting = runtime.handle().spawn(level(5), waiting).unwrap();
        let held = Held::new(&runtime, 1);
        let ready = runtime.handle().spawn(level(41), async {}).unwrap();
        let metrics = runtime.metrics();
        let yields = state(&metrics, 7);
        assert_eq!((yields.ready, yields.running, yields.polls), (0, 0, 10));
        assert_eq!((yields.waits.count(), yields.inversions), (10, 0));
        assert!(yields.wait_p50() <= yields.wait_p99());
        let holds = state(&metrics, 40);
        assert_eq!((holds.ready, holds.running, holds.polls), (0, 1, 1));
        let queued = state(&metrics, 41);
        assert_eq!((queued.ready, queued.running, queued.polls), (1, 0, 0));
        assert_eq!(metrics.coroutines.unwrap().blocked, 1);
        held.end(&runtime);
        // It donates nothing: the poll counts at its own level.
        runtime.block_on_at(Priority::LEAST_URGENT, ready).unwrap();
        let metrics = runtime.metrics();
        assert_eq!(state(&metrics, 41).polls, 1);
        assert!(state(&metrics, 40).run > Duration::ZERO);
        drop(waiting);
    }

    /// While two workers are held, what is urgent has an inversion, which ends when a spare worker
    /// polls it. What is not more urgent has none.
    #[test]
    fn an_inversion_ends_with_the_takeover() {
        let runtime = counting().workers(2).build().unwrap();
        let held = Held::new(&runtime, 2);
        let equal = runtime.handle().spawn(level(40), async {}).unwrap();
        let began = Instant::now();
        for urgent in 1..=5 {
            let (run, ran) = mpsc::channel();
            let run = async move { run.send(()).unwrap() };
            drop(runtime.handle().spawn(level(3), run).unwrap());
            ran.recv_timeout(LONG).expect("a spare worker polls it");
            let state = state(&runtime.metrics(), 3);
            assert_eq!((state.polls, state.inversions), (urgent, urgent));
            assert_eq!(
                state.inverted, state.wait,
                "all the wait was for less urgent polls"
            );
            assert!(state.longest_inversion <= state.longest_wait);
            assert!(state.longest_inversion > Duration::ZERO);
            assert!(state.inverted / urgent as u32 <= state.longest_inversion);
            assert!(state.wait <= began.elapsed());
        }
        held.end(&runtime);
        runtime.block_on_at(Priority::LEAST_URGENT, equal).unwrap();
        let metrics = runtime.metrics();
        // The poll that waited for a poll of its own level.
        assert_eq!(
            (state(&metrics, 40).polls, state(&metrics, 40).inversions),
            (3, 0)
        );
        assert!(metrics.spare_workers.takeovers >= 1);
    }

    /// A wait begins with the wake, from whatever thread, and not with the end of the poll that is
    /// in the way.
    #[test]
    fn a_wait_begins_with_the_wake() {
        const AT_LEAST: Duration = Duration::from_millis(5);
        let runtime = counting().workers(1).spare_workers(None).build().unwrap();
        let event = Arc::new(Event::new_in(Shared::from(runtime.handle())));
        let (wait, waits) = mpsc::channel();
        let woken = {
            let event = event.clone();
            async move {
                wait.send(()).unwrap();
                event.wait().await;
            }
        };
        let woken = runtime.handle().spawn(level(3), woken).unwrap();
        waits.recv_timeout(LONG).unwrap();
        // Behind it in the only worker, so it waits by then.
        let held = Held::new(&runtime, 1);
        let before = runtime.metrics();
        event.set();
        let spawned = runtime.handle().spawn(level(4), async {}).unwrap();
        let ready = runtime.metrics();
        assert_eq!((state(&ready, 3).ready, state(&ready, 4).ready), (1, 1));
        assert_eq!(
            (state(&ready, 3).inversions, state(&ready, 4).inversions),
            (1, 1)
        );
        thread::sleep(AT_LEAST);
        held.end(&runtime);
        runtime.block_on(async {
            woken.await.unwrap();
            spawned.await.unwrap();
        });
        let between = runtime.metrics().since(&before);
        for urgent in [3, 4] {
            let state = state(&between, urgent);
            assert_eq!(
                (state.polls, state.waits.count(), state.inversions),
                (1, 1, 1)
            );
            assert!(
                state.wait >= AT_LEAST && state.inverted >= AT_LEAST,
                "{state:?}"
            );
            // The error of a percentile is a sixteenth at most.
            let p50 = state.wait_p50().unwrap();
            assert!(p50.abs_diff(state.wait) <= state.wait / 16, "{state:?}");
        }
        assert!(between.time >= AT_LEAST);
    }

    #[test]
    fn a_free_worker_means_no_inversion() {
        let runtime = counting().workers(2).build().unwrap();
        let held = Held::new(&runtime, 1);
        for polls in 1..=20 {
            drop(runtime.handle().spawn(level(3), async {}).unwrap());
            // Only then is the other worker free again.
            wait_until(&runtime, |metrics| {
                let state = state(metrics, 3);
                state.polls == polls && state.running == 0
            });
        }
        held.end(&runtime);
        assert_eq!(state(&runtime.metrics(), 3).inversions, 0);
    }

    #[test]
    fn an_observer_of_the_program_is_called_as_well() {
        use std::sync::atomic::{AtomicU64, Ordering};

        struct Polls(AtomicU64);
        // SAFETY: it counts, and calls nothing of Corank.
        unsafe impl corank_linux::Observer for Polls {
            fn poll_started(&self, _: corank_linux::CoroutineId, _: Priority) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        static POLLS: Polls = Polls(AtomicU64::new(0));

        let runtime = counting().workers(1).observer(&POLLS).build().unwrap();
        runtime.block_on_at(level(9), yield_now());
        assert_eq!(POLLS.0.load(Ordering::Relaxed), 2);
        assert_eq!(state(&runtime.metrics(), 9).polls, 2);
    }

    #[cfg(feature = "tokio")]
    #[test]
    fn a_runtime_that_hosts_tokio_has_figures() {
        let runtime = counting()
            .workers(1)
            .tokio(Priority::DEFAULT)
            .build()
            .unwrap();
        let held = Held::new(&runtime, 1);
        let before = runtime.metrics();
        let between = runtime.metrics().since(&before);
        assert_eq!(between.workers[0].busy, between.time);
        assert_eq!(state(&before, 40).running, 1);
        wait_until(&runtime, |metrics| metrics.blocked_workers() == 1);
        held.end(&runtime);
    }
}
