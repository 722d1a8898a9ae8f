//! `corank-frames FIRMWARE`: see the library.
#![forbid(unsafe_code)]

use clap::Parser;
use corank_frames::Options;
use std::process::ExitCode;

/// Prints the coroutine frames in a firmware, and checks that they fit.
#[derive(Parser)]
#[command(name = "corank-frames")]
struct CommandLine {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    match corank_frames::run(&CommandLine::parse().options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
