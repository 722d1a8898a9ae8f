//! `corank-scx`: loads the scheduler into the kernel, and gives processes their pages.

mod daemon;
mod grants;
mod kernel;

use anyhow::{Context, Result, bail};
use grants::Grants;
use lexopt::{Arg, Parser, ValueExt};
use std::path::PathBuf;

const HELP: &str = "\
Lets the kernel run the most urgent level first, as the pages of processes show it

corank-scx run [--config FILE] [--socket SOCKET]

  --config FILE     Who may show which levels; without this file, root alone
                    [/etc/corank/scx.conf]
  --socket SOCKET   Where processes ask for their pages [/run/corank/scx]

It schedules until it is ended, and needs root.";

/// The arguments of `corank-scx run`.
struct Run {
    config: PathBuf,
    socket: PathBuf,
    /// A thread that never runs again, for a test of the kernel's watchdog.
    forget: u32,
}

fn main() -> Result<()> {
    let Some(run) = arguments()? else {
        println!("{HELP}");
        return Ok(());
    };
    let grants = Grants::read(&run.config)
        .with_context(|| format!("{} cannot be used", run.config.display()))?;
    let scheduler = kernel::Scheduler::load(run.forget)?;
    daemon::run(scheduler, &grants, &run.socket)
}

/// Returns the arguments; `None` if help is asked for.
fn arguments() -> Result<Option<Run>> {
    let mut run = Run {
        config: "/etc/corank/scx.conf".into(),
        socket: corank_scx::protocol::SOCKET.into(),
        forget: 0,
    };
    let mut parser = Parser::from_env();
    let mut is_run = false;
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Value(word) if word == "run" && !is_run => is_run = true,
            Arg::Long("config") => run.config = parser.value()?.into(),
            Arg::Long("socket") => run.socket = parser.value()?.into(),
            Arg::Long("forget") => run.forget = parser.value()?.parse()?,
            Arg::Long("help") | Arg::Short('h') => return Ok(None),
            other => return Err(other.unexpected().into()),
        }
    }
    if !is_run {
        bail!("use `corank-scx run`; `--help` has the options");
    }
    Ok(Some(run))
}
