//! `corank top`: the processes of a domain, live; `corank trace`: recordings of a scheduler.
#![forbid(unsafe_code)]

mod json;
mod screen;
mod trace;
mod view;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use corank_domain::Domain;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process;
use std::time::Duration;

/// Shows Corank's domains on this machine, and recordings
#[derive(Parser)]
#[command(name = "corank", version)]
struct Command {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Shows the processes of a domain: their levels, coroutines, times and inversions
    Top(Top),
    /// Shows recordings of what schedulers did (`CORANK_RECORD=FILE`), or checks them
    Trace(trace::Trace),
    /// Lets the kernel schedule by levels: runs `corank-scx` with these arguments
    #[command(disable_help_flag = true)]
    Scx(Scx),
}

/// The arguments of `corank top`.
#[derive(Args)]
struct Top {
    /// The domain of this user
    #[arg(long, default_value = "default")]
    domain: String,
    /// Where its processes find each other, if not in this user's own folders
    #[arg(long, value_name = "FOLDER")]
    root: Option<PathBuf>,
    /// Print one JSON document per sample, each in a line, instead of a screen
    #[arg(long)]
    json: bool,
    /// Seconds between two samples
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    interval: f64,
    /// The number of samples; by default 1 with --json, otherwise until `q` is pressed
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

/// The arguments of `corank scx`.
#[derive(Args)]
struct Scx {
    /// The arguments of `corank-scx`: `run`, or `--help`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Scx {
    /// Becomes `corank-scx`, which lies beside this program or on the search path.
    fn run(self) -> Result<()> {
        let beside = std::env::current_exe()?.with_file_name("corank-scx");
        let program = if beside.exists() {
            beside
        } else {
            "corank-scx".into()
        };
        let error = process::Command::new(program).args(self.arguments).exec();
        Err(error).context("corank-scx cannot be run; linux/scx/README.md says how to build it")
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.05..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("use a number from 0.05 to 3600".into()),
    }
}

fn main() -> Result<()> {
    match run() {
        // The reader of the output has ended: `corank trace FILE | head`.
        Err(error) if is_broken_pipe(&error) => Ok(()),
        result => result,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

fn run() -> Result<()> {
    let top = match Command::parse().action {
        Action::Top(top) => top,
        Action::Trace(trace) => return trace.run(),
        Action::Scx(scx) => return scx.run(),
    };
    let mut domain = Domain::named(top.domain.clone());
    if let Some(root) = &top.root {
        domain = domain.root(root);
    }
    let mut watcher = domain.watch()?;
    let interval = Duration::from_secs_f64(top.interval);
    if top.json {
        json::print(&mut watcher, &top.domain, interval, top.count.unwrap_or(1))
    } else {
        screen::run(&mut watcher, &top.domain, interval, top.count)
    }
}
