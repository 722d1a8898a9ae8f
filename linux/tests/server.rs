//! The server of the examples: requests over real sockets choose their level, and a server that is
//! stopped answers pending requests.

#![cfg(all(feature = "hyper", feature = "tower", not(loom)))]

#[path = "../../core/tests/common/asserts.rs"]
mod asserts;
#[path = "../examples/server.rs"]
#[allow(dead_code, reason = "its `main`")]
mod server;

use std::io::ErrorKind;
use std::time::Duration;

use corank_linux::hyper::Spawner;
use corank_linux::net::{TcpListener, TcpStream};
use corank_linux::signal::{Signal, Signals};
use corank_linux::time::timeout;
use corank_linux::{Builder, Priority, spawn};
use futures::future::join_all;
use futures::{AsyncReadExt, AsyncWriteExt};
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http2;

/// Bounds the waits of a failing test; long enough for any machine.
const LONG: Duration = Duration::from_secs(60);

/// Reads until the text ends with `end`.
async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut text = String::new();
    let mut buffer = [0; 512];
    while !text.ends_with(end) {
        let read = timeout(LONG, stream.read(&mut buffer)).await;
        let count = read.expect("an answer").unwrap();
        assert!(count > 0, "the server closed the connection after: {text}");
        text.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
    }
    text
}

async fn get(stream: &mut TcpStream, path: &str, header: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\n{header}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let answer = read_until(stream, "\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    answer.rsplit_once("\r\n").unwrap().1.trim_end().to_string()
}

/// Requests the level over one HTTP/2 connection, with each of these headers, all at once.
async fn levels_over_http2(stream: TcpStream, headers: &[&str]) -> Vec<String> {
    let connecting = http2::handshake(Spawner(Priority::DEFAULT), stream);
    let (mut sender, connection) = connecting.await.unwrap();
    let connection = spawn(Priority::DEFAULT, connection).unwrap();
    let ask = |header: &&str| {
        let request = Request::get("http://test/level").header("priority", *header);
        sender.send_request(request.body(Empty::<Bytes>::new()).unwrap())
    };
    let asked: Vec<_> = headers.iter().map(ask).collect();
    let mut levels = Vec::new();
    for answer in join_all(asked).await {
        let body = answer.unwrap().into_body().collect().await.unwrap();
        levels.push(String::from_utf8(body.to_bytes().trim_ascii().to_vec()).unwrap());
    }
    drop(sender);
    connection.await.unwrap().unwrap();
    levels
}

#[test]
fn requests_choose_levels_and_shutdown_is_graceful() {
    Builder::new().workers(2).build().unwrap().block_on(async {
        let mut signals = Signals::new([Signal::TERM]).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = async move { assert_eq!(signals.recv().await, Signal::TERM) };
        let server = spawn(Priority::DEFAULT, server::serve(listener, stop)).unwrap();

        let mut stream = TcpStream::connect(address).await.unwrap();
        for (header, level) in [
            ("", "24"),
            ("Priority: u=0\r\n", "0"),
            ("Priority: i, u=7\r\n", "56"),
            ("Priority: u=8\r\n", "24"),
        ] {
            assert_eq!(get(&mut stream, "/level", header).await, level);
        }
        let report = get(&mut stream, "/report/3000", "Priority: u=1\r\n").await;
        assert!(report.ends_with("at level 48"), "{report}");

        let other = TcpStream::connect(address).await.unwrap();
        let levels = levels_over_http2(other, &["u=7", "u=0", "i", "u=5, i"]);
        assert_eq!(timeout(LONG, levels).await.unwrap(), ["56", "0", "24", "40"]);

        // The server reports that it continues to read when the handler waits for the rest.
        let mut begun = TcpStream::connect(address).await.unwrap();
        let head = "POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 12\r\nExpect: 100-continue\r\n\r\n";
        begun.write_all(head.as_bytes()).await.unwrap();
        let goes_on = read_until(&mut begun, "\r\n\r\n").await;
        assert!(goes_on.starts_with("HTTP/1.1 100 "), "{goes_on}");
        signal_hook::low_level::raise(Signal::TERM.as_raw()).unwrap();
        // Connections without a request are closed, and no new ones are accepted.
        assert_eq!(timeout(LONG, stream.read(&mut [0])).await.unwrap().unwrap(), 0);
        let refused = TcpStream::connect(address).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        assert!(!server.has_exited());
        begun.write_all(b"last words!\n").await.unwrap();
        let answer = read_until(&mut begun, "last words!\n").await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        timeout(LONG, server).await.unwrap().unwrap().unwrap();
    });
}
