//! Counts the instructions of a yield, for a process that is alone in a domain.
//!
//! A process of its own runs yields, and this one lets it execute one instruction at a time
//! (`ptrace`). So the count is the same on every run, whatever else the machine does, and needs no
//! privileges and no counter of the processor's.

use crate::work::BULK;
use crate::{Model, Part, own_folder, this_program};
use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use corank::{Config, Executor, Relaxed, SharedExecutor, SystemView, yield_now};
use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use serde_json::json;
use std::process::{Command, Stdio};
use std::task::Waker;

/// Yields of the first stretch. The second has twice as many, so that all else cancels out.
const YIELDS: u64 = 40;
/// Yields before the count begins, so that work that is done once is not counted.
const WARM_UP: u64 = 10;

/// The number of threads that serve the executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// An executor of one thread
    One,
    /// One that workers share; this one is alone
    Shared,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Shared => "shared",
        }
    }
}

/// Prints the instructions of a yield without a domain and in one, for both kinds of executors.
pub(crate) fn count(run: u32) -> Result<()> {
    for kind in [Kind::One, Kind::Shared] {
        for model in [Model::Off, Model::Relaxed, Model::Strict] {
            let instructions = instructions_of_a_yield(model, kind)
                .with_context(|| format!("a yield of {} in {}", kind.name(), model.name()))?;
            let row = json!({
                "experiment": "linux-machine", "model": model.name(), "role": "alone",
                "op": "yield", "executor": kind.name(), "metric": "instructions",
                "unit": "instructions", "value": instructions, "run": run,
            });
            println!("@row {row}");
        }
    }
    Ok(())
}

fn instructions_of_a_yield(model: Model, kind: Kind) -> Result<f64> {
    let root = own_folder()?;
    let mut child = Command::new(this_program()?)
        .args(["yields", "--model", model.name(), "--told", "classes"])
        .arg("--root")
        .arg(root.path())
        .args(["--rounds", "0", "--executor", kind.name()])
        .stdout(Stdio::null())
        .spawn()?;
    let process = Pid::from_raw(child.id().try_into()?);
    let counted = count_stretches(process);
    let _ = child.kill();
    child.wait()?;
    let [once, twice] = counted?;
    ensure!(twice > once, "{once} and {twice} instructions");
    Ok((twice - once) as f64 / YIELDS as f64)
}

/// Returns the instructions between the child's first stop and its second, and between that and its
/// third.
fn count_stretches(process: Pid) -> Result<[u64; 2]> {
    ensure!(
        wait(process)? == Signal::SIGSTOP,
        "the process has not begun"
    );
    let mut counts = [0; 2];
    for count in &mut counts {
        let mut signal = None;
        loop {
            ptrace::step(process, signal)?;
            *count += 1;
            signal = match wait(process)? {
                Signal::SIGSTOP => break,
                Signal::SIGTRAP => None,
                other => Some(other),
            };
        }
    }
    Ok(counts)
}

/// Waits until the process is stopped, and returns the signal.
fn wait(process: Pid) -> Result<Signal> {
    match waitpid(process, None)? {
        WaitStatus::Stopped(_, signal) => Ok(signal),
        other => bail!("the process ended: {other:?}"),
    }
}

/// Runs the process that is counted.
pub(crate) fn run(part: &Part, kind: Kind) -> Result<()> {
    part.prepare()?;
    let Some(participant) = part.join("yields", false)? else {
        return yields(kind, Config::new(), &Relaxed);
    };
    let published = participant.publish()?;
    let worker = participant.worker(published)?;
    yields(kind, Config::new().publish_to(published), &*worker)
}

fn yields(kind: Kind, config: Config, view: &impl SystemView) -> Result<()> {
    match kind {
        Kind::One => {
            let executor = Executor::with(config);
            in_stretches(|count| {
                executor.spawn(BULK, yield_often(count))?;
                executor.run_under(view);
                Ok(())
            })
        }
        Kind::Shared => {
            let executor = SharedExecutor::with(config);
            let worker = executor.worker(Waker::noop().clone());
            in_stretches(|count| {
                executor.spawn(BULK, yield_often(count))?;
                worker.run_under(view);
                Ok(())
            })
        }
    }
}

async fn yield_often(count: u64) {
    for _ in 0..count {
        yield_now().await;
    }
}

/// Lets `run` yield this many times, with a stop before and after each stretch.
fn in_stretches(run: impl Fn(u64) -> Result<()>) -> Result<()> {
    run(WARM_UP)?;
    ptrace::traceme()?;
    raise(Signal::SIGSTOP)?;
    for count in [YIELDS, 2 * YIELDS] {
        run(count)?;
        raise(Signal::SIGSTOP)?;
    }
    Ok(())
}
