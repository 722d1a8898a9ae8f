//! Spare workers: a poll that never ends holds up nothing urgent (rules H11 to H13).
//!
//! Each test has polls that end only when something urgent has run. Without spare workers it fails
//! after a long time; how fast the machine is does not matter.

#![cfg(not(loom))]

#[path = "../../core/tests/common/asserts.rs"]
mod asserts;
mod held;

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use corank_linux::{Builder, Priority, Runtime, pipe, spawn, time};
use futures::{AsyncReadExt, AsyncWriteExt};
use held::Held;

/// Bounds the waits of a failing test; long enough for any machine.
const LONG: Duration = Duration::from_secs(60);

fn level(level: u8) -> Priority {
    Priority::new(level).unwrap()
}

fn runtime(workers: usize) -> Runtime {
    Builder::new().workers(workers).build().unwrap()
}

/// Waits on this thread until the urgent coroutine has run.
fn expect(ran: &mpsc::Receiver<()>) {
    ran.recv_timeout(LONG).expect("the urgent coroutine runs");
}

#[test]
fn what_another_thread_spawns_runs() {
    for workers in [1, 2] {
        let runtime = runtime(workers);
        let held = Held::new(&runtime, workers);
        for _ in 0..20 {
            let (run, ran) = mpsc::channel();
            let urgent = async move { run.send(()).unwrap() };
            drop(runtime.handle().spawn(level(3), urgent).unwrap());
            expect(&ran);
        }
        held.end(&runtime);
    }
}

#[test]
fn what_an_event_wakes_runs() {
    let runtime = runtime(2);
    let (mut sender, mut receiver) = {
        let _entered = runtime.enter();
        pipe::pipe().unwrap()
    };
    let (answer, answers) = mpsc::channel();
    let urgent = async move {
        let mut byte = [0];
        while let Ok(1) = receiver.read(&mut byte).await {
            answer.send(()).unwrap();
        }
    };
    drop(runtime.handle().spawn(level(3), urgent).unwrap());
    let held = Held::new(&runtime, 2);
    for _ in 0..20 {
        futures::executor::block_on(sender.write_all(b"!")).unwrap();
        expect(&answers);
    }
    held.end(&runtime);
}

#[test]
fn what_a_timer_wakes_runs() {
    let runtime = runtime(2);
    let (run, ran) = mpsc::channel();
    let urgent = async move {
        for _ in 0..5 {
            time::sleep(Duration::from_millis(3)).await;
            run.send(()).unwrap();
        }
    };
    drop(runtime.handle().spawn(level(3), urgent).unwrap());
    let held = Held::new(&runtime, 2);
    for _ in 0..5 {
        expect(&ran);
    }
    held.end(&runtime);
}

/// A timer that is set while the spare worker sleeps until a later one is due ends that sleep.
#[test]
fn an_earlier_timer_is_served() {
    let runtime = runtime(1);
    let later = async { time::sleep(2 * LONG).await };
    drop(runtime.handle().spawn(level(3), later).unwrap());
    let held = Held::new(&runtime, 1);
    for _ in 0..3 {
        let (run, ran) = mpsc::channel();
        let urgent = async move {
            time::sleep(Duration::from_millis(3)).await;
            run.send(()).unwrap();
        };
        drop(runtime.handle().spawn(level(3), urgent).unwrap());
        expect(&ran);
    }
    held.end(&runtime);
}

/// The coroutine in the long poll itself makes something more urgent ready, and waits for it
/// without an end of the poll.
#[test]
fn what_the_held_coroutine_itself_wakes_runs() {
    let runtime = runtime(2);
    let both = [(); 2].map(|()| {
        let holds = async {
            for _ in 0..5 {
                let (run, ran) = mpsc::channel();
                let urgent = async move { run.send(()).unwrap() };
                drop(spawn(level(3), urgent).unwrap());
                expect(&ran);
            }
        };
        runtime.handle().spawn(level(40), holds).unwrap()
    });
    runtime.block_on_at(level(50), async {
        for handle in both {
            handle.await.unwrap();
        }
    });
}

/// While both workers are held, work of their level and below does not run.
#[test]
fn less_urgent_work_waits_for_a_worker() {
    let runtime = runtime(2);
    let held = Held::new(&runtime, 2);
    let bulk = Arc::new(AtomicUsize::new(0));
    let mut handles = Vec::new();
    for at in [40, 41, 63] {
        let bulk = bulk.clone();
        let run = async move {
            bulk.fetch_add(1, Ordering::Relaxed);
        };
        handles.push(runtime.handle().spawn(level(at), run).unwrap());
    }
    for _ in 0..20 {
        let (run, ran) = mpsc::channel();
        let seen = bulk.clone();
        let urgent = async move { run.send(seen.load(Ordering::Relaxed)).unwrap() };
        drop(runtime.handle().spawn(level(39), urgent).unwrap());
        assert_eq!(ran.recv_timeout(LONG).unwrap(), 0);
    }
    held.end(&runtime);
    runtime.block_on(async {
        for handle in handles {
            handle.await.unwrap();
        }
    });
    assert_eq!(bulk.load(Ordering::Relaxed), 3);
}

