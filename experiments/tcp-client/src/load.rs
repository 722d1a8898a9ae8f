//! Connections that ask the server for products of matrices, and check every answer.
//!
//! As in seed 002, section 5: a connection sends a request, waits for the answer, and sends the next one when the period is over, counted
//! from the request before; an answer that is late delays the next request.

use anyhow::{Context, Result, ensure};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// An answer that takes longer is lost, and its connection ends.
const LIMIT: Duration = Duration::from_secs(20);
/// Stack of a connection's thread, in bytes.
const STACK: usize = 128 << 10;

/// What a greeting asks for.
const REQUESTS: u8 = 0;
const MEMORY: u8 = 1;
const END: u8 = 2;

/// One kind of load.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// Port of this computer that leads to the server.
    pub(crate) port: u16,
    /// The level of each connection.
    pub(crate) levels: Vec<u8>,
    /// Rows of a matrix.
    pub(crate) rows: u16,
    /// From one request to the next.
    pub(crate) period: Duration,
    /// How long requests are sent.
    pub(crate) duration: Duration,
}

/// What came of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connection {
    pub(crate) level: u8,
    /// From each request to its answer.
    pub(crate) latencies: Vec<Duration>,
    /// Answers with other bytes than they should have.
    pub(crate) wrong: u64,
    /// Requests without an answer.
    pub(crate) lost: u64,
}

/// What came of a load.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) connections: Vec<Connection>,
    /// From the first request to the end.
    pub(crate) took: Duration,
    /// Bytes of memory that the server's machine used for all connections.
    pub(crate) memory: u64,
}

/// Opens all connections, then lets them ask for as long as the load says.
pub(crate) fn run(load: &Load) -> Result<Outcome> {
    let before = memory(load.port)?;
    let mut streams = Vec::new();
    for (number, &level) in load.levels.iter().enumerate() {
        let mut stream = greet(load.port, level, REQUESTS, load.rows)
            .with_context(|| format!("connection {number}"))?;
        // The first answer shows that the connection's tasks are there.
        let mut first = Connection::default();
        ask(&mut stream, load.rows, 0, &mut first)
            .with_context(|| format!("connection {number}"))?;
        ensure!(first.wrong == 0, "connection {number}: a wrong answer");
        streams.push((level, stream));
    }
    let memory = memory(load.port)?.saturating_sub(before);
    let ready = Barrier::new(streams.len() + 1);
    let (connections, took) = thread::scope(|scope| {
        let count = streams.len() as u32;
        let mut threads = Vec::new();
        for (number, (level, stream)) in streams.into_iter().enumerate() {
            let ready = &ready;
            // Spread over the period.
            let delay = load.period * number as u32 / count;
            let body = move || {
                ready.wait();
                thread::sleep(delay);
                let mut connection = Connection {
                    level,
                    ..Connection::default()
                };
                if converse(stream, load, &mut connection).is_err() {
                    connection.lost += 1;
                }
                connection
            };
            let builder = thread::Builder::new().stack_size(STACK);
            threads.push(builder.spawn_scoped(scope, body).context("no thread")?);
        }
        ready.wait();
        let start = Instant::now();
        let connections: Vec<Connection> = threads
            .into_iter()
            .map(|thread| thread.join().expect("a connection's thread does not panic"))
            .collect();
        anyhow::Ok((connections, start.elapsed()))
    })?;
    Ok(Outcome {
        connections,
        took,
        memory,
    })
}

/// Lets the server end.
pub(crate) fn end(port: u16) -> Result<()> {
    greet(port, 0, END, 0).map(|_| ())
}

fn memory(port: u16) -> Result<u64> {
    let mut bytes = [0; 8];
    greet(port, 0, MEMORY, 0)?.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn greet(port: u16, level: u8, purpose: u8, rows: u16) -> Result<TcpStream> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
        .with_context(|| format!("can't connect to port {port}"))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    let [low, high] = rows.to_le_bytes();
    stream.write_all(&[level, purpose, low, high])?;
    Ok(stream)
}

fn converse(mut stream: TcpStream, load: &Load, connection: &mut Connection) -> Result<()> {
    let start = Instant::now();
    let mut due = start;
    let mut number = 0;
    while start.elapsed() < load.duration {
        number += 1;
        ask(&mut stream, load.rows, number, connection)?;
        due = (due + load.period).max(Instant::now());
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

/// One request and its answer.
fn ask(stream: &mut TcpStream, rows: u16, number: u64, connection: &mut Connection) -> Result<()> {
    let rows = usize::from(rows);
    let matrix: Vec<u32> = (0..rows * rows)
        .map(|place| (place as u32 ^ number as u32).wrapping_mul(2_654_435_761))
        .collect();
    let start = Instant::now();
    stream.write_all(&message(number, &matrix))?;
    let mut answer = vec![0; 8 + 4 * rows * rows];
    stream.read_exact(&mut answer)?;
    connection.latencies.push(start.elapsed());
    connection.wrong += u64::from(answer != message(number, &square(&matrix, rows)));
    Ok(())
}

fn message(number: u64, matrix: &[u32]) -> Vec<u8> {
    let values = matrix.iter().flat_map(|value| value.to_le_bytes());
    number.to_le_bytes().into_iter().chain(values).collect()
}

fn square(matrix: &[u32], rows: usize) -> Vec<u32> {
    let mut product = vec![0_u32; rows * rows];
    for row in 0..rows {
        for at in 0..rows {
            let left = matrix[row * rows + at];
            for column in 0..rows {
                let cell = &mut product[row * rows + column];
                *cell = cell.wrapping_add(left.wrapping_mul(matrix[at * rows + column]));
            }
        }
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares() {
        assert_eq!(square(&[3], 1), [9]);
        assert_eq!(square(&[1, 2, 3, 4], 2), [7, 10, 15, 22]);
    }

    #[test]
    fn a_message_is_a_number_and_a_matrix() {
        assert_eq!(message(1, &[2]), [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0]);
    }
}
