//! Experiments `tcp-models` and `tcp-priority`: a server in the operating system and its client on
//! this computer.

use super::parts::Parts;
use super::runner::{Listener, settings};
use crate::os::boot::DEFAULT_MEMORY;
use crate::os::build::{self, Image};
use crate::os::client::{self, Link, Session};
use anyhow::{Result, ensure};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// A model of `tcp-server`.
pub(crate) struct Model {
    /// Its name in the results.
    row: &'static str,
    /// Its name on the server's command line.
    pub(crate) server: &'static str,
    /// The port at which it listens.
    pub(crate) port: u16,
}

const fn model(row: &'static str, server: &'static str, port: u16) -> Model {
    Model { row, server, port }
}

/// The models by the tasks that serve calls in the kernel (`K`) and run in the process (`U`):
/// coroutines (`C`) or threads (`T`).
pub(crate) const MODELS: &[Model] = &[
    model("KCUC", "KCUC", 1001),
    model("KTUC", "KTUC", 1002),
    model("KCUT", "KCUT", 1003),
    model("KTUT", "KTUT", 1004),
];
/// The policies by which levels share a processor.
///
/// Threads have no levels to compare.
pub(crate) const POLICIES: &[Model] = &[
    model("strict", "KCUC", 1001),
    model("bounded", "KCUC-bounded", 1005),
];
/// Time limit of a run.
const LIMIT: Duration = Duration::from_secs(3600);
/// The most harts of a machine of a full run of `tcp-priority`: those of COPS, section 5.2.
const MOST_HARTS: u32 = 4;
/// Harts of the machine of a full run of `tcp-models`, as in COPS, section 5.1.
///
/// A machine with one hart follows.
const MANY_HARTS: u32 = 4;

/// The environment variable that, with the value `user`, always makes the client reach the server
/// through QEMU's user network.
const NETWORK: &str = "CORANK_NETWORK";
/// Parts of a full run of `tcp-models`, each of which takes less than two minutes.
const PARTS: u32 = 7;
/// Memory of the machine that counts how many connections fit: little, but enough for the archive
/// of all programs.
const LITTLE_MEMORY: &str = "96M";

/// Measures the models of calls and tasks in turn.
///
/// How many connections a model has room for is measured in a separate machine.
pub(super) fn measure_models(quick: bool, listener: &mut Listener) -> Result<Map<String, Value>> {
    let mut machine = Machine::new(listener)?;
    let harts = if quick {
        machine.part(&["models", "--quick"], MODELS, 1, DEFAULT_MEMORY)?;
        1
    } else {
        for harts in [MANY_HARTS, 1] {
            for part in 1..=PARTS {
                let part = format!("{part}/{PARTS}");
                machine.part(&["models", "--part", &part], MODELS, harts, DEFAULT_MEMORY)?;
            }
        }
        MANY_HARTS
    };
    for model in MODELS {
        machine.part(&["fill"], std::slice::from_ref(model), 1, LITTLE_MEMORY)?;
    }
    Ok(machine.settings(quick, harts, MODELS))
}

/// Measures the policies in turn.
pub(super) fn measure_priority(quick: bool, listener: &mut Listener) -> Result<Map<String, Value>> {
    let mut machine = Machine::new(listener)?;
    let (task, all_harts): (&[&str], _) = if quick {
        (&["priority", "--quick"], 1..=1)
    } else {
        (&["priority"], 1..=MOST_HARTS)
    };
    for harts in all_harts.clone() {
        machine.part(task, POLICIES, harts, DEFAULT_MEMORY)?;
    }
    Ok(machine.settings(quick, *all_harts.end(), POLICIES))
}

/// Returns the network through which the client reaches the server: that of the environment, or the
/// best.
fn link() -> Link {
    match std::env::var_os(NETWORK) {
        Some(wanted) if wanted == "user" => Link::User,
        _ => Link::best(),
    }
}

/// Returns the server's command.
fn server(models: &[Model]) -> Vec<String> {
    let names = models.iter().map(|model| model.server.to_string());
    std::iter::once("tcp-server".to_string())
        .chain(names)
        .collect()
}

/// What boots the server and lets the client measure it.
struct Machine<'a> {
    client: PathBuf,
    image: Image,
    network: Link,
    parts: Parts,
    listener: &'a mut Listener,
}

impl<'a> Machine<'a> {
    /// Builds client and image.
    fn new(listener: &'a mut Listener) -> Result<Self> {
        Ok(Self {
            client: client::build(client::TCP_CLIENT, &mut listener.progress)?,
            image: build::build(&[], None, &mut listener.progress)?,
            network: link(),
            parts: Parts::new("tcp"),
            listener,
        })
    }

    /// Ends the measurement of these models, and returns its settings.
    fn settings(self, quick: bool, harts: u32, models: &[Model]) -> Map<String, Value> {
        let others = [
            ("smp", json!(harts)),
            ("network", json!(self.network.name())),
            (
                "parts-of-a-run-that-was-cut-off",
                json!(self.listener.end(self.parts)),
            ),
        ];
        settings(quick, &server(models), &others)
    }

    /// Does [`run`](Self::run), unless its lines are known from an interrupted run.
    ///
    /// The rows go to the listener.
    fn part(&mut self, task: &[&str], models: &[Model], harts: u32, memory: &str) -> Result<()> {
        let rows: Vec<&str> = models.iter().map(|model| model.row).collect();
        let files = [&*self.client, &*self.image.kernel, &*self.image.archive];
        let arguments = (task, rows, harts, memory, self.network);
        let name = format!("{} on {harts} harts", task.join(" "));
        self.listener.progress.say(&name);
        let lines = match self.parts.next(&name, &files, arguments)? {
            Some(lines) => lines,
            None => {
                let lines = self.run(task, models, harts, memory)?;
                self.parts.keep(&lines)?;
                lines
            }
        };
        lines.lines().for_each(|line| self.listener.receive(line));
        Ok(())
    }

    /// Boots the server with these models, and gives the client its task.
    ///
    /// Returns what the client printed.
    fn run(&self, task: &[&str], models: &[Model], harts: u32, memory: &str) -> Result<String> {
        let server = server(models);
        let ports: Vec<u16> = models.iter().map(|model| model.port).collect();
        let met = Session {
            smp: harts,
            memory,
            limit: LIMIT,
            disk: None,
            network: self.network,
            server: server.clone(),
            listeners: models.len(),
            ports: &ports,
            client: &|servers| {
                let mut arguments: Vec<String> = task.iter().map(|word| word.to_string()).collect();
                arguments.push(harts.to_string());
                if task == ["fill"] {
                    arguments.push(memory.to_string());
                }
                let servers = models.iter().zip(servers);
                let named = servers.map(|(model, server)| format!("{}={server}", model.row));
                arguments.extend(named);
                arguments
            },
        }
        .run(&self.image, &self.client)?;
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
        Ok(String::from_utf8_lossy(&met.client.stdout).into_owned())
    }
}
