//! What the machine's console reads.

use anyhow::{Context, Result};
use corank_abi::console::{LITERAL, NO_MORE_INPUT, is_control};
use std::io::{self, IsTerminal, Read, Write};
use std::process::{ChildStdin, Stdio};
use std::thread;

/// QEMU's own escape character on its console.
///
/// Typed twice, it stands for itself.
const QEMU_ESCAPE: u8 = 1;

/// What the machine's console reads.
pub(crate) enum Input {
    /// Nothing.
    None,
    /// This program's standard input.
    ///
    /// A terminal belongs to the machine. From any other input, all bytes are passed on as they
    /// are, and then its end.
    Inherited,
    /// Lines that are typed when certain texts have been printed.
    Dialogue(Vec<Line>),
}

/// One turn of a dialogue with the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Line {
    /// The text to wait for, behind the texts of earlier lines.
    pub(crate) after: String,
    /// The text to type then.
    pub(crate) r#type: String,
}

impl Input {
    /// Returns the standard input with which QEMU is to be started.
    pub(super) fn stdio(&self) -> Stdio {
        match self {
            Self::None => Stdio::null(),
            Self::Inherited if io::stdin().is_terminal() => Stdio::inherit(),
            Self::Inherited | Self::Dialogue(_) => Stdio::piped(),
        }
    }

    /// Returns the keyboard that types into QEMU's standard input.
    pub(super) fn keyboard(&self, machine: Option<ChildStdin>) -> Keyboard<'_> {
        match (self, machine) {
            (Self::Inherited, Some(machine)) => {
                Keyboard::Copy(Some((Box::new(io::stdin()), machine)))
            }
            (Self::Dialogue(lines), Some(machine)) => Keyboard::Dialogue(Dialogue {
                lines,
                received: Vec::new(),
                machine,
            }),
            _ => Keyboard::None,
        }
    }
}

/// The source of what is typed into the machine.
pub(super) enum Keyboard<'a> {
    /// Nothing is typed.
    None,
    /// A source of bytes that are passed on from when the kernel is up.
    ///
    /// Before that, its serial port loses what comes.
    Copy(Option<(Box<dyn Read + Send>, ChildStdin)>),
    Dialogue(Dialogue<'a>),
}

impl Keyboard<'_> {
    /// Begins to type.
    ///
    /// Called when the kernel is up, once or more often.
    pub(super) fn booted(&mut self) {
        if let Self::Copy(copy) = self
            && let Some((source, machine)) = copy.take()
        {
            // The thread may still wait for input when the machine has ended. It ends with this
            // program.
            thread::spawn(|| {
                // The machine may end before its input.
                let _ = pass_on(source, machine);
            });
        }
    }

    /// Takes what the machine has printed, and types what is due.
    ///
    /// # Errors
    /// When the machine does not read what is typed.
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Dialogue(dialogue) => dialogue.receive(bytes),
            Self::None | Self::Copy(_) => Ok(()),
        }
    }
}

/// Passes all bytes on, and then the end of the input.
///
/// Control characters are quoted, so that programs of the machine read the same bytes.
fn pass_on(mut source: impl Read, mut machine: impl Write) -> io::Result<()> {
    let mut buffer = [0; 4096];
    let mut typed = Vec::new();
    loop {
        let length = match source.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        typed.clear();
        for &byte in &buffer[..length] {
            if is_control(byte) {
                typed.push(LITERAL);
            }
            if byte == QEMU_ESCAPE {
                typed.push(byte);
            }
            typed.push(byte);
        }
        machine.write_all(&typed)?;
    }
    machine.write_all(&[NO_MORE_INPUT])
}

/// The other side of a dialogue with the machine.
pub(super) struct Dialogue<'a> {
    /// The lines that are still to be typed.
    lines: &'a [Line],
    /// The bytes that have been printed since the last line was typed.
    received: Vec<u8>,
    machine: ChildStdin,
}

impl Dialogue<'_> {
    fn receive(&mut self, bytes: &[u8]) -> Result<()> {
        self.received
            .extend(bytes.iter().filter(|byte| **byte != b'\r'));
        while let Some((line, rest)) = self.lines.split_first() {
            let wanted = line.after.as_bytes();
            let found = self
                .received
                .windows(wanted.len().max(1))
                .position(|received| received == wanted);
            let Some(at) = found else { break };
            self.received.drain(..at + wanted.len());
            self.machine
                .write_all(line.r#type.as_bytes())
                .context("the machine does not read what is typed")?;
            self.lines = rest;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_quoted_and_the_end_is_marked() {
        let mut typed = Vec::new();
        pass_on(&b"a\x01b\x04\x16\n"[..], &mut typed).unwrap();
        assert_eq!(typed, b"a\x01\x01b\x16\x04\x16\x16\n\x19");
        typed.clear();
        pass_on(io::empty(), &mut typed).unwrap();
        assert_eq!(typed, [NO_MORE_INPUT]);
    }
}
