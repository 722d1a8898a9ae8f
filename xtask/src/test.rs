//! `cargo xtask test`: every test of every platform.
//!
//! The tests are a table of stages. A stage without sources is left out. One that fails does not
//! stop the others. The last line of the output is the sum: `N passed, N failed`, and
//! `, N skipped` if a stage could not run here.

mod attack;
mod command;
mod cpp;
mod edge;
mod format;
mod fuzz;
mod gateway;
mod http;
mod image;
mod language;
mod layers;
mod layout;
mod loom;
mod machine;
mod miri;
mod model;
mod net;
mod nightly;
mod outcome;
mod outside;
mod privileges;
mod publish;
mod quick;
mod references;
mod rust;
mod sanitizer;
mod scx;
mod stages;
mod storage;

use crate::os::scratch_disk::ScratchDisk;
use crate::process;
use crate::progress::Progress;
use crate::setup;
use anyhow::{Result, bail};
use clap::Args;
use outcome::Outcome;
use quick::{BUDGET, Change, Times};
use stages::{STAGES, Stage};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::process::Command;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The number of lines that are shown of a failing stage's output.
const TAIL: usize = 60;

/// The options of `cargo xtask test`.
#[derive(Args)]
pub(crate) struct Options {
    /// Runs this stage alone; may be given several times
    #[arg(long, value_name = "STAGE")]
    only: Vec<String>,
    /// Runs what the change that is not committed touches, for at most four minutes
    #[arg(long, conflicts_with = "only")]
    quick: bool,
    /// Lists the stages and ends
    #[arg(long)]
    list: bool,
}

/// Runs the stages and shows the sum.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let mut stages = chosen(&options.only)?;
    let mut times = Times::read();
    let change = options.quick.then(Change::find);
    if let Some(change) = &change {
        stages.retain(|stage| stage.is_touched_by(change));
        stages.sort_by_key(|stage| times.of_quick(stage.name));
    }
    if options.list {
        for stage in stages {
            println!("{:<12} {}", stage.name, stage.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    if options.only.is_empty() && !options.quick {
        // Nothing is built twice.
        process::without_incremental_builds();
    }
    setup::run()?;
    let start = Instant::now();
    let mut total = Outcome::default();
    let mut rows = Vec::new();
    let mut left_out = Vec::new();
    for group in stages.chunk_by(|one, next| one.beside_others && next.beside_others) {
        let results = side_by_side(group, processors(), |stage| {
            let too_long = options.quick && start.elapsed() + times.of_quick(stage.name) > BUDGET;
            (!too_long).then(|| run_stage(stage, change.as_ref()))
        });
        for (stage, result) in group.iter().zip(results) {
            let Some((outcome, took)) = result else {
                left_out.push(stage.name);
                continue;
            };
            times.record(stage.name, options.quick, took);
            rows.push((took, stage.name, outcome.counts()));
            total.add(outcome);
        }
    }
    show_times(start.elapsed(), rows);
    for reason in &total.skipped {
        println!("skipped: {reason}");
    }
    if !left_out.is_empty() {
        println!("left out for want of time: {}", left_out.join(", "));
    }
    println!("{}", total.counts());
    Ok(
        if total.failed == 0 && (total.passed > 0 || options.quick) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        },
    )
}

/// Prints how long each stage took, the slowest first.
///
/// Stages that ran beside each other take longer together than `all`.
fn show_times(all: Duration, mut rows: Vec<(Duration, &str, String)>) {
    rows.sort_by_key(|row| Reverse(row.0));
    println!("\n== seconds by stage, {:.1} in all", all.as_secs_f64());
    for (took, name, counts) in rows {
        println!("{name:<12} {:>7.1}   {counts}", took.as_secs_f64());
    }
}

/// Runs these stages, as [`run`].
pub(crate) fn run_stages(names: &[&str]) -> Result<ExitCode> {
    run(&Options {
        only: names.iter().map(|name| name.to_string()).collect(),
        quick: false,
        list: false,
    })
}

/// Returns the stages that were asked for and have sources.
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
        .filter(|stage| stage.has_sources())
        .collect())
}

