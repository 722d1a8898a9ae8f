//! Tests of the machine's program `tcp-server`, in each of its models.
//!
//! The requests are those of the experiments, but a fixed number of them.

use crate::dialogue::{Answers, Kind, Until};
use crate::load::{self, Group, Open};
use anyhow::{Result, ensure};
use corank_clients::Tests;
use std::net::SocketAddrV4;
use std::time::Duration;

/// Connections, one on each of this many levels.
const CONNECTIONS: u8 = 8;
/// Rows of a matrix: those of the experiments, and others for which the server's product is not
/// made.
const ROWS: [u16; 5] = [1, 2, 7, 15, 20];
/// Requests of a connection.
const REQUESTS: u64 = 100;
/// Requests under way at once: more than the server's message buffers hold.
const WINDOW: usize = 16;
/// Bytes of a connection's futures, kernel and process together: those of the COPS data, 176 and
/// 264 (docs/papers.md).
const FUTURES: u64 = 440;
/// Beginning of the names of the models in which coroutines (`C`) serve calls in the kernel (`K`)
/// and run in the process (`U`).
const COROUTINES: &str = "KCUC";
/// Time limit of a read or write: longer than anything that works takes.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs all tests, and then lets the servers end.
pub(crate) fn run(servers: &[(String, SocketAddrV4)]) -> Result<bool> {
    let mut tests = Tests::default();
    for (model, server) in servers {
        let answers = ROWS.into_iter().try_for_each(|rows| answers(*server, rows));
        tests.judge(&format!("{model}_answers"), answers);
        if model.starts_with(COROUTINES) {
            tests.judge(&format!("{model}_futures"), futures(*server));
        }
    }
    for (model, server) in servers {
        tests.judge(&format!("{model}_ends"), load::end(*server));
    }
    Ok(tests.end())
}

/// Tests that every request has its answer and every answer its request, to the end of the
/// connection.
fn answers(server: SocketAddrV4, rows: u16) -> Result<()> {
    let kinds: Vec<Kind> = (0..CONNECTIONS)
        .map(|level| Kind::new(level, 0, WINDOW))
        .collect();
    let mut group = Group::open(server, &kinds, rows)?;
    let found = group.converse(Until::Sent(REQUESTS))?;
    let surplus: u64 = group.end()?.iter().map(|answers| answers.wrong).sum();
    for Answers {
        level,
        wrong,
        lost,
        latencies,
        ..
    } in &found
    {
        let right = latencies.len() as u64 - wrong;
        ensure!(
            (right, *wrong, *lost) == (REQUESTS, 0, 0),
            "{rows} rows, level {level}: {right} of {REQUESTS} answers, {wrong} wrong ones, {lost} lost ones"
        );
    }
    ensure!(surplus == 0, "{surplus} answers without a request");
    Ok(())
}

/// Tests that connections that wait need only their tasks' futures, and a read that waits in the
/// kernel without a coroutine.
fn futures(server: SocketAddrV4) -> Result<()> {
    let mut open = Open::new();
    let mut another = || ensure_open(&mut open, server);
    another()?;
    let before = load::state(server)?;
    (1..CONNECTIONS).try_for_each(|_| another())?;
    let after = load::state(server)?;
    ensure!(
        after.coroutines <= before.coroutines,
        "{} coroutines of the kernel with one connection, {} with {CONNECTIONS}",
        before.coroutines,
        after.coroutines
    );
    let bytes = after.futures + after.waiting_read;
    ensure!(
        after.futures > 0 && bytes <= FUTURES,
        "{bytes} bytes of futures, {} of them in the kernel, instead of at most {FUTURES}",
        after.waiting_read
    );
    Ok(())
}

fn ensure_open(open: &mut Open, server: SocketAddrV4) -> Result<()> {
    ensure!(open.another(server, LIMIT), "a connection is refused");
    Ok(())
}
