//! `cargo xtask report`: one page from the results of the last runs, and the passages of the
//! documentation about them.

use crate::repository;
use anyhow::{Context, Result, bail};
use clap::Args;
use corank_report::document::Document;
use corank_report::experiments;
use corank_report::page;
use std::path::PathBuf;
use std::process::ExitCode;

/// What `cargo xtask report` takes.
#[derive(Args)]
pub(crate) struct Options {
    /// Also writes the figures of full runs into the documentation
    #[arg(long)]
    docs: bool,
}

/// Writes the page and says where it is.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let file = write()?;
    println!("report: {}", file.display());
    if options.docs {
        write_documentation()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns every result that is there.
fn documents() -> Result<Vec<Document>> {
    let files = experiments::ALL
        .iter()
        .map(|experiment| repository::data_folder().join(format!("{}.json", experiment.name)));
    files
        .filter(|file| file.exists())
        .map(|file| Document::load(&file))
        .collect()
}

/// Writes the documentation's passages about results of full runs, and prints which pages changed.
fn write_documentation() -> Result<()> {
    for document in documents()? {
        if document.quick() {
            println!(
                "{}: a quick run, of which the documentation says nothing",
                document.experiment
            );
            continue;
        }
        for passage in experiments::of(&document)?.passages(&document)? {
            let file = repository::path(passage.page);
            let before = std::fs::read_to_string(&file)
                .with_context(|| format!("can't read {}", file.display()))?;
            let after = passage
                .write_into(&before)
                .with_context(|| format!("can't change {}", file.display()))?;
            std::fs::write(&file, after)
                .with_context(|| format!("can't write {}", file.display()))?;
            println!("{}: {}", document.experiment, passage.page);
        }
    }
    Ok(())
}

/// Writes the page from every result that is there, and each figure as a file beside it.
pub(crate) fn write() -> Result<PathBuf> {
    let documents = documents()?;
    if documents.is_empty() {
        bail!("there are no results yet; `cargo xtask run` or `cargo xtask experiment` makes some");
    }
    // Otherwise a figure of an earlier result would pass for one of this result.
    let figures = repository::report_folder().join("figures");
    if figures.exists() {
        std::fs::remove_dir_all(&figures)
            .with_context(|| format!("can't empty {}", figures.display()))?;
    }
    std::fs::create_dir_all(&figures)
        .with_context(|| format!("can't make {}", figures.display()))?;
    for document in &documents {
        for (name, svg) in experiments::of(document)?.figures(document)? {
            std::fs::write(figures.join(format!("{name}.svg")), svg)?;
        }
    }
    let file = repository::report_folder().join("index.html");
    std::fs::write(&file, page::page(&documents)?)
        .with_context(|| format!("can't write {}", file.display()))?;
    Ok(file)
}
