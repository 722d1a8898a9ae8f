//! The operating system's network, with an ordinary program of this computer at the other end.

use super::Context;
use super::machine::tail;
use super::outcome::Outcome;
use crate::os::boot::{Boot, DEFAULT_MEMORY, Input};
use crate::os::build;
use crate::os::network::{Forward, Network};
use crate::toolchain::host_cargo;
use crate::{process, repository};
use anyhow::{Context as _, Result, bail};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Ports of the machine's program: what comes goes back, and what it is told to do.
const ECHO: u16 = 7;
const ORDERS: u16 = 9;
/// How many times the machine is started anew because another program took a port that was free.
const ATTEMPTS: usize = 3;

/// Boots `echo-server`, and runs the client as soon as it listens.
pub(super) fn test(context: &mut Context) -> Result<Outcome> {
    let client = client(context)?;
    let image = build::build(&[], None, &mut context.progress)?;
    let mut attempts = 0;
    loop {
        attempts += 1;
        match run(&client, &image, context) {
            Err(error)
                if attempts < ATTEMPTS
                    && format!("{error:#}").contains("Could not set up host forwarding") => {}
            result => return result,
        }
    }
}

fn run(client: &PathBuf, image: &build::Image, context: &mut Context) -> Result<Outcome> {
    let forward = |guest| Forward { host: 0, guest };
    let network = Network::with(&[forward(ECHO), forward(ORDERS)])?;
    let ports = [ECHO, ORDERS].map(|port| network.host_port(port).unwrap_or_default());
    let boot = Boot {
        smp: 1,
        memory: DEFAULT_MEMORY.to_string(),
        limit: Some(context.limit),
        disk: None,
        network: Some(network),
        input: Input::None,
        count: None,
        command: vec!["echo-server".to_string()],
    };
    let mut printed = Vec::new();
    let mut running: Option<Result<Child>> = None;
    let ended = boot.run(image, |bytes| {
        printed.extend_from_slice(bytes);
        if running.is_none() && String::from_utf8_lossy(&printed).contains("listening") {
            running = Some(start(client, ports, context));
        }
    });
    let printed = String::from_utf8_lossy(&printed).replace('\r', "");
    let Some(running) = running else {
        let why = ended
            .err()
            .map_or("it ended".to_string(), |error| format!("{error:#}"));
        bail!(
            "echo-server did not listen: {why}; it printed:\n{}",
            tail(&printed)
        );
    };
    let checked = running?.wait_with_output()?;
    let said = String::from_utf8_lossy(&checked.stdout);
    let mut outcome = Outcome::of_last_line(&said, checked.status.success());
    if !checked.status.success() {
        let complaints = String::from_utf8_lossy(&checked.stderr);
        context.show(&format!("the client said:\n{said}{complaints}"));
    }
    // The machine's program ends with 0 when nothing is left of all the connections.
    outcome.add(match ended {
        Ok(ended) if ended.code == 0 => Outcome::passed(),
        Ok(ended) => {
            context.show(&format!(
                "echo-server ended with code {}:\n{}",
                ended.code,
                tail(&printed)
            ));
            Outcome::failed()
        }
        Err(error) => {
            context.show(&format!(
                "echo-server: {error:#}; it printed:\n{}",
                tail(&printed)
            ));
            Outcome::failed()
        }
    });
    Ok(outcome)
}

/// The client, built.
fn client(context: &mut Context) -> Result<PathBuf> {
    let mut command = host_cargo();
    command.args(["build", "--release", "--package", "corank-tcp-client"]);
    command.current_dir(repository::root());
    let finished = context.command(&command)?;
    if !finished.success() {
        bail!("the client does not compile:\n{}", finished.tail(20));
    }
    Ok(repository::path("target/release/corank-tcp-client"))
}

fn start(client: &PathBuf, ports: [u16; 2], context: &Context) -> Result<Child> {
    let mut command = Command::new(client);
    command
        .arg("check")
        .args(ports.map(|port| port.to_string()));
    let mut command = process::limited(&command, context.limit, false)?;
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().context("can't start the client")
}
