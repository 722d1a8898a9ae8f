//! Clients of the operating system's TCP servers: tests, measurements and single loads.
//!
//! `corank-tcp-client check ECHO ORDERS` tests the network of the operating system in a machine
//! with the program `echo-server`, which is reached at these two addresses. It prints a line for
//! each test, and ends with 1 if one fails.
//!
//! `corank-tcp-client left SERVER` does the same for a machine that ends as soon as it has written
//! to the connections that it has taken there.
//!
//! `corank-tcp-client serves MODEL=SERVER...` tests the machine's program `tcp-server`. The
//! server's models are reached at these addresses. The client prints a line for each test, and ends
//! with 1 if one fails.
//!
//! `corank-tcp-client models|priority [--quick] [--part I/N] HARTS MODEL=SERVER...` measures the
//! machine's program `tcp-server`, and prints a row for each result. The server's models are
//! reached at these addresses. If asked for, it measures the `I`th of `N` parts of `models`, from
//! 1 on.
//!
//! `corank-tcp-client fill HARTS MEMORY MODEL=SERVER...` opens as many connections as each of these
//! models takes, and prints how many that are.
//!
//! `corank-tcp-client load CONNECTIONS ROWS MILLISECONDS WINDOW SECONDS MODEL=SERVER...` runs one
//! load for each of these models in turn, to examine where the time goes. The arguments are the
//! number of connections, the rows of the matrices, the milliseconds from one request to the next,
//! the requests of a connection under way at once, and the seconds that it lasts.
//!
//! Every byte that comes back is compared. Nothing waits for a time to pass; a test that hangs is
//! ended by the time limits of its sockets.
#![forbid(unsafe_code)]

mod check;
mod dialogue;
mod load;
mod measure;
mod outcome;
mod problems;
mod serves;
mod stamped;

use anyhow::{Context, Result, bail};
use corank_clients::address;
use measure::Part;
use std::net::SocketAddrV4;
use std::process::ExitCode;

const USAGE: &str = "usage: corank-tcp-client check ECHO ORDERS
   or: corank-tcp-client left SERVER
   or: corank-tcp-client serves MODEL=SERVER...
   or: corank-tcp-client models|priority [--quick] [--part I/N] HARTS MODEL=SERVER...
   or: corank-tcp-client fill HARTS MEMORY MODEL=SERVER...
   or: corank-tcp-client load CONNECTIONS ROWS MILLISECONDS WINDOW SECONDS MODEL=SERVER...";

fn main() -> ExitCode {
    corank_clients::main(run)
}

/// Leaves the processors of this computer to the machine, whenever it can use them.
///
/// This is for measurements of how long the most urgent requests wait: the connections that make
/// the load are not to take a processor from the machine. It is not for measurements of how many
/// requests the machine can take, because then too few would come.
fn lower_priority() -> Result<()> {
    const LEAST_FAVOURED: i32 = 19;
    rustix::process::nice(LEAST_FAVOURED)
        .context("Linux refuses to lower the priority of this client")?;
    Ok(())
}

fn run(words: &[&str]) -> Result<bool> {
    match *words {
        ["check", echo, orders] => check::run(address(echo)?, address(orders)?),
        ["left", server] => check::left(address(server)?),
        ["serves", ref models @ ..] => serves::run(&servers(models)?),
        [experiment @ ("models" | "priority"), ref rest @ ..] => {
            let (quick, rest) = match rest {
                ["--quick", rest @ ..] => (true, rest),
                rest => (false, rest),
            };
            let (part, rest) = match rest {
                ["--part", part, rest @ ..] => (part.parse()?, rest),
                rest => (Part::WHOLE, rest),
            };
            let [harts, models @ ..] = rest else {
                bail!(USAGE);
            };
            let harts = harts.parse().context("the number of harts")?;
            let servers = servers(models)?;
            let settings = measure::Settings {
                harts,
                quick,
                memory: String::new(),
                servers,
            };
            match experiment {
                "models" => measure::models(&settings, part)?,
                _ => {
                    lower_priority()?;
                    measure::priorities(&settings)?;
                }
            }
            measure::end(&settings)?;
            Ok(true)
        }
        ["fill", harts, memory, ref models @ ..] => {
            let settings = measure::Settings {
                harts: harts.parse().context("the number of harts")?,
                quick: false,
                memory: memory.to_string(),
                servers: servers(models)?,
            };
            measure::fill(&settings)?;
            measure::end(&settings)?;
            Ok(true)
        }
        [
            "load",
            connections,
            rows,
            period,
            window,
            seconds,
            ref models @ ..,
        ] => {
            let number = |text: &str| -> Result<u64> {
                text.parse()
                    .with_context(|| format!("`{text}` is not a number"))
            };
            let load = measure::One {
                connections: number(connections)? as usize,
                rows: number(rows)? as u16,
                period: number(period)?,
                window: number(window)? as usize,
                seconds: number(seconds)?,
            };
            measure::one(&load, &servers(models)?)?;
            Ok(true)
        }
        _ => bail!(USAGE),
    }
}

fn servers(models: &[&str]) -> Result<Vec<(String, SocketAddrV4)>> {
    let server = |text: &&str| {
        let (model, at) = text.split_once('=').context(USAGE)?;
        Ok((model.to_string(), address(at)?))
    };
    models.iter().map(server).collect()
}
