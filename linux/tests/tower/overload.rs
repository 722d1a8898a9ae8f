//! An axum server whose only worker is inside a long poll: reports are refused, orders are not.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::routing::get;
use corank_linux::hyper::Spawner;
use corank_linux::net::TcpListener;
use corank_linux::tower::{PriorityLayer, Shedding};
use corank_linux::{Builder, Priority, spawn};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;

/// Bounds the waits of a failing test; long enough for any machine.
const LONG: Duration = Duration::from_secs(60);

/// Serves until the runtime ends.
async fn serve(listener: TcpListener, app: Router) {
    let service = TowerToHyperService::new(app);
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let service = service.clone();
        let connection = async move {
            let protocols = auto::Builder::new(Spawner(Priority::URGENT));
            let _closed = protocols.serve_connection(stream, service).await;
        };
        spawn(Priority::URGENT, connection).unwrap();
    }
}

/// Returns the answer to a request of a connection of its own.
fn ask(server: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn is_served(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 200 OK\r\n")
}

#[test]
fn reports_are_refused_while_the_worker_is_held_and_orders_are_not() {
    let (begin, begun) = mpsc::channel();
    let (end, ended) = mpsc::channel();
    let ended = Arc::new(Mutex::new(ended));
    let report = move || {
        begin.send(()).unwrap();
        ended.lock().unwrap().recv_timeout(LONG).unwrap();
        async { "a long report" }
    };
    let level = |request: &Request| match request.uri().path() {
        "/report" => Priority::BULK,
        _ => Priority::URGENT,
    };
    let limits = Shedding::new().limit(Priority::MOST_URGENT, Duration::from_nanos(1));
    let app = Router::new()
        .route("/report", get(async move || report().await))
        .route("/order", get(async || "ordered"))
        .layer(PriorityLayer::new(level).shed(limits));
    let runtime = Builder::new().workers(1).build().unwrap();
    let entered = runtime.enter();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    let listener = TcpListener::from_std(listener).unwrap();
    let accepting = runtime
        .handle()
        .spawn(Priority::URGENT, serve(listener, app));
    drop(entered);

    // The layer learns how long a report takes.
    end.send(()).unwrap();
    assert!(is_served(&ask(server, "/report")));
    begun.recv_timeout(LONG).unwrap();

    let held = thread::spawn(move || ask(server, "/report"));
    begun.recv_timeout(LONG).unwrap();
    // A spare worker serves the connections, which are more urgent than the report.
    for _ in 0..3 {
        let refused = ask(server, "/report");
        assert!(
            refused.starts_with("HTTP/1.1 503 Service Unavailable\r\n"),
            "{refused}"
        );
        assert!(refused.contains("\r\nretry-after: 1\r\n"), "{refused}");
        assert!(is_served(&ask(server, "/order")));
    }
    end.send(()).unwrap();
    assert!(is_served(&held.join().unwrap()));
    end.send(()).unwrap();
    assert!(is_served(&ask(server, "/report")));
    drop(accepting);
}
