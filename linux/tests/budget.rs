//! Coroutines whose operations never wait: they hold up nothing more urgent.

#![cfg(not(loom))]

#[path = "../../core/tests/common/asserts.rs"]
mod asserts;

use std::io::Write;
use std::os::unix::net::UnixStream as Blocking;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use corank_linux::sync::{Channel, Event, Keys, Mutex, Semaphore};
use corank_linux::time::{sleep, sleep_until, ticker};
use corank_linux::{Async, Builder, Priority, Runtime, spawn};

/// Bounds the waits of a failing test; long enough for any machine.
const LONG: Duration = Duration::from_secs(60);

/// Counts coroutines of level 0 that have run: one sleeps, one waits for I/O.
#[derive(Clone, Default)]
struct Others {
    ran: Arc<AtomicUsize>,
    begun: Arc<AtomicBool>,
}

impl Others {
    fn note(&self) {
        self.ran.fetch_add(1, Ordering::Release);
    }

    /// Tests whether both have run, as a coroutine that could hold them up.
    fn have_run(&self, since: Instant) -> bool {
        self.begun.store(true, Ordering::Release);
        assert!(since.elapsed() < LONG / 6, "it holds up level 0");
        self.ran.load(Ordering::Acquire) == 2
    }
}

/// Repeats an operation that never has to wait until the others have run.
macro_rules! repeat {
    ($others:expr, $operation:expr) => {{
        let others: Others = $others;
        async move {
            let began = Instant::now();
            while !others.have_run(began) {
                $operation;
            }
        }
    }};
}

/// Runs `work` at level 63 on the only worker, while a timer of level 0 becomes due and I/O of
/// level 0 becomes ready.
fn beside_others<F>(work: impl FnOnce(&Runtime, Others) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let runtime = Builder::new().workers(1).build().unwrap();
    let others = Others::default();
    let (mut peer, own) = Blocking::pair().unwrap();
    let own = {
        let _entered = runtime.enter();
        Async::new(own).unwrap()
    };
    let sleeps = others.clone();
    let sleeper = async move {
        sleep(Duration::from_millis(2)).await;
        sleeps.note();
    };
    let reads = others.clone();
    let reader = async move {
        let read = |mut socket: &Blocking| std::io::Read::read(&mut socket, &mut [0]);
        own.read_with(read).await.unwrap();
        reads.note();
    };
    let handle = runtime.handle();
    drop(handle.spawn(Priority::MOST_URGENT, sleeper).unwrap());
    drop(handle.spawn(Priority::MOST_URGENT, reader).unwrap());
    let work = work(&runtime, others.clone());
    let work = handle.spawn(Priority::LEAST_URGENT, work).unwrap();
    while !others.begun.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    peer.write_all(b"!").unwrap();
    runtime.block_on(work).unwrap();
}

#[test]
fn a_channel_holds_up_nothing() {
    beside_others(|runtime, others| {
        let channel = Channel::<u32, 4>::new_in(runtime.handle());
        repeat!(others, {
            channel.send(1).await.unwrap();
            channel.receive().await.unwrap();
        })
    });
}

#[test]
fn a_lock_holds_up_nothing() {
    beside_others(|runtime, others| {
        let mutex = Mutex::new_in(runtime.handle(), 0_u64);
        repeat!(others, *mutex.lock().await += 1)
    });
}

#[test]
fn a_semaphore_holds_up_nothing() {
    beside_others(|runtime, others| {
        let semaphore = Semaphore::new_in(runtime.handle(), 1);
        repeat!(others, drop(semaphore.acquire().await))
    });
}

#[test]
fn an_event_holds_up_nothing() {
    beside_others(|runtime, others| {
        let event = Event::new_in(runtime.handle());
        event.set();
        repeat!(others, event.wait().await)
    });
}

#[test]
fn a_key_holds_up_nothing() {
    beside_others(|runtime, others| {
        let keys = Keys::new_in(runtime.handle());
        repeat!(others, {
            keys.signal(1).unwrap();
            keys.wait(1).await.unwrap();
        })
    });
}

#[test]
fn an_overrunning_ticker_holds_up_nothing() {
    beside_others(|_, others| {
        let mut ticker = ticker(Duration::from_nanos(1));
        repeat!(others, ticker.tick().await)
    });
}

#[test]
fn a_sleep_that_is_due_holds_up_nothing() {
    beside_others(|_, others| {
        let past = Instant::now();
        repeat!(others, sleep_until(past).await)
    });
}

/// The joined coroutines have exited before: they are more urgent, and the only worker has run
/// them.
#[test]
fn a_join_holds_up_nothing() {
    beside_others(|_, others| {
        let mut over = Vec::new();
        repeat!(others, {
            match over.pop() {
                None => {
                    let spawn = |number| spawn(Priority::URGENT, async move { number }).unwrap();
                    over = (0..10_000).map(spawn).collect();
                    while over.iter().any(|handle| !handle.has_exited()) {
                        corank_linux::yield_now().await;
                    }
                }
                Some(handle) => drop(handle.await.unwrap()),
            }
        })
    });
}

#[test]
fn io_holds_up_nothing() {
    beside_others(|runtime, others| {
        let _entered = runtime.enter();
        let (mut write, mut read) = corank_linux::pipe::pipe().unwrap();
        repeat!(others, {
            use futures::{AsyncReadExt, AsyncWriteExt};
            write.write_all(b"!").await.unwrap();
            read.read_exact(&mut [0]).await.unwrap();
        })
    });
}

/// Each item takes half a millisecond: it is the time, and not the number of operations, that ends
/// the poll.
#[test]
fn few_long_items_hold_up_nothing() {
    beside_others(|runtime, others| {
        let semaphore = Semaphore::new_in(runtime.handle(), 1);
        repeat!(others, {
            drop(semaphore.acquire().await);
            let until = Instant::now() + Duration::from_micros(500);
            while Instant::now() < until {
                std::hint::spin_loop();
            }
        })
    });
}
