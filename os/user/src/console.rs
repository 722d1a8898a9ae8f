//! `print!` and `println!`.
//!
//! A line is put together on the stack and goes out in one system call, so that lines of several threads and processes don't
//! mix. A line that is longer than 512 bytes takes several calls.
use core::fmt::{Result, Write};

use crate::io::STDOUT;

/// Bytes of one system call at most.
const LINE: usize = 512;

/// Text on its way to the console.
#[derive(Debug)]
struct Line {
    bytes: [u8; LINE],
    length: usize,
}

impl Line {
    fn flush(&mut self) -> Result {
        let mut rest = &self.bytes[..self.length];
        while !rest.is_empty() {
            match STDOUT.write(rest) {
                Ok(count) if count > 0 => rest = &rest[count..],
                _ => return Err(core::fmt::Error),
            }
        }
        self.length = 0;
        Ok(())
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> Result {
        for part in text.as_bytes().chunks(LINE) {
            if part.len() > LINE - self.length {
                self.flush()?;
            }
            self.bytes[self.length..self.length + part.len()].copy_from_slice(part);
            self.length += part.len();
        }
        Ok(())
    }
}

#[doc(hidden)]
pub fn print(arguments: core::fmt::Arguments<'_>) {
    let mut line = Line {
        bytes: [0; LINE],
        length: 0,
    };
    // A program whose console is gone goes on: there is nowhere to complain.
    let _ = line.write_fmt(arguments).and_then(|()| line.flush());
}

/// Prints to the console, like the standard library's.
#[macro_export]
macro_rules! print {
    ($($argument:tt)*) => { $crate::console::print(format_args!($($argument)*)) };
}

/// Prints a line to the console, like the standard library's.
#[macro_export]
macro_rules! println {
    () => { $crate::print!("\n") };
    ($($argument:tt)*) => { $crate::console::print(format_args!("{}\n", format_args!($($argument)*))) };
}
