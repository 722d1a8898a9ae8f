//! `cargo xtask report`: one page from the results of the last runs.

use crate::experiment::Name;
use crate::repository;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use corank_report::document::Document;
use corank_report::page;
use std::path::PathBuf;
use std::process::ExitCode;

/// Writes the page and says where it is.
pub(crate) fn run() -> Result<ExitCode> {
    let file = write()?;
    println!("report: {}", file.display());
    Ok(ExitCode::SUCCESS)
}

/// Writes the page from every result that is there, and beside it each figure as a file.
pub(crate) fn write() -> Result<PathBuf> {
    let mut documents = Vec::new();
    for name in Name::value_variants() {
        let file = repository::data_folder().join(format!("{}.json", name.text()));
        if file.exists() {
            documents.push(Document::load(&file)?);
        }
    }
    if documents.is_empty() {
        bail!("there are no results yet; `cargo xtask run` or `cargo xtask experiment` makes some");
    }
    // A figure of an earlier result would look like one of this.
    let figures = repository::report_folder().join("figures");
    if figures.exists() {
        std::fs::remove_dir_all(&figures)
            .with_context(|| format!("can't empty {}", figures.display()))?;
    }
    std::fs::create_dir_all(&figures)
        .with_context(|| format!("can't make {}", figures.display()))?;
    for document in &documents {
        for (name, svg) in page::figures(document)? {
            std::fs::write(figures.join(format!("{name}.svg")), svg)?;
        }
    }
    let file = repository::report_folder().join("index.html");
    std::fs::write(&file, page::page(&documents)?)
        .with_context(|| format!("can't write {}", file.display()))?;
    Ok(file)
}
