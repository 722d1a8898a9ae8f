//! Experiment `global`: relaxed and strict global priority (AsyncOS, section 2.3.2.2).
//!
//! Several processes have coroutines at levels that interleave, woken by timers and pipes. The
//! experiment measures how long a more urgent one waits, anywhere, while a less urgent one runs. It
//! measures the cost of the strict comparison before each poll, and how often that enters the
//! kernel for nothing. And it measures which processes are delayed by a process that lies about its
//! coroutines.
//!
//! With one hart run it in a machine that counts instructions (`qemu -icount shift=0`). There an
//! instruction takes a nanosecond, on whatever host, and every run can be repeated exactly. Several
//! harts take turns of milliseconds there, so times on several are measured by the clock.
//! `cargo xtask experiment global` does both.
#![no_std]
#![no_main]

extern crate alloc;

mod check;
mod forger;
mod inversion;
mod load;
mod settings;
mod stretches;

use alloc::string::String;

use corank_user::println;
use corank_user::runtime::Global;
use settings::{Part, Settings};

corank_user::main!(main);

fn main() -> i32 {
    let settings = match Settings::from_arguments() {
        Ok(settings) => settings,
        Err(problem) => {
            println!("experiment-global: {problem}\n{}", settings::USAGE);
            return 2;
        }
    };
    for (run, &global) in settings.turns() {
        let measured = match settings.part {
            Part::Inversion(wake) => inversion::measure(wake, global, settings.processes, run),
            Part::Check => check::measure(global, run, settings.most),
            Part::Forger => forger::measure(global, run, settings.within),
        };
        if let Err(error) = measured {
            println!("experiment-global: {error}");
            return 1;
        }
    }
    0
}

/// Returns the model's name in the rows.
fn model(global: Global) -> &'static str {
    match global {
        Global::Relaxed => "relaxed",
        Global::Strict => "strict",
    }
}

/// Prints one measured value.
///
/// `parameters` are further fields of the row, in JSON, each with a comma behind it.
fn row(global: Global, parameters: &str, run: usize, metric: &str, unit: &str, value: f64) {
    let (model, harts) = (model(global), corank_user::process::harts());
    println!(
        r#"@row {{"experiment":"global","model":"{model}","harts":{harts},{parameters}"run":{run},"metric":"{metric}","unit":"{unit}","value":{value:.3}}}"#
    );
}

/// Converts ticks of the `time` register to microseconds.
fn microseconds(ticks: u64) -> f64 {
    corank_user::time::duration(ticks).as_nanos() as f64 / 1000.0
}

fn message(error: corank_user::Error) -> String {
    alloc::format!("{error}")
}
