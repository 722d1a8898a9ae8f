//! Tasks of tokio have all workers' help and one level together.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::task::{JoinSet, yield_now};

use super::{level, workers};
use corank_linux::spawn;

#[test]
fn tasks_that_one_coroutine_spawns_use_all_workers() {
    let runtime = workers(3);
    runtime.block_on(async {
        // Each waits until all three are inside a poll at once.
        let barrier = Arc::new(Barrier::new(3));
        let mut set = JoinSet::new();
        for _ in 0..3 {
            let barrier = barrier.clone();
            set.spawn(async move { barrier.wait().is_leader() });
        }
        let leaders = set.join_all().await;
        assert_eq!(leaders.into_iter().filter(|&is| is).count(), 1);
    });
}

/// A coroutine that was made ready by another one runs on another worker while that one computes.
#[test]
fn a_coroutine_does_not_wait_for_the_poll_that_spawned_it() {
    let runtime = workers(2);
    runtime.block_on(async {
        for _ in 0..20 {
            let barrier = Arc::new(Barrier::new(2));
            let inner = barrier.clone();
            let other = spawn(level(32), async move { inner.wait().is_leader() });
            let mine = barrier.wait().is_leader();
            assert_eq!(other.unwrap().await.unwrap(), !mine);
        }
    });
}

/// Urgent coroutines that are always ready do not keep tokio's driver and tasks waiting for ever.
#[test]
fn a_busy_coroutine_leaves_tokio_its_turns() {
    for count in [1, 2] {
        workers(count).block_on_at(level(0), async {
            let done = Arc::new(AtomicBool::new(false));
            let inner = done.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                inner.store(true, Ordering::Release);
            });
            while !done.load(Ordering::Acquire) {
                corank_linux::yield_now().await;
            }
        });
    }
}

/// An urgent coroutine that a task of tokio makes ready runs before the tasks that wait.
#[test]
fn an_urgent_coroutine_runs_before_waiting_tasks() {
    workers(1).block_on(async {
        let log = Arc::new(Mutex::new(Vec::new()));
        let urgent = log.clone();
        let mut set = JoinSet::new();
        // They are ready at once, and run first come, first served.
        for number in 0..20 {
            let log = log.clone();
            let urgent = urgent.clone();
            set.spawn(async move {
                log.lock().unwrap().push(number);
                if number == 5 {
                    let coroutine = async move { urgent.lock().unwrap().push(100) };
                    drop(spawn(level(0), coroutine).unwrap());
                }
            });
        }
        set.join_all().await;
        let log = log.lock().unwrap();
        let (spawner, coroutine) = (5, 100);
        let at = |wanted| log.iter().position(|&number| number == wanted).unwrap();
        assert_eq!(at(coroutine), at(spawner) + 1, "{log:?}");
    });
}

/// Less urgent coroutines run in the end, although tasks of tokio are always ready.
#[test]
fn tasks_of_tokio_do_not_starve_a_less_urgent_coroutine() {
    for count in [1, 2] {
        workers(count).block_on(async move {
            let done = Arc::new(AtomicBool::new(false));
            let mut set = JoinSet::new();
            for _ in 0..2 * count {
                let done = done.clone();
                set.spawn(async move {
                    while !done.load(Ordering::Acquire) {
                        yield_now().await;
                    }
                });
            }
            let bulk = spawn(level(50), async move {
                for _ in 0..10 {
                    corank_linux::yield_now().await;
                }
                done.store(true, Ordering::Release);
            });
            set.join_all().await;
            bulk.unwrap().await.unwrap();
        });
    }
}

/// A coroutine that uses many resources of tokio in one poll has a budget of its own.
#[test]
fn coroutines_do_not_use_up_each_others_budget() {
    workers(1).block_on(async {
        let (send, mut receive) = tokio::sync::mpsc::unbounded_channel();
        for number in 0..1000 {
            send.send(number).unwrap();
        }
        let other = spawn(level(32), async move {
            let mut count = 0;
            let (send, mut receive) = tokio::sync::mpsc::unbounded_channel();
            for number in 0..1000 {
                send.send(number).unwrap();
            }
            drop(send);
            while receive.recv().await.is_some() {
                count += 1;
            }
            count
        });
        drop(send);
        let mut count = 0;
        while receive.recv().await.is_some() {
            count += 1;
        }
        assert_eq!((count, other.unwrap().await.unwrap()), (1000, 1000));
    });
}

/// A woken coroutine is polled although nothing else happens in tokio: no wake is lost.
#[test]
fn no_wake_between_the_two_schedulers_is_lost() {
    for count in [1, 2, 4] {
        workers(count).block_on(async {
            let (ping, mut pings) = tokio::sync::mpsc::channel(1);
            let (pong, mut pongs) = tokio::sync::mpsc::channel(1);
            let task = tokio::spawn(async move {
                while let Some(number) = pings.recv().await {
                    pong.send(number).await.unwrap();
                }
            });
            for number in 0..10_000_u32 {
                ping.send(number).await.unwrap();
                assert_eq!(pongs.recv().await, Some(number));
            }
            drop(ping);
            task.await.unwrap();
            // From a thread that belongs to neither.
            let mut waits = 0;
            poll_fn(|cx| {
                waits += 1;
                if waits > 1000 {
                    return Poll::Ready(());
                }
                let waker = cx.waker().clone();
                corank_linux::spawn_blocking(move || waker.wake()).detach();
                Poll::Pending
            })
            .await;
        });
    }
}
