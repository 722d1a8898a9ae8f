//! Experiment `core`: the cost of one operation of the scheduler, beside other executors and beside
//! no scheduler at all.
//!
//! Every point is measured by all models in turn, run after run, so that a ratio of medians means
//! something on a machine that has other things to do. One line per run: `@row {json}`.
//!
//! - `yield`: a coroutine yields and runs again. Only the running is timed.
//! - `spawn-join`: a coroutine is spawned, runs once, and its output is joined. All of it is timed.
//! - `wake`: coroutines in a circle pass a token on; each waits for its neighbour. One hop: wake,
//!   block, run.
//! - `reprioritize`: a ready coroutine moves to another level.
//! - `memory`: bytes that the allocator gave per coroutine, less the future itself and less what an
//!   executor takes without any coroutine.
//!
//! `--once yield --rounds 2000` runs one operation of Corank and prints nothing. The difference of
//! two such runs under `valgrind --tool=callgrind` is the number of instructions of an operation,
//! which does not depend on what else the machine does.

mod memory;
mod models;
mod ring;

use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use models::Model;
use serde_json::json;

/// The scheduler alone, on the host, against other executors.
#[derive(Parser)]
struct Options {
    /// Fewer points and fewer runs
    #[arg(long)]
    quick: bool,
    /// Run this operation of Corank alone and print nothing, for a program that counts instructions
    #[arg(long)]
    once: Option<Operation>,
    /// Coroutines of `--once`
    #[arg(long, default_value_t = 100)]
    n: usize,
    /// Levels of `--once`: 1 or 64
    #[arg(long, default_value_t = 1)]
    levels: usize,
    /// Rounds of `--once`
    #[arg(long, default_value_t = 1000)]
    rounds: usize,
}

/// Operation of the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Operation {
    Yield,
    SpawnJoin,
    Wake,
    Reprioritize,
}

/// Measured operations of one run.
const OPERATIONS: usize = 5_000_000;
const QUICK_OPERATIONS: usize = 2_000_000;
/// Enough rounds that the first one, with cold caches, does not dominate.
const LEAST_ROUNDS: usize = 50;
/// From here on the caches are too small for any round, and fewer rounds are enough.
const VERY_MANY: usize = 1_000_000;

/// Huge pages for the allocator's heap.
///
/// Without them, what is measured at 100,000 coroutines is the walk through page tables rather than
/// the executor. All models share the heap. glibc reads it when a program starts.
const TUNABLES: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");

fn main() -> ExitCode {
    let options = Options::parse();
    if let Some(operation) = options.once {
        once(operation, &options);
        return ExitCode::SUCCESS;
    }
    if std::env::var_os(TUNABLES.0).is_some() {
        run(&options);
        return ExitCode::SUCCESS;
    }
    let again = std::env::current_exe().and_then(|program| {
        let mut command = Command::new(program);
        command.args(std::env::args_os().skip(1));
        command.env(TUNABLES.0, TUNABLES.1).status()
    });
    match again {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!(
                "cannot start this program again with {} set: {error}",
                TUNABLES.0
            );
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) {
    let (sizes, runs, operations): (&[usize], u32, usize) = if options.quick {
        (&[100, 4_000, 100_000], 5, QUICK_OPERATIONS)
    } else {
        (
            &[100, 1_000, 4_000, 10_000, 100_000, 1_000_000],
            7,
            OPERATIONS,
        )
    };
    let models = models::all();
    for &n in sizes {
        let least = if n < VERY_MANY { LEAST_ROUNDS } else { 4 };
        let rounds = (operations / n).max(least);
        for run in 0..runs {
            for model in &models {
                for levels in [1, 64] {
                    if levels == 1 || model.has_levels() {
                        report(model.as_ref(), "yield", n, levels, run, |model| {
                            model.yield_now(n, levels, rounds)
                        });
                        report(model.as_ref(), "reprioritize", n, levels, run, |model| {
                            model.reprioritize(n, levels, rounds)
                        });
                    }
                }
                report(model.as_ref(), "spawn-join", n, 1, run, |model| {
                    model.spawn_join(n, rounds.div_ceil(4))
                });
                report(model.as_ref(), "wake", n, 1, run, |model| {
                    model.wake(n, rounds)
                });
                if let Some(bytes) = model.memory(n).filter(|_| run == 0) {
                    print(model.name(), "memory", n, 1, run, ("bytes", "B"), bytes);
                }
            }
        }
    }
}

fn once(operation: Operation, options: &Options) {
    let (n, levels, rounds) = (options.n, options.levels, options.rounds);
    let model = models::Corank;
    let measured = match operation {
        Operation::Yield => model.yield_now(n, levels, rounds),
        Operation::SpawnJoin => model.spawn_join(n, rounds),
        Operation::Wake => model.wake(n, rounds),
        Operation::Reprioritize => model.reprioritize(n, levels, rounds),
    };
    assert!(measured.is_some(), "Corank has all operations");
}

/// The time of this many operations of a model; `None` if the model has no such operation.
type Measured = Option<(Duration, usize)>;

fn report(
    model: &dyn Model,
    op: &str,
    n: usize,
    levels: usize,
    run: u32,
    measure: impl FnOnce(&dyn Model) -> Measured,
) {
    if let Some((time, operations)) = measure(model) {
        let nanoseconds = time.as_secs_f64() * 1e9 / operations as f64;
        print(
            model.name(),
            op,
            n,
            levels,
            run,
            ("time", "ns"),
            nanoseconds,
        );
    }
}

fn print(
    model: &str,
    op: &str,
    n: usize,
    levels: usize,
    run: u32,
    (metric, unit): (&str, &str),
    value: f64,
) {
    let row = json!({
        "experiment": "core", "model": model, "op": op, "n": n, "levels": levels,
        "metric": metric, "unit": unit, "value": value, "run": run,
    });
    println!("@row {row}");
}
