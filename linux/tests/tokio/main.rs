//! tokio inside the runtime: its I/O, timers and tasks, unchanged.

#![cfg(all(feature = "tokio", not(loom)))]

#[path = "../../../core/tests/common/asserts.rs"]
mod asserts;
#[cfg(feature = "tower")]
mod levels;
mod lifetime;
mod names;
mod order;

use std::time::Duration;

use corank_linux::{Builder, Priority, Runtime};

/// Bounds the waits of a failing test; long enough for any machine.
const LONG: Duration = Duration::from_secs(60);

fn level(level: u8) -> Priority {
    Priority::new(level).unwrap()
}

/// Starts a runtime whose tokio tasks have level 32.
fn workers(workers: usize) -> Runtime {
    let builder = Builder::new().workers(workers).tokio(level(32));
    builder.build().unwrap()
}

/// Runs a coroutine with one worker and with two; one that hangs fails.
fn run<F>(make: fn() -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    for count in [1, 2] {
        let limited = async move { tokio::time::timeout(LONG, make()).await };
        workers(count).block_on(limited).expect("it ends");
    }
}

/// The attribute's argument gives the default level to tokio's tasks, or another one.
#[cfg(feature = "macros")]
mod attributes {
    #[corank_linux::test(tokio)]
    async fn tokio_runs_in_a_test() {
        assert_eq!(tokio::spawn(async { 1 }).await.unwrap(), 1);
    }

    #[corank_linux::test(workers = 2, tokio = 40)]
    async fn tokio_has_a_level() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}
