//! Clients of `http-server`, the operating system's web server.
//!
//! It is reached at two addresses: that of its clients, and that of its orders.
//!
//! - `corank-http-client site FOLDER` makes the files that the server must have;
//! - `corank-http-client check SITE CONTROL` tests it with clients of every kind; prints a line for
//!   each test, and ends with 1 if one fails. The server stops;
//! - `corank-http-client load SITE CONTROL REQUESTS` does the same with this many requests;
//! - `corank-http-client kill SITE CONTROL` lets it end in the middle of its work;
//! - `corank-http-client levels SITE CONTROL` tests that urgent requests overtake others, and equal
//!   ones do not.
//!
//! Every byte that comes back is compared. After each test the server must have as much in use as
//! before it: frames, coroutines, calls, files, sockets. Nothing waits for a time to pass, but for
//! the server's own limits; what hangs is ended by the time limits of its sockets.
#![forbid(unsafe_code)]

mod arrivals;
mod check;
mod faults;
mod hostile;
mod levels;
mod load;
mod programs;
mod server;
mod site;

use anyhow::{Context, Result, bail};
use corank_clients::address;
use server::Server;
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: corank-http-client site FOLDER
   or: corank-http-client load SITE CONTROL REQUESTS
   or: corank-http-client check|kill|levels SITE CONTROL";

fn main() -> ExitCode {
    corank_clients::main(run)
}

fn run(words: &[&str]) -> Result<bool> {
    let count = |text: &str| -> Result<usize> { text.parse().context("the number of requests") };
    let server = |site: &str, control: &str| -> Result<Server> {
        Ok(Server::new(address(site)?, address(control)?))
    };
    match *words {
        ["site", folder] => site::make(Path::new(folder)).map(|()| true),
        ["check", site, control] => check::run(&server(site, control)?),
        ["load", site, control, requests] => load::run(&server(site, control)?, count(requests)?),
        ["kill", site, control] => faults::kill(&server(site, control)?),
        ["levels", site, control] => levels::run(&server(site, control)?),
        _ => bail!(USAGE),
    }
}
