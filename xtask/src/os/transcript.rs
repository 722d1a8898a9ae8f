//! Cutting the firmware's banner and the kernel's own messages off the machine's output.

/// The beginning of the kernel's last line before it starts the program.
const BOOTED: &[u8] = b"corank: booted";

/// The output of the machine.
#[derive(Default)]
pub(super) struct Transcript {
    /// Everything up to the end of the line that says that the kernel is up.
    before: Vec<u8>,
    /// The beginning of the unfinished line in `before`.
    line_start: usize,
    booted: bool,
}

impl Transcript {
    /// Takes the machine's new output and returns the program's part of it.
    pub(super) fn feed<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        if self.booted {
            return bytes;
        }
        for (at, &byte) in bytes.iter().enumerate() {
            self.before.push(byte);
            if byte == b'\n' {
                if self.before[self.line_start..].starts_with(BOOTED) {
                    self.booted = true;
                    return &bytes[at + 1..];
                }
                self.line_start = self.before.len();
            }
        }
        &[]
    }

    /// Tests whether the kernel came up.
    pub(super) fn booted(&self) -> bool {
        self.booted
    }

    /// Returns the output up to when the kernel was up, or all of it if it never was.
    pub(super) fn before(&self) -> &[u8] {
        &self.before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_begins_after_the_line_that_says_booted() {
        let mut transcript = Transcript::default();
        assert_eq!(
            transcript.feed(b"OpenSBI\r\nnot corank: booted\r\ncorank: boo"),
            b""
        );
        assert!(!transcript.booted());
        assert_eq!(
            transcript.feed(b"ted, 2 harts\r\nhello\r\nwor"),
            b"hello\r\nwor"
        );
        assert_eq!(transcript.feed(b"ld"), b"ld");
        assert_eq!(transcript.feed(b"corank: booted\n"), b"corank: booted\n");
        assert_eq!(
            transcript.before(),
            b"OpenSBI\r\nnot corank: booted\r\ncorank: booted, 2 harts\r\n"
        );
    }

    #[test]
    fn without_the_line_everything_is_kept() {
        let mut transcript = Transcript::default();
        assert_eq!(transcript.feed(b"panic\n"), b"");
        assert_eq!(transcript.before(), b"panic\n");
        assert!(!transcript.booted());
    }
}
