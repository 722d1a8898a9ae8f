//! `cargo xtask test`: every test of every home.
//!
//! The tests are a table of stages. A stage whose folder is not there is left out; one that fails does not stop the others. The
//! last line of the output is the sum: `N passed, N failed`, and `, N skipped` if a stage could not run here.

mod cpp;
mod disk;
mod edge;
mod gateway;
mod http;
mod image;
mod layout;
mod machine;
mod model;
mod net;
mod outcome;
mod outside;
mod privileges;
mod stages;
mod storage;

use crate::process;
use crate::progress::Progress;
use crate::setup;
use anyhow::{Result, bail};
use clap::Args;
use outcome::Outcome;
use stages::{STAGES, Stage};
use std::process::Command;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How much of a failing stage's output is shown.
const TAIL: usize = 60;

/// What `cargo xtask test` takes.
#[derive(Args)]
pub(crate) struct Options {
    /// Runs this stage alone; may be given several times
    #[arg(long, value_name = "STAGE")]
    only: Vec<String>,
    /// Lists the stages and ends
    #[arg(long)]
    list: bool,
}

/// Runs the stages and shows the sum.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let stages = chosen(&options.only)?;
    if options.list {
        for stage in stages {
            println!("{:<12} {}", stage.name, stage.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    setup::run()?;
    let mut total = Outcome::default();
    let mut times = Vec::new();
    for stage in stages {
        let start = Instant::now();
        let outcome = run_stage(stage);
        let took = start.elapsed();
        println!("   {} in {:.1} s", outcome.counts(), took.as_secs_f64());
        times.push((stage.name, outcome.counts(), took));
        total.add(outcome);
    }
    println!("\n== seconds by stage");
    for (name, counts, took) in &times {
        println!("{name:<12} {:>7.1}   {counts}", took.as_secs_f64());
    }
    for reason in &total.skipped {
        println!("skipped: {reason}");
    }
    println!("{}", total.counts());
    Ok(if total.failed == 0 && total.passed > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The stages that were asked for and whose home is there.
fn chosen(only: &[String]) -> Result<Vec<&'static Stage>> {
    for name in only {
        if !STAGES.iter().any(|stage| stage.name == name) {
            let names: Vec<&str> = STAGES.iter().map(|stage| stage.name).collect();
            bail!("there is no stage `{name}`; there are {}", names.join(", "));
        }
    }
    let wanted = |stage: &&Stage| only.is_empty() || only.iter().any(|name| name == stage.name);
    Ok(STAGES
        .iter()
        .filter(wanted)
        .filter(|stage| stage.home_exists())
        .collect())
}

/// Runs one stage. That a stage can't be run counts as a failed test.
fn run_stage(stage: &Stage) -> Outcome {
    println!("\n== {}: {}", stage.name, stage.about);
    let mut context = Context {
        limit: stage.limit,
        progress: Progress::spinner(stage.name),
    };
    let outcome = (stage.run)(&mut context);
    context.progress.finish();
    outcome.unwrap_or_else(|error| {
        println!("   {error:#}");
        Outcome::failed()
    })
}

/// What a stage works with.
struct Context {
    /// Time limit of each command of the stage.
    limit: Duration,
    progress: Progress,
}

impl Context {
    /// Runs a command; when it fails or takes too long, shows the command and the end of its output.
    fn command(&mut self, command: &Command) -> Result<process::Finished> {
        self.progress.say(&process::describe(command));
        let finished = process::capture(command, self.limit, |line| self.progress.say(line))?;
        if !finished.success() {
            let how = if finished.timed_out {
                format!("took longer than {} s", self.limit.as_secs())
            } else {
                format!("failed ({})", finished.status)
            };
            self.show(&format!(
                "`{}` {how}; the end of its output:\n{}",
                process::describe(command),
                finished.tail(TAIL)
            ));
        }
        Ok(finished)
    }

    /// Prints a message that stays.
    fn show(&self, message: &str) {
        self.progress.interrupt(|| {
            for line in message.lines() {
                println!("   {line}");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_chosen_by_name() {
        let names = |only: &[&str]| -> Vec<&str> {
            let only: Vec<String> = only.iter().map(|name| name.to_string()).collect();
            chosen(&only)
                .unwrap()
                .iter()
                .map(|stage| stage.name)
                .collect()
        };
        assert_eq!(names(&["host", "format"]), ["format", "host"]);
        assert!(names(&[]).len() > 2);
        assert!(
            chosen(&["nonsense".to_string()])
                .err()
                .unwrap()
                .to_string()
                .contains("there is no stage `nonsense`")
        );
    }
}
