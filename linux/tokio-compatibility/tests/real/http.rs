//! HTTP: axum's server with tower-http, clients of reqwest and hyper-util, codecs of tokio-util.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use corank_linux::tower::PriorityLayer;
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
