//! `cargo xtask experiment`: runs one experiment and writes what it measured.

mod edge;
mod gateway;
mod host;
pub(crate) mod mcu;
mod parts;
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
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use corank_report::document::Document;
use corank_report::experiment::Experiment;
use corank_report::{experiments, verdict};
use std::path::PathBuf;
use std::process::ExitCode;

/// What `cargo xtask experiment` takes.
#[derive(Args)]
pub(crate) struct Options {
    /// Which experiment
    #[arg(value_name = "NAME", value_parser = by_name())]
    experiment: &'static Experiment,
    /// Fewer points and fewer repetitions
    #[arg(long)]
    quick: bool,
    /// Where the results go
    #[arg(long, value_name = "FILE")]
    json: PathBuf,
}

/// Returns the parser of an experiment's name, which knows all names and their descriptions.
fn by_name() -> impl TypedValueParser<Value = &'static Experiment> {
    let names = experiments::ALL
        .map(|experiment| PossibleValue::new(experiment.name).help(experiment.summary));
    PossibleValuesParser::new(names)
        .try_map(|name| experiments::named(&name).map_err(|error| error.to_string()))
}

/// Sets up, runs the experiment, and writes the results to the file of the options and for the
/// report.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    setup::run()?;
    let document = measure(options.experiment, options.quick)?;
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
pub(crate) fn measure(experiment: &Experiment, quick: bool) -> Result<Document> {
    let document = runner::measure(experiment, quick)?;
    document.save(&repository::data_folder().join(format!("{}.json", experiment.name)))?;
    Ok(document)
}
