//! A hyper server whose requests choose their own priority, and hyper's timer and executor.

#![cfg(all(feature = "hyper", not(loom)))]

#[path = "../../core/tests/common/asserts.rs"]
mod asserts;

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corank_linux::hyper::{Spawner, Timer};
use corank_linux::net::{TcpListener, TcpStream};
use corank_linux::{Builder, Handle, Priority, at, current, spawn, yield_now};
use futures::{AsyncReadExt, AsyncWriteExt};
use hyper::rt::{Executor, Timer as _};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};

fn level(level: u8) -> Priority {
    Priority::new(level).unwrap()
}

/// Returns the level of the current coroutine.
fn own_level() -> u8 {
    let me = Handle::current().zip(current()).unwrap();
    me.0.priority(me.1).unwrap().level()
}

/// Answers with the level at which the answer was made; the path contains the wanted level.
async fn answer(request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    let wanted = request
        .uri()
        .path()
        .trim_start_matches('/')
        .parse()
        .unwrap();
    let text = at(level(wanted), async {
        yield_now().await;
        own_level().to_string()
    });
    Ok(Response::new(text.await))
}

async fn get(stream: &mut TcpStream, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let mut buffer = [0; 512];
    loop {
        let count = stream.read(&mut buffer).await.unwrap();
        assert!(count > 0, "the server closed the connection");
        answer.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&answer);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            assert!(head.starts_with("HTTP/1.1 200"), "{head}");
            return body.to_string();
        }
    }
}

#[test]
fn each_request_has_its_own_level() {
    Builder::new().workers(2).build().unwrap().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serve = async move {
            let (stream, _) = listener.accept().await.unwrap();
            http1::Builder::new()
                .timer(Timer)
                .header_read_timeout(Duration::from_secs(60))
                .serve_connection(stream, service_fn(answer))
                .await
                .unwrap();
            own_level()
        };
        let serve = spawn(level(20), serve).unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        for wanted in ["50", "3", "63", "20"] {
            assert_eq!(get(&mut stream, &format!("/{wanted}")).await, wanted);
        }
        drop(stream);
        assert_eq!(serve.await.unwrap(), 20, "where it was before");
    });
}

/// A coroutine that becomes less urgent lets others run first; one whose future is dropped has its
/// former level again.
#[test]
fn a_level_lasts_as_long_as_its_future() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let inner = log.clone();
    let runtime = Builder::new().workers(1).build().unwrap();
    let done = runtime.block_on_at(level(10), async move {
        let log = inner.clone();
        let other = spawn(level(30), async move { log.lock().unwrap().push("other") });
        let log = inner.clone();
        at(
            level(40),
            async move { log.lock().unwrap().push("stretch") },
        )
        .await;
        let mut dropped = Box::pin(at(level(50), std::future::pending::<()>()));
        // Polled once, and again after the other one.
        for _ in 0..2 {
            let polled = futures::poll!(&mut dropped);
            assert!(polled.is_pending());
        }
        assert_eq!(own_level(), 50);
        drop(dropped);
        other.unwrap().await.unwrap();
        own_level()
    });
    assert_eq!(done, 10);
    assert_eq!(*log.lock().unwrap(), ["other", "stretch"]);
}

/// A sleep that is reset keeps its allocation, and ends at the last deadline.
#[test]
fn a_hyper_sleep_can_be_reset() {
    Builder::new().workers(1).build().unwrap().block_on(async {
        let mut slept = Timer.sleep(Duration::from_secs(3600));
        assert!(futures::poll!(slept.as_mut()).is_pending());
        let place = std::ptr::from_ref(&*slept).addr();
        Timer.reset(&mut slept, Timer.now());
        assert_eq!(std::ptr::from_ref(&*slept).addr(), place);
        slept.await;
        Timer.sleep_until(Timer.now()).await;
    });
}

#[test]
fn hyper_spawns_on_a_level() {
    let runtime = Builder::new().workers(1).build().unwrap();
    let found = runtime.block_on(async {
        let (sender, receiver) = async_channel::bounded(1);
        Spawner(level(7)).execute(async move { sender.send(own_level()).await.unwrap() });
        receiver.recv().await.unwrap()
    });
    assert_eq!(found, 7);
}
