//! Connections that ask the server for products of matrices, and check every answer.
//!
//! As in seed 002, section 5: a connection sends a request, waits for the answer, and sends the next one when the period is over, counted
//! from the request before; an answer that is late delays the next request. Under overload there is no period, and a connection may have
//! several requests under way: it sends the next one when the oldest is answered.

use anyhow::{Context, Result, ensure};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// An answer that takes longer is lost, and its connection ends.
const LIMIT: Duration = Duration::from_secs(20);
/// The level of connections that nobody says anything of.
pub(crate) const DEFAULT_LEVEL: u8 = 32;
/// Stack of a connection's thread, in bytes.
const STACK: usize = 128 << 10;

/// What a greeting asks for.
const REQUESTS: u8 = 0;
const STATE: u8 = 1;
const END: u8 = 2;

/// What a connection does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) level: u8,
    /// From one request to the next.
    period: Duration,
    /// Requests that are under way at once, at least 1.
    window: usize,
}

impl Kind {
    /// The period is in milliseconds.
    pub(crate) fn new(level: u8, period: u64, window: usize) -> Self {
        Self {
            level,
            period: Duration::from_millis(period),
            window,
        }
    }
}

/// One kind of load.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// Port of this computer that leads to the server.
    pub(crate) port: u16,
    /// What each connection does.
    pub(crate) kinds: Vec<Kind>,
    /// Rows of a matrix.
    pub(crate) rows: u16,
    /// How long requests are sent.
    pub(crate) duration: Duration,
}

/// What came of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connection {
    pub(crate) level: u8,
    /// Answers that came while requests were sent.
    pub(crate) in_time: u64,
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
    /// How long requests were sent.
    pub(crate) took: Duration,
    /// Bytes of memory that the server's machine used for all connections.
    pub(crate) memory: u64,
}

/// Opens all connections, then lets them ask for as long as the load says.
pub(crate) fn run(load: &Load) -> Result<Outcome> {
    let before = state(load.port)?.memory;
    let mut streams = Vec::new();
    for (number, &kind) in load.kinds.iter().enumerate() {
        let mut stream = greet(load.port, kind.level, REQUESTS, load.rows)
            .with_context(|| format!("connection {number}"))?;
        // The first answer shows that the connection's tasks are there.
        let mut first = Connection::default();
        Dialogue::new(&mut stream, load.rows, &mut first)
            .ask_and_check()
            .with_context(|| format!("connection {number}"))?;
        ensure!(first.wrong == 0, "connection {number}: a wrong answer");
        streams.push((kind, stream));
    }
    let memory = state(load.port)?.memory.saturating_sub(before);
    let ready = Barrier::new(streams.len() + 1);
    let connections = thread::scope(|scope| {
        let count = streams.len() as u32;
        let mut threads = Vec::new();
        for (number, (kind, stream)) in streams.into_iter().enumerate() {
            let ready = &ready;
            // Spread over the period.
            let delay = kind.period * number as u32 / count;
            let body = move || {
                ready.wait();
                thread::sleep(delay);
                let mut connection = Connection {
                    level: kind.level,
                    ..Connection::default()
                };
                connection.lost = converse(stream, kind, load, &mut connection);
                connection
            };
            let builder = thread::Builder::new().stack_size(STACK);
            threads.push(builder.spawn_scoped(scope, body).context("no thread")?);
        }
        ready.wait();
        let connections: Vec<Connection> = threads
            .into_iter()
            .map(|thread| thread.join().expect("a connection's thread does not panic"))
            .collect();
        anyhow::Ok(connections)
    })?;
    Ok(Outcome {
        connections,
        took: load.duration,
        memory,
    })
}

/// Lets the server end.
///
/// # Errors
/// When it does not answer, even if it is asked again: a machine that is full of connections that are being closed may not.
pub(crate) fn end(port: u16) -> Result<()> {
    let ask = || -> Result<()> {
        let mut answer = [0];
        greet(port, 0, END, 0)?.read_exact(&mut answer)?;
        ensure!(answer == [END], "the server misunderstood the wish to end");
        Ok(())
    };
    ask().or_else(|_| ask())
}

