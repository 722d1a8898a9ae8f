//! Attacks on the sensor gateway by hostile peers: an MQTT broker, HTTP clients, senders of
//! datagrams, and files that change (`cpp/edge/gateway/tests/hostile.cpp`).

use super::Targets;
use crate::process;
use anyhow::{Context as _, Result};
use std::process::Command;
use std::time::Duration;

/// The length of one run in seconds.
const SECONDS: u64 = 8;
/// Time limit of a run.
const LIMIT: Duration = Duration::from_secs(120);
/// The preset and the target that build the program.
pub(super) const TARGET: (&str, &str) = ("gcc", "gateway-hostile");

/// Runs one gateway with its hostile peers.
pub(super) fn run(targets: &Targets, seed: u64) -> Result<()> {
    let program = targets.gateway.as_ref().context("it is not built")?;
    let mut command = Command::new(program);
    command.args([SECONDS, seed].map(|number| number.to_string()));
    process::succeed(&command, LIMIT, |_| {}).map(|_| ())
}
