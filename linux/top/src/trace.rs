//! `corank trace`: shows recordings, or checks them by the contract.

mod page;
mod perfetto;
mod summary;

use anyhow::{Context, Result, bail};
use clap::Args;
use corank_recording::{Recording, Summary, check};
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The arguments of `corank trace`.
#[derive(Args)]
pub(crate) struct Trace {
    /// Recordings, of one process or several
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Check each recording by the contract, and name the first event that breaks a rule
    #[arg(long)]
    check: bool,
    /// Write one file for ui.perfetto.dev
    #[arg(long, value_name = "OUT")]
    perfetto: Option<PathBuf>,
    /// Write one page that shows the recordings in a browser, without a network
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,
}

/// A recording and what it says.
struct Shown {
    file: PathBuf,
    recording: Recording,
    summary: Summary,
}

impl Trace {
    pub(crate) fn run(&self) -> Result<()> {
        let shown: Vec<Shown> = self
            .files
            .iter()
            .map(|file| read(file))
            .collect::<Result<_>>()?;
        if let Some(out) = &self.perfetto {
            write(out, |to| perfetto::write(&shown, to))?;
        }
        if let Some(out) = &self.html {
            write(out, |to| page::write(&shown, to))?;
        }
        let mut to = io::stdout().lock();
        if self.check {
            return check_all(&shown, &mut to);
        }
        if self.perfetto.is_none() && self.html.is_none() {
            for shown in &shown {
                summary::print(shown, &mut to)?;
            }
        }
        Ok(())
    }
}

fn read(file: &Path) -> Result<Shown> {
    let about = || format!("{} is not shown", file.display());
    let bytes = fs::read(file).with_context(about)?;
    let recording = Recording::read(&bytes).with_context(about)?;
    Ok(Shown {
        file: file.to_path_buf(),
        summary: Summary::of(&recording),
        recording,
    })
}

fn write(out: &Path, act: impl FnOnce(&mut BufWriter<fs::File>) -> Result<()>) -> Result<()> {
    let about = || format!("{} cannot be written", out.display());
    let mut to = BufWriter::new(fs::File::create(out).with_context(about)?);
    act(&mut to).with_context(about)?;
    to.flush().with_context(about)
}

fn check_all(shown: &[Shown], to: &mut impl Write) -> Result<()> {
    let mut broken = 0;
    for Shown {
        file, recording, ..
    } in shown
    {
        match check(recording) {
            Ok(checked) => {
                let (steps, picks) = (checked.steps, checked.picks);
                writeln!(
                    to,
                    "{}: {steps} steps and {picks} picks keep the contract",
                    file.display()
                )?;
                for limit in checked.limits {
                    writeln!(to, "  {limit}")?;
                }
            }
            Err(violation) => {
                broken += 1;
                write!(
                    to,
                    "{}: step {}: {violation}",
                    file.display(),
                    violation.step
                )?;
            }
        }
    }
    if broken > 0 {
        bail!("{broken} of {} recordings break the contract", shown.len());
    }
    Ok(())
}

impl Shown {
    /// Returns the name of the program and its process.
    fn title(&self) -> String {
        let settings = &self.recording.header.settings;
        match settings.process {
            0 => settings.program.clone(),
            process => format!("{}, process {process}", settings.program),
        }
    }
}
