//! The one command line of the repository: see `cargo xtask --help`.
//!
//! Each command has a module of its own. The modules share [`process`] (running other programs),
//! [`progress`] (showing progress), [`repository`] (paths in the repository) and [`toolchain`]
//! (choosing the compiler for bare metal).
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate alloc;

mod attack;
mod cpp;
mod experiment;
mod firmware;
mod os;
mod packages;
mod process;
mod progress;
mod published;
mod release;
mod report;
mod repository;
mod run;
mod setup;
mod test;
mod toolchain;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Sets up, builds, runs, tests and measures Corank.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Installs what is missing on this machine, and says what it does
    Setup,
    /// The main job: boots the OS, runs the experiments at a quick setting, shows the results
    /// beside published figures
    Run,
    /// Runs every test of every platform; the last line is `N passed, N failed`
    Test(test::Options),
    /// Attacks the system as a hostile program, disk or peer would, for some minutes
    Attack(attack::Options),
    /// Runs one experiment and writes what it measured as JSON
    Experiment(experiment::Options),
    /// Boots the OS, runs one program, ends with the program's exit code
    Os(os::Options),
    /// Shows where the code of a step of experiment B lies, or lists it for the linker scripts
    OsLayout(os::layout::Options),
    /// Measures the longest stretches of kernel work without a check for more urgent work
    Limits(os::limits::Options),
    /// The coroutine frames in a firmware: their sizes, and whether they fit
    Frames(corank_frames::Options),
    /// Checks what a release needs, and marks it in git
    Release(release::Options),
    /// Writes target/report/index.html from the results of the last runs
    Report(report::Options),
}

fn main() -> ExitCode {
    let outcome = match CommandLine::parse().command {
        Command::Setup => setup::run().map(|()| ExitCode::SUCCESS),
        Command::Run => run::run(),
        Command::Test(options) => test::run(&options),
        Command::Attack(options) => attack::run(&options),
        Command::Experiment(options) => experiment::run(&options),
        Command::Os(options) => os::run(&options),
        Command::OsLayout(options) => os::layout::run(&options),
        Command::Limits(options) => os::limits::run(&options),
        Command::Frames(options) => corank_frames::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Release(options) => release::run(&options),
        Command::Report(options) => report::run(&options),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
