//! How long urgent requests take, alone and beside clients that ask for more than the server can do.

use crate::server::{Connection, Server};
use crate::site::{self, BULK, LARGE, URGENT};
use anyhow::{Result, ensure};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Clients that ask for large files without a pause.
const LOAD: usize = 24;

/// How long one request takes.
fn time(connection: &mut Connection, path: &str, content: &[u8]) -> Result<Duration> {
    let start = Instant::now();
    connection.fetch(path, content)?;
    Ok(start.elapsed())
}

/// The time that a share of the requests did not exceed, in microseconds.
fn quantile(times: &mut [Duration], share: f64) -> u128 {
    times.sort_unstable();
    let place = (share * (times.len() - 1) as f64).round() as usize;
    times[place].as_micros()
}

/// Prints what it finds of so many requests of each kind. Fails if an urgent request takes as long as the same file under a path that is not urgent: both are asked for in
/// turn, so that the computer's other work does not count.
pub(crate) fn run(server: &Server, requests: usize) -> Result<bool> {
    let kinds = [("urgent", URGENT), ("bulk", BULK)];
    let contents = kinds.map(|(_, path)| site::content(path));
    let measure = |about: &str| -> Result<[u128; 2]> {
        let mut connections = [server.connect()?, server.connect()?];
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..requests {
            for kind in 0..2 {
                times[kind].push(time(
                    &mut connections[kind],
                    kinds[kind].1,
                    &contents[kind],
                )?);
            }
        }
        for (kind, times) in kinds.iter().zip(&mut times) {
            println!(
                "{about}: {} p50 {} µs, p99 {} µs",
                kind.0,
                quantile(times, 0.5),
                quantile(times, 0.99)
            );
        }
        Ok(times.map(|mut times| quantile(&mut times, 0.5)))
    };
    let alone = measure("alone")?;
    let stop = AtomicBool::new(false);
    let large = site::content(LARGE);
    let loaded = thread::scope(|scope| {
        let clients: Vec<_> = (0..LOAD)
            .map(|_| {
                scope.spawn(|| -> Result<()> {
                    let mut connection = server.connect()?;
                    while !stop.load(Ordering::Relaxed) {
                        connection.fetch(LARGE, &large)?;
                    }
                    Ok(())
                })
            })
            .collect();
        let loaded = measure(&format!("beside {LOAD} downloads"));
        stop.store(true, Ordering::Relaxed);
        clients
            .into_iter()
            .try_for_each(|client| client.join().expect("a client does not panic"))?;
        loaded
    })?;
    let ratio = |part: u128, whole: u128| part as f64 / whole.max(1) as f64;
    println!(
        "urgent: {:.2} of alone; bulk: {:.2} of alone; bulk / urgent {:.2}",
        ratio(loaded[0], alone[0]),
        ratio(loaded[1], alone[1]),
        ratio(loaded[1], loaded[0])
    );
    ensure!(
        loaded[0] < loaded[1],
        "urgent requests are as slow as others"
    );
    println!("1 passed, 0 failed");
    server.order("stop")?;
    Ok(true)
}
