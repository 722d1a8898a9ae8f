//! Starts the processes of each measurement, and gathers what they say.

use crate::cgroup::Groups;
use crate::work::{self, PERIOD};
use crate::{Model, Options, alone, own_folder, this_program};
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::json;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

/// Processors that all share.
const PROCESSORS: usize = 2;
/// Bulk processes; they share the bulk threads.
const BULK_PROCESSES: usize = 2;
/// Until everybody has met everybody and Linux has spread the threads.
const SETTLE: Duration = Duration::from_millis(500);

pub(crate) fn run(options: &Options) -> Result<()> {
    // Once: the count is the same on every run.
    alone::count(0)?;
    if options.alone {
        return Ok(());
    }
    pin()?;
    let (runs, seconds) = if options.quick { (3, 1) } else { (5, 4) };
    let models = match options.models.as_slice() {
        [] => Model::value_variants().to_vec(),
        models => models.to_vec(),
    };
    let threads = match options.bulk.as_slice() {
        [] => vec![2, 8],
        threads => threads.to_vec(),
    };
    let groups = Groups::new();
    if let Err(error) = &groups {
        println!(
            "no rows for `cgroup`: this user may not make control groups with weights ({error})"
        );
    }
    let rounds = work::calibrate();
    for run in 0..runs {
        for &bulk in &threads {
            for &model in &models {
                let groups = match (model, &groups) {
                    (Model::Cgroup, Err(_)) => continue,
                    (Model::Cgroup, Ok(groups)) => Some(groups),
                    _ => None,
                };
                let measurement = Measurement {
                    options,
                    model,
                    bulk,
                    rounds,
                    groups,
                };
                let figures = measurement
                    .measure(Duration::from_secs(seconds))
                    .with_context(|| format!("{} with {bulk} bulk threads", model.name()))?;
                measurement.print(run, &figures);
            }
        }
    }
    Ok(())
}

/// All that is measured shares the first processors that there are.
fn pin() -> Result<()> {
    let all = sched_getaffinity(None)?;
    let mut some = CpuSet::new();
    (0..CpuSet::MAX_CPU)
        .filter(|&cpu| all.is_set(cpu))
        .take(PROCESSORS)
        .for_each(|cpu| some.set(cpu));
    ensure!(
        some.count() as usize == PROCESSORS,
        "this experiment needs {PROCESSORS} processors"
    );
    Ok(sched_setaffinity(None, &some)?)
}

struct Measurement<'a> {
    options: &'a Options,
    model: Model,
    bulk: usize,
    rounds: u64,
    groups: Option<&'a Groups>,
}

/// What one measurement gave.
struct Figures {
    /// Microseconds.
    p50: f64,
    p99: f64,
    p999: f64,
    /// Bulk chunks per second.
    throughput: f64,
}

impl Measurement<'_> {
    fn measure(&self, duration: Duration) -> Result<Figures> {
        let root = own_folder()?;
        let mut bulk: Vec<Process> = (0..BULK_PROCESSES)
            .map(|_| self.start("bulk", root.path(), self.bulk / BULK_PROCESSES))
            .collect::<Result<_>>()?;
        let mut urgent = self.start("urgent", root.path(), 1)?;
        thread::sleep(SETTLE);
        let mut all: Vec<&mut Process> = bulk.iter_mut().chain([&mut urgent]).collect();
        for word in ["start", "stop"] {
            for process in &mut all {
                process.say(word)?;
            }
            if word == "start" {
                thread::sleep(duration);
            }
        }
        let latencies = urgent.hear()?;
        let latencies: Vec<f64> = latencies
            .split(' ')
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        let [p50, p99, p999] = latencies[..] else {
            anyhow::bail!("the urgent process said {latencies:?}");
        };
        let mut throughput = 0.0;
        for process in &mut bulk {
            throughput += process.hear()?.parse::<f64>()?;
        }
        Ok(Figures {
            p50,
            p99,
            p999,
            throughput,
        })
    }

    fn start(&self, role: &str, root: &Path, threads: usize) -> Result<Process> {
        let mut command = Command::new(this_program()?);
        command
            .args([
                role,
                "--model",
                self.model.name(),
                "--told",
                self.options.told.name(),
            ])
            .arg("--root")
            .arg(root)
            .args(["--rounds", &self.rounds.to_string()])
            .args(["--threads", &threads.to_string()]);
        if self.options.privileged {
            command.arg("--privileged");
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().context("its input")?;
        let output = child.stdout.take().context("its output")?;
        let mut process = Process {
            child,
            input,
            output: BufReader::new(output).lines(),
        };
        if let Some(groups) = self.groups {
            groups.add(process.child.id(), role == "urgent")?;
        }
        ensure!(process.hear()? == "ready", "a process that is not ready");
        Ok(process)
    }

    fn print(&self, run: u32, figures: &Figures) {
        let rows = [
            ("urgent", "latency-p50", figures.p50, "us"),
            ("urgent", "latency-p99", figures.p99, "us"),
            ("urgent", "latency-p999", figures.p999, "us"),
            ("bulk", "throughput", figures.throughput, "chunks/s"),
        ];
        for (role, metric, value, unit) in rows {
            let mut row = json!({
                "experiment": "linux-machine", "model": self.model.name(), "role": role,
                "bulk": self.bulk, "metric": metric, "unit": unit, "value": value, "run": run,
                "period": PERIOD.as_micros() as u64,
            });
            if matches!(self.model, Model::Relaxed | Model::Strict) {
                row["told"] = json!(self.options.told.name());
            }
            println!("@row {row}");
        }
    }
}

/// A process of the measurement. Ended when dropped.
struct Process {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn say(&mut self, word: &str) -> Result<()> {
        Ok(writeln!(self.input, "{word}")?)
    }

    fn hear(&mut self) -> Result<String> {
        Ok(self.output.next().context("it has ended")??)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
