//! Memory that runs out at each allocation in turn: registrations and spawns fail with errors and
//! leave nothing behind, and existing coroutines continue without memory.

#![cfg(not(loom))]

#[path = "../../core/tests/common/asserts.rs"]
mod asserts;
#[path = "../../core/tests/common/failing.rs"]
mod failing;

use std::io::{self, Write};
use std::os::unix::net::UnixStream as Blocking;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use corank_linux::fs::File;
use corank_linux::net::UnixStream;
use corank_linux::sync::{Event, Mutex, Shared};
use corank_linux::time::{Elapsed, sleep, sleep_until, timeout};
use corank_linux::{
    Async, Builder, JoinError, Priority, Runtime, SpawnError, at, spawn, spawn_blocking, yield_now,
};
use failing::{LIVE, Scarcity, with_memory_for};
use futures::{AsyncReadExt, AsyncWriteExt};

fn level(level: u8) -> Priority {
    Priority::new(level).unwrap()
}

fn runtime() -> Runtime {
    Builder::new().workers(1).build().unwrap()
}

/// Runs a coroutine on the only worker: a limit that it sets for its thread holds for the whole
/// runtime.
fn run<F>(priority: Priority, future: F) -> F::Output
where
    F: Future<Output: Send> + Send + 'static,
{
    let runtime = runtime();
    let handle = runtime.handle().spawn(priority, future).unwrap();
    runtime.block_on(handle).unwrap()
}

/// Registers a descriptor with memory for one more allocation each time until it succeeds; returns
/// how many that took.
fn register(kept: &mut Vec<Async<Blocking>>) -> usize {
    for allocations in 0..10 {
        let (one, mut other) = Blocking::pair().unwrap();
        let before = LIVE.get();
        match with_memory_for(allocations, || Async::new(one)) {
            Ok(registered) => {
                kept.push(registered);
                return allocations;
            }
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
                assert_eq!(LIVE.get(), before, "something is left");
                // The other end finds that this one is closed.
                assert!(other.write_all(b"!").is_err());
            }
        }
    }
    panic!("a registration has few allocations");
}

#[test]
fn a_registration_fails_at_each_allocation() {
    run(Priority::DEFAULT, async {
        let mut kept = Vec::with_capacity(512);
        // There is room for 64, then for 128 more, then for 256 more. Each time there are two
        // allocations: entries, and the list of free entries.
        for (first, room) in [(0, 64), (64, 128), (192, 256)] {
            assert_eq!(kept.len(), first);
            assert_eq!(register(&mut kept), 2);
            for _ in 1..room {
                assert_eq!(register(&mut kept), 0);
            }
        }
        // Entries are used again.
        kept.clear();
        for _ in 0..448 {
            assert_eq!(register(&mut kept), 0);
        }
    });
}

#[test]
fn a_spawn_fails_at_each_allocation() {
    run(Priority::DEFAULT, async {
        for allocations in 0..10 {
            let large = [1_u8; 5000];
            let future = async move {
                yield_now().await;
                large.iter().map(|&byte| u32::from(byte)).sum::<u32>()
            };
            let before = LIVE.get();
            match with_memory_for(allocations, || spawn(level(3), future)) {
                Ok(handle) => {
                    assert!(allocations > 0);
                    assert_eq!(handle.await.unwrap(), 5000);
                    return;
                }
                Err(error) => {
                    assert_eq!(error, SpawnError::OutOfMemory);
                    assert_eq!(LIVE.get(), before, "something is left");
                }
            }
        }
        panic!("a spawn has few allocations");
    });
}

