//! `corank-tcp-client check ECHO ORDERS`: tests the network of the operating system in a machine whose program `echo-server` is
//! reached through these two ports of this computer. Prints a line for each test, and ends with 1 if one fails.
//!
//! `corank-tcp-client models|priority [--quick] HARTS MODEL=PORT...`: measures the machine's program `tcp-server`, whose models are reached
//! through these ports, and prints a row for each result.
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
   or: corank-tcp-client models|priority [--quick] HARTS MODEL=PORT...";

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
        [experiment @ ("models" | "priority"), ref rest @ ..] => {
            let (quick, rest) = match rest {
                ["--quick", rest @ ..] => (true, rest),
                rest => (false, rest),
            };
            let [harts, models @ ..] = rest else {
                bail!(USAGE);
            };
            let harts = harts.parse().context("the number of harts")?;
            let servers = models
                .iter()
                .map(|text| {
                    let (model, at) = text.split_once('=').context(USAGE)?;
                    Ok((model.to_string(), port(at)?))
                })
                .collect::<Result<Vec<_>>>()?;
            let settings = measure::Settings {
                harts,
                quick,
                servers,
            };
            match experiment {
                "models" => measure::models(&settings)?,
                _ => measure::priorities(&settings)?,
            }
            measure::end(&settings)?;
            Ok(true)
        }
        _ => bail!(USAGE),
    }
}
