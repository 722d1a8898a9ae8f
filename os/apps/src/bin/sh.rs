//! A small shell: reads lines from the console and runs the programs that they name.
//!
//! `a x y` runs program `a` with two arguments; `a | b | c` joins programs by pipes; `exit [CODE]` ends the shell.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;

use corank_user::io::{OwnedFd, Pipe, STDIN};
use corank_user::process::{self, Pid};
use corank_user::{Error, print, println};

corank_user::main!(main);

fn main() -> i32 {
    loop {
        print!("$ ");
        let Some(line) = read_line() else { return 0 };
        let mut words = line.split_whitespace();
        match words.next() {
            None => {}
            Some("exit") => return words.next().and_then(|code| code.parse().ok()).unwrap_or(0),
            Some(_) => {
                if let Err(error) = run(&line) {
                    println!("sh: {error}");
                }
            }
        }
        reap();
    }
}

/// A line without its end; `None` at the end of the input.
fn read_line() -> Option<String> {
    let mut line = String::new();
    loop {
        let mut byte = [0];
        if STDIN.read(&mut byte).ok()? == 0 {
            return None;
        }
        match byte[0] {
            b'\r' | b'\n' => {
                println!();
                return Some(line);
            }
            // Backspace and delete.
            8 | 127 => {
                if line.pop().is_some() {
                    print!("\x08 \x08");
                }
            }
            byte if byte.is_ascii_graphic() || byte == b' ' => {
                line.push(char::from(byte));
                print!("{}", char::from(byte));
            }
            _ => {}
        }
    }
}

/// Runs all programs of a line at once, each reading what the one before it writes, and waits for them.
fn run(line: &str) -> Result<(), Error> {
    let commands: Vec<&str> = line.split('|').collect();
    let mut children = Vec::new();
    let mut input = None;
    for (index, command) in commands.iter().enumerate() {
        let pipe = if index + 1 < commands.len() {
            Some(Pipe::new()?)
        } else {
            None
        };
        let (next, output) =
            pipe.map_or((None, None), |pipe| (Some(pipe.reader), Some(pipe.writer)));
        children.push(start(command, input, output, next.as_ref())?);
        input = next;
    }
    for child in children {
        let exited = process::wait(child)?;
        if exited.code != 0 {
            println!("sh: exit code {}", exited.code);
        }
    }
    Ok(())
}

/// Starts one program. `foreign` is the shell's end of a pipe that isn't this program's.
fn start(
    command: &str,
    input: Option<OwnedFd>,
    output: Option<OwnedFd>,
    foreign: Option<&OwnedFd>,
) -> Result<Pid, Error> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let foreign = foreign.map(|end| end.number());
    process::spawn(|| {
        foreign.map(OwnedFd::from_number);
        become_descriptor(0, input);
        become_descriptor(1, output);
        let Some(name) = words.first() else { return 0 };
        process::exec(name, &words);
        println!("sh: there is no program {name}");
        127
    })
}

/// Makes `file` this process's descriptor `number`, below which all are open.
fn become_descriptor(number: usize, file: Option<OwnedFd>) {
    let Some(file) = file else { return };
    drop(OwnedFd::from_number(number));
    if let Ok(copy) = file.duplicate() {
        // It has the lowest number that is free: that one.
        let _ = copy.into_number();
    }
}

/// The first process inherits children whose parents have ended: the shell may be it.
fn reap() {
    while process::try_wait_any().is_ok_and(|exited| exited.is_some()) {}
}