/// With and without threads in the pool: without memory a call is refused and leaves nothing, and
/// later ones run.
#[test]
fn a_blocking_call_is_refused_without_memory() {
    run(Priority::DEFAULT, async {
        let file = File::open("/proc/self/status").await.unwrap();
        for _ in 0..2 {
            let before = LIVE.get();
            let (sender, receiver) = mpsc::channel::<()>();
            let scarcity = Scarcity::of(0);
            let refused = spawn_blocking(move || drop(sender)).await;
            drop(scarcity);
            let Err(JoinError::Panicked(payload)) = refused else {
                panic!("it was done");
            };
            let said = payload.message();
            assert_eq!(said, Some("there is no memory for a blocking call"));
            drop(payload);
            // Its closure is dropped.
            assert_eq!(receiver.try_recv(), Err(mpsc::TryRecvError::Disconnected));
            drop(receiver);
            assert_eq!(LIVE.get(), before, "something is left");
            assert_eq!(spawn_blocking(|| 5).await.unwrap(), 5);
        }
        // Operations on files that need a thread are refused too.
        let scarcity = Scarcity::of(0);
        let refused = file.metadata().await.map(drop).unwrap_err();
        drop(scarcity);
        assert_eq!(refused.kind(), io::ErrorKind::OutOfMemory);
        assert!(file.metadata().await.is_ok());
    });
}

/// A call that waits for a thread when memory is exhausted still runs; it does not inherit its
/// caller's priority then.
#[test]
fn a_waiting_blocking_call_continues_without_memory() {
    run(Priority::DEFAULT, async {
        let (end, ended) = mpsc::channel::<()>();
        let call = spawn_blocking(move || ended.recv().is_err());
        let waits = async {
            let scarcity = Scarcity::of(0);
            let said = call.await;
            drop(scarcity);
            said
        };
        let ends = async move {
            yield_now().await;
            drop(end);
        };
        let (said, ()) = futures::join!(waits, ends);
        assert!(said.unwrap());
    });
}

/// I/O, wakes, timers, time limits, locks, joins and changes of level need no memory.
#[test]
fn existing_coroutines_continue_without_memory() {
    const ROUNDS: u8 = 100;
    run(Priority::DEFAULT, async {
        let (mut one, mut other) = UnixStream::pair().unwrap();
        let shared = Arc::new(Mutex::new_in(Shared::here().unwrap(), 0_u32));
        let counted = shared.clone();
        let echo = async move {
            let mut byte = [0];
            for _ in 0..ROUNDS {
                other.read_exact(&mut byte).await.unwrap();
                *counted.lock().await += 1;
                other.write_all(&byte).await.unwrap();
            }
        };
        let echo = spawn(level(9), echo).unwrap();
        let scarcity = Scarcity::of(0);
        for number in 0..ROUNDS {
            one.write_all(&[number]).await.unwrap();
            let mut byte = [0];
            one.read_exact(&mut byte).await.unwrap();
            assert_eq!(byte[0], number);
            at(level(40), yield_now()).await;
        }
        sleep(Duration::from_micros(100)).await;
        // The other end is gone, or silent.
        let end = timeout(Duration::from_micros(100), one.read(&mut [0])).await;
        assert!(matches!(end, Ok(Ok(0)) | Err(Elapsed)));
        echo.await.unwrap();
        assert_eq!(*shared.lock().await, u32::from(ROUNDS));
        drop(scarcity);
    });
}

/// Sets 100,000 timers, which fire without memory.
#[test]
fn timers_need_no_memory() {
    const TIMERS: usize = 100_000;
    run(level(30), async {
        let begin = Arc::new(Event::new_in(Shared::here().unwrap()));
        let handles: Vec<_> = (0..TIMERS)
            .map(|number| {
                let begin = begin.clone();
                let wait = async move {
                    begin.wait().await;
                    let due = Instant::now() + Duration::from_nanos(number as u64 * 37 % 10_007);
                    sleep_until(due).await;
                    assert!(Instant::now() >= due);
                };
                spawn(level(20), wait).unwrap()
            })
            .collect();
        yield_now().await;
        let scarcity = Scarcity::of(0);
        begin.set();
        for handle in handles {
            handle.await.unwrap();
        }
        drop(scarcity);
    });
}

