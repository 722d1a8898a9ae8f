//! The server, as a client sees it.

use anyhow::{Context, Result, bail, ensure};
use corank_clients::connect;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time limit of a read or write: longer than anything that works takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// Longest time for which an ended connection may stay.
///
/// The kernel keeps none for longer that no process has open.
const DRAIN_TIME: Duration = Duration::from_secs(90);

/// The server, with the addresses at which its clients and its orders reach it.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) site: SocketAddrV4,
    control: SocketAddrV4,
    /// The connection of the orders, while there is one.
    orders: Mutex<Option<BufReader<TcpStream>>>,
}

/// An answer of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// By their names in lower case.
    pub(crate) fields: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    /// Returns the answer if it has this status, and an error otherwise.
    pub(crate) fn with_status(self, status: u16) -> Result<Self> {
        ensure!(
            self.status == status,
            "the answer is {} instead of {status}",
            self.status
        );
        Ok(self)
    }

    /// Tests whether the server ends the connection.
    pub(crate) fn closes(&self) -> bool {
        self.field("connection") == "close"
    }
}

/// Returns a request for a path.
pub(crate) fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: corank\r\n\r\n")
}

/// A connection to the server.
#[derive(Debug)]
pub(crate) struct Connection(BufReader<TcpStream>);

impl Connection {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self(BufReader::new(stream))
    }

    /// Waits until something comes, and returns whether that is the end.
    ///
    /// A reset is an end.
    pub(crate) fn has_ended(&mut self) -> Result<bool> {
        match self.0.fill_buf() {
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(true),
            came => Ok(came?.is_empty()),
        }
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        self.0.get_ref()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.get_mut().write_all(bytes).context("sending")
    }

    /// Sends a request for a path and takes the answer, which must be the file.
    pub(crate) fn fetch(&mut self, target: &str, content: &[u8]) -> Result<Answer> {
        self.send(get(target).as_bytes())?;
        let answer = self.answer()?.with_status(200)?;
        ensure!(answer.body == content, "{target}: other bytes came");
        Ok(answer)
    }

    /// Reads the next answer, to a request that is no `HEAD`.
    pub(crate) fn answer(&mut self) -> Result<Answer> {
        self.read(true)
    }

    /// Reads the next answer, to a `HEAD`.
    pub(crate) fn head(&mut self) -> Result<Answer> {
        self.read(false)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).context("reading a head")?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_string()),
            None if line.is_empty() => bail!("the connection ended instead of an answer"),
            None => bail!("`{line}` does not end as a line does"),
        }
    }

    fn read(&mut self, has_body: bool) -> Result<Answer> {
        let first = self.line()?;
        let status = first
            .strip_prefix("HTTP/1.1 ")
            .and_then(|rest| rest.get(..3)?.parse().ok())
            .with_context(|| format!("`{first}` begins no answer"))?;
        let mut fields = BTreeMap::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line
                .split_once(": ")
                .with_context(|| format!("`{line}` is no field"))?;
            let before = fields.insert(name.to_ascii_lowercase(), value.to_string());
            ensure!(before.is_none(), "{name} stands there twice");
        }
        let mut answer = Answer {
            status,
            fields,
            body: Vec::new(),
        };
        ensure!(!answer.field("date").is_empty(), "an answer without a date");
        if status != 304 {
            let length = answer.field("content-length").parse();
            let length: usize = length.context("the length of the body")?;
            if has_body {
                answer.body.resize(length, 0);
                self.0
                    .read_exact(&mut answer.body)
                    .context("reading a body")?;
            }
        }
        Ok(answer)
    }

    /// Expects that the server ends the connection without another byte. A reset is an end too.
    pub(crate) fn end(&mut self) -> Result<()> {
        let mut rest = Vec::new();
        let _ = self.0.by_ref().take(1000).read_to_end(&mut rest);
        ensure!(
            rest.is_empty(),
            "more came: {}",
            String::from_utf8_lossy(&rest)
        );
        Ok(())
    }

    /// Reads this many bytes of a body, or fewer if the connection ends.
    pub(crate) fn read_some(&mut self, count: usize) -> usize {
        let mut some = Vec::new();
        let _ = self.0.by_ref().take(count as u64).read_to_end(&mut some);
        some.len()
    }
}

impl Server {
    pub(crate) fn new(site: SocketAddrV4, control: SocketAddrV4) -> Self {
        Self {
            site,
            control,
            orders: Mutex::new(None),
        }
    }

    /// Opens a connection that QEMU has taken.
    ///
    /// QEMU lets no more than two wait; Linux would try the third again after a second.
    pub(crate) fn connect(&self) -> Result<Connection> {
        let connection = Connection::new(connect(self.site, LIMIT)?);
        // QEMU checks all its sockets in turn. When it has passed this on, it has seen the
        // connection too.
        self.order("hello")?;
        Ok(connection)
    }

    /// Gives an order, and returns the answer.
    pub(crate) fn order(&self, order: &str) -> Result<String> {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let mut control = match orders.take() {
            Some(control) => control,
            None => BufReader::new(connect(self.control, LIMIT)?),
        };
        control
            .get_mut()
            .write_all(format!("{order}\n").as_bytes())?;
        let mut answer = String::new();
        control.read_line(&mut answer)?;
        ensure!(answer.ends_with('\n'), "no answer to the order `{order}`");
        *orders = Some(control);
        Ok(answer.trim().to_string())
    }

    /// Returns the server's report of itself.
    pub(crate) fn status(&self) -> Result<BTreeMap<String, u64>> {
        let status = self.order("status")?;
        let pairs = status.split(' ').map(|pair| {
            let (name, number) = pair.split_once('=')?;
            Some((name.to_string(), number.parse().ok()?))
        });
        let pairs: Option<_> = pairs.collect();
        pairs.with_context(|| format!("`{status}` is no status"))
    }

    /// Returns what the server has in use.
    fn footprint(&self) -> Result<Footprint> {
        let mut counts = self.status()?;
        // The number of answers is no memory. The kernel's tables grow and shrink by their own
        // rules.
        counts.remove("answered");
        counts.remove("kernel_heap");
        let pages = counts.remove("pages").context("a status has no pages")?;
        *counts.entry("frames_free".to_string()).or_default() += pages;
        Ok(Footprint { counts, pages })
    }

    /// Returns what is in use while there is no client but this one.
    pub(crate) fn footprint_at_rest(&self) -> Result<Footprint> {
        let start = Instant::now();
        loop {
            let now = self.footprint()?;
            // The orders have a connection of their own.
            if now.counts["connections"] == 0 && now.counts["sockets"] == 1 {
                return Ok(now);
            }
            ensure!(
                start.elapsed() < DRAIN_TIME,
                "it does not come to rest: {now:?}"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the server has nothing more in use than `before`, but for its heap.
    ///
    /// Returns by how many pages the heap has grown.
    pub(crate) fn wait_until_drained(&self, before: &Footprint) -> Result<u64> {
        let start = Instant::now();
        loop {
            let now = self.footprint()?;
            if now.counts == before.counts
                && let Some(growth) = now.pages.checked_sub(before.pages)
            {
                return Ok(growth);
            }
            ensure!(
                start.elapsed() < DRAIN_TIME,
                "something was left behind: {before:?} before, {now:?} now"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// What the server has in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Footprint {
    /// The counts of the server and of the kernel, by name.
    ///
    /// The pages of the server count as free frames. So the sum stays when its heap grows.
    counts: BTreeMap<String, u64>,
    /// The pages of the server, most of them its heap.
    pub pages: u64,
}
