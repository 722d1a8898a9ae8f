//! A runtime with a shard for each worker (`Order::Bounded`).

#![cfg(not(loom))]

#[path = "../../core/tests/common/asserts.rs"]
mod asserts;

use std::future::pending;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::Duration;

use corank_linux::{
    Builder, Class, Handle, JoinError, Order, Priority, Runtime, SpawnError, cancel, current,
    reprioritize, spawn, sync, time, yield_now,
};

/// Bounds the waits of a failing test; long enough for any machine.
const LONG: Duration = Duration::from_secs(60);

fn level(level: u8) -> Priority {
    Priority::new(level).unwrap()
}

fn builder(workers: usize) -> Builder {
    Builder::new().workers(workers).order(Order::Bounded)
}

fn workers(workers: usize) -> Runtime {
    builder(workers).build().unwrap()
}

#[test]
fn a_future_gives_its_output() {
    for count in [1, 3, 5] {
        assert_eq!(workers(count).block_on(async { 6 * 7 }), 42);
    }
}

/// H16: while all workers are inside a poll, many coroutines become ready in all shards. The worker
/// that is free first takes the most urgent one, in whatever shard.
#[test]
fn the_first_free_worker_takes_the_urgent_one() {
    const WORKERS: usize = 3;
    for other_shards in 0..WORKERS {
        let runtime = workers(WORKERS);
        let handle = runtime.handle().clone();
        let begun = Arc::new(AtomicUsize::new(0));
        let inside = Arc::new(Barrier::new(WORKERS + 1));
        let mut releases = Vec::new();
        let mut handles = Vec::new();
        for _ in 0..WORKERS {
            let inside = inside.clone();
            let (release, held) = mpsc::channel::<()>();
            releases.push(release);
            let block = async move {
                inside.wait();
                held.recv_timeout(LONG).unwrap();
            };
            handles.push(handle.spawn(level(30), block).unwrap());
        }
        inside.wait();
        for number in 0..100_u8 {
            let begun = begun.clone();
            let note = async move {
                begun.fetch_add(1, Ordering::Relaxed);
            };
            handles.push(handle.spawn(level(40 + number % 10), note).unwrap());
        }
        // They go to the shards in turn.
        for _ in 0..other_shards {
            handles.push(handle.spawn(level(63), async {}).unwrap());
        }
        let before = begun.clone();
        let urgent = async move { before.load(Ordering::Relaxed) };
        let urgent = handle.spawn(level(0), urgent).unwrap();
        releases[0].send(()).unwrap();
        assert_eq!(runtime.block_on_at(level(0), urgent).unwrap(), 0);
        for release in &releases[1..] {
            release.send(()).unwrap();
        }
        for handle in handles {
            runtime.block_on(handle).unwrap();
        }
        assert_eq!(begun.load(Ordering::Relaxed), 100);
    }
}

/// H17: a worker that has had short polls is held up in one that lasts. Another worker comes for
/// what is ready in its shard, and for its timers.
#[test]
fn a_poll_that_lasts_holds_up_neither_its_shard_nor_its_timers() {
    let runtime = workers(2);
    for _ in 0..20 {
        let (ready, fired) = (mpsc::channel(), mpsc::channel());
        let held = async move {
            // Short polls; with ever so few coroutines, all spawn on this shard.
            for _ in 0..200 {
                yield_now().await;
            }
            let sleeps = async move {
                time::sleep(Duration::from_micros(100)).await;
                fired.0.send(()).unwrap();
            };
            drop(spawn(level(40), sleeps).unwrap());
            yield_now().await;
            let short = async move { ready.0.send(()).unwrap() };
            drop(spawn(level(40), short).unwrap());
            ready.1.recv_timeout(LONG).unwrap();
            fired.1.recv_timeout(LONG).unwrap();
        };
        let held = runtime.handle().spawn(level(9), held).unwrap();
        runtime.block_on(held).unwrap();
    }
}

/// H18: what coroutines of different shards share works, whatever it is.
#[test]
fn coroutines_of_different_shards_work_together() {
    const EACH: usize = 500;
    let runtime = workers(3);
    let sum = runtime.block_on(async {
        let mutex = Arc::new(sync::Mutex::new_in(&Handle::current().unwrap(), 0));
        let (send, receive) = async_channel::bounded(4);
        let mut handles = Vec::new();
        for number in 0..EACH {
            let (mutex, send, receive) = (mutex.clone(), send.clone(), receive.clone());
            handles.push(spawn(level((number % 5) as u8), async move {
                let inner = spawn(Priority::DEFAULT, async move { number }).unwrap();
                send.send(inner.await.unwrap()).await.unwrap();
            }));
            handles.push(spawn(level((number % 7) as u8), async move {
                let number = receive.recv().await.unwrap();
                time::sleep(Duration::from_micros(number as u64 % 50)).await;
                let mut sum = mutex.lock().await;
                let before = *sum;
                yield_now().await;
                *sum = before + number;
            }));
        }
        for handle in handles {
            handle.unwrap().await.unwrap();
        }
        *mutex.lock().await
    });
    assert_eq!(sum, EACH * (EACH - 1) / 2);
    assert_eq!(runtime.handle().live(), 0);
}

