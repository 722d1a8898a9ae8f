//! Blocking calls by urgency. A test program of its own: how many threads there are is the whole process's.

#![cfg(not(loom))]

use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use corank_linux::{
    Blocking, Builder, Priority, current, fs, limit_blocking_threads, reprioritize, spawn_blocking,
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
        for call in calls {
            call.await.unwrap();
        }
    });
    assert_eq!(*seen.lock().unwrap(), [3, 20, 20, 50]);
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
