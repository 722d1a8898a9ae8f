//! HTTP: axum's server with tower-http, clients of reqwest and hyper-util, codecs of tokio-util.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use corank_linux::tower::{PriorityLayer, Shedding};
use corank_linux::{Handle, Priority, current};
use futures::{SinkExt, StreamExt};
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio_rustls::TlsAcceptor;
use tokio_util::codec::{Framed, LinesCodec};
use tower_http::services::ServeDir;
use tower_http::timeout::TimeoutLayer;

use super::{listen, run};

async fn level() -> String {
    let (runtime, me) = Handle::current().zip(current()).expect("a coroutine");
    runtime.priority(me).unwrap().level().to_string()
}

fn serve(listener: tokio::net::TcpListener, router: Router) {
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
}

/// Installs rustls's provider, which reqwest leaves to the program.
fn client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .build()
        .unwrap()
}

#[test]
fn axum_and_reqwest() {
    run(|| async {
        let router = Router::new()
            .route("/", get(|| async { "Hello, World!" }))
            .route(
                "/{name}",
                get(|Path(name): Path<String>| async { Json(name) }),
            );
        let (listener, address) = listen().await;
        serve(listener, router);
        let client = client();
        let answer = client
            .get(format!("http://{address}/"))
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.text().await.unwrap(), "Hello, World!");
        // Through the pool of connections.
        let requests =
            (0..50).map(|number| client.get(format!("http://{address}/{number}")).send());
        for (number, answer) in futures::future::join_all(requests)
            .await
            .into_iter()
            .enumerate()
        {
            let text = answer.unwrap().text().await.unwrap();
            assert_eq!(text, format!("\"{number}\""));
        }
    });
}

#[test]
fn axum_ends_gracefully() {
    run(|| async {
        let (listener, address) = listen().await;
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let router = Router::new().route("/", get(|| async { "last" }));
        let server =
            axum::serve(listener, router).with_graceful_shutdown(async move { drop(ended.await) });
        let server = tokio::spawn(async move { server.await.unwrap() });
        let answer = client()
            .get(format!("http://{address}/"))
            .send()
            .await
            .unwrap();
        assert_eq!(answer.text().await.unwrap(), "last");
        end.send(()).unwrap();
        server.await.unwrap();
    });
}

/// Handlers of `axum::serve` run on the level of their request.
#[test]
fn requests_of_axum_have_levels() {
    run(|| async {
        let layer = PriorityLayer::new(|request: &axum::extract::Request| {
            let bulk = request.uri().path().starts_with("/report");
            Priority::new(if bulk { 48 } else { 8 }).unwrap()
        });
        let router = Router::new()
            .route("/report", get(level))
            .route("/order", get(level));
        let (listener, address) = listen().await;
        serve(listener, router.layer(layer));
        let client = client();
        for (path, expected) in [("report", "48"), ("order", "8"), ("report", "48")] {
            let answer = client
                .get(format!("http://{address}/{path}"))
                .send()
                .await
                .unwrap();
            assert_eq!(answer.text().await.unwrap(), expected);
        }
    });
}

/// A report that is ready all the time keeps others out; orders and what comes later are served.
#[test]
fn axum_refuses_reports_under_overload() {
    run(|| async {
        let holds = Arc::new(AtomicBool::new(false));
        let (begin, mut begun) = tokio::sync::mpsc::unbounded_channel();
        let held = holds.clone();
        let report = async move || {
            begin.send(()).unwrap();
            let start = Instant::now();
            while held.load(Ordering::Relaxed) || start.elapsed() < Duration::from_millis(1) {
                corank_linux::yield_now().await;
            }
            "a long report"
        };
        let choose = |request: &axum::extract::Request| match request.uri().path() {
            "/report" => Priority::BULK,
            _ => Priority::URGENT,
        };
        let limits = Shedding::new().limit(Priority::MOST_URGENT, Duration::from_nanos(1));
        let router = Router::new()
            .route("/report", get(report))
            .route("/order", get(level))
            .layer(PriorityLayer::new(choose).shed(limits));
        let (listener, address) = listen().await;
        serve(listener, router);
        let client = client();
        let report = || client.get(format!("http://{address}/report")).send();
        assert_eq!(report().await.unwrap().status(), StatusCode::OK);
        begun.recv().await.unwrap();

        // As many as there are workers are admitted: one at least, two at most.
        holds.store(true, Ordering::Relaxed);
        let workers = corank_linux::Handle::current().unwrap().tokio().unwrap();
        let workers = workers.metrics().num_workers();
        let mut admitted = Vec::new();
        for _ in 0..workers {
            let report = client.get(format!("http://{address}/report")).send();
            admitted.push(tokio::spawn(report));
            begun.recv().await.unwrap();
        }
        let refused = report().await.unwrap();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(refused.headers()["retry-after"], "1");
        let order = client.get(format!("http://{address}/order")).send().await;
        assert_eq!(order.unwrap().text().await.unwrap(), "8");
        holds.store(false, Ordering::Relaxed);
        for report in admitted {
            assert_eq!(report.await.unwrap().unwrap().status(), StatusCode::OK);
        }
        assert_eq!(report().await.unwrap().status(), StatusCode::OK);
    });
}

