//! Tools that read and write text.
use crate::{Arguments, Trouble, for_each, option};
use alloc::vec;
use corank_user::fs::File;
use corank_user::io::{Fd, STDIN, STDOUT};
use corank_user::{Error, println};

/// Bytes of one read.
///
/// The console and files give what is there; a pipe waits until there is as much, or its end.
const PIECE: usize = 16 << 10;

fn write_all(mut data: &[u8]) -> Result<(), Trouble> {
    while !data.is_empty() {
        let count = STDOUT
            .write(data)
            .map_err(|error| Trouble::with("output", error))?;
        data = &data[count..];
    }
    Ok(())
}

/// Calls `use_piece` with what can be read, piece by piece.
fn read_all(
    input: Fd,
    mut use_piece: impl FnMut(&[u8]) -> Result<(), Trouble>,
) -> Result<Result<(), Error>, Trouble> {
    let mut piece = vec![0; PIECE];
    loop {
        match input.read(&mut piece) {
            Ok(0) => return Ok(Ok(())),
            Ok(count) => use_piece(&piece[..count])?,
            Err(error) => return Ok(Err(error)),
        }
    }
}

/// Reads a file from its beginning to its end, or the standard input for `-`.
fn read_file(
    name: &str,
    use_piece: impl FnMut(&[u8]) -> Result<(), Trouble>,
) -> Result<(), Trouble> {
    let outcome = if name == "-" {
        read_all(STDIN, use_piece)?
    } else {
        let file = File::open(name).map_err(|error| Trouble::with(name, error))?;
        read_all(**file, use_piece)?
    };
    outcome.map_err(|error| Trouble::with(name, error))
}

/// Writes files one after the other.
pub(crate) fn cat(arguments: &Arguments) -> Result<(), Trouble> {
    let names: &[&str] = if arguments.is_empty() {
        &["-"]
    } else {
        arguments
    };
    for_each("cat", names, |name| read_file(name, write_all))
}

/// Writes its arguments.
pub(crate) fn echo(arguments: &Arguments) -> Result<(), Trouble> {
    let (bare, words) = match arguments.split_first() {
        Some((&"-n", words)) => (true, words),
        _ => (false, arguments.as_slice()),
    };
    let mut line = words.join(" ");
    if !bare {
        line.push('\n');
    }
    write_all(line.as_bytes())
}

#[derive(Default)]
struct Counts {
    lines: usize,
    words: usize,
    bytes: usize,
    in_word: bool,
}

impl Counts {
    fn add(&mut self, piece: &[u8]) {
        for byte in piece {
            let in_word = !byte.is_ascii_whitespace();
            self.words += usize::from(in_word && !self.in_word);
            self.in_word = in_word;
            self.lines += usize::from(*byte == b'\n');
        }
        self.bytes += piece.len();
    }

    fn print(&self, name: &str) {
        println!("{:7} {:7} {:7} {name}", self.lines, self.words, self.bytes);
    }
}

/// Counts lines, words and bytes.
pub(crate) fn wc(arguments: &Arguments) -> Result<(), Trouble> {
    let (_, names) = option(arguments, "")?;
    if names.is_empty() {
        let mut counts = Counts::default();
        read_file("-", |piece| {
            counts.add(piece);
            Ok(())
        })?;
        counts.print("");
        return Ok(());
    }
    let mut sum = Counts::default();
    let outcome = for_each("wc", names, |name| {
        let mut counts = Counts::default();
        read_file(name, |piece| {
            counts.add(piece);
            Ok(())
        })?;
        counts.print(name);
        sum.lines += counts.lines;
        sum.words += counts.words;
        sum.bytes += counts.bytes;
        Ok(())
    });
    if names.len() > 1 {
        sum.print("total");
    }
    outcome
}
