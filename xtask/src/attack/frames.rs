//! Attacks by damaged frames on the operating system's network.
//!
//! This program is the wire and all computers on it. One is a good client, a TCP stack of its own,
//! that must be served throughout. The others are hostile.

mod client;
mod hostile;
mod wire;

use super::Targets;
use super::machine::Machine;
use crate::os::network::Network;
use anyhow::{Context as _, Result, ensure};
use client::Client;
use fastrand::Rng;
use hostile::Hostile;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use wire::Wire;

/// Harts of the machines, in turn.
const HARTS: [u32; 4] = [1, 2, 4, 8];
/// The number of the good client's connections, one after the other, and of hostile frames in one
/// turn.
const CONNECTIONS: usize = 8;
const BURST: usize = 20;
/// The number of turns with hostile frames.
const BURSTS: usize = 60;
/// How long hostile computers wait until the machine has taken a burst.
///
/// The question that asks for that may be lost.
const TAKEN: Duration = Duration::from_millis(200);
/// How long the good client waits for all its answers.
const PATIENCE: Duration = Duration::from_secs(100);

/// What the server prints when it can be reached, and when it has released all that it took.
const LISTENING: &str = "listening";
const NOTHING_LEFT: &str = "frames, coroutines and sockets as before";

/// A folder for the wire's sockets, which must have short names.
///
/// Dropping the value removes it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs one machine with `echo-server`.
pub(super) fn run(targets: &Targets, seed: u64) -> Result<()> {
    let name = format!("corank-wire-{}-{seed}", std::process::id());
    let folder = Folder(std::env::temp_dir().join(name));
    std::fs::create_dir_all(&folder.0).context("no folder for the wire")?;
    let [here, machine] = ["here", "machine"].map(|end| folder.0.join(end));
    let wire = Wire::new(&here, &machine)?;
    let machine = Machine {
        smp: HARTS[(seed % 4) as usize],
        counts: false,
        network: Some(Network::Wire { machine, here }),
        ..Machine::new(targets, &["echo-server"])
    };
    let [listens, is_over] = [AtomicBool::new(false), AtomicBool::new(false)];
    thread::scope(|scope| {
        let network = scope.spawn(|| {
            while !listens.load(Ordering::Acquire) {
                if is_over.load(Ordering::Acquire) {
                    return Ok(());
                }
                thread::sleep(Duration::from_millis(5));
            }
            serve(wire, seed, &is_over)
        });
        let printed = machine.run(|printed| {
            if printed.contains(LISTENING) {
                listens.store(true, Ordering::Release);
            }
        });
        is_over.store(true, Ordering::Release);
        let served = network.join().expect("the wire does not panic");
        let printed = printed.and_then(|printed| {
            ensure!(
                printed.contains(NOTHING_LEFT),
                "the server did not end: {printed}"
            );
            Ok(())
        });
        // The reason why the client was not served says more than how the machine ended.
        served.and(printed)
    })
}

/// Carries frames until the machine has ended.
fn serve(wire: Wire, seed: u64, is_over: &AtomicBool) -> Result<()> {
    let begun = Instant::now();
    let mut client = Client::new(wire);
    let mut hostile = Hostile::new(Rng::with_seed(seed));
    let mut served = 0;
    let mut asked: Option<Instant> = None;
    let mut bursts = 0;
    while !is_over.load(Ordering::Acquire) {
        let answered = client.turn()?;
        for frame in client.wire().foreign() {
            hostile.receive(&frame);
        }
        served += usize::from(answered);
        if served >= CONNECTIONS && bursts >= BURSTS {
            client.end_server();
            for frame in hostile.resets() {
                client.wire().send(&frame);
            }
        }
        if asked.is_some_and(|asked| asked.elapsed() > Duration::from_secs(5)) {
            // This only shows whether it answers.
            client.wire().send(&hostile.question());
            asked = Some(Instant::now());
        }
        // More at a time would only fill the wire, which then loses the good client's frames too.
        let has_taken = asked.is_none_or(|asked| hostile.is_answered() || asked.elapsed() > TAKEN);
        if client.has_orders() && bursts < BURSTS && has_taken {
            for _ in 0..BURST {
                client.wire().send(&hostile.frame());
            }
            client.wire().send(&hostile.question());
            asked = Some(Instant::now());
            bursts += 1;
        }
        ensure!(
            begun.elapsed() < PATIENCE,
            "the good client was served {served} times in {} s, beside {bursts} bursts; its connection is {}, and the network {}",
            PATIENCE.as_secs(),
            client.state(),
            if hostile.is_answered() {
                "answers"
            } else {
                "does not answer"
            },
        );
        client.rest();
    }
    ensure!(
        served >= CONNECTIONS,
        "the machine ended after {served} of {CONNECTIONS} connections"
    );
    Ok(())
}