/// What the server says of itself and its machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    /// Bytes of memory that are in use.
    pub(crate) memory: u64,
    /// Coroutines of the kernel.
    pub(crate) coroutines: u64,
    /// Bytes of the futures of the last connection's tasks; 0 if they are threads.
    pub(crate) futures: u64,
    /// Bytes that the kernel keeps of a read that waits without a coroutine.
    pub(crate) waiting_read: u64,
}

/// Asks for it.
pub(crate) fn state(port: u16) -> Result<State> {
    let mut bytes = [0; 32];
    greet(port, 0, STATE, 0)?.read_exact(&mut bytes)?;
    let [memory, coroutines, futures, waiting_read] =
        [0, 8, 16, 24].map(|at| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte])));
    Ok(State {
        memory,
        coroutines,
        futures,
        waiting_read,
    })
}

/// Connections that are open, and have been answered once.
#[derive(Debug, Default)]
pub(crate) struct Open(Vec<TcpStream>);

impl Open {
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Opens another one; false if it is refused or not answered in time.
    pub(crate) fn another(&mut self, port: u16, limit: Duration) -> bool {
        let open = || -> Result<TcpStream> {
            let mut stream = greet(port, DEFAULT_LEVEL, REQUESTS, 1)?;
            stream.set_read_timeout(Some(limit))?;
            let mut first = Connection::default();
            Dialogue::new(&mut stream, 1, &mut first).ask_and_check()?;
            ensure!(first.wrong == 0, "a wrong answer");
            Ok(stream)
        };
        let opened = open();
        let is_open = opened.is_ok();
        self.0.extend(opened);
        is_open
    }
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

/// Returns how many requests were not answered.
fn converse(mut stream: TcpStream, kind: Kind, load: &Load, connection: &mut Connection) -> u64 {
    let mut dialogue = Dialogue::new(&mut stream, load.rows, connection);
    // What is broken off then has requests under way that nobody answers.
    let _ = dialogue.run(kind, load.duration);
    dialogue.under_way.len() as u64
}

/// Requests and answers of one connection.
struct Dialogue<'a> {
    stream: &'a mut TcpStream,
    rows: usize,
    connection: &'a mut Connection,
    /// The last request's number.
    number: u64,
    /// When the requests were sent that are not answered yet, and the answers that they should get. Oldest first.
    under_way: VecDeque<(Instant, Vec<u8>)>,
    answer: Vec<u8>,
}

impl<'a> Dialogue<'a> {
    fn new(stream: &'a mut TcpStream, rows: u16, connection: &'a mut Connection) -> Self {
        let rows = usize::from(rows);
        Self {
            stream,
            rows,
            connection,
            number: 0,
            under_way: VecDeque::new(),
            answer: vec![0; 8 + 4 * rows * rows],
        }
    }

    fn run(&mut self, kind: Kind, duration: Duration) -> Result<()> {
        let start = Instant::now();
        let mut due = start;
        for _ in 1..kind.window {
            self.ask()?;
        }
        while start.elapsed() < duration {
            self.ask_and_check()?;
            self.connection.in_time += u64::from(start.elapsed() < duration);
            due = (due + kind.period).max(Instant::now());
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        while !self.under_way.is_empty() {
            self.check()?;
        }
        Ok(())
    }

    fn ask_and_check(&mut self) -> Result<()> {
        self.ask()?;
        self.check()
    }

    /// Sends a request.
    fn ask(&mut self) -> Result<()> {
        self.number += 1;
        let number = self.number;
        let matrix: Vec<u32> = (0..self.rows * self.rows)
            .map(|place| (place as u32 ^ number as u32).wrapping_mul(2_654_435_761))
            .collect();
        let request = message(number, &matrix);
        let expected = message(number, &square(&matrix, self.rows));
        self.under_way.push_back((Instant::now(), expected));
        self.stream.write_all(&request)?;
        Ok(())
    }

    /// Waits for the answer to the oldest request.
    fn check(&mut self) -> Result<()> {
        self.stream.read_exact(&mut self.answer)?;
        if let Some((sent, expected)) = self.under_way.pop_front() {
            self.connection.latencies.push(sent.elapsed());
            self.connection.wrong += u64::from(self.answer != expected);
        }
        Ok(())
    }
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
