//! One run of the machine in QEMU.

use super::build::Image;
use super::disk::Disk;
use super::network::Network;
use super::{quote, transcript::Transcript};
use crate::process;
use anyhow::{Context, Result, bail};
use std::io::{Read, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// Memory of the machine where nothing else is asked for.
pub(crate) const DEFAULT_MEMORY: &str = "256M";

/// Without a limit of its own a machine may run for a day.
const NO_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

/// What the machine's console reads.
pub(crate) enum Input {
    /// Nothing.
    None,
    /// Our own standard input: a terminal or a pipe.
    Inherited,
    /// What is typed when something has been printed.
    Dialogue(Vec<Line>),
}

/// One turn of a dialogue with the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Line {
    /// Waits until this has been printed, behind what earlier lines have waited for.
    pub(crate) after: String,
    /// Then types this.
    pub(crate) r#type: String,
}

/// A machine and the program that it runs.
pub(crate) struct Boot {
    pub(crate) smp: u32,
    pub(crate) memory: String,
    pub(crate) limit: Option<Duration>,
    pub(crate) disk: Option<Disk>,
    pub(crate) network: Option<Network>,
    pub(crate) input: Input,
    /// Counts instructions, each of which takes 2 to this power nanoseconds: then a run can be repeated exactly.
    pub(crate) count: Option<u8>,
    /// The program's name and its arguments.
    pub(crate) command: Vec<String>,
}

/// How a run ended.
pub(crate) struct Ended {
    /// The program's exit code.
    pub(crate) code: u8,
}

impl Boot {
    /// Boots the machine and passes the program's output on as it comes.
    ///
    /// # Errors
    /// When QEMU can't be started, the kernel does not come up (the message then has everything that was printed), or the time
    /// limit is reached.
    pub(crate) fn run(&self, image: &Image, mut output: impl FnMut(&[u8])) -> Result<Ended> {
        let limit = self.limit.unwrap_or(NO_LIMIT);
        let start = Instant::now();
        // In the foreground, so that the program can read from the terminal and Ctrl-C reaches QEMU.
        let mut command = process::limited(&self.qemu(image), limit, true)?;
        command.stdout(Stdio::piped());
        command.stdin(match self.input {
            Input::None => Stdio::null(),
            Input::Inherited => Stdio::inherit(),
            Input::Dialogue(_) => Stdio::piped(),
        });
        let mut child = command.spawn().context("can't start QEMU")?;
        let mut dialogue = match &self.input {
            Input::Dialogue(lines) => Some(Dialogue::new(lines, child.stdin.take())),
            _ => None,
        };
        let mut console = child.stdout.take().expect("the console is piped");
        let mut transcript = Transcript::default();
        let mut buffer = [0; 4096];
        loop {
            let length = console.read(&mut buffer)?;
            if length == 0 {
                break;
            }
            let bytes = transcript.feed(&buffer[..length]);
            if !bytes.is_empty() {
                output(bytes);
            }
            if let Some(dialogue) = &mut dialogue {
                dialogue.hear(bytes)?;
            }
        }
        let status = child.wait()?;
        let timed_out = process::timed_out(status.code(), start.elapsed(), limit);
        if !transcript.booted() {
            let printed = String::from_utf8_lossy(transcript.before());
            let how = if timed_out {
                format!("within {} s", limit.as_secs())
            } else {
                format!("({status})")
            };
            bail!(
                "the kernel did not come up {how}: no line began with `corank: booted`. It printed:\n{printed}"
            );
        }
        if timed_out {
            bail!(
                "`{}` was still running after {} s",
                self.command.join(" "),
                limit.as_secs()
            );
        }
        match status.code() {
            Some(code) => Ok(Ended {
                code: u8::try_from(code).unwrap_or(u8::MAX),
            }),
            None => bail!("QEMU was ended from outside ({status})"),
        }
    }

    /// The command that runs the machine.
    pub(super) fn qemu(&self, image: &Image) -> Command {
        let mut command = Command::new("qemu-system-riscv64");
        command.args(["-machine", "virt", "-nographic", "-bios", "default"]);
        command.args(["-smp", &self.smp.to_string(), "-m", &self.memory]);
        command
            .arg("-kernel")
            .arg(&image.kernel)
            .arg("-initrd")
            .arg(&image.archive);
        command.args(["-global", "virtio-mmio.force-legacy=false"]);
        if let Some(disk) = &self.disk {
            command.args(disk.arguments());
        }
        if let Some(network) = &self.network {
            command.args(network.arguments());
        }
        if let Some(shift) = self.count {
            // Where nothing is executed, time leaps to the next timer.
            command.args(["-icount", &format!("shift={shift},sleep=off")]);
        }
        command
            .arg("-append")
            .arg(quote::command_line(&self.command));
        match &self.network {
            Some(network) => network.enter(command),
            None => command,
        }
    }
}

/// The other side of a dialogue with the machine.
struct Dialogue<'a> {
    /// What is still to be typed.
    lines: &'a [Line],
    /// What has been printed since the last line was typed.
    heard: Vec<u8>,
    keyboard: Option<ChildStdin>,
}

impl<'a> Dialogue<'a> {
    fn new(lines: &'a [Line], keyboard: Option<ChildStdin>) -> Self {
        Self {
            lines,
            heard: Vec::new(),
            keyboard,
        }
    }

    /// Takes what the machine has printed, and types what is due.
    fn hear(&mut self, bytes: &[u8]) -> Result<()> {
        self.heard
            .extend(bytes.iter().filter(|byte| **byte != b'\r'));
        while let Some((line, rest)) = self.lines.split_first() {
            let wanted = line.after.as_bytes();
            let found = self
                .heard
                .windows(wanted.len().max(1))
                .position(|heard| heard == wanted);
            let Some(at) = found else { break };
            self.heard.drain(..at + wanted.len());
            if let Some(keyboard) = &mut self.keyboard {
                keyboard
                    .write_all(line.r#type.as_bytes())
                    .context("the machine does not read what is typed")?;
            }
            self.lines = rest;
        }
        Ok(())
    }
}
