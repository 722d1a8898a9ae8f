//! Compatibility tests: crates that know nothing of this runtime do here what their documentation shows, on two workers.
//!
//! Each module uses one crate, after its published examples. Nothing is adapted to the runtime but what the examples leave to one: spawning,
//! sleeping, sockets.

#![cfg(not(loom))]

#[path = "../../../core/tests/common/asserts.rs"]
mod asserts;
mod async_broadcast;
mod async_lock;
mod async_stream;
mod async_tungstenite;
mod event_listener;
mod futures;
#[cfg(feature = "hyper")]
mod hyper;
mod tokio_sync;

use std::time::Duration;

use corank_linux::time::timeout;
use corank_linux::{Builder, JoinHandle, Priority, spawn};

/// Runs an example; one that hangs fails in the end, on whatever machine.
fn run<T: Send + 'static>(example: impl Future<Output = T> + Send + 'static) -> T {
    let runtime = Builder::new().workers(2).build().unwrap();
    let limited = timeout(Duration::from_secs(60), example);
    runtime.block_on(limited).expect("it doesn't hang")
}

/// What the examples spawn, on a level each.
fn start<F>(level: u8, future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    spawn(Priority::new(level).unwrap(), future).unwrap()
}
