//! A machine with a server in it, and the server's client on this computer.

use super::boot::{Boot, Ended};
use super::build::Image;
use super::disk::Disk;
use super::input::Input;
use super::network::{Forward, Network};
use crate::progress::Progress;
use crate::toolchain::host_cargo;
use crate::{process, repository};
use anyhow::{Context, Result, bail, ensure};
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The package of all clients.
const PACKAGE: &str = "corank-clients";
/// The client for the servers that test and measure the network.
pub(crate) const TCP_CLIENT: &str = "corank-tcp-client";

/// What a server prints when it can be reached.
const LISTENING: &str = "listening";
/// The number of attempts to start the machine if another program takes a port that was free.
const ATTEMPTS: u32 = 3;

/// The network through which the client reaches the server.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Link {
    /// QEMU's user network, which is always there.
    User,
    /// A tap device in a network of the two alone, which costs far less.
    Tap,
}

impl Link {
    /// Returns the one that costs less, if this computer allows that.
    pub(crate) fn best() -> Self {
        match Network::lan() {
            Some(_) => Self::Tap,
            None => Self::User,
        }
    }

    /// Returns its name in the results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Tap => "tap",
        }
    }
}

/// A server, and the task of its client.
pub(crate) struct Session<'a> {
    pub(crate) smp: u32,
    pub(crate) memory: &'a str,
    pub(crate) limit: Duration,
    pub(crate) disk: Option<Disk>,
    pub(crate) network: Link,
    /// The server's program, and its arguments.
    pub(crate) server: Vec<String>,
    /// The number of lines with [`LISTENING`] that it prints before its client is started.
    pub(crate) listeners: usize,
    /// The ports at which it listens.
    pub(crate) ports: &'a [u16],
    /// The client's arguments, from the addresses at which the ports are reached.
    pub(crate) client: &'a dyn Fn(&[SocketAddrV4]) -> Vec<String>,
}

/// The result of a [`Session`].
pub(crate) struct SessionEnd {
    /// How the machine ended.
    pub(crate) server: Result<Ended>,
    /// What the server printed.
    pub(crate) printed: String,
    /// How the client ended, and what it printed.
    pub(crate) client: Output,
}

/// Builds the client of this name.
///
/// # Errors
/// When it does not compile.
pub(crate) fn build(name: &str, progress: &mut Progress) -> Result<PathBuf> {
    let mut command = host_cargo();
    command.args(["build", "--release", "--package", PACKAGE, "--bin", name]);
    command.current_dir(repository::root());
    let finished = process::capture(&command, Duration::from_secs(600), |line| {
        progress.say(line);
    })?;
    ensure!(
        finished.success(),
        "the client does not compile:\n{}",
        finished.tail(20)
    );
    Ok(repository::path("target/release").join(name))
}

impl Session<'_> {
    /// Boots the machine, and starts the client as soon as the server listens.
    ///
    /// # Errors
    /// When the server never listens, or the client can't be started.
    pub(crate) fn run(&self, image: &Image, client: &Path) -> Result<SessionEnd> {
        for _ in 1..ATTEMPTS {
            match self.attempt(image, client) {
                Err(error) if format!("{error:#}").contains("host forwarding rule") => {}
                result => return result,
            }
        }
        self.attempt(image, client)
    }

    fn network(&self) -> Result<Network> {
        if self.network == Link::Tap {
            return Network::lan().context("this computer allows no network of its own any more");
        }
        let forwards: Vec<Forward> = self.ports.iter().map(|port| Forward::to(*port)).collect();
        Network::with(&forwards)
    }

    fn attempt(&self, image: &Image, client: &Path) -> Result<SessionEnd> {
        let network = self.network()?;
        let servers: Vec<SocketAddrV4> = self
            .ports
            .iter()
            .filter_map(|port| network.server(*port))
            .collect();
        let mut command = Command::new(client);
        command.args((self.client)(&servers));
        let command = network.enter(command);
        let boot = Boot {
            smp: self.smp,
            memory: self.memory.to_string(),
            limit: Some(self.limit),
            disk: self.disk.clone(),
            network: Some(network),
            input: Input::None,
            count: None,
            command: self.server.clone(),
        };
        let mut printed = Vec::new();
        let mut running = None;
        let server = boot.run(image, |bytes| {
            printed.extend_from_slice(bytes);
            let text = String::from_utf8_lossy(&printed);
            if running.is_none() && text.matches(LISTENING).count() >= self.listeners {
                running = Some(start(&command, self.limit));
            }
        });
        let printed = String::from_utf8_lossy(&printed).replace('\r', "");
        let Some(running) = running else {
            let why = server
                .err()
                .map_or("it ended".to_string(), |error| format!("{error:#}"));
            bail!(
                "`{}` did not listen: {why}; it printed:\n{printed}",
                self.server.join(" ")
            );
        };
        let client = running?.join().expect("reading does not panic")?;
        Ok(SessionEnd {
            server,
            printed,
            client,
        })
    }
}

/// Starts the client.
///
/// The thread returns what the client printed after it has ended.
fn start(command: &Command, limit: Duration) -> Result<JoinHandle<std::io::Result<Output>>> {
    let mut command = process::limited(command, limit, false)?;
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().context("can't start the client")?;
    Ok(thread::spawn(|| child.wait_with_output()))
}
