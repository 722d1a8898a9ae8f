//! Urgent requests, which come by a clock.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use corank_linux::net::TcpStream;
use corank_linux::time::{sleep_until, timeout_at};
use corank_linux::{Builder, Priority, spawn};
use futures::{AsyncReadExt, AsyncWriteExt};

use super::{TRIAL, URGENT_RATE, counts};
use crate::load::Random;
use crate::long_poll::class;

/// The connections. Each has a Poisson process of its own, and the requests of one come one after
/// the other, so there are enough that they seldom wait for each other.
const CONNECTIONS: u64 = 16;
/// The time after the trial in which late answers are waited for.
const PATIENCE: Duration = Duration::from_secs(2);
const REQUEST: &[u8] = b"GET /urgent HTTP/1.1\r\nHost: test\r\n\r\n";
/// The end of the answer.
pub(super) const ANSWER: &str = "urgent\n";

/// Sends requests for the time of a trial, and returns their latencies in microseconds.
///
/// A latency runs from when the request was due, and to the end if it has no answer.
pub(super) fn send(server: SocketAddr, seed: u64) -> Vec<f64> {
    let builder = Builder::new().workers(1).spare_workers(None);
    let runtime = builder.build().expect("a thread");
    let (results, all) = mpsc::channel();
    runtime.block_on(async move {
        // This is the thread of all coroutines.
        drop(spawn(Priority::MOST_URGENT, async {
            class::request_short_slice()
        }));
        let begun = Instant::now();
        let connections: Vec<_> = (0..CONNECTIONS)
            .map(|number| {
                let random = Random::new(seed * CONNECTIONS + number);
                let connection = connection(server, random, begun, results.clone());
                spawn(Priority::DEFAULT, connection).expect("memory")
            })
            .collect();
        for connection in connections {
            connection.await.expect("no panic");
        }
    });
    all.into_iter().collect()
}

/// Sends the requests of one connection.
async fn connection(
    server: SocketAddr,
    mut random: Random,
    begun: Instant,
    results: mpsc::Sender<f64>,
) {
    let mut due = Duration::ZERO;
    let all_due = std::iter::from_fn(|| {
        let pause = -random.unit().ln() * CONNECTIONS as f64 / URGENT_RATE;
        due += Duration::from_secs_f64(pause);
        (due < TRIAL).then_some(due)
    });
    let end = begun + TRIAL + PATIENCE;
    let mut stream = TcpStream::connect(server)
        .await
        .expect("the server listens");
    stream.set_nodelay(true).expect("a TCP socket");
    for due in all_due {
        sleep_until(begun + due).await;
        // After the end the rest is late, too.
        let _late = timeout_at(end, ask(&mut stream)).await;
        if counts(due) {
            let latency = begun.elapsed() - due;
            let _ = results.send(latency.as_secs_f64() * 1e6);
        }
    }
}

async fn ask(stream: &mut TcpStream) {
    stream.write_all(REQUEST).await.expect("it is open");
    let (mut answer, mut length) = ([0; 1024], 0);
    while !answer[..length].ends_with(ANSWER.as_bytes()) {
        let count = stream
            .read(&mut answer[length..])
            .await
            .expect("it is open");
        assert!(count > 0, "the server closed a connection");
        length += count;
    }
    assert!(
        answer.starts_with(b"HTTP/1.1 200 "),
        "an urgent request failed"
    );
}
