//! A server of files over HTTP/1.1: `http-server [OPTIONS]`, see [`options::HELP`].
//!
//! It serves the machine's disk to any client: `curl`, a browser, `wrk`. Each connection is one
//! coroutine. It waits for a request at the most urgent level that any path has. It serves the
//! request at the level of its path, in this process, in the file system and in the network. So an
//! urgent request does not wait behind one that is not, whichever came first.
//!
//! ```text
//!  front process ── waits for the server's end; typed `q`, or its own end, closes the pipe ──┐
//!                                                                                            ▼
//!  server process:  server ── accepts, as far as there is room ──▶ connection (one coroutine each)
//!                     ▲                                              │ wire: bytes in and out, within time limits
//!                  control ── orders of its operator               └ answer: what a request gets, from the disk
//! ```
//! The rules of HTTP are in the crate [`corank_http`], which has no sockets and files. A client
//! that sends nonsense, sends slowly, reads slowly, or breaks off has one connection for a bounded
//! time. A file is sent through a buffer of [`wire::PIECE`] bytes, whatever its size.
#![no_std]
#![no_main]

extern crate alloc;

mod answer;
mod connection;
mod control;
mod options;
mod server;
mod wire;

use alloc::vec::Vec;
use corank_user::corank::sync::Event;
use corank_user::io::{OwnedFd, Pipe, STDIN};
use corank_user::{Error, Priority, block_on, calls, information, net, println, process, ring};
use corank_user::{eprintln, spawn};

use options::{HELP, Options};

corank_user::main!(main);

/// Longest time for which the server's connections may last after its end, in milliseconds.
///
/// It is longer than the kernel keeps a connection that no process has open.
const REMAINS_LIMIT: usize = 90_000;

fn main() -> i32 {
    let options = match Options::from(corank_user::arguments().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{HELP}");
            return 0;
        }
        Err(error) => {
            eprintln!("http-server: {error}");
            return 2;
        }
    };
    if net::status().is_ok_and(|network| network.card == 0) {
        eprintln!("http-server: this machine has no network card");
        return 1;
    }
    match run(options) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("http-server: {error}");
            1
        }
    }
}

/// Starts the server as a process of its own and waits for its end.
fn run(options: Options) -> Result<i32, Error> {
    // What this process itself needs for that exists before anything is counted.
    block_on(async {});
    let counts = options.count;
    let before = footprint();
    let Pipe { reader, writer } = Pipe::new()?;
    let [ours, theirs] = [&writer, &reader].map(|end| end.number());
    let child = process::spawn(move || {
        drop(OwnedFd::from_number(ours));
        server::run(options, OwnedFd::from_number(theirs))
    })?;
    drop(reader);
    let code = block_on(wait(child, writer))?;
    if !counts {
        return Ok(code);
    }
    for _ in 0..REMAINS_LIMIT / 10 {
        if footprint() == before {
            println!("frames, coroutines and sockets as before: {before:?}");
            return Ok(code);
        }
        calls::sleep(10)?;
    }
    eprintln!(
        "frames, coroutines and sockets were {before:?} and are {:?}: something was left behind",
        footprint()
    );
    Ok(1)
}

/// Returns what must be the same before and after: free frames, coroutines of the kernel, sockets.
fn footprint() -> [u64; 3] {
    process::quiesce();
    let system = information::system().expect("the kernel knows itself");
    let network = net::status().expect("memory for the call");
    [
        system.frames_free,
        system.coroutines,
        network.sockets - network.fading,
    ]
}

/// Waits for the server's end, and lets it stop when `q` is typed.
///
/// The server stops when no process has the pipe open any more.
async fn wait(child: process::Pid, pipe: OwnedFd) -> Result<i32, Error> {
    let console = spawn(Priority::DEFAULT, async move {
        let stop = [b'q', 3, 4];
        loop {
            let (count, typed) = calls::read_async(STDIN.number(), Vec::with_capacity(1)).await;
            match count {
                Ok(1) if stop.contains(&typed[0]) => return drop(pipe),
                Ok(1) => {}
                // There is no console: the pipe is closed with this process.
                _ => Event::new().wait().await,
            }
        }
    });
    let ended = ring::wait_process(child).await;
    drop(console);
    ended.map(|ended| {
        if let Some(cause) = process::cause(ended.code) {
            println!("http-server: {cause}");
        }
        ended.code
    })
}
