//! The same server on each runtime: one worker thread, a coroutine for each connection, one for
//! each request.
//!
//! A long request lets others run after each slice of its work.

use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use corank_linux::Builder;

use crate::load::{self, Load, REQUEST, work};

/// One runtime.
pub(crate) struct Model {
    /// The name in the results.
    pub(crate) name: &'static str,
    /// Function that serves a whole load.
    pub(crate) serve: fn(Arc<Load>),
}

pub(crate) const ALL: &[Model] = &[
    Model {
        name: "corank",
        serve: |load| corank(load, Builder::new()),
    },
    Model {
        name: "corank-demotion",
        serve: |load| corank(load, Builder::new().demotion(load::demotion())),
    },
    Model {
        name: "tokio",
        serve: tokio,
    },
    Model {
        name: "async-executor",
        serve: async_executor,
    },
];

/// Serves one request; `pause` lets others run.
async fn handle<F: Future>(load: Arc<Load>, number: usize, pause: impl Fn() -> F) {
    let mut left = load.requests[number].rounds;
    while left > load.slice {
        work(load.slice);
        left -= load.slice;
        pause().await;
    }
    work(left);
    load.finish(number);
}

/// Parser of the numbers of requests in the bytes that were read.
#[derive(Default)]
struct Numbers {
    rest: Vec<u8>,
}

impl Numbers {
    fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(usize)) {
        self.rest.extend_from_slice(bytes);
        let whole = self.rest.len() / REQUEST * REQUEST;
        for number in self.rest[..whole].chunks_exact(REQUEST) {
            each(number_of(number));
        }
        self.rest.drain(..whole);
    }
}

fn number_of(bytes: &[u8]) -> usize {
    u32::from_le_bytes(bytes.try_into().expect("four bytes")) as usize
}

fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("a socket");
    let address = listener.local_addr().expect("it is bound");
    (listener, address)
}

/// Returns a level: the levels are eight apart, so that there is room between them.
fn level(number: usize) -> corank_linux::Priority {
    corank_linux::Priority::new(8 * number as u8).expect("below 64")
}

fn corank(load: Arc<Load>, builder: Builder) {
    use corank_linux::net;
    use corank_linux::{Priority, spawn, yield_now};
    use futures::AsyncReadExt;

    let (listener, address) = listen();
    let runtime = builder.workers(1).build().expect("a thread");
    let inner = load.clone();
    let serve = async move {
        let listener = net::TcpListener::from_std(listener).expect("a descriptor");
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut first = [0; REQUEST];
            stream.read_exact(&mut first).await.expect("a level");
            let (load, at) = (inner.clone(), level(number_of(&first)));
            let connection = async move {
                let (mut numbers, mut buffer) = (Numbers::default(), [0; 4096]);
                while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                    numbers.feed(&buffer[..count], |number| {
                        drop(spawn(at, handle(load.clone(), number, yield_now)));
                    });
                }
            };
            drop(spawn(at, connection));
        }
    };
    drop(runtime.handle().spawn(Priority::MOST_URGENT, serve));
    load.send(address);
    let _ = runtime.shutdown(Duration::ZERO);
}

fn tokio(load: Arc<Load>) {
    use tokio::io::AsyncReadExt;

    let (listener, address) = listen();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_io()
        .build()
        .expect("a thread");
    let inner = load.clone();
    runtime.spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a descriptor");
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut first = [0; REQUEST];
            stream.read_exact(&mut first).await.expect("a level");
            let load = inner.clone();
            tokio::spawn(async move {
                let (mut numbers, mut buffer) = (Numbers::default(), [0; 4096]);
                while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                    numbers.feed(&buffer[..count], |number| {
                        tokio::spawn(handle(load.clone(), number, tokio::task::yield_now));
                    });
                }
            });
        }
    });
    load.send(address);
    runtime.shutdown_timeout(Duration::from_secs(1));
}

/// Serves with one executor for each level on one thread, asked in order of urgency.
fn async_executor(load: Arc<Load>) {
    use async_executor::LocalExecutor;
    use async_io::Async;
    use futures::future::{Either, select};
    use futures::{AsyncReadExt, FutureExt};

    let (listener, address) = listen();
    let (stop, stopped) = futures::channel::oneshot::channel::<()>();
    let (end, ended) = mpsc::channel();
    let inner = load.clone();
    let server = thread::spawn(move || {
        let executors: Rc<Vec<LocalExecutor<'static>>> = Rc::new(
            (0..inner.shape.levels())
                .map(|_| LocalExecutor::new())
                .collect(),
        );
        let mut connections = Vec::new();
        let most_urgent = executors.clone();
        let accept = async move {
            let listener = Async::new(listener).expect("a descriptor");
            let mut senders = Vec::new();
            loop {
                let (mut stream, _) = listener.accept().await.expect("a connection");
                let mut first = [0; REQUEST];
                stream.read_exact(&mut first).await.expect("a level");
                let (at, load) = (number_of(&first), inner.clone());
                let executors = most_urgent.clone();
                let home = executors.clone();
                senders.push(executors[at].spawn(async move {
                    let (mut numbers, mut buffer) = (Numbers::default(), [0; 4096]);
                    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                        numbers.feed(&buffer[..count], |number| {
                            let pause = futures_lite_yield;
                            home[at].spawn(handle(load.clone(), number, pause)).detach();
                        });
                    }
                }));
            }
        };
        connections.push(executors[0].spawn(accept));
        let run = async {
            loop {
                // Polls in order of urgency; waits for all if none is ready.
                let ticks = executors
                    .iter()
                    .map(|executor| executor.tick().boxed_local());
                first_of(ticks.collect()).await;
            }
        };
        async_io::block_on(async {
            match select(stopped, Box::pin(run)).await {
                Either::Left(_) | Either::Right(_) => {}
            }
        });
        // Tasks refer to the executors that own them.
        connections.clear();
        let _ = end.send(());
    });
    load.send(address);
    let _ = stop.send(());
    let _ = ended.recv_timeout(Duration::from_secs(10));
    let _ = server.join();
}

/// Polls in order until one is ready, which ends all.
async fn first_of(mut futures: Vec<futures::future::LocalBoxFuture<'_, ()>>) {
    std::future::poll_fn(|cx| {
        match futures
            .iter_mut()
            .any(|future| future.as_mut().poll(cx).is_ready())
        {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
}

/// Wakes itself, then waits.
async fn futures_lite_yield() {
    let mut yielded = false;
    std::future::poll_fn(move |cx| {
        if std::mem::replace(&mut yielded, true) {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}
