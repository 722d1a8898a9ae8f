//! Ordinary async crates run on the executor unchanged.
//!
//! Their wakers reach coroutines from combinators and other threads.

#![cfg(all(feature = "std", not(loom)))]

use std::cell::Cell;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use crate::common::{Log, executor, level, spawn};
use corank::sync::{Channel, Event, Mutex, Semaphore};
use corank::{Priority, State, coroutine_run, time, yield_now};
use futures::future::{Either, join_all, select};
use futures::stream::{FuturesUnordered, StreamExt};
use futures::{FutureExt, join, select_biased};

#[test]
fn a_channel_of_another_crate_connects_coroutines() {
    let executor = executor();
    let (sender, receiver) = async_channel::bounded(2);
    drop(spawn(&executor, 5, async move {
        for n in 1..=10 {
            sender.send(n).await.unwrap();
        }
    }));
    let sum = spawn(&executor, 9, async move {
        receiver.fold(0, |sum, n| async move { sum + n }).await
    });
    executor.run_until_idle();
    assert_eq!(sum.try_join().unwrap().unwrap(), 55);
}

#[test]
fn a_channel_of_another_crate_connects_threads() {
    let (to_thread, requests) = async_channel::bounded::<u32>(1);
    let (answers, from_thread) = async_channel::bounded::<u32>(1);
    let server = thread::spawn(move || {
        while let Ok(request) = requests.recv_blocking() {
            answers.send_blocking(request * 2).unwrap();
        }
    });
    let sum = Rc::new(Cell::new(0));
    let theirs = sum.clone();
    coroutine_run(
        async move {
            for n in 0..100 {
                to_thread.send(n).await.unwrap();
                theirs.set(theirs.get() + from_thread.recv().await.unwrap());
            }
        },
        Priority::DEFAULT,
    )
    .unwrap();
    server.join().unwrap();
    assert_eq!(sum.get(), 9900);
}

#[test]
fn two_executors_on_two_threads_talk() {
    let (ping, pings) = async_channel::unbounded::<u32>();
    let (pong, pongs) = async_channel::unbounded::<u32>();
    let other = thread::spawn(move || {
        coroutine_run(
            async move {
                while let Ok(n) = pings.recv().await {
                    pong.send(n + 1).await.unwrap();
                }
            },
            Priority::DEFAULT,
        )
        .unwrap();
    });
    coroutine_run(
        async move {
            let mut n = 0;
            for _ in 0..100 {
                ping.send(n).await.unwrap();
                n = pongs.recv().await.unwrap();
            }
            assert_eq!(n, 100);
        },
        Priority::DEFAULT,
    )
    .unwrap();
    other.join().unwrap();
}

#[test]
fn futures_unordered_wakes_what_is_ready_and_nothing_else() {
    let executor = executor();
    let events: Rc<Vec<Event>> = Rc::new((0..50).map(|_| Event::new()).collect());
    let polls = Rc::new(Cell::new(0));
    let (theirs, counter) = (events.clone(), polls.clone());
    let order = spawn(&executor, 5, async move {
        let waits: FuturesUnordered<_> = (0..50)
            .map(|n| {
                let (events, polls) = (&theirs, &counter);
                async move {
                    let mut wait = std::pin::pin!(events[n].wait());
                    std::future::poll_fn(|cx| {
                        polls.set(polls.get() + 1);
                        wait.as_mut().poll(cx)
                    })
                    .await;
                    n
                }
            })
            .collect();
        waits.collect::<Vec<_>>().await
    });
    executor.run_until_idle();
    assert_eq!(polls.get(), 50);
    for n in [30, 7, 49] {
        events[n].set();
        executor.run_until_idle();
    }
    // Each set polled one future of the fifty.
    assert_eq!(polls.get(), 53);
    for event in events.iter() {
        event.set();
    }
    executor.run_until_idle();
    assert_eq!(polls.get(), 100);
    let order = order.try_join().unwrap().unwrap();
    assert_eq!(order[..3], [30, 7, 49]);
    assert_eq!(order.len(), 50);
}

