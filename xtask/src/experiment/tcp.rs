//! Experiments `tcp-models` and `tcp-priority`: a server in the operating system, and its client on this computer.

use super::Name;
use super::runner::{Listener, settings};
use crate::os::build;
use crate::os::client::{self, Meeting};
use anyhow::{Result, ensure};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// A model of `tcp-server`.
struct Model {
    /// In the results.
    row: &'static str,
    /// On the server's command line.
    server: &'static str,
    /// Where it listens.
    port: u16,
}

const fn model(row: &'static str, server: &'static str, port: u16) -> Model {
    Model { row, server, port }
}

/// Who serves calls in the kernel, and who runs in the process.
const MODELS: &[Model] = &[
    model("KCUC", "KCUC", 1001),
    model("KTUC", "KTUC", 1002),
    model("KCUT", "KCUT", 1003),
    model("KTUT", "KTUT", 1004),
];
/// How levels share a processor. Threads have no levels to compare.
const POLICIES: &[Model] = &[
    model("strict", "KCUC", 1001),
    model("bounded", "KCUC-bounded", 1005),
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
        Name::TcpModels => ("models", MODELS),
        _ => ("priority", POLICIES),
    };
    let client = client::build(&mut listener.progress)?;
    let image = build::build(&[], None, &mut listener.progress)?;
    listener.progress.say("the server and its client");
    let names = models.iter().map(|model| model.server.to_string());
    let server: Vec<String> = ["tcp-server".to_string()]
        .into_iter()
        .chain(names)
        .collect();
    let ports: Vec<u16> = models.iter().map(|model| model.port).collect();
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
            arguments.extend(servers.map(|(model, port)| format!("{}={port}", model.row)));
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
