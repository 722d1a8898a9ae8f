//! A hyper server that says hello, on each runtime, with as many requests as `wrk` can get
//! answered.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::time::Duration;

use corank_linux::Order;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use serde_json::json;

use crate::print;

/// Function that starts workers of a server, and returns how to end them.
///
/// The servers are measured against each other.
type Server = fn(TcpListener, usize) -> Box<dyn FnOnce()>;
const SERVERS: &[(&str, Server)] = &[
    ("corank", |listener, workers| {
        corank(listener, workers, Order::Exact)
    }),
    ("corank-bounded", |listener, workers| {
        corank(listener, workers, Order::Bounded)
    }),
    ("tokio", tokio),
];

/// Turns of each server in a run.
///
/// The computer's speed changes from second to second, by more than the servers differ. So they
/// take turns, each time another one first.
const TURNS: u32 = 4;

pub(crate) fn measure(run: u32, quick: bool) {
    let turns = if quick { 1 } else { TURNS };
    for workers in [1, 2] {
        for turn in 0..turns {
            let first = (run + turn) as usize % SERVERS.len();
            for &(name, serve) in SERVERS.iter().cycle().skip(first).take(SERVERS.len()) {
                let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
                listener.set_nonblocking(true).expect("a socket");
                let address = listener.local_addr().expect("it is bound");
                let stop = serve(listener, workers);
                let answered = wrk(address);
                stop();
                let Some(answered) = answered else {
                    println!("hello is not measured: install wrk (Debian package `wrk`)");
                    return;
                };
                let parameters = json!({"op": "hello", "workers": workers});
                let turn = run * turns + turn;
                print(name, turn, "throughput", "1/s", answered, parameters);
            }
        }
    }
}

/// Returns the requests per second, measured for one second; `None` without `wrk`.
pub(crate) fn wrk(server: SocketAddr) -> Option<f64> {
    let output = Command::new("wrk")
        .args(["-t1", "-c64", "-d1s", &format!("http://{server}/")])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        !text.contains("Non-2xx") && !text.contains("Socket errors"),
        "the server failed:\n{text}"
    );
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Requests/sec:"));
    line.and_then(|rate| rate.trim().parse().ok())
}

async fn hello(_: Request<Incoming>) -> Result<Response<String>, Infallible> {
    Ok(Response::new("hello, world\n".to_string()))
}

fn corank(listener: TcpListener, workers: usize, order: Order) -> Box<dyn FnOnce()> {
    use corank_linux::{Builder, Priority, net, spawn};
    let builder = Builder::new().workers(workers).order(order);
    let runtime = builder.build().expect("threads");
    let serve = async move {
        let listener = net::TcpListener::from_std(listener).expect("a descriptor");
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            stream.set_nodelay(true).expect("a TCP socket");
            let connection = http1::Builder::new().serve_connection(stream, service_fn(hello));
            drop(spawn(Priority::DEFAULT, connection));
        }
    };
    drop(runtime.handle().spawn(Priority::DEFAULT, serve));
    Box::new(move || drop(runtime.shutdown(Duration::ZERO)))
}

fn tokio(listener: TcpListener, workers: usize) -> Box<dyn FnOnce()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_io()
        .build()
        .expect("threads");
    runtime.spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a descriptor");
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            stream.set_nodelay(true).expect("a TCP socket");
            let stream = hyper_util::rt::TokioIo::new(stream);
            tokio::spawn(http1::Builder::new().serve_connection(stream, service_fn(hello)));
        }
    });
    Box::new(move || runtime.shutdown_timeout(Duration::from_secs(1)))
}
