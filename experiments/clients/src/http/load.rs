//! Tests with many requests.

use crate::check::stops_in_order;
use crate::server::Server;
use crate::site::{self, BULK, MIDDLE, MIDDLE_TARGET, URGENT};
use anyhow::{Context, Result, ensure};
use corank_clients::Tests;
use std::thread;

/// Clients at a time.
const CLIENTS: usize = 16;
/// Requests on one connection.
const BY_CONNECTION: usize = 50;

/// Clients that bring all memory of the server and the kernel to a size that [`CLIENTS`] never
/// need.
const TO_BEGIN_WITH: usize = 3 * CLIENTS;

/// Sends many requests, after which the server has as much in use as before them, and stops.
///
/// The requests need a server that has had no other clients. QEMU takes a connection before the
/// machine does. It tries for more than a minute to pass on what came when the machine had no room,
/// even from a client that is gone. Such a request is answered and counted at some time without a
/// reader. The tests with more clients than there is room for leave some of these requests.
pub(crate) fn run(server: &Server, requests: usize) -> Result<bool> {
    let mut tests = Tests::default();
    many_requests(server, TO_BEGIN_WITH, TO_BEGIN_WITH * BY_CONNECTION)?;
    let before = server.footprint_at_rest()?;
    let many = many_requests(server, CLIENTS, requests)
        .and_then(|()| server.wait_until_drained(&before))
        .and_then(|growth| {
            ensure!(growth == 0, "the heap grew by {growth} pages");
            Ok(())
        });
    tests.judge(&format!("{requests}_requests"), many);
    tests.judge("stops_in_order", stops_in_order(server));
    Ok(tests.end())
}

/// Sends many requests by many clients, on many connections, and compares each answer.
///
/// Afterwards the server has counted them all.
fn many_requests(server: &Server, clients: usize, requests: usize) -> Result<()> {
    let before = server.status()?["answered"];
    let client = |count: usize| -> Result<()> {
        let urgent = site::content(URGENT);
        let bulk = site::content(BULK);
        let middle = site::content(MIDDLE);
        let mut left = count;
        while left > 0 {
            let mut connection = server.connect()?;
            for number in 0..left.min(BY_CONNECTION) {
                match number % 10 {
                    0 => connection.fetch(MIDDLE_TARGET, &middle)?,
                    5 => connection.fetch(BULK, &bulk)?,
                    _ => connection.fetch(URGENT, &urgent)?,
                };
                left -= 1;
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..clients)
            .map(|number| {
                let share = requests * (number + 1) / clients - requests * number / clients;
                scope.spawn(move || client(share).with_context(|| format!("client {number}")))
            })
            .collect();
        running
            .into_iter()
            .try_for_each(|client| client.join().expect("a client does not panic"))
    })?;
    // An answer counts when its coroutine goes on, which may be after the client has it.
    server.footprint_at_rest()?;
    let answered = server.status()?["answered"] - before;
    ensure!(
        answered == requests as u64,
        "the server has counted {answered} answers"
    );
    Ok(())
}
