//! An axum server for HTTP/1.1 and HTTP/2 whose requests choose their priority, and which ends
//! gracefully on Ctrl-C or SIGTERM.
//!
//! `cargo run --release -p corank-linux --example server --features hyper,tower`, and then
//!
//! ```sh
//! curl http://127.0.0.1:8080/level                      # the level at which this was answered
//! curl -H 'priority: u=0' http://127.0.0.1:8080/level   # RFC 9218: 0 is most urgent, 7 least
//! curl http://127.0.0.1:8080/report/1000000 &           # computes for long, and delays no request
//! curl --http2-prior-knowledge http://127.0.0.1:8080/level
//! ```
//!
//! Over HTTP/2 each request of a connection is a coroutine of its own, so an urgent one overtakes
//! earlier ones.

use std::io;
use std::time::Duration;

use axum::Router;
use axum::extract::Path;
use axum::http::Request;
use axum::routing::{get, post};
use corank_linux::hyper::{Spawner, Timer};
use corank_linux::net::TcpListener;
use corank_linux::signal::{Signal, Signals};
use corank_linux::time::{sleep, timeout};
use corank_linux::tower::PriorityLayer;
use corank_linux::{Handle, Priority, current, spawn, yield_now};
use futures::future::{Either, select};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;

/// The level of connections, which only pass on requests and answers.
const CONNECTIONS: Priority = Priority::URGENT;
/// The most urgent level of a report.
const REPORTS: Priority = Priority::BULK;
/// The time for pending answers after the server was stopped; then connections are closed.
const PATIENCE: Duration = Duration::from_secs(10);

#[corank_linux::main]
async fn main() -> io::Result<()> {
    let mut signals = Signals::new([Signal::INT, Signal::TERM])?;
    let listener = TcpListener::bind("127.0.0.1:8080").await?;
    println!("http://{}", listener.local_addr()?);
    let stop = async move {
        signals.recv().await;
        println!("no more connections; those that are answered now have {PATIENCE:?}");
    };
    serve(listener, stop).await
}

/// Serves until `stop` is ready; then answers pending requests, and returns.
pub(crate) async fn serve(
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let app = TowerToHyperService::new(app());
    let mut protocols = auto::Builder::new(Spawner(CONNECTIONS));
    protocols.http1().timer(Timer);
    protocols.http2().timer(Timer);
    let open = GracefulShutdown::new();
    let mut stop = Box::pin(stop);
    loop {
        let stream = match select(Box::pin(listener.accept()), &mut stop).await {
            Either::Left((Ok((stream, _)), _)) => stream,
            Either::Left((Err(error), _)) => {
                // No descriptors, mostly: connections wait until others end.
                eprintln!("accept: {error}");
                sleep(Duration::from_millis(20)).await;
                continue;
            }
            Either::Right(_) => break,
        };
        let connection = protocols.serve_connection(stream, app.clone());
        let connection = open.watch(connection.into_owned());
        let serve = async move {
            if let Err(error) = connection.await {
                eprintln!("connection: {error}");
            }
        };
        drop(spawn(CONNECTIONS, serve)?);
    }
    drop(listener);
    if timeout(PATIENCE, open.shutdown()).await.is_err() {
        eprintln!("some requests have not been answered");
    }
    Ok(())
}

fn app() -> Router {
    Router::new()
        .route("/level", get(level))
        .route("/report/{rounds}", get(report))
        .route("/echo", post(async |body: String| body))
        .layer(PriorityLayer::new(urgency))
}

/// Returns the level that RFC 9218's header asks for; reports are never urgent.
fn urgency<B>(request: &Request<B>) -> Priority {
    let header = request.headers().get("priority");
    let urgency = header
        .and_then(|header| header.to_str().ok())
        .and_then(|header| {
            header
                .split(',')
                .find_map(|part| part.trim().strip_prefix("u="))
        })
        .and_then(|urgency| urgency.parse().ok())
        .filter(|urgency| (0..8).contains(urgency))
        .unwrap_or(3_u8);
    let asked = Priority::new(8 * urgency).expect("below 64");
    if request.uri().path().starts_with("/report/") && asked.is_more_urgent_than(REPORTS) {
        return REPORTS;
    }
    asked
}

async fn level() -> String {
    let me = Handle::current().zip(current());
    let level = me.and_then(|(runtime, me)| runtime.priority(me));
    format!("{}\n", level.expect("a coroutine's").level())
}

/// Computes, and lets others run now and then.
async fn report(Path(rounds): Path<u64>) -> String {
    let mut sum = 0_u64;
    for round in 0..rounds {
        sum = sum.wrapping_mul(31).wrapping_add(round);
        if round % 1000 == 0 {
            yield_now().await;
        }
    }
    format!("{sum}, at level {}", level().await)
}