/// A client that goes away takes its request with it: the coroutine is cancelled, and the next one
/// is admitted.
#[test]
fn a_client_that_leaves_makes_room() {
    run(|| async {
        let (begin, mut begun) = tokio::sync::mpsc::unbounded_channel();
        let report = async move |request: axum::extract::Request| {
            begin.send(()).unwrap();
            let start = Instant::now();
            let is_endless = request.uri().query().is_some();
            while is_endless || start.elapsed() < Duration::from_millis(1) {
                corank_linux::yield_now().await;
            }
        };
        let limits = Shedding::new().limit(Priority::MOST_URGENT, Duration::from_nanos(1));
        let layer = PriorityLayer::new(|_: &axum::extract::Request| Priority::BULK).shed(limits);
        let (listener, address) = listen().await;
        serve(
            listener,
            Router::new().route("/report", get(report)).layer(layer),
        );
        let client = client();
        let report = async || {
            let url = format!("http://{address}/report");
            client.get(url).send().await.unwrap().status()
        };
        assert_eq!(report().await, StatusCode::OK);
        begun.recv().await.unwrap();
        let workers = corank_linux::Handle::current().unwrap().tokio().unwrap();
        let mut leaving = Vec::new();
        for _ in 0..workers.metrics().num_workers() {
            let url = format!("http://{address}/report?endless");
            leaving.push(tokio::spawn(client.get(url).send()));
            begun.recv().await.unwrap();
        }
        assert_eq!(report().await, StatusCode::SERVICE_UNAVAILABLE);
        for request in leaving {
            request.abort();
        }
        // The server notices a closed connection when it next reads.
        while report().await != StatusCode::OK {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn reqwest_with_rustls() {
    run(|| async {
        let client = client();
        let names = vec!["localhost".to_string()];
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let config = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let (listener, address) = listen().await;
        tokio::spawn(async move {
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = acceptor.accept(stream).await.unwrap();
            let mut request = [0; 1024];
            let count = stream.read(&mut request).await.unwrap();
            assert!(request[..count].starts_with(b"GET / HTTP/1.1\r\n"));
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\nsecret";
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
        });
        drop(client);
        let certificate = reqwest::Certificate::from_der(cert.der()).unwrap();
        let client = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([certificate]);
        let client = client.build().unwrap();
        let url = format!("https://localhost:{}/", address.port());
        let answer = client.get(url).send().await.unwrap();
        assert_eq!(answer.text().await.unwrap(), "secret");
    });
}

#[test]
fn tower_http_times_out_and_serves_files() {
    run(|| async {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("page.txt"), "a file").unwrap();
        let slow = get(|| async { tokio::time::sleep(super::LONG).await });
        let timeout =
            TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, Duration::from_millis(5));
        let router = Router::new()
            .route("/slow", slow)
            .layer(timeout)
            .fallback_service(ServeDir::new(folder.path()));
        let (listener, address) = listen().await;
        serve(listener, router);
        let client = client();
        let answer = client
            .get(format!("http://{address}/slow"))
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), StatusCode::REQUEST_TIMEOUT);
        let answer = client
            .get(format!("http://{address}/page.txt"))
            .send()
            .await
            .unwrap();
        assert_eq!(answer.text().await.unwrap(), "a file");
        let answer = client
            .get(format!("http://{address}/absent"))
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    });
}

#[test]
fn the_client_of_hyper_util() {
    run(|| async {
        let (listener, address) = listen().await;
        serve(
            listener,
            Router::new().route("/", get(|| async { "pooled" })),
        );
        let client: Client<_, Empty<bytes::Bytes>> =
            Client::builder(hyper_util::rt::TokioExecutor::new()).build(HttpConnector::new());
        for _ in 0..3 {
            let url = format!("http://{address}/").parse().unwrap();
            let answer = client.get(url).await.unwrap();
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body, "pooled");
        }
    });
}

#[test]
fn codecs_of_tokio_util() {
    run(|| async {
        let (listener, address) = listen().await;
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut lines = Framed::new(stream, LinesCodec::new());
            while let Some(line) = lines.next().await {
                lines.send(line.unwrap().to_uppercase()).await.unwrap();
            }
        });
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let mut lines = Framed::new(stream, LinesCodec::new());
        for word in ["one", "two"] {
            lines.send(word).await.unwrap();
            assert_eq!(lines.next().await.unwrap().unwrap(), word.to_uppercase());
        }
    });
}
