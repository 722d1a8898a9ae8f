//! Connections that ask the server for products of matrices, and check every answer.
//!
//! As in seed 002, section 5: a connection sends a request, waits for the answer, and sends the next one when the period is over, counted
//! from the request before; an answer that is late delays the next request. Under overload there is no period, and a connection may have
//! several requests under way: it sends the next one when the oldest is answered, and for all answers that have come at once the next ones in
//! one piece. So the client, which has to share this computer with the machine, takes as little of it as it can.

use crate::stamped::Room;
use anyhow::{Context, Result, bail, ensure};
use corank_client::connect;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// An answer that takes longer is lost, and its connection ends.
const LIMIT: Duration = Duration::from_secs(20);
/// The level of connections that nobody says anything of.
pub(crate) const DEFAULT_LEVEL: u8 = 32;
/// Answers that are read at once.
const AT_ONCE: usize = 16;
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
    /// Where the server is reached.
    pub(crate) server: SocketAddrV4,
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
    /// From each request to when its answer had come to this computer, where that is known: without what the client's thread waited for a
    /// processor.
    pub(crate) wire_latencies: Vec<Duration>,
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
    let before = state(load.server)?.memory;
    let mut streams = Vec::new();
    for (number, &kind) in load.kinds.iter().enumerate() {
        let mut stream = greet(load.server, kind.level, REQUESTS, load.rows)
            .with_context(|| format!("connection {number}"))?;
        // The first answer shows that the connection's tasks are there.
        let mut first = Connection::default();
        Dialogue::new(&mut stream, load.rows, &mut first)?
            .ask_and_check()
            .with_context(|| format!("connection {number}"))?;
        ensure!(first.wrong == 0, "connection {number}: a wrong answer");
        streams.push((kind, stream));
    }
    let memory = state(load.server)?.memory.saturating_sub(before);
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
                connection.lost = converse(stream, kind, load, &mut connection)?;
                Ok(connection)
            };
            let builder = thread::Builder::new().stack_size(STACK);
            threads.push(builder.spawn_scoped(scope, body).context("no thread")?);
        }
        ready.wait();
        let connections: Vec<Connection> = threads
            .into_iter()
            .map(|thread| thread.join().expect("a connection's thread does not panic"))
            .collect::<Result<_>>()?;
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
pub(crate) fn end(server: SocketAddrV4) -> Result<()> {
    let ask = || -> Result<()> {
        let mut answer = [0];
        greet(server, 0, END, 0)?.read_exact(&mut answer)?;
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
pub(crate) fn state(server: SocketAddrV4) -> Result<State> {
    let mut bytes = [0; 32];
    greet(server, 0, STATE, 0)?.read_exact(&mut bytes)?;
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
    pub(crate) fn another(&mut self, server: SocketAddrV4, limit: Duration) -> bool {
        let open = || -> Result<TcpStream> {
            let mut stream = greet(server, DEFAULT_LEVEL, REQUESTS, 1)?;
            stream.set_read_timeout(Some(limit))?;
            let mut first = Connection::default();
            Dialogue::new(&mut stream, 1, &mut first)?.ask_and_check()?;
            ensure!(first.wrong == 0, "a wrong answer");
            Ok(stream)
        };
        let opened = open();
        let is_open = opened.is_ok();
        self.0.extend(opened);
        is_open
    }
}

fn greet(server: SocketAddrV4, level: u8, purpose: u8, rows: u16) -> Result<TcpStream> {
    let mut stream = connect(server, LIMIT)?;
    let [low, high] = rows.to_le_bytes();
    stream.write_all(&[level, purpose, low, high, 0, 0, 0, 0])?;
    Ok(stream)
}

/// Returns how many requests were not answered.
fn converse(
    mut stream: TcpStream,
    kind: Kind,
    load: &Load,
    connection: &mut Connection,
) -> Result<u64> {
    let mut dialogue = Dialogue::new(&mut stream, load.rows, connection)?;
    // What is broken off then has requests under way that nobody answers.
    let _ = dialogue.run(kind, load.duration);
    Ok(dialogue.under_way.len() as u64)
}

/// Requests and answers of one connection.
struct Dialogue<'a> {
    stream: &'a mut TcpStream,
    rows: usize,
    connection: &'a mut Connection,
    /// The last request's number.
    number: u64,
    /// The requests that are not answered yet, oldest first.
    under_way: VecDeque<Asked>,
    /// Requests that are not sent yet.
    outgoing: Vec<u8>,
    /// Bytes of an answer.
    length: usize,
    /// What has come and was not looked at yet: as many bytes as [`arrived`](Self::arrived) says.
    incoming: Vec<u8>,
    arrived: usize,
    /// When the last of it came to this computer, where that is known.
    came: Option<SystemTime>,
    room: Room,
}

/// A request that was sent.
struct Asked {
    /// By this program's clock, and by the one that Linux stamps what comes with.
    sent: (Instant, SystemTime),
    /// The answer that it should get.
    expected: Vec<u8>,
}

impl<'a> Dialogue<'a> {
    fn new(stream: &'a mut TcpStream, rows: u16, connection: &'a mut Connection) -> Result<Self> {
        let rows = usize::from(rows);
        let length = 8 + 4 * rows * rows;
        Ok(Self {
            room: Room::new(stream)?,
            stream,
            rows,
            connection,
            number: 0,
            under_way: VecDeque::new(),
            outgoing: Vec::new(),
            length,
            incoming: vec![0; length * AT_ONCE],
            arrived: 0,
            came: None,
        })
    }

    fn run(&mut self, kind: Kind, duration: Duration) -> Result<()> {
        let start = Instant::now();
        let mut due = start;
        let mut wanted = kind.window;
        while start.elapsed() < duration {
            self.ask(wanted)?;
            wanted = self.check()?;
            if start.elapsed() < duration {
                self.connection.in_time += wanted as u64;
            }
            due = (due + kind.period).max(Instant::now());
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        while !self.under_way.is_empty() {
            self.check()?;
        }
        Ok(())
    }

    fn ask_and_check(&mut self) -> Result<()> {
        self.ask(1)?;
        self.check().map(drop)
    }

    /// Sends so many requests, in one piece.
    fn ask(&mut self, count: usize) -> Result<()> {
        let mut expected = Vec::with_capacity(count);
        for _ in 0..count {
            self.number += 1;
            let number = self.number;
            let matrix: Vec<u32> = (0..self.rows * self.rows)
                .map(|place| (place as u32 ^ number as u32).wrapping_mul(2_654_435_761))
                .collect();
            self.outgoing.extend(message(number, &matrix));
            expected.push(message(number, &square(&matrix, self.rows)));
        }
        // Now: making them takes a while.
        let sent = (Instant::now(), SystemTime::now());
        let asked = expected
            .into_iter()
            .map(|expected| Asked { sent, expected });
        self.under_way.extend(asked);
        self.stream.write_all(&self.outgoing)?;
        self.outgoing.clear();
        Ok(())
    }

    /// Waits for the answer to the oldest request, and looks at all answers that have come by then. Returns how many these are.
    fn check(&mut self) -> Result<usize> {
        while self.arrived < self.length {
            let free = &mut self.incoming[self.arrived..];
            let (count, came) = self.room.read(self.stream, free)?;
            self.came = came;
            self.arrived += count;
        }
        let count = self.arrived / self.length;
        let (now, came) = (Instant::now(), self.came);
        for answer in self.incoming[..self.arrived].chunks_exact(self.length) {
            let Some(Asked { sent, expected }) = self.under_way.pop_front() else {
                bail!("an answer that nobody has asked for");
            };
            self.connection.latencies.push(now - sent.0);
            let on_the_wire = came.and_then(|came| came.duration_since(sent.1).ok());
            self.connection.wire_latencies.extend(on_the_wire);
            self.connection.wrong += u64::from(answer != expected);
        }
        self.incoming
            .copy_within(count * self.length..self.arrived, 0);
        self.arrived -= count * self.length;
        Ok(count)
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
