//! The same urgent server and the same bulk work on each arrangement of runtimes.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use corank_linux::{Class, Priority};

use super::{BULK, Bulk, WORKERS, class};

/// Function that ends a server.
pub(super) type Stop = Box<dyn FnOnce()>;

/// One arrangement of runtimes.
pub(super) struct Model {
    /// The name in the results.
    pub(super) name: &'static str,
    /// Function that serves requests beside bulk work, and returns how to end it.
    pub(super) serve: fn(TcpListener, Arc<Bulk>) -> Stop,
}

pub(super) const MODELS: &[Model] = &[
    Model {
        name: "corank",
        serve: |listener, bulk| corank(corank_linux::Builder::new(), listener, bulk),
    },
    Model {
        name: "corank-bulk",
        serve: |listener, bulk| {
            let builder = corank_linux::Builder::new().bulk(Priority::DEFAULT, Class::Idle);
            corank(builder, listener, bulk)
        },
    },
    Model {
        name: "corank-no-spare",
        serve: |listener, bulk| {
            let builder = corank_linux::Builder::new().spare_workers(None);
            corank(builder, listener, bulk)
        },
    },
    Model {
        name: "tokio",
        serve: tokio_one,
    },
    Model {
        name: "tokio-two",
        serve: |listener, bulk| tokio_two(listener, bulk, || (), || ()),
    },
    Model {
        name: "tokio-two-nice",
        serve: |listener, bulk| tokio_two(listener, bulk, || (), class::become_nice),
    },
    Model {
        name: "tokio-two-idle",
        serve: |listener, bulk| tokio_two(listener, bulk, || (), class::become_idle),
    },
    Model {
        name: "tokio-two-slice",
        serve: |listener, bulk| tokio_two(listener, bulk, class::request_short_slice, || ()),
    },
];

fn corank(builder: corank_linux::Builder, listener: TcpListener, bulk: Arc<Bulk>) -> Stop {
    use corank_linux::{net, spawn, yield_now};
    use futures::{AsyncReadExt, AsyncWriteExt};

    const URGENT: Priority = Priority::MOST_URGENT;
    let runtime = builder.workers(WORKERS).build().expect("threads");
    let serve = async move {
        let listener = net::TcpListener::from_std(listener).expect("a descriptor");
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            stream.set_nodelay(true).expect("a TCP socket");
            let echo = async move {
                let mut bytes = [0; 256];
                while let Ok(count @ 1..) = stream.read(&mut bytes).await {
                    if stream.write_all(&bytes[..count]).await.is_err() {
                        break;
                    }
                }
            };
            drop(spawn(URGENT, echo));
        }
    };
    drop(runtime.handle().spawn(URGENT, serve));
    for _ in 0..BULK {
        let bulk = bulk.clone().run(yield_now);
        drop(runtime.handle().spawn(Priority::DEFAULT, bulk));
    }
    Box::new(move || drop(runtime.shutdown(Duration::from_secs(1))))
}

fn tokio_runtime(on_start: fn()) -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .on_thread_start(on_start)
        .enable_io()
        .build()
        .expect("threads")
}

fn spawn_server(runtime: &tokio::runtime::Runtime, listener: TcpListener) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    runtime.spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a descriptor");
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            stream.set_nodelay(true).expect("a TCP socket");
            tokio::spawn(async move {
                let mut bytes = [0; 256];
                while let Ok(count @ 1..) = stream.read(&mut bytes).await {
                    if stream.write_all(&bytes[..count]).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
}

fn spawn_bulk(runtime: &tokio::runtime::Runtime, bulk: &Arc<Bulk>) {
    for _ in 0..BULK {
        runtime.spawn(bulk.clone().run(tokio::task::yield_now));
    }
}

fn tokio_one(listener: TcpListener, bulk: Arc<Bulk>) -> Stop {
    let runtime = tokio_runtime(|| ());
    spawn_server(&runtime, listener);
    spawn_bulk(&runtime, &bulk);
    Box::new(move || runtime.shutdown_timeout(Duration::from_secs(1)))
}

/// Serves on one runtime, with bulk work on another one; each has its class of threads.
fn tokio_two(listener: TcpListener, bulk: Arc<Bulk>, urgent_class: fn(), bulk_class: fn()) -> Stop {
    let (urgent, other) = (tokio_runtime(urgent_class), tokio_runtime(bulk_class));
    spawn_server(&urgent, listener);
    spawn_bulk(&other, &bulk);
    Box::new(move || {
        other.shutdown_timeout(Duration::from_secs(1));
        urgent.shutdown_timeout(Duration::from_secs(1));
    })
}
