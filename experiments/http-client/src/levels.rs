//! Whether urgent requests overtake others, beside clients that ask for more than the server can do.

use crate::server::{Connection, Server, get};
use crate::site::{self, BULK, LARGE, URGENT};
use anyhow::{Context, Result, ensure};
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Clients that ask for large files without a pause.
const LOAD: usize = 24;
/// The share of urgent requests that overtake where levels do something, and do not where they are alike.
const OVERTAKE: f64 = 0.75;

/// How the server was told to rank the paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ranks {
    /// One path is more urgent than the other.
    Apart,
    /// Both have one level: what is found here comes from something else.
    Alike,
}

/// The time that a share of the requests did not exceed, in microseconds.
fn quantile(times: &mut [Duration], share: f64) -> u128 {
    times.sort_unstable();
    let place = (share * (times.len() - 1) as f64).round() as usize;
    times[place].as_micros()
}

/// Asks so many times for a file that is not urgent and at once, behind that on another connection, for an urgent one. Fails if the urgent
/// answer does not come first most times; or if it does where both have one level. The order of two answers is the server's: the computer's
/// other work holds up both.
pub(crate) fn run(server: &Server, requests: usize, ranks: Ranks) -> Result<bool> {
    let stop = AtomicBool::new(false);
    let large = site::content(LARGE);
    let first = thread::scope(|scope| {
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
        let first = races(server, requests);
        stop.store(true, Ordering::Relaxed);
        clients
            .into_iter()
            .try_for_each(|client| client.join().expect("a client does not panic"))?;
        first
    })?;
    let share = first as f64 / requests as f64;
    println!("{ranks:?}: beside {LOAD} downloads {first} of {requests} urgent requests overtook");
    match ranks {
        Ranks::Apart => ensure!(share >= OVERTAKE, "urgent requests do not overtake"),
        Ranks::Alike => ensure!(
            share < OVERTAKE,
            "requests of one level overtake: this test finds nothing out"
        ),
    }
    println!("1 passed, 0 failed");
    server.order("stop")?;
    Ok(true)
}

/// How many urgent requests have their answer before the others that were sent in front of them.
fn races(server: &Server, requests: usize) -> Result<usize> {
    let kinds = [BULK, URGENT];
    let contents = kinds.map(site::content);
    let mut times = [Vec::new(), Vec::new()];
    let mut connections = [server.connect()?, server.connect()?];
    let mut first = 0;
    for _ in 0..requests {
        let start = Instant::now();
        for (connection, path) in connections.iter_mut().zip(kinds) {
            connection.send(get(path).as_bytes())?;
        }
        // The urgent one: when it is here, has the other one come?
        for kind in [1, 0] {
            let answer = connections[kind].answer()?.with_status(200)?;
            times[kind].push(start.elapsed());
            ensure!(
                answer.body == contents[kind],
                "{}: other bytes",
                kinds[kind]
            );
            first += usize::from(kind == 1 && !has_come(&connections[0])?);
        }
    }
    for (path, times) in kinds.iter().zip(&mut times) {
        let [p50, p99] = [0.5, 0.99].map(|share| quantile(times, share));
        println!("{path}: p50 {p50} µs, p99 {p99} µs");
    }
    Ok(first)
}

/// Whether something of an answer is there, of which nothing was read yet.
fn has_come(connection: &Connection) -> Result<bool> {
    let stream = connection.stream();
    stream.set_nonblocking(true)?;
    let found = stream.peek(&mut [0]);
    stream.set_nonblocking(false)?;
    match found {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
        found => found.map(|_| true).context("looking for an answer"),
    }
}
