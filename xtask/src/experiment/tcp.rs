//! Experiments `tcp-models` and `tcp-priority`: a server in the operating system, and its client on this computer.

use super::Name;
use super::runner::{Listener, settings};
use crate::os::build;
use crate::os::client::{self, Meeting};
use anyhow::{Result, ensure};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The models of `tcp-server`, and the ports at which they listen.
const MODELS: [(&str, u16); 4] = [
    ("KCUC", 1001),
    ("KTUC", 1002),
    ("KCUT", 1003),
    ("KTUT", 1004),
];
/// No run takes longer.
const LIMIT: Duration = Duration::from_secs(3600);
/// Harts of the machine.
const SMP: u32 = 1;

/// Boots the server in all models that are compared, and lets the client measure them in turn.
pub(super) fn measure(
    name: Name,
    quick: bool,
    listener: &mut Listener,
) -> Result<Map<String, Value>> {
    let (task, models) = match name {
        Name::TcpModels => ("models", &MODELS[..]),
        // Threads have no levels to compare.
        _ => ("priority", &MODELS[..1]),
    };
    let client = client::build(&mut listener.progress)?;
    let image = build::build(&[], None, &mut listener.progress)?;
    listener.progress.say("the server and its client");
    let names = models.iter().map(|(name, _)| name.to_string());
    let server: Vec<String> = ["tcp-server".to_string()]
        .into_iter()
        .chain(names)
        .collect();
    let ports: Vec<u16> = models.iter().map(|(_, port)| *port).collect();
    let met = Meeting {
        smp: SMP,
        limit: LIMIT,
        server: server.clone(),
        listeners: models.len(),
        ports: &ports,
        client: &|ports| {
            let mut arguments = vec![task.to_string()];
            if quick {
                arguments.push("--quick".to_string());
            }
            arguments.push(SMP.to_string());
            let servers = models.iter().zip(ports);
            arguments.extend(servers.map(|((name, _), port)| format!("{name}={port}")));
            arguments
        },
    }
    .run(&image, &client)?;
    ensure!(
        met.client.status.success(),
        "the client failed: {}\nthe server printed:\n{}",
        String::from_utf8_lossy(&met.client.stderr),
        met.printed
    );
    let ended = met.server?;
    ensure!(
        ended.code == 0,
        "`{}` ended with code {}:\n{}",
        server.join(" "),
        ended.code,
        met.printed
    );
    for line in String::from_utf8_lossy(&met.client.stdout).lines() {
        listener.hear(line);
    }
    Ok(settings(quick, &server, &[("smp", json!(SMP))]))
}
