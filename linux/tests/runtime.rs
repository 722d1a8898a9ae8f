//! The runtime: spawning, order, panics, cancellation, shutdown.

#![cfg(not(loom))]

#[path = "../../core/tests/common/asserts.rs"]
mod asserts;

use std::future::{pending, poll_fn};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::Poll;
use std::time::Duration;

use corank_linux::{
    Builder, Handle, JoinError, Policy, Priority, Runtime, SpawnError, current, spawn,
    spawn_blocking, yield_now,
};

/// Bounds the waits of a failing test; long enough for any machine.
const LONG: Duration = Duration::from_secs(60);

fn level(level: u8) -> Priority {
    Priority::new(level).unwrap()
}

fn workers(workers: usize) -> Runtime {
    Builder::new().workers(workers).build().unwrap()
}

#[test]
fn a_future_gives_its_output() {
    for count in [1, 3] {
        assert_eq!(workers(count).block_on(async { 6 * 7 }), 42);
    }
}

#[test]
fn one_worker_runs_the_most_urgent_first() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let inner = log.clone();
    workers(1).block_on_at(Priority::MOST_URGENT, async move {
        let note = |number: u8| {
            let log = inner.clone();
            async move { log.lock().unwrap().push(number) }
        };
        let handles: Vec<_> = [40, 3, 63, 3, 7]
            .into_iter()
            .map(|at| spawn(level(at), note(at)).unwrap())
            .collect();
        // Awaiting a handle donates level 0 to it: so the least urgent one is awaited first, when
        // all have run.
        let last = spawn(level(63), async {}).unwrap();
        while !last.has_exited() {
            let me = current().unwrap();
            corank_linux::reprioritize(me, Priority::LEAST_URGENT);
            yield_now().await;
        }
        drop(handles);
    });
    assert_eq!(*log.lock().unwrap(), [3, 3, 7, 40, 63]);
}

/// While all workers are inside a poll, many coroutines become ready. The worker that is free first
/// takes the most urgent one: nothing less urgent begins before it, on any worker.
#[test]
fn the_first_free_worker_takes_the_urgent_one() {
    const WORKERS: usize = 3;
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
    let before = begun.clone();
    let urgent = async move { before.load(Ordering::Relaxed) };
    let urgent = handle.spawn(level(0), urgent).unwrap();
    releases[0].send(()).unwrap();
    let before = runtime.block_on_at(Priority::LEAST_URGENT, urgent);
    assert_eq!(before.unwrap(), 0);
    for release in &releases[1..] {
        release.send(()).unwrap();
    }
    for handle in handles {
        runtime.block_on(handle).unwrap();
    }
    assert_eq!(begun.load(Ordering::Relaxed), 100);
}

#[test]
fn a_panic_ends_only_its_coroutine() {
    let runtime = workers(2);
    let bad = runtime.handle().spawn(level(3), async {
        std::panic::resume_unwind(Box::new("on purpose"))
    });
    let bad: Result<(), JoinError> = runtime.block_on(bad.unwrap());
    assert!(matches!(bad, Err(JoinError::Panicked(_))));
    assert_eq!(runtime.block_on(async { 1 }), 1);
}

/// A join error is an ordinary error, with the message of the panic.
#[test]
fn a_join_error_is_an_error_like_others() {
    type AnyError = Box<dyn std::error::Error + Send + Sync>;
    let result: Result<(), AnyError> = workers(1).block_on(async {
        spawn(level(3), async { std::panic::panic_any("on purpose") })?.await?;
        Ok(())
    });
    assert!(result.unwrap_err().to_string().contains("on purpose"));
}

#[test]
#[should_panic(expected = "on purpose, through and through")]
fn block_on_resumes_a_panic() {
    workers(1).block_on(async { panic!("on purpose, through and through") })
}

#[test]
fn blocking_calls_have_their_own_threads() {
    let runtime = workers(1);
    let (send, receive) = mpsc::channel::<u8>();
    let received = runtime.block_on(async move {
        // The only worker would wait for itself.
        let blocked = spawn_blocking(move || receive.recv_timeout(LONG).unwrap());
        let other = spawn(level(9), async move { send.send(7).unwrap() }).unwrap();
        other.await.unwrap();
        blocked.await.unwrap()
    });
    assert_eq!(received, 7);
    let panicked = runtime.block_on(async {
        spawn_blocking(|| std::panic::resume_unwind(Box::new("on purpose"))).await
    });
    let panicked: Result<(), JoinError> = panicked;
    assert!(matches!(panicked, Err(JoinError::Panicked(_))));
}

