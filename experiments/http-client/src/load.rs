//! Many requests.

use crate::server::Server;
use crate::site::{self, BULK, MIDDLE, MIDDLE_TARGET, URGENT};
use anyhow::{Context, Result, ensure};
use std::thread;

/// Clients at a time.
const CLIENTS: usize = 16;
/// Requests on one connection.
const BY_CONNECTION: usize = 50;

/// So many requests by [`CLIENTS`] clients, on many connections; each answer is compared. Afterwards the server has counted them all.
pub(crate) fn many_requests(server: &Server, requests: usize) -> Result<()> {
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
        let running: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let share = requests * (number + 1) / CLIENTS - requests * number / CLIENTS;
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
    // Maybe more: QEMU passes on what clients have sent that are gone, when the machine has not answered at first.
    ensure!(
        answered >= requests as u64,
        "the server has counted {answered} answers"
    );
    Ok(())
}
