//! Blocking calls by urgency. A test program of its own: how many threads there are is the whole process's.

#![cfg(not(loom))]

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use corank_linux::{
    Builder, Priority, current, limit_blocking_threads, reprioritize, spawn_blocking,
};

/// Long enough for any machine: only a failing test waits so long.
const LONG: Duration = Duration::from_secs(60);

fn level(level: u8) -> Priority {
    Priority::new(level).unwrap()
}

/// While the only thread is busy, calls wait; then the most urgent caller's is next. One that nobody wants any more is not done.
#[test]
fn the_most_urgent_caller_is_served_first() {
    limit_blocking_threads(NonZeroUsize::MIN);
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = log.clone();
    let runtime = Builder::new().workers(1).build().unwrap();
    runtime.block_on_at(level(20), async move {
        let (begin, begun) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let busy = spawn_blocking(move || {
            begin.send(()).unwrap();
            ended.recv_timeout(LONG).unwrap();
        });
        begun.recv_timeout(LONG).unwrap();
        let call = |priority: u8| {
            let log = log.clone();
            reprioritize(current().unwrap(), level(priority));
            spawn_blocking(move || log.lock().unwrap().push(priority))
        };
        let calls = [call(20), call(50), call(3), call(20)];
        let dropped = call(1);
        drop(dropped);
        end.send(()).unwrap();
        busy.await.unwrap();
        for call in calls {
            call.await.unwrap();
        }
    });
    assert_eq!(*seen.lock().unwrap(), [3, 20, 20, 50]);
}
