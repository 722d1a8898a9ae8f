//! Clients of `http-server`, the operating system's web server, which is reached through two ports of this computer: the one of its
//! clients, and the one of its orders.
//!
//! - `corank-http-client site FOLDER` makes the files that the server must have;
//! - `corank-http-client check PORT CONTROL REQUESTS` tests it with clients of every kind, and then with so many requests; prints a line for
//!   each test, and ends with 1 if one fails. The server stops;
//! - `corank-http-client kill PORT CONTROL` lets it end in the middle of its work;
//! - `corank-http-client levels PORT CONTROL REQUESTS` measures how long so many urgent requests take, alone and beside others.
//!
//! Every byte that comes back is compared. After each test the server must have as much in use as before it: frames, coroutines, calls,
//! files, sockets. Nothing waits for a time to pass, but for the server's own limits; what hangs is ended by the time limits of its sockets.
#![forbid(unsafe_code)]

mod check;
mod faults;
mod hostile;
mod levels;
mod load;
mod programs;
mod server;
mod site;

use anyhow::{Context, Result, bail};
use server::Server;
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: corank-http-client site FOLDER
   or: corank-http-client check|levels PORT CONTROL REQUESTS
   or: corank-http-client kill PORT CONTROL";

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
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| -> Result<u16> {
        text.parse()
            .with_context(|| format!("`{text}` is not a port"))
    };
    let count = |text: &str| -> Result<usize> { text.parse().context("the number of requests") };
    let server = |port: &str, control: &str| -> Result<Server> {
        Ok(Server::new(number(port)?, number(control)?))
    };
    match words[..] {
        ["site", folder] => site::make(Path::new(folder)).map(|()| true),
        ["check", port, control, requests] => check::run(&server(port, control)?, count(requests)?),
        ["kill", port, control] => faults::kill(&server(port, control)?),
        ["levels", port, control, requests] => {
            levels::run(&server(port, control)?, count(requests)?)
        }
        _ => bail!(USAGE),
    }
}
