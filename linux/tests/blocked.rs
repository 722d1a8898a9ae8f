//! A worker that one poll keeps: it is reported, and its share of checks for events is done by
//! others.

#![cfg(not(loom))]

#[path = "../../core/tests/common/asserts.rs"]
mod asserts;

use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corank_linux::{Blocked, Builder, Priority, current, pipe, spawn, yield_now};
use futures::{AsyncReadExt, AsyncWriteExt};

/// Bounds the waits of a failing test; long enough for any machine.
const LONG: Duration = Duration::from_secs(60);
/// A poll that lasts this long is reported.
const AFTER: Duration = Duration::from_millis(3);

fn level(level: u8) -> Priority {
    Priority::new(level).unwrap()
}

/// Creates a hook, and the receiver of its reports.
fn reporting_hook() -> (impl Fn(&Blocked) + Send + Sync, mpsc::Receiver<Blocked>) {
    let (send, reports) = mpsc::channel();
    let send = Mutex::new(send);
    let hook = move |blocked: &Blocked| drop(send.lock().unwrap().send(blocked.clone()));
    (hook, reports)
}

/// Blocks its worker until it has been reported this often.
async fn block_until_reported(reports: mpsc::Receiver<Blocked>, times: usize) -> Vec<Blocked> {
    (0..times)
        .map(|_| reports.recv_timeout(LONG).expect("a report"))
        .collect()
}

/// There is one worker, so only the watchdog can report: the worker, the coroutine, the time, and
/// the level that waits.
#[test]
fn a_blocked_worker_is_reported() {
    let (hook, reports) = reporting_hook();
    let runtime = Builder::new()
        .workers(1)
        .name("held")
        .spare_workers(None)
        .on_blocked(AFTER, hook)
        .build()
        .unwrap();
    let handle = runtime.handle().clone();
    let (id, reports) = runtime.block_on_at(level(9), async move {
        let urgent = handle.spawn(level(2), async {}).unwrap();
        // There is a further report when the time has doubled.
        let reports = block_until_reported(reports, 3).await;
        assert!(!urgent.has_exited());
        (current().unwrap(), reports)
    });
    for blocked in &reports {
        assert!(blocked.time >= AFTER);
        assert_eq!(blocked.worker, "held-0");
        assert_eq!(blocked.coroutine, id);
        assert_eq!(blocked.priority, level(9));
        assert!(blocked.future.contains("a_blocked_worker_is_reported"));
        assert_eq!(blocked.waiting, Some(level(2)));
        let text = blocked.to_string();
        assert!(text.starts_with("held-0 has been inside one poll of `blocked::"));
        assert!(text.contains("(level 9)") && text.contains("while level 2 is ready"));
    }
    for pair in reports.windows(2) {
        assert!(pair[1].time >= 2 * pair[0].time, "{reports:?}");
    }
}

/// A spare worker that one poll keeps is reported as well, and runs what is urgent meanwhile.
#[test]
fn a_blocked_spare_worker_is_reported() {
    let (hook, reports) = reporting_hook();
    let runtime = Builder::new()
        .workers(1)
        .name("held")
        .on_blocked(AFTER, hook)
        .build()
        .unwrap();
    let handle = runtime.handle().clone();
    runtime.block_on_at(level(9), async move {
        let (end, ended) = mpsc::channel();
        let (begin, begun) = mpsc::channel();
        let urgent = async move {
            begin.send(current().unwrap()).unwrap();
            ended.recv_timeout(LONG).expect("it was reported");
        };
        drop(handle.spawn(level(2), urgent).unwrap());
        let urgent = begun.recv_timeout(LONG).expect("a spare worker polls it");
        let is_its = |blocked: &Blocked| blocked.coroutine == urgent;
        let blocked = std::iter::from_fn(|| reports.recv_timeout(LONG).ok()).find(is_its);
        let blocked = blocked.expect("a report");
        assert_eq!(blocked.worker, "held-spare-0");
        assert_eq!(blocked.priority, level(2));
        end.send(()).unwrap();
    });
}

/// A less urgent ready coroutine does not count as waiting for the blocked worker.
#[test]
fn less_urgent_work_does_not_count_as_waiting() {
    let (hook, reports) = reporting_hook();
    let runtime = Builder::new().workers(1).on_blocked(AFTER, hook).build();
    let runtime = runtime.unwrap();
    let handle = runtime.handle().clone();
    let reports = runtime.block_on_at(level(9), async move {
        let bulk = handle.spawn(level(10), async {}).unwrap();
        let reports = block_until_reported(reports, 1).await;
        drop(bulk);
        reports
    });
    assert_eq!(reports[0].waiting, None);
}

/// A hook that panics is called again.
#[test]
fn a_hook_that_panics_is_called_again() {
    let (hook, reports) = reporting_hook();
    let hook = move |blocked: &Blocked| {
        hook(blocked);
        std::panic::resume_unwind(Box::new("on purpose"));
    };
    let runtime = Builder::new().workers(1).on_blocked(AFTER, hook).build();
    runtime
        .unwrap()
        .block_on(async { block_until_reported(reports, 2).await });
}

/// A worker that checked for events for both, because its polls were short, is blocked; the other
/// one is parked. An event still reaches its coroutine, which ends the blocking.
#[test]
fn an_event_is_noticed_while_the_checking_worker_is_blocked() {
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