#[test]
fn cancelling_drops_the_future() {
    struct Tells(Arc<AtomicBool>);
    impl Drop for Tells {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }
    let runtime = workers(1);
    let dropped = Arc::new(AtomicBool::new(false));
    let tells = Tells(dropped.clone());
    let (began, begun) = mpsc::channel();
    let handle = runtime.handle().spawn(level(5), async move {
        let _tells = tells;
        began.send(()).unwrap();
        pending::<()>().await;
    });
    let handle = handle.unwrap();
    begun.recv_timeout(LONG).unwrap();
    assert!(handle.cancel());
    let result = runtime.block_on(handle);
    assert!(matches!(result, Err(JoinError::Cancelled)));
    assert!(dropped.load(Ordering::Acquire));
}

#[test]
fn a_full_table_is_an_error() {
    let runtime = Builder::new().workers(1).capacity(2).build().unwrap();
    let refused = runtime.block_on(async {
        let one = spawn(level(9), pending::<()>()).unwrap();
        let two = spawn(level(9), pending::<()>()).err();
        drop(one);
        two
    });
    assert_eq!(refused, Some(SpawnError::TableFull));
}

#[test]
fn outside_of_a_runtime_nothing_is_spawned() {
    assert_eq!(
        spawn(level(1), async {}).err(),
        Some(SpawnError::NotRunning)
    );
    assert!(Handle::current().is_none());
    let runtime = workers(1);
    let entered = runtime.enter();
    let handle = spawn(level(1), async { 5 }).unwrap();
    drop(entered);
    assert_eq!(runtime.block_on(handle).unwrap(), 5);
    assert!(Handle::current().is_none());
}

/// Wakes come from many threads, also workers and threads for blocking calls: none is lost, and
/// each counts once.
#[test]
fn no_wake_is_lost() {
    const ROUNDS: u64 = 2_000;
    let runtime = workers(2);
    let total = Arc::new(AtomicU64::new(0));
    let rings: Vec<_> = (0..4_u8)
        .map(|ring| {
            let (send, receive) = async_channel::bounded::<u64>(1);
            let (back, returned) = async_channel::bounded::<u64>(1);
            let total = total.clone();
            let echo = async move {
                while let Ok(number) = receive.recv().await {
                    if back.send(number + 1).await.is_err() {
                        break;
                    }
                }
            };
            drop(runtime.handle().spawn(level(10 + ring), echo).unwrap());
            let drive = async move {
                for round in 0..ROUNDS {
                    send.send(round).await.unwrap();
                    assert_eq!(returned.recv().await.unwrap(), round + 1);
                    total.fetch_add(1, Ordering::Relaxed);
                }
            };
            runtime.handle().spawn(level(20 - ring), drive).unwrap()
        })
        .collect();
    for ring in rings {
        runtime.block_on(ring).unwrap();
    }
    assert_eq!(total.load(Ordering::Relaxed), 4 * ROUNDS);
}

#[test]
fn a_bounded_policy_starves_no_level() {
    let runtime = Builder::new()
        .workers(1)
        .policy(Policy::bounded(4))
        .build()
        .unwrap();
    let greedy = async {
        loop {
            yield_now().await;
        }
    };
    let greedy = runtime.handle().spawn(Priority::MOST_URGENT, greedy);
    // Under a strict policy this would never run.
    assert_eq!(runtime.block_on_at(Priority::LEAST_URGENT, async { 1 }), 1);
    drop(greedy);
}

#[test]
fn shutdown_waits_for_coroutines() {
    let runtime = workers(2);
    let done = Arc::new(AtomicUsize::new(0));
    for _ in 0..100 {
        let done = done.clone();
        let work = async move {
            for _ in 0..100 {
                yield_now().await;
            }
            done.fetch_add(1, Ordering::Relaxed);
        };
        drop(runtime.handle().spawn(level(20), work).unwrap());
    }
    assert_eq!(runtime.shutdown(LONG), Ok(()));
    assert_eq!(done.load(Ordering::Relaxed), 100);
}

#[test]
fn shutdown_reports_what_it_cancelled() {
    let runtime = Builder::new().workers(1).name("stuck").build().unwrap();
    let handle = runtime.handle().clone();
    drop(handle.spawn(level(9), pending::<()>()).unwrap());
    let (began, begun) = mpsc::channel();
    let (release, held) = mpsc::channel::<()>();
    let stuck = handle.spawn(
        level(9),
        poll_fn(move |_| {
            began.send(()).unwrap();
            let _ = held.recv_timeout(LONG);
            Poll::Ready(())
        }),
    );
    drop(stuck.unwrap());
    begun.recv_timeout(LONG).unwrap();
    let unfinished = runtime.shutdown(Duration::from_millis(1)).unwrap_err();
    assert_eq!(unfinished.cancelled, 2);
    assert_eq!(unfinished.blocked, ["stuck-0"]);
    assert!(unfinished.to_string().contains("spawn_blocking"));
    let refused = handle.spawn(level(1), async {});
    assert_eq!(refused.err(), Some(SpawnError::Closed));
    drop(release);
}