/// A poll of a spare worker that does not end holds up nothing that is more urgent still.
#[test]
fn a_spare_worker_is_taken_over_as_well() {
    let runtime = runtime(1);
    let held = Held::new(&runtime, 1);
    let mut ends = Vec::new();
    for at in (10..14).rev() {
        let (begin, begun) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let holds = async move {
            begin.send(()).unwrap();
            ended.recv_timeout(LONG).expect("the more urgent have run");
        };
        drop(runtime.handle().spawn(level(at), holds).unwrap());
        expect(&begun);
        ends.push(end);
    }
    for end in ends {
        end.send(()).unwrap();
    }
    held.end(&runtime);
}

/// The coroutine of the long poll is woken and cancelled from a spare worker meanwhile: it is
/// polled by one thread at a time, and exits when its poll ends (rules H1, H3, H4).
#[test]
fn a_held_coroutine_is_woken_and_cancelled() {
    let runtime = runtime(1);
    let (polls, inside) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (begin, begun) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let waker = Arc::new(Mutex::new(None::<Waker>));
    let held = {
        let (polls, inside, waker) = (polls.clone(), inside.clone(), waker.clone());
        poll_fn(move |cx| {
            assert_eq!(
                inside.fetch_add(1, Ordering::SeqCst),
                0,
                "two polls at once"
            );
            let poll = polls.fetch_add(1, Ordering::SeqCst);
            *waker.lock().unwrap() = Some(cx.waker().clone());
            begin.send(poll).unwrap();
            ended
                .recv_timeout(LONG)
                .expect("the urgent coroutine has run");
            inside.fetch_sub(1, Ordering::SeqCst);
            Poll::<()>::Pending
        })
    };
    let held = runtime.handle().spawn(level(40), held).unwrap();
    assert_eq!(begun.recv_timeout(LONG), Ok(0));
    let in_urgent = |act: Box<dyn FnOnce() + Send>| {
        let (run, ran) = mpsc::channel();
        let urgent = async move {
            act();
            run.send(()).unwrap();
        };
        drop(runtime.handle().spawn(level(3), urgent).unwrap());
        expect(&ran);
    };
    // A wake in the middle of the poll: it is polled again, once.
    let taken = waker.lock().unwrap().take().unwrap();
    in_urgent(Box::new(move || {
        taken.wake_by_ref();
        taken.wake();
    }));
    end.send(()).unwrap();
    assert_eq!(begun.recv_timeout(LONG), Ok(1));
    let (id, handle) = (held.id(), runtime.handle().clone());
    in_urgent(Box::new(move || assert!(handle.cancel(id))));
    assert!(!held.has_exited());
    end.send(()).unwrap();
    let joined = runtime.block_on(held);
    assert!(matches!(joined, Err(corank_linux::JoinError::Cancelled)));
    assert_eq!(polls.load(Ordering::SeqCst), 2);
}

/// A panic on a spare worker ends its coroutine alone.
#[test]
fn a_panic_ends_one_coroutine() {
    let runtime = runtime(1);
    let held = Held::new(&runtime, 1);
    for _ in 0..3 {
        let panics = async { std::panic::resume_unwind(Box::new("on purpose")) };
        let panics = runtime.handle().spawn(level(3), panics).unwrap();
        let joined: Result<(), _> = futures::executor::block_on(panics);
        assert!(matches!(joined, Err(corank_linux::JoinError::Panicked(_))));
    }
    held.end(&runtime);
}

/// The runtime ends while spare workers stand by, sleep, and are inside polls.
#[test]
fn shutdown_ends_spare_workers_and_names_blocked_ones() {
    for _ in 0..5 {
        let runtime = Builder::new().workers(1).name("s").build().unwrap();
        let held = Held::new(&runtime, 1);
        let (begin, begun) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let urgent = async move {
            begin
                .send(thread::current().name().unwrap().to_string())
                .unwrap();
            let _ = ended.recv_timeout(LONG);
        };
        drop(runtime.handle().spawn(level(3), urgent).unwrap());
        let name = begun.recv_timeout(LONG).unwrap();
        assert!(name.starts_with("s-spare-"), "{name}");
        let unfinished = runtime.shutdown(Duration::from_millis(50)).unwrap_err();
        assert_eq!(unfinished.cancelled, 2);
        assert_eq!(unfinished.blocked, ["s-0", &name]);
        drop(end);
        for end in held.ends {
            end.send(()).unwrap();
        }
    }
    let runtime = runtime(2);
    let held = Held::new(&runtime, 2);
    let (run, ran) = mpsc::channel();
    let urgent = async move { run.send(()).unwrap() };
    drop(runtime.handle().spawn(level(3), urgent).unwrap());
    expect(&ran);
    held.end(&runtime);
    assert_eq!(runtime.shutdown(LONG), Ok(()));
}

/// Without spare workers nothing takes over: the urgent coroutine runs when a poll has ended.
#[test]
fn spare_workers_can_be_left_out() {
    let runtime = Builder::new()
        .workers(1)
        .spare_workers(None)
        .build()
        .unwrap();
    let held = Held::new(&runtime, 1);
    let (run, ran) = mpsc::channel();
    let urgent = async move {
        let name = thread::current().name().map(str::to_string);
        run.send(name).unwrap();
    };
    drop(runtime.handle().spawn(level(3), urgent).unwrap());
    held.end(&runtime);
    assert_eq!(ran.recv_timeout(LONG).unwrap().as_deref(), Some("corank-0"));
}
