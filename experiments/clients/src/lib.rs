//! The common part of the clients of the operating system's servers: connections, command line, and
//! the count of tests.
#![forbid(unsafe_code)]

use anyhow::{Context, Result};
use std::net::{SocketAddrV4, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

/// Connects to a server.
///
/// A read or write fails after `limit`, and every message leaves at once.
///
/// # Errors
/// If the server does not accept the connection.
pub fn connect(server: SocketAddrV4, limit: Duration) -> Result<TcpStream> {
    let stream =
        TcpStream::connect(server).with_context(|| format!("can't connect to {server}"))?;
    limited(stream, limit)
}

/// Applies the settings of [`connect`] to an open connection.
///
/// # Errors
/// If `limit` is 0.
pub fn limited(stream: TcpStream, limit: Duration) -> Result<TcpStream> {
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Parses a server's address: four numbers, a colon and a port.
///
/// # Errors
/// If the text is something else.
pub fn address(text: &str) -> Result<SocketAddrV4> {
    text.parse()
        .with_context(|| format!("`{text}` is no address with a port, like 127.0.0.1:1001"))
}

/// Runs a client with the words of its command line.
///
/// Ends with 0 if `run` returns `true`, and prints its error if it fails.
pub fn main(run: impl FnOnce(&[&str]) -> Result<bool>) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Counts a client's tests: prints a line for each, and one with the counts at the end.
#[derive(Debug, Default)]
pub struct Tests {
    passed: usize,
    failed: usize,
}

impl Tests {
    /// Counts a test, and prints its result.
    pub fn judge(&mut self, name: &str, result: Result<()>) {
        match result {
            Ok(()) => {
                println!("ok   {name}");
                self.passed += 1;
            }
            Err(error) => {
                println!("FAIL {name}: {error:#}");
                self.failed += 1;
            }
        }
    }

    /// Prints the counts. Returns whether all tests passed.
    pub fn end(self) -> bool {
        println!("{} passed, {} failed", self.passed, self.failed);
        self.failed == 0
    }
}
