//! The operating system's network, with an ordinary program of this computer at the other end.

use super::Context;
use super::machine::{HARTS, tail};
use super::outcome::Outcome;
use crate::os::boot::DEFAULT_MEMORY;
use crate::os::build::{self, Image};
use crate::os::client::{self, Link, Meeting};
use anyhow::Result;
use std::net::SocketAddrV4;
use std::path::Path;

/// Ports of `echo-server`: what comes goes back, and what it is told to do.
const ECHO: u16 = 7;
const ORDERS: u16 = 9;

/// Boots `echo-server`, and runs the client's tests against it. Then nothing must be left of all the connections: that is one more test.
pub(super) fn test(context: &mut Context) -> Result<Outcome> {
    let client = client::build(client::TCP_CLIENT, &mut context.progress)?;
    let image = build::build(&[], None, &mut context.progress)?;
    let mut outcome = Outcome::default();
    for smp in HARTS {
        context
            .progress
            .say(&format!("echo-server on {smp} harts and its client"));
        outcome.add(meet(smp, &image, &client, context)?);
    }
    Ok(outcome)
}

fn meet(smp: u32, image: &Image, client: &Path, context: &mut Context) -> Result<Outcome> {
    let met = Meeting {
        smp,
        memory: DEFAULT_MEMORY,
        limit: context.limit,
        disk: None,
        network: Link::User,
        server: vec!["echo-server".to_string()],
        listeners: 1,
        ports: &[ECHO, ORDERS],
        client: &|servers| {
            let servers = servers.iter().map(SocketAddrV4::to_string);
            ["check".to_string()].into_iter().chain(servers).collect()
        },
    }
    .run(image, client)?;
    let said = String::from_utf8_lossy(&met.client.stdout);
    let mut outcome = Outcome::of_last_line(&said, met.client.status.success());
    if !met.client.status.success() {
        let complaints = String::from_utf8_lossy(&met.client.stderr);
        context.show(&format!("the client said:\n{said}{complaints}"));
    }
    let complaint = match met.server {
        Ok(ended) if ended.code == 0 => {
            outcome.add(Outcome::passed());
            return Ok(outcome);
        }
        Ok(ended) => format!("ended with code {}", ended.code),
        Err(error) => format!("{error:#}"),
    };
    context.show(&format!(
        "echo-server on {smp} harts: {complaint}; it printed:\n{}",
        tail(&met.printed)
    ));
    outcome.add(Outcome::failed());
    Ok(outcome)
}