/// An identifier reaches its coroutine in any shard, from any other one and from outside.
#[test]
fn identifiers_reach_coroutines_of_all_shards() {
    const COUNT: usize = 200;
    let runtime = workers(3);
    let handles: Vec<_> = (0..COUNT)
        .map(|_| runtime.handle().spawn(level(9), pending::<()>()).unwrap())
        .collect();
    let ids: Vec<_> = handles.iter().map(|handle| handle.id()).collect();
    let handle = runtime.handle().clone();
    let inside = runtime.handle().spawn(level(3), async move {
        let me = current().unwrap();
        assert!(reprioritize(me, level(4)));
        for id in &ids {
            assert!(reprioritize(*id, level(7)));
            assert_eq!(handle.priority(*id), Some(level(7)));
        }
        ids.into_iter().filter(|&id| cancel(id)).count()
    });
    assert_eq!(runtime.block_on(inside.unwrap()).unwrap(), COUNT);
    for handle in handles {
        assert!(matches!(
            runtime.block_on(handle),
            Err(JoinError::Cancelled)
        ));
    }
}

/// Destructors run within their runtime, on whatever thread and of whatever shard.
#[test]
fn destructors_spawn_in_their_runtime() {
    struct Spawns(mpsc::Sender<()>);
    impl Drop for Spawns {
        fn drop(&mut self) {
            let done = self.0.clone();
            drop(spawn(level(3), async move { done.send(()).unwrap() }).unwrap());
        }
    }
    let runtime = workers(3);
    let (done, ended) = mpsc::channel();
    let handles: Vec<_> = (0..6)
        .map(|_| {
            let spawns = Spawns(done.clone());
            let waits = async move {
                let _spawns = spawns;
                pending::<()>().await;
            };
            runtime.handle().spawn(level(9), waits).unwrap()
        })
        .collect();
    for handle in &handles {
        assert!(handle.cancel());
        ended.recv_timeout(LONG).unwrap();
    }
}

/// C5: the capacity counts for all shards together.
#[test]
fn the_capacity_counts_for_all_shards() {
    let runtime = builder(3).capacity(7).build().unwrap();
    let spawn = || runtime.handle().spawn(level(9), pending::<()>());
    let handles: Vec<_> = (0..7).map(|_| spawn().unwrap()).collect();
    assert!(matches!(spawn(), Err(SpawnError::TableFull)));
    drop(handles);
    let unfinished = runtime.shutdown(Duration::ZERO).unwrap_err();
    assert_eq!(unfinished.cancelled, 7);
}

/// X10: a shutdown waits for coroutines that spawn others in other shards.
#[test]
fn shutdown_waits_for_all_shards() {
    let runtime = workers(3);
    let ended = Arc::new(AtomicUsize::new(0));
    fn chain(left: usize, ended: Arc<AtomicUsize>) {
        let next = async move {
            time::sleep(Duration::from_micros(20)).await;
            if left == 0 {
                ended.fetch_add(1, Ordering::Relaxed);
            } else {
                chain(left - 1, ended);
            }
        };
        drop(Handle::current().unwrap().spawn(level(9), next).unwrap());
    }
    {
        let _entered = runtime.enter();
        for _ in 0..10 {
            chain(20, ended.clone());
        }
    }
    runtime.shutdown(LONG).unwrap();
    assert_eq!(ended.load(Ordering::Relaxed), 10);
}

/// A blocked worker is reported, also while it polls in another shard.
#[test]
fn a_blocked_worker_is_reported() {
    let (report, reported) = mpsc::channel();
    let report = Mutex::new(report);
    let builder = builder(2).on_blocked(Duration::from_millis(5), move |blocked| {
        let _ = report.lock().unwrap().send(blocked.coroutine);
    });
    let runtime = builder.build().unwrap();
    let reported = Arc::new(Mutex::new(reported));
    for _ in 0..4 {
        let reported = reported.clone();
        let blocks = async move {
            let me = current().unwrap();
            let reported = reported.lock().unwrap();
            while reported.recv_timeout(LONG).unwrap() != me {}
        };
        let blocks = runtime.handle().spawn(level(9), blocks).unwrap();
        runtime.block_on(blocks).unwrap();
    }
}

fn refused(builder: Builder) -> String {
    let error = builder.build().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    error.to_string()
}

/// What needs one set of queues is refused, by an error that says what to do.
#[test]
fn what_needs_the_exact_order_is_refused() {
    let spares = builder(2).spare_workers(Some(Duration::from_millis(1)));
    assert!(refused(spares).contains("spare workers: leave that out, or use Order::Exact"));
    let bulk = builder(2).bulk(level(48), Class::Idle);
    assert!(refused(bulk).contains("bulk work"));
    assert!(refused(builder(65)).contains("64 workers"));
    #[cfg(feature = "metrics")]
    assert!(refused(builder(2).metrics(true)).contains("count its coroutines"));
    #[cfg(feature = "tokio")]
    assert!(refused(builder(2).tokio(Priority::DEFAULT)).contains("host tokio"));
    #[cfg(feature = "domain")]
    {
        let domain = corank_linux::domain::Domain::named("order");
        assert!(refused(builder(2).domain(domain)).contains("join a domain"));
    }
    assert!(builder(2).spare_workers(None).build().is_ok());
    assert!(Builder::new().order(Order::Exact).build().is_ok());
}