/// Runs one stage, and returns how long it took.
///
/// One that cannot be run counts as a failed test.
fn run_stage(stage: &Stage, change: Option<&Change>) -> (Outcome, Duration) {
    let start = Instant::now();
    println!("\n== {}: {}", stage.name, stage.about);
    let mut context = Context {
        limit: stage.limit,
        change: change.cloned(),
        progress: Progress::spinner(stage.name),
    };
    let outcome = (stage.run)(&mut context);
    let outcome = outcome.unwrap_or_else(|error| {
        context.show(&format!("{error:#}"));
        Outcome::failed()
    });
    let took = start.elapsed();
    context.show(&format!(
        "{} in {:.1} s",
        outcome.counts(),
        took.as_secs_f64()
    ));
    context.progress.finish();
    (outcome, took)
}

/// Returns how many processors the machine has.
fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Does `work` for each of `items`, `at_once` of them at a time.
///
/// Returns the results in the order of the items. Items are begun in order, each when one before it
/// has ended.
fn side_by_side<T: Sync, R: Send>(
    items: &[T],
    at_once: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(BTreeMap::new());
    let worker = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return };
            let result = work(item);
            let mut results = results.lock().expect("no thread panics with it");
            results.insert(at, result);
        }
    };
    thread::scope(|scope| {
        for _ in 0..at_once.min(items.len()) {
            scope.spawn(worker);
        }
    });
    let results = results.into_inner().expect("no thread panicked");
    results.into_values().collect()
}

/// The context of a stage. A clone shows its progress in the same place.
#[derive(Clone)]
struct Context {
    /// The time limit of each command of the stage.
    limit: Duration,
    /// The change that `--quick` tests; none in a run of all tests.
    change: Option<Change>,
    progress: Progress,
}

impl Context {
    /// Runs a command.
    ///
    /// If it fails or takes too long, shows the command and the end of its output.
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

    /// Tests whether `fsck.fat` finds no fault. It counts as one test.
    fn fsck(&mut self, disk: &ScratchDisk) -> Result<Outcome> {
        Ok(Outcome::of_command(&self.command(&disk.fsck())?))
    }

    /// Does `work` for each of `items`, as many at a time as the machine has processors, and adds
    /// up the outcomes.
    ///
    /// # Errors
    /// The first error in the order of the items. The others are done nevertheless.
    fn side_by_side<T: Sync>(
        &self,
        items: &[T],
        work: impl Fn(&T, &mut Context) -> Result<Outcome> + Sync,
    ) -> Result<Outcome> {
        self.at_once(processors(), items, work)
    }

    /// Does `work` for all `items` at the same time: for work that waits more than it computes.
    ///
    /// # Errors
    /// As [`side_by_side`](Self::side_by_side).
    fn all_at_once<T: Sync>(
        &self,
        items: &[T],
        work: impl Fn(&T, &mut Context) -> Result<Outcome> + Sync,
    ) -> Result<Outcome> {
        self.at_once(items.len(), items, work)
    }

    fn at_once<T: Sync>(
        &self,
        at_once: usize,
        items: &[T],
        work: impl Fn(&T, &mut Context) -> Result<Outcome> + Sync,
    ) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        for result in side_by_side(items, at_once, |item| work(item, &mut self.clone())) {
            outcome.add(result?);
        }
        Ok(outcome)
    }

    /// Prints a message that stays, behind the stage's name.
    fn show(&self, message: &str) {
        let message = format!("{}: {message}", self.progress.title());
        let lines: String = message.lines().map(|line| format!("   {line}\n")).collect();
        // In one piece, because other threads may print, too.
        self.progress.interrupt(|| print!("{lines}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn each_item_is_done_once() {
        let context = Context {
            limit: Duration::from_secs(1),
            change: None,
            progress: Progress::spinner("test"),
        };
        let items: Vec<u64> = (0..100).collect();
        let seen = Mutex::new(Vec::new());
        let outcome = context.side_by_side(&items, |item, _| {
            seen.lock().unwrap().push(*item);
            Ok(if item % 10 == 3 {
                Outcome::failed()
            } else {
                Outcome::passed()
            })
        });
        assert_eq!(outcome.unwrap().counts(), "90 passed, 10 failed");
        let mut seen = seen.into_inner().unwrap();
        seen.sort_unstable();
        assert_eq!(seen, items);

        let error = context.side_by_side(&[1, 2, 3], |item, _| match item {
            1 => Ok(Outcome::passed()),
            _ => Err(anyhow!("{item} went wrong")),
        });
        assert_eq!(error.unwrap_err().to_string(), "2 went wrong");
        assert_eq!(
            context
                .side_by_side(&[], |(): &(), _| unreachable!())
                .unwrap(),
            Outcome::default()
        );
    }

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
