//! The same axum router on each runtime, with each way to limit bulk requests.

use std::net::TcpListener;
use std::time::Duration;

use axum::error_handling::HandleErrorLayer;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use axum::{BoxError, Router};
use corank_linux::Priority;
use corank_linux::tower::{PriorityLayer, Shedding};
use hyper::server::conn::http1;
use hyper_util::service::TowerToHyperService;
use tower::ServiceBuilder;
use tower::limit::GlobalConcurrencyLimitLayer;
use tower::load_shed::LoadShedLayer;

use super::urgent::ANSWER;
use super::{BULK_LEVEL, BULK_WORK, CONCURRENCY, LIMIT, SLICE, URGENT_WORK};
use crate::load::{Pace, work};

/// Function that ends a server.
pub(super) type Stop = Box<dyn FnOnce()>;

/// A runtime, and what it does under overload.
pub(super) struct Model {
    /// The name in the results.
    pub(super) name: &'static str,
    /// Function that serves requests on one worker, and returns how to end that.
    pub(super) serve: fn(TcpListener, Pace) -> Stop,
}

pub(super) const MODELS: &[Model] = &[
    Model {
        name: "corank-shed",
        serve: |listener, pace| {
            let limits = Shedding::new().limit(BULK, LIMIT);
            let layer = PriorityLayer::new(level).shed(limits);
            corank(listener, router(bulk_of_corank(pace), pace).layer(layer))
        },
    },
    Model {
        name: "corank",
        serve: |listener, pace| {
            let layer = PriorityLayer::new(level);
            corank(listener, router(bulk_of_corank(pace), pace).layer(layer))
        },
    },
    Model {
        name: "tokio-limit-shed",
        serve: |listener, pace| {
            // One layer: between two, axum puts a service that is always ready.
            let refuse = async |_: BoxError| StatusCode::SERVICE_UNAVAILABLE;
            let bulk = bulk_of_tokio(pace).layer(
                ServiceBuilder::new()
                    .layer(HandleErrorLayer::new(refuse))
                    .layer(LoadShedLayer::new())
                    .layer(GlobalConcurrencyLimitLayer::new(CONCURRENCY)),
            );
            tokio(listener, router(bulk, pace))
        },
    },
    Model {
        name: "tokio-limit",
        serve: |listener, pace| {
            let bulk = bulk_of_tokio(pace).layer(GlobalConcurrencyLimitLayer::new(CONCURRENCY));
            tokio(listener, router(bulk, pace))
        },
    },
];

const URGENT: Priority = Priority::MOST_URGENT;
const BULK: Priority = Priority::at::<BULK_LEVEL>();

fn level(request: &Request) -> Priority {
    match request.uri().path() {
        "/bulk" => BULK,
        _ => URGENT,
    }
}

fn bulk_of_corank(pace: Pace) -> MethodRouter {
    get(move || compute(pace, corank_linux::yield_now))
}

fn bulk_of_tokio(pace: Pace) -> MethodRouter {
    get(move || compute(pace, tokio::task::yield_now))
}

/// Computes as a bulk request does; `pause` lets others run.
async fn compute<F: Future>(pace: Pace, pause: impl Fn() -> F) {
    for _ in 0..BULK_WORK.as_micros() / SLICE.as_micros() {
        work(pace.rounds(SLICE));
        pause().await;
    }
}

fn router(bulk: MethodRouter, pace: Pace) -> Router {
    let urgent = async move || {
        work(pace.rounds(URGENT_WORK));
        ANSWER
    };
    (Router::new().route("/urgent", get(urgent))).route("/bulk", bulk)
}

/// Sends the client's time back, with refusals as well.
async fn send_back(mut request: Request, next: Next) -> Response {
    let sent = request.headers_mut().remove("sent");
    let mut response = next.run(request).await;
    if let Some(sent) = sent {
        response.headers_mut().insert("sent", sent);
    }
    response
}

fn corank(listener: TcpListener, router: Router) -> Stop {
    use corank_linux::{Builder, net, spawn};

    let runtime = Builder::new().workers(1).build().expect("a thread");
    let service = TowerToHyperService::new(router.layer(from_fn(send_back)));
    let serve = async move {
        let listener = net::TcpListener::from_std(listener).expect("a descriptor");
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            stream.set_nodelay(true).expect("a TCP socket");
            let connection = http1::Builder::new().serve_connection(stream, service.clone());
            drop(spawn(URGENT, connection));
        }
    };
    drop(runtime.handle().spawn(URGENT, serve));
    Box::new(move || drop(runtime.shutdown(Duration::ZERO)))
}

fn tokio(listener: TcpListener, router: Router) -> Stop {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a thread");
    runtime.spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a descriptor");
        let service = router.layer(from_fn(send_back));
        // axum::serve sets no option of the sockets by itself.
        let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
            stream.set_nodelay(true).expect("a TCP socket");
        });
        axum::serve(listener, service).await.expect("it serves");
    });
    Box::new(move || runtime.shutdown_timeout(Duration::from_secs(1)))
}
