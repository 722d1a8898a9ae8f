//! Small programs for the shell, in one executable.
//!
//! The name under which it is started selects the tool.
//!
//! `tools NAME ARGS` is the same as `NAME ARGS`. Every tool reports what went wrong and goes on
//! with the next file. Its exit code is then 1, or 2 when it was called wrongly.
#![no_std]
#![no_main]

extern crate alloc;

mod files;
mod text;
mod time;
mod watch;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Display;

use corank_user::{eprintln, println};

corank_user::main!(main);

/// Arguments of a tool: the words behind its name.
type Arguments = Vec<&'static str>;

/// A tool: its name, its arguments in words, and what it does.
struct Tool {
    name: &'static str,
    usage: &'static str,
    run: fn(&Arguments) -> Result<(), Trouble>,
}

const TOOLS: &[Tool] = &[
    tool("cat", "[FILE...]", text::cat),
    tool("cp", "FROM... TO", files::cp),
    tool("df", "", files::df),
    tool("echo", "[-n] [WORD...]", text::echo),
    tool("false", "", |_| Err(Trouble::Reported)),
    tool("ls", "[-l] [PATH...]", files::ls),
    tool("mkdir", "[-p] PATH...", files::mkdir),
    tool("mv", "FROM... TO", files::mv),
    tool("ps", "", watch::ps),
    tool("rm", "[-r] PATH...", files::rm),
    tool("rmdir", "PATH...", files::rmdir),
    tool("sleep", "SECONDS", time::sleep),
    tool("sync", "", files::sync),
    tool("top", "[-n TIMES] [-s SECONDS]", watch::top),
    tool("true", "", |_| Ok(())),
    tool("wc", "[FILE...]", text::wc),
];

const fn tool(
    name: &'static str,
    usage: &'static str,
    run: fn(&Arguments) -> Result<(), Trouble>,
) -> Tool {
    Tool { name, usage, run }
}

/// Reason why a tool has not done all that it was asked for.
enum Trouble {
    /// It was called wrongly.
    Usage,
    /// It has reported what went wrong.
    Reported,
    /// Something else went wrong.
    Because(String),
}

impl Trouble {
    /// Returns the trouble of a file with this error.
    fn with(file: &str, error: impl Display) -> Trouble {
        Trouble::Because(alloc::format!("{file}: {error}"))
    }
}

impl<E: core::error::Error> core::convert::From<E> for Trouble {
    fn from(error: E) -> Trouble {
        Trouble::Because(alloc::format!("{error}"))
    }
}

fn main() -> i32 {
    let mut arguments: Arguments = corank_user::arguments().collect();
    let called = |word: &&str| word.rsplit('/').next().unwrap_or_default() == "tools";
    if arguments.first().is_some_and(called) {
        arguments.remove(0);
    }
    if arguments.is_empty() {
        println!("usage: tools NAME [ARGS...]; the names are:");
        TOOLS
            .iter()
            .for_each(|tool| println!("  {} {}", tool.name, tool.usage));
        return 2;
    }
    let name = arguments.remove(0).rsplit('/').next().unwrap_or_default();
    let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) else {
        eprintln!("tools: there is no tool {name}");
        return 2;
    };
    match (tool.run)(&arguments) {
        Ok(()) => return 0,
        Err(Trouble::Usage) => {
            eprintln!("usage: {name} {}", tool.usage);
            return 2;
        }
        Err(Trouble::Reported) => {}
        Err(Trouble::Because(what)) => eprintln!("{name}: {what}"),
    }
    1
}

/// Calls the deed for each word.
///
/// One that fails is reported, and the others are done anyway.
fn for_each(
    name: &str,
    words: &[&'static str],
    mut deed: impl FnMut(&'static str) -> Result<(), Trouble>,
) -> Result<(), Trouble> {
    let mut outcome = Ok(());
    for word in words {
        match deed(word) {
            Ok(()) => continue,
            Err(Trouble::Usage) => return Err(Trouble::Usage),
            Err(Trouble::Because(what)) => eprintln!("{name}: {what}"),
            Err(Trouble::Reported) => {}
        }
        outcome = Err(Trouble::Reported);
    }
    outcome
}

/// Takes an option off the front of the arguments, if it stands there.
fn option<'a>(
    arguments: &'a [&'static str],
    name: &str,
) -> Result<(bool, &'a [&'static str]), Trouble> {
    match arguments.split_first() {
        Some((first, rest)) if *first == name => Ok((true, rest)),
        Some((first, _)) if first.starts_with('-') && first.len() > 1 => Err(Trouble::Usage),
        _ => Ok((false, arguments)),
    }
}
