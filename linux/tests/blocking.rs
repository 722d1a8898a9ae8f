//! Blocking calls by priority. A test program of its own, because the limit of threads holds for
//! the whole process.

#![cfg(not(loom))]

#[path = "../../core/tests/common/asserts.rs"]
mod asserts;

use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use corank_linux::{
    Blocking, Builder, Priority, current, fs, limit_blocking_threads, reprioritize, spawn,
    spawn_blocking, yield_now,
};
use futures::AsyncWriteExt;

/// Bounds the waits of a failing test; long enough for any machine.
const LONG: Duration = Duration::from_secs(60);

fn level(level: u8) -> Priority {
    Priority::new(level).unwrap()
}

/// Occupies the only thread until the sender is used or dropped.
fn occupy() -> (Blocking<()>, mpsc::Sender<()>) {
    limit_blocking_threads(NonZeroUsize::MIN);
    let (begin, begun) = mpsc::channel();
    let (end, ended) = mpsc::channel();
    let busy = spawn_blocking(move || {
        begin.send(()).unwrap();
        let _ = ended.recv_timeout(LONG);
    });
    begun.recv_timeout(LONG).unwrap();
    (busy, end)
}

/// While the only thread is busy, calls wait; then the call of the most urgent caller runs next. A
/// call whose future was dropped does not run.
#[test]
fn the_most_urgent_caller_is_served_first() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = log.clone();
    let runtime = Builder::new().workers(1).build().unwrap();
    runtime.block_on_at(level(20), async move {
        let (busy, end) = occupy();
        let call = |priority: u8| {
            let log = log.clone();
            reprioritize(current().unwrap(), level(priority));
            spawn_blocking(move || log.lock().unwrap().push(priority))
        };
        let calls = [call(20), call(50), call(3), call(20)];
        let dropped = call(1);
        drop(dropped);
        drop(end);
        busy.await.unwrap();
        // If awaited, they would be as urgent as this coroutine.
        calls.into_iter().for_each(Blocking::detach);
        reprioritize(current().unwrap(), level(60));
        spawn_blocking(|| ()).await.unwrap();
    });
    assert_eq!(*seen.lock().unwrap(), [3, 20, 20, 50]);
}

/// A call has the current priority of the coroutine that awaits it, whether set or inherited.
#[test]
fn a_call_inherits_its_callers_priority() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = log.clone();
    let runtime = Builder::new().workers(1).build().unwrap();
    runtime.block_on_at(level(1), async move {
        let (busy, end) = occupy();
        let caller = |priority: u8| {
            let log = log.clone();
            let call = async move {
                let call = spawn_blocking(move || log.lock().unwrap().push(priority));
                call.await.unwrap();
            };
            spawn(level(priority), call).unwrap()
        };
        let callers = [20, 30, 40, 50, 60].map(caller);
        let me = current().unwrap();
        // All of them make their calls.
        reprioritize(me, level(62));
        yield_now().await;
        reprioritize(me, level(1));
        assert!(reprioritize(callers[4].id(), level(10)));
        assert!(reprioritize(callers[0].id(), level(45)));
        let [late, second, third, lent, first] = callers;
        // A coroutine that awaits a handle donates its priority.
        let waits = spawn(level(5), async move { lent.await.unwrap() }).unwrap();
        reprioritize(me, level(62));
        yield_now().await;
        drop(end);
        busy.await.unwrap();
        for handle in [waits, late, second, third, first] {
            handle.await.unwrap();
        }
    });
    assert_eq!(*seen.lock().unwrap(), [50, 60, 30, 40, 20]);
}

/// A write is dropped while it waits, and another one follows: each has its own result.
#[test]
fn a_dropped_write_ends_before_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let file = std::fs::File::create(&path).unwrap();
    let runtime = Builder::new().workers(1).build().unwrap();
    runtime.block_on(async move {
        let mut file = fs::File::from_std(file).unwrap();
        let (busy, end) = occupy();
        assert!(futures::poll!(pin!(file.write(b"given up"))).is_pending());
        let mut next = Box::pin(file.write_all(b"GIVEN"));
        assert!(futures::poll!(next.as_mut()).is_pending());
        drop(end);
        busy.await.unwrap();
        next.await.unwrap();
    });
    assert_eq!(std::fs::read(&path).unwrap(), b"GIVEN up");
}
