//! Blocking calls by urgency. A test program of its own: how many threads there are is the whole process's.

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

/// Long enough for any machine: only a failing test waits so long.
const LONG: Duration = Duration::from_secs(60);

fn level(level: u8) -> Priority {
    Priority::new(level).unwrap()
}

/// Keeps the only thread busy until the sender is told or dropped.
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

/// While the only thread is busy, calls wait; then the most urgent caller's is next. One that nobody wants any more is not done.
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
        // Awaited, they would be as urgent as this coroutine.
        calls.map(Blocking::detach);
        reprioritize(current().unwrap(), level(60));
        spawn_blocking(|| ()).await.unwrap();
    });
    assert_eq!(*seen.lock().unwrap(), [3, 20, 20, 50]);
}

/// A call follows the live level of the coroutine that awaits it: given by itself, or lent by who waits for that one.
#[test]
fn a_call_follows_its_caller() {
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
        // All of them call.
        reprioritize(me, level(62));
        yield_now().await;
        reprioritize(me, level(1));
        assert!(reprioritize(callers[4].id(), level(10)));
        assert!(reprioritize(callers[0].id(), level(45)));
        let [late, second, third, lent, first] = callers;
        // Who waits for another's handle lends it its level.
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

/// A write that is given up while it waits, and then another one: they don't get into each other's way, and each has its own result.
#[test]
fn a_write_that_was_given_up_ends_before_the_next() {
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
