//! Tests of the operating system's web server, with good and bad Linux programs as its clients.

use super::Context;
use super::machine::{DISK_SIZE, HARTS, tail};
use super::outcome::Outcome;
use crate::os::boot::DEFAULT_MEMORY;
use crate::os::build::{self, Image};
use crate::os::client::{self, Link, Session};
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

/// One task of the client, with a machine and a disk of its own.
struct Task {
    smp: u32,
    name: &'static str,
    /// The number of counted requests, for a task that counts them.
    requests: Option<u32>,
    /// What the server prints, besides [`NOTHING_LEFT`].
    expected: &'static [&'static str],
}

/// What the tasks share.
struct Tests {
    client: PathBuf,
    image: Image,
    /// The folder with the files for the server.
    site: PathBuf,
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
    let site = repository::path("target/disks/site");
    if site.exists() {
        std::fs::remove_dir_all(&site)?;
    }
    let mut make = Command::new(&client);
    make.arg("site").arg(&site);
    if !context.command(&make)?.success() {
        bail!("the files for the server could not be made");
    }
    let tests = Tests {
        client,
        image,
        site,
    };
    // They wait for limits of time more than they compute.
    context.side_by_side(&tasks(requests), |task, context| tests.run(task, context))
}

fn tasks(requests: u32) -> Vec<Task> {
    let [fewest, .., most] = HARTS;
    let task = |smp, name| Task {
        smp,
        name,
        requests: None,
        expected: &[],
    };
    let load = |smp| Task {
        requests: Some(requests),
        ..task(smp, "load")
    };
    // The process is killed, and the system continues.
    let kill = Task {
        expected: &["http-server: killed"],
        ..task(fewest, "kill")
    };
    vec![
        task(fewest, "check"),
        task(most, "check"),
        load(fewest),
        load(most),
        task(fewest, "levels"),
        kill,
    ]
}

impl Tests {
    /// Lets the client do one task.
    ///
    /// Two more tests are that the server then ends, prints what is expected and leaves nothing
    /// behind, and that the disk is whole.
    fn run(&self, task: &Task, context: &mut Context) -> Result<Outcome> {
        let Task { smp, requests, .. } = *task;
        let name = format!("http-server on {smp} harts: {}", task.name);
        context.progress.say(&name);
        let disk = ScratchDisk::new(&format!("http-{}-{smp}", task.name), DISK_SIZE)?;
        disk.write_all(&self.site)?;
        let met = Session {
            smp,
            memory: DEFAULT_MEMORY,
            limit: context.limit + PER_REQUEST * requests.unwrap_or(0),
            disk: Some(disk.attached()),
            network: Link::User,
            server: SERVER.iter().map(|word| word.to_string()).collect(),
            listeners: 1,
            ports: &PORTS,
            client: &|servers| {
                let servers = servers.iter().map(SocketAddrV4::to_string);
                std::iter::once(task.name.to_string())
                    .chain(servers)
                    .chain(requests.map(|requests| requests.to_string()))
                    .collect()
            },
        }
        .run(&self.image, &self.client)?;
        let said = String::from_utf8_lossy(&met.client.stdout);
        let mut outcome = Outcome::of_last_line(&said, met.client.status.success());
        if !met.client.status.success() {
            let violations = String::from_utf8_lossy(&met.client.stderr);
            context.show(&format!("the client said:\n{said}{violations}"));
        }
        outcome.add(context.fsck(&disk)?);
        let missing = (task.expected.iter().chain(&[NOTHING_LEFT]))
            .find(|text| !met.printed.contains(**text));
        let failure = match (met.server, missing) {
            (Err(error), _) => format!("{error:#}"),
            (Ok(_), Some(text)) => format!("`{text}` is missing"),
            (Ok(ended), None) if ended.code != 0 && task.expected.is_empty() => {
                format!("ended with code {}", ended.code)
            }
            (Ok(_), None) => {
                outcome.add(Outcome::passed());
                return Ok(outcome);
            }
        };
        context.show(&format!(
            "{name}: {failure}; it printed:\n{}",
            tail(&met.printed)
        ));
        outcome.add(Outcome::failed());
        Ok(outcome)
    }
}
