//! `corank-tcp-client check ECHO ORDERS`: tests the network of the operating system in a machine whose program `echo-server` is
//! reached through these two ports of this computer. Prints a line for each test, and ends with 1 if one fails.
//!
//! Every byte that comes back is compared. Nothing waits for a time to pass; a test that hangs is ended by the time limits of its
//! sockets.
#![forbid(unsafe_code)]

mod check;

use anyhow::{Context, Result, bail};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<bool> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let port = |text: &str| -> Result<u16> {
        text.parse()
            .with_context(|| format!("`{text}` is not a port"))
    };
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["check", echo, orders] => check::run(port(echo)?, port(orders)?),
        _ => bail!("usage: corank-tcp-client check ECHO-PORT ORDERS-PORT"),
    }
}