#[corank_linux::test(workers = 2, priority = 3, name = "tested")]
async fn the_attribute_makes_a_runtime() {
    let name = async { std::thread::current().name().map(str::to_string) };
    let name = spawn(level(4), name).unwrap().await.unwrap();
    assert!(name.unwrap().starts_with("tested-"));
    let me = current().unwrap();
    assert_eq!(Handle::current().unwrap().priority(me), Priority::new(3));
}

/// Runs `act` on a thread of its own, and fails if that does not end.
fn within_limit<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || send.send(act()));
    receive.recv_timeout(LONG / 6).expect("it waits for itself")
}

/// Tests that a call of `block_on` panics, and says why.
async fn assert_block_on_panics(runtime: Arc<Runtime>) {
    let refused = std::panic::AssertUnwindSafe(|| runtime.block_on(async { 1 }));
    let payload = asserts::on_purpose(|| std::panic::catch_unwind(refused)).unwrap_err();
    let message = corank_linux::Payload::new(payload);
    assert!(message.message().unwrap().contains("spawn_blocking"));
}

/// In a spawned coroutine and in that of `block_on` itself, of the same and another runtime.
#[test]
fn block_on_inside_a_coroutine_panics() {
    within_limit(|| {
        let (own, other) = (Arc::new(workers(1)), Arc::new(workers(1)));
        for inner in [&own, &other] {
            own.block_on(assert_block_on_panics(inner.clone()));
            let spawned = assert_block_on_panics(inner.clone());
            let spawned = own.handle().spawn(level(3), spawned).unwrap();
            own.block_on(spawned).unwrap();
        }
        assert_eq!(own.block_on(async { 7 }), 7);
    });
}

#[test]
fn block_on_works_in_a_blocking_call() {
    let answer = within_limit(|| {
        let (own, inner) = (workers(1), Arc::new(workers(1)));
        let answer = async move { spawn_blocking(move || inner.block_on(async { 7 })).await };
        own.block_on(answer).unwrap()
    });
    assert_eq!(answer, 7);
}

/// The future is neither `Send` nor `'static`, and its output is not `Send`.
#[test]
fn block_on_borrows_and_stays_on_its_thread() {
    let runtime = workers(2);
    let mut log = Vec::new();
    let here = std::thread::current().id();
    let output = runtime.block_on(async {
        let shared = std::rc::Rc::new(5);
        for round in 0..100 {
            yield_now().await;
            assert_eq!(std::thread::current().id(), here);
            log.push(round);
        }
        // Other coroutines continue meanwhile.
        let other = spawn(level(40), async { 37 }).unwrap().await.unwrap();
        corank_linux::time::sleep(Duration::from_micros(10)).await;
        std::rc::Rc::new(*shared + other)
    });
    assert_eq!((*output, log.len()), (42, 100));
    assert_eq!(runtime.handle().live(), 0);
}

/// Another coroutine cancels that of `block_on`: the future is dropped on its own thread, and the
/// call panics.
#[test]
fn a_cancelled_block_on_drops_its_future_where_it_was_polled() {
    /// It is not `Send`.
    struct Notes<'a>(
        &'a Mutex<Option<std::thread::ThreadId>>,
        std::marker::PhantomData<std::rc::Rc<()>>,
    );
    impl Drop for Notes<'_> {
        fn drop(&mut self) {
            *self.0.lock().unwrap() = Some(std::thread::current().id());
            assert!(spawn(level(3), async {}).is_ok(), "inside the runtime");
        }
    }
    let runtime = workers(2);
    let dropped = Mutex::new(None);
    let cancelled = std::panic::AssertUnwindSafe(|| {
        runtime.block_on(async {
            let _notes = Notes(&dropped, std::marker::PhantomData);
            let me = current().unwrap();
            let cancel = spawn(level(40), async move { corank_linux::cancel(me) });
            pending::<()>().await;
            drop(cancel);
        });
    });
    assert!(std::panic::catch_unwind(cancelled).is_err());
    assert_eq!(*dropped.lock().unwrap(), Some(std::thread::current().id()));
}

/// It says what panicked, and carries the payload.
#[test]
fn a_panic_of_a_blocking_call_is_reported_as_one() {
    let runtime = workers(1);
    let result = runtime.block_on(async {
        spawn_blocking(|| std::panic::resume_unwind(Box::new("on purpose"))).await
    });
    let result: Result<(), JoinError> = result;
    let error = result.unwrap_err();
    assert_eq!(error.to_string(), "the blocking call panicked: on purpose");
    let JoinError::Panicked(payload) = error else {
        panic!("it has a payload");
    };
    assert_eq!(payload.into_inner().downcast_ref(), Some(&"on purpose"));
}

