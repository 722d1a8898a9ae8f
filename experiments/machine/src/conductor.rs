//! Starts the processes of each measurement, and collects their results.

use crate::cgroup::Groups;
use crate::meter::{self, Schedule, Share, TRIAL};
use crate::work::{self, PERIOD};
use crate::{Model, Options, alone, own_folder, this_program};
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use corank_report::trials::{self, Trial};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::json;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

/// Processors that all processes share.
const PROCESSORS: usize = 2;
/// Bulk processes; they share the bulk threads.
const BULK_PROCESSES: usize = 2;
/// Time in which the processes find each other and Linux spreads the threads.
const START_UP: Duration = Duration::from_millis(500);
/// Time in which every process receives the schedule.
const LEAD: Duration = Duration::from_millis(100);

pub(crate) fn run(options: &Options) -> Result<()> {
    let (runs, trials) = if options.quick { (3, 16) } else { (5, 66) };
    if options.parts {
        println!("--alone");
        (0..runs).for_each(|run| println!("--run {run}"));
        return Ok(());
    }
    if options.run.is_none() {
        // Once, because the count is the same on every run.
        alone::count(0)?;
        if options.alone {
            return Ok(());
        }
    }
    pin()?;
    let runs = match options.run {
        Some(run) => run..run + 1,
        None => 0..runs,
    };
    let models = match options.models.as_slice() {
        [] => Model::value_variants().to_vec(),
        models => models.to_vec(),
    };
    let threads = match options.bulk.as_slice() {
        [] => vec![2, 4, 8],
        threads => threads.to_vec(),
    };
    let groups = Groups::new();
    if let Err(error) = &groups {
        println!(
            "no rows for `cgroup`: this user may not make control groups with weights ({error})"
        );
    }
    let rounds = work::calibrate();
    for run in runs {
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
                let trials = measurement
                    .measure(trials)
                    .with_context(|| format!("{} with {bulk} bulk threads", model.name()))?;
                measurement.report(run, trials);
            }
        }
    }
    Ok(())
}

/// Pins all that is measured to the first processors that there are.
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

impl Measurement<'_> {
    fn measure(&self, trials: usize) -> Result<Vec<Trial>> {
        let root = own_folder()?;
        let mut processes: Vec<Process> = (0..BULK_PROCESSES)
            .map(|_| self.start("bulk", root.path(), self.bulk / BULK_PROCESSES))
            .collect::<Result<_>>()?;
        processes.push(self.start("urgent", root.path(), 1)?);
        thread::sleep(START_UP);
        let schedule = Schedule {
            begin: meter::now() + LEAD.as_nanos() as u64,
            trials,
        };
        for process in &mut processes {
            process.say(&schedule.to_string())?;
        }
        thread::sleep(LEAD + TRIAL * trials as u32);
        let mut shares = vec![Share::default(); trials];
        // The urgent process has ended its last job when it reports; the others go on.
        for process in processes.iter_mut().rev() {
            for share in &mut shares {
                share.add(&process.read_line()?.parse()?);
            }
        }
        Ok(shares.into_iter().map(trial).collect())
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
        ensure!(
            process.read_line()? == "ready",
            "a process that is not ready"
        );
        Ok(process)
    }

    fn report(&self, run: u32, trials: Vec<Trial>) {
        let all = trials::latencies(&trials, 0);
        let (kept, dropped) = trials::halves(trials);
        let latencies = trials::latencies(&kept, 0);
        let chunks: usize = kept.iter().map(|trial| trial.served[0]).sum();
        let throughput = chunks as f64 / (TRIAL.as_secs_f64() * kept.len() as f64);
        let lost = |trials| Some(100.0 * trials::lost(trials, TRIAL) / PROCESSORS as f64);
        let rows = [
            (
                "urgent",
                "latency-p50",
                trials::quantile(&latencies, 0.5),
                "us",
            ),
            (
                "urgent",
                "latency-p99",
                trials::quantile(&latencies, 0.99),
                "us",
            ),
            (
                "urgent",
                "latency-p999",
                trials::quantile(&latencies, 0.999),
                "us",
            ),
            (
                "urgent",
                "latency-p99-of-all-trials",
                trials::quantile(&all, 0.99),
                "us",
            ),
            ("bulk", "throughput", Some(throughput), "chunks/s"),
            ("all", "lost-kept", lost(&kept), "%"),
            ("all", "lost-dropped", lost(&dropped), "%"),
        ];
        for (role, metric, value, unit) in rows {
            let Some(value) = value else {
                continue;
            };
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

/// Sums up one trial of all processes.
///
/// The time in which none of them had a processor is lost: other programs had it, or the processor
/// was between two threads.
fn trial(share: Share) -> Trial {
    let time = TRIAL * PROCESSORS as u32;
    Trial {
        lost: time.saturating_sub(Duration::from_nanos(share.used)),
        latencies: vec![share.latencies],
        served: vec![share.chunks as usize],
    }
}

/// A process of the measurement, which is ended when dropped.
struct Process {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn say(&mut self, word: &str) -> Result<()> {
        Ok(writeln!(self.input, "{word}")?)
    }

    fn read_line(&mut self) -> Result<String> {
        Ok(self.output.next().context("it has ended")??)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
