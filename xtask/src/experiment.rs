//! `cargo xtask experiment`: runs one experiment and writes what it measured.

mod edge;
mod gateway;
mod host;
pub(crate) mod mcu;
mod parts;
mod plan;
mod runner;
pub(crate) mod tcp;

/// The analysis of experiment `global`, which a program of the operating system does.
///
/// Its tests run on the host.
#[cfg(test)]
#[path = "../../os/apps/src/bin/experiment-global/stretches.rs"]
mod stretches;

use crate::{repository, setup};
use anyhow::Result;
use clap::Args;
use corank_report::document::Document;
use corank_report::{experiments, verdict};
use std::path::PathBuf;
use std::process::ExitCode;

/// What `cargo xtask experiment` takes.
#[derive(Args)]
pub(crate) struct Options {
    /// Which experiment
    #[arg(value_enum)]
    name: Name,
    /// Fewer points and fewer repetitions
    #[arg(long)]
    quick: bool,
    /// Where the results go
    #[arg(long, value_name = "FILE")]
    json: PathBuf,
}

/// The experiments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Name {
    /// A turn passes through one shared variable: coroutines against threads
    A,
    /// Tasks in series through pipes: coroutines against threads
    B,
    /// The scheduler alone, on the host, against other executors
    Core,
    /// Relaxed and strict global priority
    Global,
    /// TCP server: coroutines and threads in kernel and process
    TcpModels,
    /// TCP server: priorities under overload
    TcpPriority,
    /// Latency of urgent requests in one Linux process
    LinuxLatency,
    /// Latency of an urgent Linux process beside others
    LinuxMachine,
    /// Instructions per switch on a Cortex-M4
    McuSwitch,
    /// Code and data on a Cortex-M4
    McuSize,
    /// The interleaver's algorithms
    Edge,
    /// The sensor gateway
    Gateway,
}

impl Name {
    /// Returns the name as on the command line and in the results.
    pub(crate) fn text(self) -> String {
        let value = clap::ValueEnum::to_possible_value(&self).expect("no experiment is hidden");
        value.get_name().to_string()
    }
}

/// Sets up, runs the experiment, and writes the results to the file of the options and for the
/// report.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    setup::run()?;
    let document = measure(options.name, options.quick)?;
    document.save(&options.json)?;
    println!("{} rows in {}", document.rows.len(), options.json.display());
    let verdicts = experiments::of(&document)?.verdicts(&document)?;
    if !verdicts.is_empty() {
        println!("\n{}", verdict::table(&verdicts).to_text());
    }
    // A missed target is a result, not a failure of the run.
    Ok(ExitCode::SUCCESS)
}

/// Runs one experiment and keeps the results for the report.
pub(crate) fn measure(name: Name, quick: bool) -> Result<Document> {
    let document = runner::measure(name, quick)?;
    document.save(&repository::data_folder().join(format!("{}.json", name.text())))?;
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_other_tools_rely_on() {
        let names: Vec<String> = <Name as clap::ValueEnum>::value_variants()
            .iter()
            .map(|name| name.text())
            .collect();
        let expected = "a b core global tcp-models tcp-priority linux-latency linux-machine mcu-switch mcu-size edge gateway";
        assert_eq!(names.join(" "), expected);
        // The report can show each of them.
        assert_eq!(names, experiments::ALL.map(|experiment| experiment.name));
    }
}
