//! Connections that ask the server for products of matrices, and check every answer.

use crate::dialogue::{Answers, Dialogue, Kind, Until};
use crate::problems::Problems;
use anyhow::{Context, Result, ensure};
use corank_clients::connect;
use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

/// Longest time that an answer may take; after that it is lost, and its connection ends.
const LIMIT: Duration = Duration::from_secs(20);
/// Level of connections for which none is given.
pub(crate) const DEFAULT_LEVEL: u8 = 32;
/// Stack of a connection's thread, in bytes.
const STACK: usize = 128 << 10;

/// The things that a greeting can ask for.
const REQUESTS: u8 = 0;
const STATE: u8 = 1;
const END: u8 = 2;

/// Connections to one server, all of them open.
#[derive(Debug)]
pub(crate) struct Group(Vec<(Kind, Dialogue)>);

impl Group {
    /// Opens a connection of each of these kinds, for matrices with this many rows.
    ///
    /// # Errors
    /// When one of them gets no answer, or a wrong one.
    pub(crate) fn open(server: SocketAddrV4, kinds: &[Kind], rows: u16) -> Result<Self> {
        let problems = Arc::new(Problems::new(rows));
        let open = |(number, kind): (u32, &Kind)| {
            let dialogue = open(server, kind.level, number, &problems, LIMIT);
            Ok((
                *kind,
                dialogue.with_context(|| format!("connection {number}"))?,
            ))
        };
        let all = (0..).zip(kinds).map(open);
        all.collect::<Result<_>>().map(Self)
    }

    /// Lets all of them ask at the same time, for as long as `until` says.
    ///
    /// # Errors
    /// When there is no thread for one.
    pub(crate) fn converse(&mut self, until: Until) -> Result<Vec<Answers>> {
        let count = self.0.len() as u32;
        let ready = Barrier::new(self.0.len());
        thread::scope(|scope| {
            let mut threads = Vec::new();
            for (number, (kind, dialogue)) in (0..).zip(&mut self.0) {
                let (kind, ready) = (*kind, &ready);
                // Spread over the period.
                let delay = kind.period * number / count;
                let body = move || {
                    ready.wait();
                    thread::sleep(delay);
                    dialogue.converse(kind, until)
                };
                let builder = thread::Builder::new().stack_size(STACK);
                threads.push(builder.spawn_scoped(scope, body).context("no thread")?);
            }
            let join = |thread: thread::ScopedJoinHandle<'_, Answers>| {
                thread.join().expect("a connection's thread does not panic")
            };
            Ok(threads.into_iter().map(join).collect())
        })
    }

    /// Ends all of them.
    ///
    /// Returns what came then of each: answers, or beginnings of one, without a request.
    ///
    /// # Errors
    /// When the server does not end one of them too.
    pub(crate) fn end(self) -> Result<Vec<Answers>> {
        let end = |(kind, dialogue): (Kind, Dialogue)| {
            Ok(Answers {
                level: kind.level,
                wrong: dialogue.end()?,
                ..Answers::default()
            })
        };
        self.0.into_iter().map(end).collect()
    }
}

/// Lets the server end.
///
/// # Errors
/// When it does not answer, even if it is asked again. A machine that is full of connections that
/// are being closed may not.
pub(crate) fn end(server: SocketAddrV4) -> Result<()> {
    let ask = || -> Result<()> {
        let mut answer = [0];
        greet(server, 0, END, 0)?.read_exact(&mut answer)?;
        ensure!(answer == [END], "the server misunderstood the wish to end");
        Ok(())
    };
    ask().or_else(|_| ask())
}

/// State of the server and its machine, as the server reports it.
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

/// Asks the server for its state.
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
#[derive(Debug)]
pub(crate) struct Open {
    problems: Arc<Problems>,
    all: Vec<Dialogue>,
}

impl Open {
    /// Creates a group without connections.
    pub(crate) fn new() -> Self {
        Self {
            problems: Arc::new(Problems::new(1)),
            all: Vec::new(),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// Opens another connection; returns false if it is refused or not answered in time.
    pub(crate) fn another(&mut self, server: SocketAddrV4, limit: Duration) -> bool {
        let number = self.all.len() as u32;
        let opened = open(server, DEFAULT_LEVEL, number, &self.problems, limit);
        let is_open = opened.is_ok();
        self.all.extend(opened);
        is_open
    }
}

/// Opens a connection that answers in time; its number is no other one's.
fn open(
    server: SocketAddrV4,
    level: u8,
    number: u32,
    problems: &Arc<Problems>,
    limit: Duration,
) -> Result<Dialogue> {
    let stream = greet(server, level, REQUESTS, problems.rows())?;
    stream.set_read_timeout(Some(limit))?;
    let mut dialogue = Dialogue::new(stream, number, problems.clone())?;
    dialogue.begin()?;
    Ok(dialogue)
}

fn greet(server: SocketAddrV4, level: u8, purpose: u8, rows: u16) -> Result<TcpStream> {
    let mut stream = connect(server, LIMIT)?;
    let [low, high] = rows.to_le_bytes();
    stream.write_all(&[level, purpose, low, high, 0, 0, 0, 0])?;
    Ok(stream)
}
