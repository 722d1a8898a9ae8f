//! One run of the machine in QEMU.

use super::build::Image;
use super::disk::Disk;
use super::input::Input;
use super::network::Network;
use super::{quote, transcript::Transcript};
use crate::process;
use anyhow::{Context, Result, bail};
use std::fmt;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Memory of the machine by default.
pub(crate) const DEFAULT_MEMORY: &str = "256M";

/// Time limit of a machine without a limit of its own: a day.
const NO_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

/// A machine and the program that it runs.
pub(crate) struct Boot {
    pub(crate) smp: u32,
    pub(crate) memory: String,
    pub(crate) limit: Option<Duration>,
    pub(crate) disk: Option<Disk>,
    pub(crate) network: Option<Network>,
    pub(crate) input: Input,
    /// Counts instructions, each of which takes 2 to this power nanoseconds.
    ///
    /// Then a run can be repeated exactly.
    ///
    /// With several harts a machine that counts may stop for ever. QEMU before 8.1 lets one hart
    /// run until the next timer. A hart that waits for another hart's answer (to an interrupt that
    /// empties the TLB, say) then never lets the other one run.
    pub(crate) count: Option<u8>,
    /// The program's name and its arguments.
    pub(crate) command: Vec<String>,
}

/// How a run ended.
pub(crate) struct Ended {
    /// The program's exit code.
    pub(crate) code: u8,
}

/// The error when the time limit is reached.
///
/// The machine runs for ever, or has not come up.
#[derive(Debug)]
pub(crate) struct TimedOut(String);

impl fmt::Display for TimedOut {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for TimedOut {}

impl Boot {
    /// Boots the machine and passes the program's output on as it comes.
    ///
    /// # Errors
    /// When QEMU can't be started, or the kernel does not come up (the message then has everything
    /// that was printed). When the time limit is reached: [`TimedOut`].
    pub(crate) fn run(&self, image: &Image, mut output: impl FnMut(&[u8])) -> Result<Ended> {
        let limit = self.limit.unwrap_or(NO_LIMIT);
        let start = Instant::now();
        // It runs in the foreground, so that the program can read from the terminal and Ctrl-C
        // reaches QEMU.
        let mut command = process::limited(&self.qemu(image), limit, true)?;
        command.stdout(Stdio::piped());
        command.stdin(self.input.stdio());
        let mut child = command.spawn().context("can't start QEMU")?;
        let mut keyboard = self.input.keyboard(child.stdin.take());
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
            keyboard.receive(bytes)?;
            if transcript.booted() {
                keyboard.booted();
            }
        }
        let status = child.wait()?;
        let timed_out = process::timed_out(status.code(), start.elapsed(), limit);
        if !transcript.booted() {
            let printed = String::from_utf8_lossy(transcript.before());
            let what = "no line began with `corank: booted`. It printed:";
            if timed_out {
                let seconds = limit.as_secs();
                return Err(TimedOut(format!(
                    "the kernel did not come up within {seconds} s: {what}\n{printed}"
                ))
                .into());
            }
            bail!("the kernel did not come up ({status}): {what}\n{printed}");
        }
        if timed_out {
            return Err(TimedOut(format!(
                "`{}` was still running after {} s",
                self.command.join(" "),
                limit.as_secs()
            ))
            .into());
        }
        match status.code() {
            Some(code) => Ok(Ended {
                code: u8::try_from(code).unwrap_or(u8::MAX),
            }),
            None => bail!("QEMU was ended from outside ({status})"),
        }
    }

    /// Returns the command that runs the machine.
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
            // While nothing is executed, time leaps to the next timer.
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
