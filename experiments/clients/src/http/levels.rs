//! Tests whether a request is served at the level of its path: urgent ones overtake, and those of
//! one level do not.
//!
//! The server holds requests back until it has all of a round, each at its level, and then releases
//! them. So it makes no difference how fast this computer is, and which request is late. The kernel
//! says which answer came first.

use crate::arrivals::Arrivals;
use crate::server::{Connection, LIMIT, Server, get};
use crate::site::{self, BULK, EQUAL, URGENT};
use anyhow::{Context, Result, ensure};
use corank_clients::Tests;
use std::thread;
use std::time::{Duration, Instant};

/// Requests of a round: one that is watched, and others in front of it and behind it.
const REQUESTS: usize = 17;
/// Least number of rounds to win, of as many rounds as there are places to be sent at.
///
/// Without levels, whatever order of arrival the server serves, the watched request wins at one
/// place of all, so in one round. If the order were pure chance, it would win in each round with a
/// probability of 1/17, and in 13 of 17 with one of 2e-13 (binomial). With levels it loses only if
/// another request takes all its steps, through server, disk and network, while it takes as many.
const MOST: usize = 13;

/// Prints the results of the tests; then the server stops.
pub(crate) fn run(server: &Server) -> Result<bool> {
    let mut tests = Tests::default();
    tests.judge("urgent_requests_overtake", urgent_requests_overtake(server));
    tests.judge("requests_of_one_level_do_not", equal_ones_do_not(server));
    server.order("stop")?;
    Ok(tests.end())
}

fn urgent_requests_overtake(server: &Server) -> Result<()> {
    let won = rounds_won(server, URGENT)?;
    ensure!(
        won >= MOST,
        "the urgent request is the first in only {won} of {REQUESTS} rounds"
    );
    Ok(())
}

/// Checks the control: only its level lets the urgent one win.
fn equal_ones_do_not(server: &Server) -> Result<()> {
    let won = rounds_won(server, EQUAL)?;
    ensure!(
        won < MOST,
        "a request that is no more urgent is the first in {won} of {REQUESTS} rounds: these rounds find nothing out"
    );
    Ok(())
}

/// Returns in how many rounds a request for `path` has its answer before all others.
///
/// The others are for [`BULK`]. Each round has the request at another place.
fn rounds_won(server: &Server, path: &str) -> Result<usize> {
    let mut connections = (0..REQUESTS)
        .map(|_| server.connect())
        .collect::<Result<Vec<_>>>()?;
    let mut won = 0;
    for place in 0..REQUESTS {
        let path = |number| if number == place { path } else { BULK };
        let first = round(server, &mut connections, path)
            .with_context(|| format!("the round with place {place}"))?;
        won += usize::from(first == place);
    }
    println!("{path} is the first in {won} of {REQUESTS} rounds");
    Ok(won)
}

/// Sends a request on each connection, and releases all at once.
///
/// Returns the connection of the first answer.
fn round<'p>(
    server: &Server,
    connections: &mut [Connection],
    path: impl Fn(usize) -> &'p str,
) -> Result<usize> {
    let arrivals = Arrivals::on(connections)?;
    server.order("hold")?;
    for (number, connection) in connections.iter_mut().enumerate() {
        connection.send(get(path(number)).as_bytes())?;
    }
    wait_until_held(server, connections.len() as u64)?;
    server.order("go")?;
    let first = arrivals.next()?;
    for (number, connection) in connections.iter_mut().enumerate() {
        let answer = connection.answer()?.with_status(200)?;
        let path = path(number);
        ensure!(answer.body == site::content(path), "{path}: other bytes");
    }
    Ok(first)
}

/// Waits until the server has this many requests, and knows how urgent they are.
fn wait_until_held(server: &Server, requests: u64) -> Result<()> {
    let start = Instant::now();
    while server.status()?["held"] != requests {
        ensure!(start.elapsed() < LIMIT, "requests do not arrive");
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
