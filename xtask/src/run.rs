//! `cargo xtask run`: the main job.

use crate::experiment::{self, Name};
use crate::{report, setup};
use anyhow::Result;
use corank_report::document::Document;
use corank_report::{experiments, verdict};
use std::process::ExitCode;

/// Sets up, runs the operating system's experiments at a quick setting, and shows the results.
///
/// The results stand beside published figures. Then it writes the report.
pub(crate) fn run() -> Result<ExitCode> {
    setup::run()?;
    let mut verdicts = Vec::new();
    for name in [Name::A, Name::B] {
        println!(
            "experiment {}: coroutines against threads, in QEMU",
            name.text()
        );
        let document = experiment::measure(name, true)?;
        show(&document)?;
        verdicts.extend(experiments::of(&document)?.verdicts(&document)?);
    }
    for (name, about) in [
        (
            Name::Global,
            "relaxed against strict global priority, in QEMU, instructions counted",
        ),
        (
            Name::TcpModels,
            "a TCP server of coroutines and of threads in QEMU, its client on Linux",
        ),
        (
            Name::TcpPriority,
            "the same server with connections on eight levels",
        ),
    ] {
        println!("experiment {}: {about}", name.text());
        let document = experiment::measure(name, true)?;
        if name != Name::Global {
            show(&document)?;
        }
        verdicts.extend(experiments::of(&document)?.verdicts(&document)?);
    }
    println!("{}", verdict::table(&verdicts).to_text());
    println!("report: {}", report::write()?.display());
    Ok(ExitCode::SUCCESS)
}

/// Prints an experiment's numbers, beside published ones where there are some.
fn show(document: &Document) -> Result<()> {
    for table in experiments::of(document)?.tables(document)? {
        println!("\n{}", table.to_text());
    }
    Ok(())
}
