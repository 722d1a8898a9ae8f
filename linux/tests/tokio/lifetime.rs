//! Panics, cancellation and the end of a runtime that hosts tokio.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use tokio::net::TcpListener;

use super::asserts::on_purpose;
use super::{LONG, level, workers};
use corank_linux::{Builder, JoinError, Unfinished, spawn};

/// Counts what is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_panic_ends_its_coroutine_alone() {
    workers(1).block_on(async {
        let panics = spawn(level(3), async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            on_purpose(|| panic!("on purpose"));
        });
        assert!(matches!(panics.unwrap().await, Err(JoinError::Panicked(_))));
        assert_eq!(tokio::spawn(async { 1 }).await.unwrap(), 1);
    });
}

#[test]
fn a_cancelled_coroutine_releases_what_it_has_of_tokio() {
    workers(2).block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let waits = spawn(level(9), async move { drop(listener.accept().await) }).unwrap();
        // Its first poll: it waits for a connection.
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(waits.cancel());
        assert!(matches!(waits.await, Err(JoinError::Cancelled)));
        let again = std::net::TcpListener::bind(address);
        assert!(again.is_ok(), "the port is free: {again:?}");
    });
}

#[test]
fn dropping_the_runtime_drops_coroutines_and_tasks() {
    for count in [1, 2] {
        let dropped = Arc::new(AtomicUsize::new(0));
        let runtime = workers(count);
        let (one, other) = (Counted(dropped.clone()), Counted(dropped.clone()));
        runtime.block_on(async move {
            let coroutine = async move {
                let _one = one;
                std::future::pending::<()>().await;
            };
            drop(spawn(level(40), coroutine).unwrap());
            tokio::spawn(async move {
                let _other = other;
                std::future::pending::<()>().await;
            });
        });
        drop(runtime);
        assert_eq!(dropped.load(Ordering::SeqCst), 2);
    }
}

#[test]
fn shutdown_waits_for_coroutines() {
    let runtime = workers(2);
    let (send, receive) = mpsc::channel();
    let coroutine = async move {
        tokio::time::sleep(Duration::from_millis(5)).await;
        send.send(1).unwrap();
    };
    drop(runtime.handle().spawn(level(9), coroutine));
    assert_eq!(runtime.shutdown(LONG), Ok(()));
    assert_eq!(receive.recv(), Ok(1));
}

#[test]
fn shutdown_names_what_is_left() {
    let runtime = Builder::new()
        .workers(1)
        .name("left")
        .tokio(level(32))
        .build()
        .unwrap();
    let (begun, begins) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let blocks = async move {
        begun.send(()).unwrap();
        let _ = ended.recv_timeout(LONG);
    };
    drop(runtime.handle().spawn(level(9), blocks));
    begins.recv_timeout(LONG).unwrap();
    let unfinished = runtime.shutdown(Duration::from_millis(1)).unwrap_err();
    let blocked = vec!["left-0".to_string()];
    assert_eq!(
        unfinished,
        Unfinished {
            cancelled: 1,
            blocked
        }
    );
    drop(end);
}

/// A coroutine may own its runtime: the last one to end drops it.
#[test]
fn a_coroutine_drops_its_runtime() {
    let (send, receive) = mpsc::channel();
    let runtime = workers(1);
    let handle = runtime.handle().clone();
    drop(handle.spawn(level(9), async move {
        drop(runtime);
        send.send(()).unwrap();
    }));
    receive.recv_timeout(LONG).unwrap();
}

#[test]
fn runtimes_come_and_go() {
    for round in 0..20 {
        let runtime = workers(1 + round % 2);
        let sum = runtime.block_on(async { tokio::spawn(async { 2 }).await.unwrap() });
        assert_eq!(sum, 2);
    }
    assert!(corank_linux::Handle::current().is_none());
}
