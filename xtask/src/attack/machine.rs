//! Machines that are attacked, and results that count as findings.

use super::Targets;
use crate::os::boot::{Boot, DEFAULT_MEMORY};
use crate::os::build::Image;
use crate::os::disk::Disk;
use crate::os::input::Input;
use crate::os::network::Network;
use anyhow::{Result, ensure};
use std::time::Duration;

/// Time limit of a run: a machine that takes longer has stopped.
const LIMIT: Duration = Duration::from_secs(120);
/// The number of printed lines that a finding shows.
const LINES: usize = 30;
/// What a kernel that gives up prints.
const PANIC: &str = "corank: kernel panicked";

/// A machine with one program, which attacks it from inside or shows by its work whether it is
/// harmed.
pub(super) struct Machine<'a> {
    pub(super) smp: u32,
    /// Whether it counts instructions: then the run is the same each time.
    pub(super) counts: bool,
    pub(super) disk: Option<Disk>,
    pub(super) network: Option<Network>,
    pub(super) image: &'a Image,
    pub(super) command: Vec<String>,
}

impl<'a> Machine<'a> {
    /// Makes a machine with one hart and nothing attached.
    pub(super) fn new(targets: &'a Targets, command: &[&str]) -> Self {
        Self {
            smp: 1,
            counts: true,
            disk: None,
            network: None,
            image: &targets.image,
            command: command.iter().map(|word| word.to_string()).collect(),
        }
    }

    /// Runs it to its end and returns what was printed.
    ///
    /// `on_output` gets everything that was printed by then, whenever there is more.
    ///
    /// # Errors
    /// The kernel panicked or never came up, the machine stopped, or the program's exit code is
    /// not 0.
    pub(super) fn run(self, mut on_output: impl FnMut(&str)) -> Result<String> {
        let boot = Boot {
            smp: self.smp,
            memory: DEFAULT_MEMORY.to_string(),
            limit: Some(LIMIT),
            disk: self.disk,
            network: self.network,
            input: Input::None,
            count: self.counts.then_some(0),
            command: self.command,
        };
        let mut printed = Vec::new();
        let ended = boot.run(self.image, |bytes| {
            printed.extend_from_slice(bytes);
            on_output(&String::from_utf8_lossy(&printed));
        });
        let printed = String::from_utf8_lossy(&printed).replace('\r', "");
        let shown = || format!("; it printed:\n{}", tail(&printed));
        let ended = ended.map_err(|error| error.context(shown()))?;
        ensure!(!printed.contains(PANIC), "the kernel panicked{}", shown());
        ensure!(
            ended.code == 0,
            "the program ended with code {}{}",
            ended.code,
            shown()
        );
        Ok(printed)
    }
}

fn tail(printed: &str) -> String {
    let lines: Vec<&str> = printed.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
