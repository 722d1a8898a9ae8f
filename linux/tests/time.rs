//! Timers fire when they are due and in order, also if there are very many, and whichever worker
//! sleeps.

#![cfg(not(loom))]

#[path = "../../core/tests/common/asserts.rs"]
mod asserts;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use corank_linux::time::{Elapsed, sleep, sleep_until, timeout, timeout_at};
use corank_linux::{Builder, Priority, Runtime, spawn, spawn_blocking, yield_now};

fn level(level: u8) -> Priority {
    Priority::new(level).unwrap()
}

fn workers(workers: usize) -> Runtime {
    Builder::new().workers(workers).build().unwrap()
}

#[test]
fn no_sleep_ends_too_early() {
    for count in [1, 2] {
        workers(count).block_on(async {
            let start = Instant::now();
            sleep(Duration::from_micros(1500)).await;
            assert!(start.elapsed() >= Duration::from_micros(1500));
            let due = start + Duration::from_millis(3);
            sleep_until(due).await;
            assert!(Instant::now() >= due);
            sleep_until(start).await;
        });
    }
}

#[test]
fn a_timeout_ends_a_slow_future() {
    workers(2).block_on(async {
        let never = std::future::pending::<()>();
        assert_eq!(timeout(Duration::from_millis(1), never).await, Err(Elapsed));
        let soon = timeout(Duration::from_secs(600), async { 4 });
        assert_eq!(soon.await, Ok(4));
        let over = timeout_at(Instant::now(), std::future::pending::<()>());
        assert_eq!(over.await, Err(Elapsed));
    });
}

/// Sets 100,000 timers at once, in another order than they are due in: each fires once.
#[test]
fn very_many_timers_fire_once() {
    const TIMERS: u64 = 100_000;
    let fired = Arc::new(Mutex::new(Vec::with_capacity(TIMERS as usize)));
    let log = fired.clone();
    workers(1).block_on_at(Priority::MOST_URGENT, async move {
        let start = Instant::now() + Duration::from_millis(300);
        let handles: Vec<_> = (0..TIMERS)
            .map(|number| {
                // A multiplier without common factors: every offset comes once.
                let offset = number * 40_503 % TIMERS;
                let due = start + Duration::from_nanos(offset * 100);
                let log = log.clone();
                let wait = async move {
                    sleep_until(due).await;
                    log.lock().unwrap().push(offset);
                };
                spawn(level(20), wait).unwrap()
            })
            .collect();
        for handle in handles {
            handle.await.unwrap();
        }
    });
    let fired = fired.lock().unwrap();
    assert_eq!(fired.len(), TIMERS as usize);
    let mut sorted = fired.clone();
    sorted.sort_unstable();
    assert!(sorted.iter().copied().eq(0..TIMERS));
}

/// A busy worker sets an earlier timer than the one for which an idle worker sleeps, and stays in
/// the same poll until it has fired.
#[test]
fn an_idle_worker_serves_the_timers_of_a_busy_one() {
    workers(2).block_on(async {
        let far = spawn(level(9), sleep(Duration::from_secs(3600))).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        let near = async move {
            sleep(Duration::from_millis(5)).await;
            sender.send(()).unwrap();
        };
        drop(spawn(level(9), near).unwrap());
        // Lets both set their timers, on either worker.
        for _ in 0..100 {
            yield_now().await;
        }
        // This worker is busy: the other one has to fire the timer.
        receiver.recv_timeout(Duration::from_secs(60)).unwrap();
        far.cancel();
    });
}

#[test]
fn timers_fire_beside_busy_coroutines() {
    let runtime = workers(1);
    let polls = Arc::new(AtomicUsize::new(0));
    let count = polls.clone();
    let busy = async move {
        loop {
            count.fetch_add(1, Ordering::Relaxed);
            yield_now().await;
        }
    };
    let busy = runtime.handle().spawn(level(50), busy).unwrap();
    runtime.block_on_at(level(1), sleep(Duration::from_millis(2)));
    assert!(busy.cancel());
    assert!(polls.load(Ordering::Relaxed) > 0);
}

/// While workers sleep without a limit, a thread outside the runtime wakes a coroutine.
#[test]
fn sleepers_are_woken_from_elsewhere() {
    let runtime = workers(2);
    for _ in 0..50 {
        let sum = runtime.block_on(async {
            let one = spawn_blocking(|| 1);
            let two = spawn_blocking(|| 2);
            one.await.unwrap() + two.await.unwrap()
        });
        assert_eq!(sum, 3);
    }
}
