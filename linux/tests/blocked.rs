//! A worker that is held up inside one poll: it is named, and what it would have looked after is not forgotten.

#![cfg(not(loom))]

#[path = "../../core/tests/common/asserts.rs"]
mod asserts;

use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corank_linux::{Blocked, Builder, Priority, current, pipe, spawn, yield_now};
use futures::{AsyncReadExt, AsyncWriteExt};

/// Long enough for any machine: only a failing test waits so long.
const LONG: Duration = Duration::from_secs(60);
/// After this time a poll is told of.
const AFTER: Duration = Duration::from_millis(3);

fn level(level: u8) -> Priority {
    Priority::new(level).unwrap()
}

/// What a hook was told.
fn listener() -> (impl Fn(&Blocked) + Send + Sync, mpsc::Receiver<Blocked>) {
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    let hook = move |blocked: &Blocked| drop(tell.lock().unwrap().send(blocked.clone()));
    (hook, told)
}

/// Blocks its worker until it has been told of so often.
async fn blocks(told: mpsc::Receiver<Blocked>, times: usize) -> Vec<Blocked> {
    (0..times)
        .map(|_| told.recv_timeout(LONG).expect("it is told of"))
        .collect()
}

/// One worker, so that nobody but the watchdog could tell: which worker, which coroutine, how long, and what waits.
#[test]
fn a_blocked_worker_is_named() {
    let (hook, told) = listener();
    let runtime = Builder::new()
        .workers(1)
        .name("held")
        .on_blocked(AFTER, hook)
        .build()
        .unwrap();
    let handle = runtime.handle().clone();
    let (id, told) = runtime.block_on_at(level(9), async move {
        let urgent = handle.spawn(level(2), async {}).unwrap();
        // How long it has lasted is told again when it has doubled.
        let told = blocks(told, 3).await;
        assert!(!urgent.has_exited());
        (current().unwrap(), told)
    });
    for blocked in &told {
        assert!(blocked.time >= AFTER);
        assert_eq!(blocked.worker, "held-0");
        assert_eq!(blocked.coroutine, id);
        assert_eq!(blocked.priority, level(9));
        assert!(blocked.future.contains("a_blocked_worker_is_named"));
        assert_eq!(blocked.waiting, Some(level(2)));
        let text = blocked.to_string();
        assert!(text.starts_with("held-0 has been inside one poll of `blocked::"));
        assert!(text.contains("(level 9)") && text.contains("while level 2 is ready"));
    }
    for pair in told.windows(2) {
        assert!(pair[1].time >= 2 * pair[0].time, "{told:?}");
    }
}

/// What is ready and less urgent doesn't wait for the blocked one: nothing is said to.
#[test]
fn less_urgent_work_does_not_count_as_waiting() {
    let (hook, told) = listener();
    let runtime = Builder::new().workers(1).on_blocked(AFTER, hook).build();
    let runtime = runtime.unwrap();
    let handle = runtime.handle().clone();
    let told = runtime.block_on_at(level(9), async move {
        let bulk = handle.spawn(level(10), async {}).unwrap();
        let told = blocks(told, 1).await;
        drop(bulk);
        told
    });
    assert_eq!(told[0].waiting, None);
}

/// A hook that panics is called again.
#[test]
fn a_hook_may_panic() {
    let (hook, told) = listener();
    let hook = move |blocked: &Blocked| {
        hook(blocked);
        std::panic::resume_unwind(Box::new("on purpose"));
    };
    let runtime = Builder::new().workers(1).on_blocked(AFTER, hook).build();
    runtime.unwrap().block_on(async { blocks(told, 2).await });
}

/// A worker that has looked after events for both, because its polls were short, is blocked; the other one sleeps. An event still reaches
/// its coroutine, which ends the blocking.
#[test]
fn an_event_is_noticed_although_who_looked_is_blocked() {
    for _ in 0..20 {
        let runtime = Builder::new().workers(2).build().unwrap();
        runtime.block_on(async {
            let (mut ping, mut pinged) = pipe::pipe().unwrap();
            let (answer, answered) = mpsc::channel();
            let responder = spawn(Priority::MOST_URGENT, async move {
                let mut byte = [0];
                while let Ok(1) = pinged.read(&mut byte).await {
                    if answer.send(()).is_err() {
                        break;
                    }
                }
            });
            let answered = Arc::new(Mutex::new(answered));
            // Many short polls of one worker, while the other has nothing to do.
            for _ in 0..1000 {
                yield_now().await;
            }
            let blocking = spawn(Priority::DEFAULT, async move {
                ping.write_all(b"!").await.unwrap();
                let answered = answered.lock().unwrap().recv_timeout(LONG);
                answered.expect("the other worker has noticed the event");
            });
            blocking.unwrap().await.unwrap();
            drop(responder);
        });
    }
}
