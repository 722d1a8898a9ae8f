//! The shell: reads command lines and runs the programs that they name.
//!
//! ```text
//! a x y              program a with two arguments
//! a | b | c          programs joined by pipes
//! a < in > out       a reads one file and writes another; >> appends, 2> takes the messages
//! a &                in the background
//! a ; b    a && b    a || b     one after the other; b only if a has succeeded, or failed
//! 'x y'  "x $?"  \x  quoting; $? is the exit code of the last command, $! the number of the last job in the background
//! # text             a remark
//! ```
//! Built in: `cd [PATH]`, `pwd`, `exit [CODE]`, `kill [-SIGNAL] PID...`, `wait` for what runs in
//! the background, `help`. Ctrl-C ends what runs in front. Programs have no
//! [right](corank_user::process::Rights) over the machine, and those in the background none to the
//! console.
//!
//! `sh` reads from the console, `sh -c TEXT` runs a text, `sh FILE` a file.
#![no_std]
#![no_main]

extern crate alloc;

mod editor;
mod line;
mod run;
mod words;

use alloc::string::String;
use corank_user::{eprintln, fs};
use editor::Editor;
use run::Shell;

corank_user::main!(main);

fn main() -> i32 {
    let mut shell = Shell::new();
    let mut arguments = corank_user::arguments().skip(1);
    match (arguments.next(), arguments.next()) {
        (None, _) => interactive(&mut shell),
        (Some("-c"), Some(text)) => script(&mut shell, text),
        (Some("-c"), None) => {
            eprintln!("usage: sh [-c TEXT | FILE]");
            return 2;
        }
        (Some(path), _) => match fs::read(path).map(String::from_utf8) {
            Ok(Ok(text)) => script(&mut shell, &text),
            Ok(Err(_)) => {
                eprintln!("sh: {path}: not a text");
                return 126;
            }
            Err(error) => {
                eprintln!("sh: {path}: {error}");
                return 127;
            }
        },
    }
    shell.last_code
}

/// Runs line after line until `exit` or the end of the input.
fn interactive(shell: &mut Shell) {
    shell.take_console();
    let mut editor = Editor::new();
    while !shell.is_over {
        shell.report_ended();
        let Some(line) = editor.read_line(&shell.prompt()) else {
            break;
        };
        shell.run_line(&line);
    }
}

fn script(shell: &mut Shell, text: &str) {
    for line in text.lines() {
        shell.run_line(line);
        if shell.is_over {
            break;
        }
    }
}
