//! Shows the effect of priorities on this machine: 100 bulk coroutines compute, while one answers
//! pings on a socket. First all have the same priority, then the answers are urgent.
//!
//! `cargo run --release -p corank-linux --example difference`

use std::io::{Read, Write};
use std::os::unix::net::UnixStream as Blocking;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use corank_linux::net::UnixStream;
use corank_linux::{Builder, Priority, yield_now};
use futures::{AsyncReadExt, AsyncWriteExt};

const PINGS: usize = 300;
const BULK: usize = 100;

fn main() -> std::io::Result<()> {
    let urgent = Priority::MOST_URGENT;
    for (what, answers) in [
        ("the same priority", Priority::LEAST_URGENT),
        ("urgent answers", urgent),
    ] {
        let mut times = pings(answers)?;
        times.sort();
        println!(
            "{what:>18}: a ping takes {:>9.1?}, one in a hundred more than {:>9.1?}",
            times[PINGS / 2],
            times[PINGS * 99 / 100]
        );
    }
    Ok(())
}

/// Measures each ping while one worker is busy with bulk work.
fn pings(answers: Priority) -> std::io::Result<Vec<Duration>> {
    let runtime = Builder::new().workers(1).build()?;
    let (mut here, there) = Blocking::pair()?;
    let stop = Arc::new(AtomicBool::new(false));
    for _ in 0..BULK {
        let stop = stop.clone();
        let bulk = async move {
            while !stop.load(Ordering::Relaxed) {
                compute(Duration::from_micros(50));
                yield_now().await;
            }
        };
        (runtime.handle())
            .spawn(Priority::LEAST_URGENT, bulk)
            .expect("memory");
    }
    let answer = async move {
        let mut there = UnixStream::from_std(there)?;
        let mut ping = [0];
        while there.read(&mut ping).await? > 0 {
            there.write_all(&ping).await?;
        }
        Ok::<_, std::io::Error>(())
    };
    drop(runtime.handle().spawn(answers, answer).expect("memory"));
    let mut times = Vec::new();
    for _ in 0..PINGS {
        // Each ping comes while the worker is busy with other work.
        std::thread::sleep(Duration::from_millis(1));
        let start = Instant::now();
        here.write_all(&[1])?;
        here.read_exact(&mut [0])?;
        times.push(start.elapsed());
    }
    stop.store(true, Ordering::Relaxed);
    Ok(times)
}

fn compute(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}
