//! Long chains and rings of coroutines that wait for each other.

use std::future::pending;
use std::rc::Rc;
use std::thread;

use crate::common::{executor, level, poll_once, spawn};
use corank::sync::Mutex;
use corank::{JoinHandle, yield_now};

/// Each coroutine of a chain awaits the next.
///
/// A change at one end arrives at the other, on a small stack, in both directions.
#[test]
fn a_long_chain_of_waiting_passes_urgency_on() {
    const LENGTH: usize = if cfg!(miri) { 20 } else { 200_000 };
    let chain = || {
        let executor = executor();
        let mut handle = spawn(&executor, 60, pending::<()>());
        let tail = handle.id();
        for _ in 0..LENGTH {
            let next = handle;
            handle = spawn(&executor, 60, async move { drop(next.await) });
        }
        executor.run_until_idle();
        assert!(handle.reprioritize(level(4)));
        assert_eq!(executor.priority(tail), Some(level(4)));
        assert!(handle.reprioritize(level(50)));
        assert_eq!(executor.priority(tail), Some(level(50)));
        assert!(handle.cancel());
        assert_eq!(executor.priority(tail), Some(level(60)));
        assert!(executor.cancel(tail));
        executor.run_until_idle();
        assert_eq!(executor.live(), 0);
    };
    let small = thread::Builder::new().stack_size(256 * 1024);
    small.spawn(chain).unwrap().join().unwrap();
}

/// The same holds where each coroutine of the chain waits for two at once.
#[test]
fn a_long_chain_of_pairs_passes_urgency_on() {
    const LENGTH: usize = if cfg!(miri) { 10 } else { 100_000 };
    let chain = || {
        let executor = executor();
        let pair = || [60, 61].map(|at| spawn(&executor, at, pending::<()>()));
        let [mut handle, other] = pair();
        let tails = [handle.id(), other.id()];
        let mut aside = Some(other);
        for _ in 0..LENGTH {
            let (next, beside) = (handle, aside.take());
            handle = spawn(&executor, 62, async move {
                let beside = async {
                    if let Some(beside) = beside {
                        drop(beside.await);
                    }
                };
                futures::join!(beside, async { drop(next.await) });
            });
            aside = Some(spawn(&executor, 63, pending()));
        }
        executor.run_until_idle();
        assert!(handle.reprioritize(level(4)));
        assert_eq!(
            tails.map(|tail| executor.priority(tail)),
            [Some(level(4)); 2]
        );
        assert!(handle.reprioritize(level(63)));
        assert_eq!(
            tails.map(|tail| executor.priority(tail)),
            [Some(level(60)), Some(level(61))]
        );
    };
    let small = thread::Builder::new().stack_size(256 * 1024);
    small.spawn(chain).unwrap().join().unwrap();
}

/// Coroutines that move at once move in the order of the chain (rule I3).
///
/// Each wait of a coroutine comes before those of the next one.
#[test]
fn a_change_moves_the_chain_in_its_order() {
    let executor = executor();
    let log = crate::common::Log::default();
    let ready = |name: &'static str| {
        let log = log.clone();
        spawn(&executor, 40, async move {
            log.push(name);
        })
    };
    let through = |name: &'static str, next: JoinHandle<()>| {
        let log = log.clone();
        let mut next = Box::pin(next);
        spawn(&executor, 40, async move {
            assert!(poll_once(&mut next).await.is_pending());
            yield_now().await;
            log.push(name);
            drop(next.await);
        })
    };
    let (d, e) = (ready("d"), ready("e"));
    let hold = spawn(&executor, 1, {
        let (b, c) = (through("b", d), through("c", e));
        async move {
            let (mut b, mut c) = (Box::pin(b), Box::pin(c));
            assert!(poll_once(&mut c).await.is_pending());
            assert!(poll_once(&mut b).await.is_pending());
            pending::<()>().await;
        }
    });
    let other = ready("other");
    for _ in 0..3 {
        executor.step();
    }
    executor.reprioritize(hold.id(), level(30));
    executor.reprioritize(hold.id(), level(10));
    executor.run_until_idle();
    drop(other);
    assert_eq!(log.take(), "b d c e other");
}

/// Each coroutine waits for the next one, in a ring (rule I8).
///
/// A change goes round once at most.
#[test]
fn a_ring_of_waiting_ends() {
    const LENGTH: usize = if cfg!(miri) { 8 } else { 1_000 };
    let executor = executor();
    let mutexes: Vec<_> = (0..LENGTH).map(|_| Rc::new(Mutex::new(()))).collect();
    let ring: Vec<_> = (0..LENGTH)
        .map(|at| {
            let (own, next) = (mutexes[at].clone(), mutexes[(at + 1) % LENGTH].clone());
            spawn(&executor, 60, async move {
                let _own = own.lock().await;
                yield_now().await;
                drop(next.lock().await);
            })
        })
        .collect();
    executor.run_until_idle();
    for at in [3, 50, 7] {
        ring[5].reprioritize(level(at));
    }
    assert_eq!(executor.live(), LENGTH);
    assert!(ring[5].cancel());
    executor.run_until_idle();
    assert_eq!(executor.live(), 0, "cancelling one undoes the deadlock");
}