/// The first waiter of a descriptor needs no memory; further ones do.
#[test]
fn a_second_waiter_is_an_error_without_memory() {
    run(Priority::DEFAULT, async {
        let (mut write, read) = Blocking::pair().unwrap();
        let read = Arc::new(Async::new(read).unwrap());
        // The descriptor is ready at first.
        let nothing = |read: &Blocking| {
            use io::Read;
            (&*read).read(&mut [0])
        };
        let waits = read.clone();
        let waits = spawn(level(1), async move { waits.read_with(nothing).await }).unwrap();
        yield_now().await;
        let scarcity = Scarcity::of(0);
        let refused = read.read_with(nothing).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::OutOfMemory);
        let refused = read.readable().await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::OutOfMemory);
        write.write_all(b"!").unwrap();
        assert_eq!(waits.await.unwrap().unwrap(), 1);
        drop(scarcity);
    });
}

/// More tasks wait for one event than a worker's buffer holds, and it cannot grow: all are woken.
#[test]
fn an_event_wakes_all_without_memory() {
    const WAITING: usize = 2000;
    run(level(30), async {
        let (mut write, read) = Blocking::pair().unwrap();
        let read = Arc::new(Async::new(read).unwrap());
        let nothing = |read: &Blocking| {
            use io::Read;
            (&*read).read(&mut [0])
        };
        let waiting: Vec<_> = (0..WAITING)
            .map(|_| {
                let read = read.clone();
                spawn(level(3), async move { read.read_with(nothing).await }).unwrap()
            })
            .collect();
        yield_now().await;
        let scarcity = Scarcity::of(0);
        // All of them find the end of the stream.
        write.write_all(b"!").unwrap();
        drop(write);
        let mut bytes = 0;
        for waiting in waiting {
            bytes += waiting.await.unwrap().unwrap();
        }
        assert_eq!(bytes, 1);
        drop(scarcity);
    });
}

/// Counting coroutines needs memory for each 256 more, and goes on without. A coroutine for which
/// there was none is counted from its next wake on.
#[cfg(feature = "metrics")]
#[test]
fn a_runtime_that_counts_continues_without_memory() {
    /// Those that there are before: with the first coroutine and the last one, 256.
    const BEFORE: usize = 254;
    for allocations in 0..10 {
        let runtime = Builder::new().workers(1).spare_workers(None);
        let runtime = runtime.metrics(true).build().unwrap();
        let polls = |of: u8| {
            let coroutines = runtime.metrics().coroutines.unwrap();
            let levels = coroutines.levels.iter();
            let mut found = levels.filter(|state| state.level == level(of));
            found.next().map(|state| state.polls)
        };
        let first = async move {
            let waiting =
                (0..BEFORE).map(|_| spawn(level(40), std::future::pending::<()>()).unwrap());
            let waiting: Vec<_> = waiting.collect();
            let inside = spawn(level(30), yield_now()).unwrap();
            let yields = async {
                for _ in 0..9 {
                    yield_now().await;
                }
            };
            let spawned = with_memory_for(allocations, || spawn(level(3), yields));
            match spawned {
                Ok(spawned) => {
                    let scarcity = Scarcity::of(0);
                    inside.await.unwrap();
                    spawned.await.unwrap();
                    drop(scarcity);
                    drop(waiting);
                    true
                }
                Err(error) => {
                    assert_eq!(error, SpawnError::OutOfMemory);
                    false
                }
            }
        };
        let first = runtime.handle().spawn(level(30), first).unwrap();
        let is_spawned = runtime.block_on(first).unwrap();
        // The coroutines within the first 256 are counted in any case.
        assert!(polls(30) >= Some(1));
        match (is_spawned, polls(3)) {
            (false, None) => {}
            // Without memory for its page it is not counted, and with some it is.
            (true, None | Some(10)) => {}
            other => panic!("{other:?} with memory for {allocations} allocations"),
        }
        if is_spawned && polls(3).is_some() {
            assert!(allocations > 0);
            return;
        }
    }
    panic!("a spawn has few allocations");
}
