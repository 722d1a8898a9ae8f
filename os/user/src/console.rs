//! `print!`, `println!`, `eprint!` and `eprintln!`.
//!
//! A line is put together on the stack and goes out in one system call, so that lines of several
//! threads and processes don't mix. A line that is longer than 512 bytes takes several calls.
use core::fmt::{Result, Write};

use crate::io::{Fd, STDERR, STDOUT};

/// Bytes of one system call at most.
const LINE: usize = 512;

/// Text that has not been written to its file yet.
#[derive(Debug)]
struct Line {
    file: Fd,
    bytes: [u8; LINE],
    length: usize,
}

impl Line {
    fn flush(&mut self) -> Result {
        let mut rest = &self.bytes[..self.length];
        while !rest.is_empty() {
            match self.file.write(rest) {
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
    print_to(STDOUT, arguments);
}

#[doc(hidden)]
pub fn print_error(arguments: core::fmt::Arguments<'_>) {
    print_to(STDERR, arguments);
}

fn print_to(file: Fd, arguments: core::fmt::Arguments<'_>) {
    let mut line = Line {
        file,
        bytes: [0; LINE],
        length: 0,
    };
    // A program without its console goes on: there is nowhere to report the error.
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

/// Prints to the console's second output, for messages that are no results.
#[macro_export]
macro_rules! eprint {
    ($($argument:tt)*) => { $crate::console::print_error(format_args!($($argument)*)) };
}

/// Prints a line to the console's second output, for messages that are no results.
#[macro_export]
macro_rules! eprintln {
    () => { $crate::eprint!("\n") };
    ($($argument:tt)*) => { $crate::console::print_error(format_args!("{}\n", format_args!($($argument)*))) };
}
