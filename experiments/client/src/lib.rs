//! What the clients of the operating system's servers share: how they reach a server, how they end, and how they judge.
#![forbid(unsafe_code)]

use anyhow::{Context, Result};
use std::net::{SocketAddrV4, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

/// A connection to a server, on which a read or write that takes longer than `limit` fails, and every message leaves at once.
///
/// # Errors
/// When nobody takes it.
pub fn connect(server: SocketAddrV4, limit: Duration) -> Result<TcpStream> {
    let stream =
        TcpStream::connect(server).with_context(|| format!("can't connect to {server}"))?;
    limited(stream, limit)
}

/// The same for a connection that was made in another way.
///
/// # Errors
/// When `limit` is 0.
pub fn limited(stream: TcpStream, limit: Duration) -> Result<TcpStream> {
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Where a server is reached: an address of four numbers, a colon and a port.
///
/// # Errors
/// When it is something else.
pub fn address(text: &str) -> Result<SocketAddrV4> {
    text.parse()
        .with_context(|| format!("`{text}` is no address with a port, like 127.0.0.1:1001"))
}

/// Runs a client with the words of its command line. It ends with 0 if `run` says that all is well, and tells why not if that fails.
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

/// What became of a client's tests: a line for each, and one with their numbers at the end.
#[derive(Debug, Default)]
pub struct Tests {
    passed: usize,
    failed: usize,
}

impl Tests {
    /// Prints how a test has ended.
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

    /// Prints how many have passed and failed; whether all have passed.
    pub fn end(self) -> bool {
        println!("{} passed, {} failed", self.passed, self.failed);
        self.failed == 0
    }
}
