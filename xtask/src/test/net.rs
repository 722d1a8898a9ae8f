//! Tests of the operating system's network, with an ordinary program of this computer at the other
//! end.

use super::Context;
use super::machine::{HARTS, tail};
use super::outcome::Outcome;
use crate::experiment::tcp;
use crate::os::boot::DEFAULT_MEMORY;
use crate::os::build::{self, Image};
use crate::os::client::{self, Link, Session};
use anyhow::Result;
use std::net::SocketAddrV4;
use std::path::Path;

/// The ports of `echo-server`: one echoes what arrives, the other takes orders.
const ECHO: u16 = 7;
const ORDERS: u16 = 9;

/// A server, and the test by its client.
struct Tested {
    /// The server's program, and its arguments.
    command: Vec<String>,
    /// The number of lines that it prints before all its ports listen.
    listeners: usize,
    ports: Vec<u16>,
    /// The client's task.
    task: &'static str,
    /// The client's name of the server at each port, if the client needs one.
    names: Vec<String>,
}

/// Boots `echo-server`, in both its modes, and `tcp-server`, and runs the client's tests against
/// them.
///
/// Then nothing must be left of all the connections of `echo-server`. That is one more test.
pub(super) fn test(context: &mut Context) -> Result<Outcome> {
    let client = client::build(client::TCP_CLIENT, &mut context.progress)?;
    let image = build::build_for_tests(&mut context.progress)?;
    let servers = [echo_server(), leaving_server(), tcp_server()];
    let meetings: Vec<(&Tested, u32)> = servers
        .iter()
        .flat_map(|server| HARTS.map(|smp| (server, smp)))
        .collect();
    context.side_by_side(&meetings, |&(server, smp), context| {
        let name = server.command.join(" ");
        context
            .progress
            .say(&format!("{name} on {smp} harts and its client"));
        meet(server, smp, &image, &client, context)
    })
}

fn echo_server() -> Tested {
    Tested {
        command: vec!["echo-server".to_string()],
        listeners: 1,
        ports: vec![ECHO, ORDERS],
        task: "check",
        names: Vec::new(),
    }
}

/// Returns the server that writes before the machine ends.
fn leaving_server() -> Tested {
    Tested {
        command: ["echo-server", "leave"].map(str::to_string).to_vec(),
        listeners: 1,
        ports: vec![ECHO],
        task: "left",
        names: Vec::new(),
    }
}

/// Returns `tcp-server` in all its models.
fn tcp_server() -> Tested {
    let mut command = vec!["tcp-server".to_string()];
    let mut ports = Vec::new();
    for model in tcp::MODELS.iter().chain(tcp::POLICIES) {
        if !ports.contains(&model.port) {
            command.push(model.server.to_string());
            ports.push(model.port);
        }
    }
    Tested {
        names: command[1..].to_vec(),
        listeners: ports.len(),
        command,
        ports,
        task: "serves",
    }
}

fn meet(
    server: &Tested,
    smp: u32,
    image: &Image,
    client: &Path,
    context: &mut Context,
) -> Result<Outcome> {
    let met = Session {
        smp,
        memory: DEFAULT_MEMORY,
        limit: context.limit,
        disk: None,
        network: Link::User,
        server: server.command.clone(),
        listeners: server.listeners,
        ports: &server.ports,
        client: &|places| {
            let place = |(number, place): (usize, &SocketAddrV4)| match server.names.get(number) {
                Some(name) => format!("{name}={place}"),
                None => place.to_string(),
            };
            let places = places.iter().enumerate().map(place);
            [server.task.to_string()]
                .into_iter()
                .chain(places)
                .collect()
        },
    }
    .run(image, client)?;
    let said = String::from_utf8_lossy(&met.client.stdout);
    let mut outcome = Outcome::of_last_line(&said, met.client.status.success());
    if !met.client.status.success() {
        let violations = String::from_utf8_lossy(&met.client.stderr);
        context.show(&format!("the client said:\n{said}{violations}"));
    }
    let failure = match met.server {
        Ok(ended) if ended.code == 0 => {
            outcome.add(Outcome::passed());
            return Ok(outcome);
        }
        Ok(ended) => format!("ended with code {}", ended.code),
        Err(error) => format!("{error:#}"),
    };
    context.show(&format!(
        "{} on {smp} harts: {failure}; it printed:\n{}",
        server.command[0],
        tail(&met.printed)
    ));
    outcome.add(Outcome::failed());
    Ok(outcome)
}