#[test]
fn a_blocking_call_is_inside_its_runtime() {
    let runtime = workers(1);
    let answer = runtime.block_on(async {
        let call = spawn_blocking(|| {
            assert!(Handle::current().is_some());
            spawn(level(9), async { 5 }).unwrap()
        });
        call.await.unwrap().await
    });
    assert_eq!(answer.unwrap(), 5);
    assert!(Handle::current().is_none());
}

/// Threads outside the runtime, inside another one, and a worker of another one cancel coroutines
/// of one: their destructors spawn there.
#[test]
fn a_cancelled_coroutine_is_dropped_inside_its_runtime() {
    struct Spawns(Arc<AtomicUsize>, mpsc::Sender<Result<(), SpawnError>>);
    impl Drop for Spawns {
        fn drop(&mut self) {
            let ran = self.0.clone();
            let count = async move {
                ran.fetch_add(1, Ordering::Relaxed);
            };
            self.1.send(spawn(level(9), count).map(drop)).unwrap();
        }
    }
    const ROUNDS: usize = 100;
    let (own, other) = (workers(1), workers(1));
    let ran = Arc::new(AtomicUsize::new(0));
    let (results, spawned) = mpsc::channel();
    let waiting = || {
        let spawns = Spawns(ran.clone(), results.clone());
        let wait = async move {
            let _spawns = spawns;
            pending::<()>().await;
        };
        own.handle().spawn(level(9), wait).unwrap()
    };
    for _ in 0..ROUNDS {
        // By its handle, by its identifier, inside another runtime, and by a worker of that.
        assert!(waiting().cancel());
        assert!(own.handle().cancel(waiting().id()));
        let entered = other.enter();
        assert!(waiting().cancel());
        drop(entered);
        let handle = waiting();
        let cancel = async move { handle.cancel() };
        let cancel = other.handle().spawn(level(3), cancel).unwrap();
        assert!(other.block_on(cancel).unwrap());
    }
    drop(results);
    assert!(spawned.iter().take(4 * ROUNDS).all(|result| result.is_ok()));
    // They have run in the runtime of the cancelled coroutines.
    assert_eq!(own.shutdown(LONG), Ok(()));
    assert_eq!(ran.load(Ordering::Relaxed), 4 * ROUNDS);
}

#[test]
fn errors_of_the_runtime_convert_to_those_of_io() {
    fn refused() -> std::io::Result<()> {
        drop(spawn(level(3), async {})?);
        Ok(())
    }
    assert!(refused().unwrap_err().to_string().contains("no executor"));
    let error = std::io::Error::from(SpawnError::OutOfMemory);
    assert_eq!(error.kind(), std::io::ErrorKind::OutOfMemory);
    let cancelled = std::io::Error::from(JoinError::Cancelled);
    assert!(cancelled.get_ref().unwrap().is::<JoinError>());
}

#[test]
fn primitives_are_made_for_a_handle() {
    let runtime = workers(1);
    let sum = Arc::new(corank_linux::sync::Mutex::new_in(runtime.handle(), 1));
    let theirs = sum.clone();
    runtime.block_on(async move { *theirs.lock().await += 1 });
    assert_eq!(*sum.try_lock().unwrap(), 2);
}

/// A handle may be polled, moved, and polled again, and `select` takes it as it is.
#[test]
fn a_join_handle_is_unpin() {
    let runtime = workers(1);
    let answer = runtime.block_on(async {
        let (send, receive) = async_channel::bounded::<u8>(1);
        let mut waits = spawn(level(9), async move { receive.recv().await.unwrap() }).unwrap();
        assert!(futures::poll!(&mut waits).is_pending());
        let mut handles = vec![waits];
        handles.reserve(100);
        let other = spawn(level(3), async { 5 }).unwrap();
        let selected = futures::future::select(handles.pop().unwrap(), other).await;
        let futures::future::Either::Right((Ok(5), waits)) = selected else {
            panic!("the first one waits");
        };
        let moved = Box::new(waits);
        send.send(7).await.unwrap();
        moved.await.unwrap()
    });
    assert_eq!(answer, 7);
}

/// Outside of coroutines nothing has a level that could change.
#[test]
#[should_panic(expected = "at() is polled outside of the coroutines of corank-linux")]
fn a_level_outside_of_a_coroutine_fails_loudly() {
    futures::executor::block_on(corank_linux::at(Priority::MOST_URGENT, async {}));
}
