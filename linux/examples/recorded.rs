//! A service that records itself: urgent requests beside bulk work.
//!
//! ```sh
//! cargo run -p corank-linux --features recording --example recorded
//! cargo run -p corank-top -- trace recorded.corank
//! ```

use std::time::{Duration, Instant};

use corank_linux::{Builder, Priority, spawn, time, yield_now};

/// Answers a request each 200 µs.
async fn answer_requests(requests: u32) {
    for _ in 0..requests {
        time::sleep(Duration::from_micros(200)).await;
        let request = spawn(Priority::URGENT, answer()).expect("memory");
        request.await.expect("it answers");
    }
}

async fn answer() {
    compute(Duration::from_micros(20));
    yield_now().await;
    compute(Duration::from_micros(20));
}

/// Computes in polls of 100 µs.
async fn write_report(polls: u32) {
    for _ in 0..polls {
        compute(Duration::from_micros(100));
        yield_now().await;
    }
}

fn compute(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn main() -> std::io::Result<()> {
    let runtime = Builder::new()
        .workers(2)
        .name("recorded")
        .record("recorded.corank")
        .build()?;
    runtime.block_on(async {
        let requests = spawn(Priority::URGENT, answer_requests(200))?;
        for _ in 0..4 {
            spawn(Priority::BULK, write_report(200))?;
        }
        requests.await.map_err(std::io::Error::other)
    })
}
