//! Tests of the operating system's web server, with good and bad Linux programs as its clients.

use super::Context;
use super::machine::{DISK_SIZE, HARTS, tail};
use super::outcome::Outcome;
use crate::os::boot::DEFAULT_MEMORY;
use crate::os::build::{self, Image};
use crate::os::client::{self, Link, Meeting};
use crate::os::scratch_disk::ScratchDisk;
use crate::repository;
use anyhow::{Context as _, Result, bail};
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The client's package.
const CLIENT: &str = "corank-http-client";
/// The server's ports, for its clients and for orders.
const PORTS: [u16; 2] = [80, 81];
/// The number of counted requests by default.
const REQUESTS: u32 = 2000;
/// The time that each of them adds to the limit.
const PER_REQUEST: Duration = Duration::from_millis(10);
/// The environment variable for another number.
const REQUESTS_VARIABLE: &str = "CORANK_HTTP_REQUESTS";
/// What the server prints when it has released everything.
const NOTHING_LEFT: &str = "frames, coroutines and sockets as before";

/// The server's command, as its client expects it.
const SERVER: &[&str] = &[
    "http-server",
    "--count",
    "--control",
    "81",
    "--config",
    "/levels.txt",
    "--connections",
    "64",
    "--request-limit",
    "1",
    "--send-limit",
    "1",
];

/// A machine with the server and its files, once for each task of the client.
struct Tests<'c> {
    client: PathBuf,
    image: Image,
    disk: ScratchDisk,
    context: &'c mut Context,
}

/// Runs all tests.
pub(super) fn test(context: &mut Context) -> Result<Outcome> {
    let requests = match std::env::var(REQUESTS_VARIABLE) {
        Ok(number) => number
            .parse()
            .with_context(|| format!("{REQUESTS_VARIABLE} is `{number}`, which is no number"))?,
        Err(_) => REQUESTS,
    };
    let client = client::build(CLIENT, &mut context.progress)?;
    let image = build::build_for_tests(&mut context.progress)?;
    let disk = ScratchDisk::new("http", DISK_SIZE)?;
    let site = repository::path("target/disks/site");
    if site.exists() {
        std::fs::remove_dir_all(&site)?;
    }
    let mut make = Command::new(&client);
    make.arg("site").arg(&site);
    if !context.command(&make)?.success() {
        bail!("the files for the server could not be made");
    }
    disk.write_all(&site)?;
    let mut tests = Tests {
        client,
        image,
        disk,
        context,
    };
    let [fewest, .., most] = HARTS;
    let mut outcome = Outcome::default();
    for smp in [fewest, most] {
        outcome.add(tests.run(smp, "check", None, &[])?);
        outcome.add(tests.run(smp, "load", Some(requests), &[])?);
    }
    outcome.add(tests.run(fewest, "levels", None, &[])?);
    // The process is killed, and the system continues.
    outcome.add(tests.run(fewest, "kill", None, &["http-server: killed"])?);
    outcome.add(tests.context.fsck(&tests.disk)?);
    Ok(outcome)
}

impl Tests<'_> {
    /// Lets the client do one task.
    ///
    /// One more test is that the server then ends, prints `expected`, and leaves nothing behind.
    fn run(
        &mut self,
        smp: u32,
        task: &str,
        requests: Option<u32>,
        expected: &[&str],
    ) -> Result<Outcome> {
        let name = format!("http-server on {smp} harts: {task}");
        self.context.progress.say(&name);
        let met = Meeting {
            smp,
            memory: DEFAULT_MEMORY,
            limit: self.context.limit + PER_REQUEST * requests.unwrap_or(0),
            disk: Some(self.disk.attached()),
            network: Link::User,
            server: SERVER.iter().map(|word| word.to_string()).collect(),
            listeners: 1,
            ports: &PORTS,
            client: &|servers| {
                let servers = servers.iter().map(SocketAddrV4::to_string);
                std::iter::once(task.to_string())
                    .chain(servers)
                    .chain(requests.map(|requests| requests.to_string()))
                    .collect()
            },
        }
        .run(&self.image, &self.client)?;
        let said = String::from_utf8_lossy(&met.client.stdout);
        let mut outcome = Outcome::of_last_line(&said, met.client.status.success());
        if !met.client.status.success() {
            let complaints = String::from_utf8_lossy(&met.client.stderr);
            self.context
                .show(&format!("the client said:\n{said}{complaints}"));
        }
        let missing =
            (expected.iter().chain(&[NOTHING_LEFT])).find(|text| !met.printed.contains(**text));
        let complaint = match (met.server, missing) {
            (Err(error), _) => format!("{error:#}"),
            (Ok(_), Some(text)) => format!("`{text}` is missing"),
            (Ok(ended), None) if ended.code != 0 && expected.is_empty() => {
                format!("ended with code {}", ended.code)
            }
            (Ok(_), None) => {
                outcome.add(Outcome::passed());
                return Ok(outcome);
            }
        };
        self.context.show(&format!(
            "{name}: {complaint}; it printed:\n{}",
            tail(&met.printed)
        ));
        outcome.add(Outcome::failed());
        Ok(outcome)
    }
}
