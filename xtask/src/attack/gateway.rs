//! Hostile peers of the sensor gateway: an MQTT broker, HTTP clients, senders of datagrams, and
//! files that change (`cpp/edge/gateway/tests/hostile.cpp`).

use super::Ground;
use crate::process;
use anyhow::{Context as _, Result};
use std::process::Command;
use std::time::Duration;

/// Seconds of one run.
const SECONDS: u64 = 8;
/// No run takes longer.
const LIMIT: Duration = Duration::from_secs(120);
/// What builds the program: a preset and a target.
pub(super) const TARGET: (&str, &str) = ("gcc", "gateway-hostile");

/// One gateway with its hostile peers.
pub(super) fn run(ground: &Ground, seed: u64) -> Result<()> {
    let program = ground.gateway.as_ref().context("it is not built")?;
    let mut command = Command::new(program);
    command.args([SECONDS, seed].map(|number| number.to_string()));
    process::succeed(&command, LIMIT, |_| {}).map(|_| ())
}
