//! Compatibility tests: crates that do not know this runtime run the examples of their
//! documentation, on two workers.
//!
//! Each module uses one crate, after its published examples. Only spawning, sleeping and sockets
//! are adapted, which the examples leave to a runtime.

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

/// Runs an example; one that hangs fails, on any machine.
fn run<T: Send + 'static>(example: impl Future<Output = T> + Send + 'static) -> T {
    let runtime = Builder::new().workers(2).build().unwrap();
    let limited = timeout(Duration::from_secs(60), example);
    runtime.block_on(limited).expect("the example ends")
}

/// Spawns the coroutines of the examples, each on its own level.
fn start<F>(level: u8, future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    spawn(Priority::new(level).unwrap(), future).unwrap()
}
