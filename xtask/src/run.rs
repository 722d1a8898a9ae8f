//! `cargo xtask run`: the main job.

use crate::{experiment, report, setup};
use anyhow::Result;
use corank_report::{experiments, verdict};
use std::process::ExitCode;

/// The experiments that it runs, and whether their tables are shown.
const EXPERIMENTS: [(&str, bool); 5] = [
    ("a", true),
    ("b", true),
    ("global", false),
    ("tcp-models", true),
    ("tcp-priority", true),
];

/// Sets up, runs the operating system's experiments at a quick setting, and shows the results.
///
/// The results stand beside published figures. Then it writes the report.
pub(crate) fn run() -> Result<ExitCode> {
    setup::run()?;
    let mut verdicts = Vec::new();
    for (name, shown) in EXPERIMENTS {
        let experiment = experiments::named(name)?;
        println!("experiment {name}, in QEMU: {}", experiment.summary);
        let document = experiment::measure(experiment, true)?;
        if shown {
            for table in experiment.tables(&document)? {
                println!("\n{}", table.to_text());
            }
        }
        verdicts.extend(experiment.verdicts(&document)?);
    }
    println!("{}", verdict::table(&verdicts).to_text());
    println!("report: {}", report::write()?.display());
    Ok(ExitCode::SUCCESS)
}