#[test]
fn handles_join_in_any_combination() {
    let executor = executor();
    let all = spawn(&executor, 3, async {
        let sleepy = |n: u64| async move {
            time::sleep_until(n).await;
            n
        };
        let spawn = |n| corank::spawn(level(20), sleepy(n)).unwrap();
        let (a, b) = join!(spawn(30), spawn(20));
        let many: u64 = join_all((1..=10).map(|n| spawn(30 + n)))
            .await
            .into_iter()
            .map(Result::unwrap)
            .sum();
        let first = {
            let (late, early) = (std::pin::pin!(spawn(60)), std::pin::pin!(spawn(50)));
            match select(late, early).await {
                Either::Left((n, _)) | Either::Right((n, _)) => n.unwrap(),
            }
        };
        (a.unwrap(), b.unwrap(), many, first)
    });
    executor.run_until_idle();
    while let Some(next) = executor.next_deadline() {
        executor.advance(next);
        executor.run_until_idle();
    }
    assert_eq!(all.try_join().unwrap().unwrap(), (30, 20, 355, 50));
    assert_eq!(executor.live(), 0);
}

#[test]
fn select_drops_the_loser_and_nothing_is_lost() {
    let executor = executor();
    let channel = Rc::new(Channel::<u32, 4>::new());
    let stop = Rc::new(Event::new());
    let (theirs, stopped) = (channel.clone(), stop.clone());
    let log = Log::default();
    let written = log.clone();
    drop(spawn(&executor, 5, async move {
        loop {
            select_biased! {
                () = stopped.wait().fuse() => break,
                message = theirs.receive().fuse() => written.push(format!("{message:?}")),
            }
        }
    }));
    executor.run_until_idle();
    channel.try_send(1).unwrap();
    executor.run_until_idle();
    // Both happen before the next poll. The message was handed to the loser, which is dropped and
    // gives it back.
    channel.try_send(2).unwrap();
    stop.set();
    executor.run_until_idle();
    assert_eq!(log.take(), "Some(1)");
    assert_eq!(executor.live(), 0);
    assert_eq!(channel.try_receive(), Ok(2));
}

#[test]
fn the_lock_donates_through_combinators() {
    let executor = executor();
    let (mutex, gate) = (Rc::new(Mutex::new(())), Rc::new(Event::new()));
    let (theirs, opened) = (mutex.clone(), gate.clone());
    let low = spawn(&executor, 40, async move {
        let _guard = theirs.lock().await;
        opened.wait().await;
    });
    executor.run_until_idle();
    let semaphore = Rc::new(Semaphore::new(0));
    let theirs = semaphore.clone();
    let both = spawn(&executor, 4, async move {
        let waits = FuturesUnordered::new();
        waits.push(
            async {
                drop(mutex.lock().await);
                "lock"
            }
            .boxed_local(),
        );
        waits.push(
            async {
                theirs.acquire().await.forget();
                "permit"
            }
            .boxed_local(),
        );
        waits.collect::<Vec<_>>().await
    });
    executor.run_until_idle();
    assert_eq!(executor.priority(low.id()), Some(level(4)));
    gate.set();
    executor.run_until_idle();
    assert_eq!(executor.state(low.id()), Some(State::Exited));
    semaphore.release();
    executor.run_until_idle();
    assert_eq!(both.try_join().unwrap().unwrap(), ["lock", "permit"]);
}

#[test]
fn a_time_limit_ends_a_future_of_another_crate() {
    coroutine_run(
        async {
            let (sender, receiver) = async_channel::bounded::<()>(1);
            let limited = time::timeout(Duration::from_millis(5), receiver.recv());
            assert_eq!(limited.await, Err(time::Elapsed));
            sender.send(()).await.unwrap();
            let limited = time::timeout(Duration::from_secs(60), receiver.recv());
            assert_eq!(limited.await, Ok(Ok(())));
            yield_now().await;
        },
        Priority::DEFAULT,
    )
    .unwrap();
}

#[test]
fn primitives_wake_code_outside_coroutines() {
    // No executor at all: `block_on` of another crate, with a waker of its own.
    let (mutex, event) = (Mutex::new(1), Event::new());
    let guard = mutex.try_lock().unwrap();
    futures::executor::block_on(async {
        join!(
            async {
                let mut value = mutex.lock().await;
                *value += 1;
            },
            async {
                event.wait().await;
                drop(guard);
            },
            async { event.set() },
        )
    });
    assert_eq!(mutex.into_inner(), 2);
}
