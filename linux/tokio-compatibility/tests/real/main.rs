//! Crates that need tokio, in a runtime that hosts it, each as its authors' example is written.
//!
//! Only the attribute of `main` differs from the examples, and the counterpart is a real one: a
//! server or client of the same process, or Debian's server.

#[path = "../../../../core/tests/common/asserts.rs"]
mod asserts;
mod databases;
mod http;
mod rpc;

use std::time::Duration;

use corank_linux::{Builder, Priority};

/// Bounds the waits of a failing test; long enough for any machine.
const LONG: Duration = Duration::from_secs(60);

/// Runs an example with one worker and with two; one that hangs fails.
fn run<F>(example: fn() -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    for workers in [1, 2] {
        let builder = Builder::new().workers(workers).tokio(Priority::DEFAULT);
        let limited = async move { tokio::time::timeout(LONG, example()).await };
        let runtime = builder.build().expect("threads");
        runtime.block_on(limited).expect("the example ends");
    }
}

/// Binds to a free port of this machine.
async fn listen() -> (tokio::net::TcpListener, std::net::SocketAddr) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}
