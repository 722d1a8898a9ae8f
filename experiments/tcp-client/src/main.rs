//! `corank-tcp-client check ECHO ORDERS`: tests the network of the operating system in a machine whose program `echo-server` is
//! reached through these two ports of this computer. Prints a line for each test, and ends with 1 if one fails.
//!
//! `corank-tcp-client models|priority [--quick] HARTS MODEL=PORT...`: measures the machine's program `tcp-server`, whose models are reached
//! through these ports, and prints a row for each result.
//!
//! `corank-tcp-client fill HARTS MEMORY MODEL=PORT...`: opens as many connections as each of these models takes, and prints how many that are.
//!
//! `corank-tcp-client load CONNECTIONS ROWS MILLISECONDS WINDOW SECONDS MODEL=PORT...`: one load for each of these models in turn, to look at
//! where the time goes: so many connections, matrices of so many rows, a request each so many milliseconds, so many requests of a connection
//! under way at once, for so many seconds.
//!
//! Every byte that comes back is compared. Nothing waits for a time to pass; a test that hangs is ended by the time limits of its
//! sockets.
#![forbid(unsafe_code)]

mod check;
mod load;
mod measure;

use anyhow::{Context, Result, bail};
use std::process::ExitCode;

const USAGE: &str = "usage: corank-tcp-client check ECHO-PORT ORDERS-PORT
   or: corank-tcp-client models|priority [--quick] HARTS MODEL=PORT...
   or: corank-tcp-client fill HARTS MEMORY MODEL=PORT...
   or: corank-tcp-client load CONNECTIONS ROWS MILLISECONDS WINDOW SECONDS MODEL=PORT...";

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
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["check", echo, orders] => check::run(port(echo)?, port(orders)?),
        [experiment @ ("models" | "priority"), ref rest @ ..] => {
            let (quick, rest) = match rest {
                ["--quick", rest @ ..] => (true, rest),
                rest => (false, rest),
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
                "models" => measure::models(&settings)?,
                _ => measure::priorities(&settings)?,
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

fn port(text: &str) -> Result<u16> {
    text.parse()
        .with_context(|| format!("`{text}` is not a port"))
}

fn servers(models: &[&str]) -> Result<Vec<(String, u16)>> {
    let server = |text: &&str| {
        let (model, at) = text.split_once('=').context(USAGE)?;
        Ok((model.to_string(), port(at)?))
    };
    models.iter().map(server).collect()
}
