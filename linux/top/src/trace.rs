//! `corank trace`: shows recordings, or checks them by the contract.

mod page;
mod perfetto;
mod summary;

use anyhow::{Context, Result, bail};
use clap::Args;
use corank_recording::{Recording, Summary, check, cut};
use std::fs;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
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
    /// Write the recording, or what --cut leaves of it, as a conformance trace
    #[arg(long, value_name = "OUT")]
    trace: Option<PathBuf>,
    /// The steps for --trace, by the numbers that --check prints; either end may be left out
    #[arg(long, value_name = "FROM..TO", value_parser = range, requires = "trace")]
    cut: Option<Range<usize>>,
}

fn range(text: &str) -> Result<Range<usize>, String> {
    let number = |text: &str, missing| match text {
        "" => Some(missing),
        text => text.parse().ok(),
    };
    let range = text.split_once("..").and_then(|(from, to)| {
        let range = number(from, 0)?..number(to, usize::MAX)?;
        (range.start <= range.end).then_some(range)
    });
    range.ok_or_else(|| "write two numbers of steps, such as 120..180".to_string())
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
        if let Some(out) = &self.trace {
            cut_out(
                &shown,
                self.cut.clone().unwrap_or(0..usize::MAX),
                out,
                &mut to,
            )?;
        }
        if self.check {
            return check_all(&shown, &mut to);
        }
        if self.perfetto.is_none() && self.html.is_none() && self.trace.is_none() {
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

/// Writes steps of the only recording as a trace.
fn cut_out(shown: &[Shown], steps: Range<usize>, out: &Path, to: &mut impl Write) -> Result<()> {
    let [shown] = shown else {
        bail!(
            "a trace is a scene of one recording, and {} are given",
            shown.len()
        );
    };
    let file = shown.file.display();
    let name = out.file_stem().and_then(|name| name.to_str());
    let is_word = |name: &&str| name.chars().all(|it| it.is_ascii_graphic() && it != '#');
    let Some(name) = name.filter(is_word) else {
        bail!(
            "{} is no name for a trace: use letters, digits and hyphens, as in a-late-wake.trace",
            out.display()
        );
    };
    let scene = cut(&shown.recording, steps, name)
        .with_context(|| format!("{file}: a trace cannot show these steps; cut others"))?;
    write(out, |to| Ok(to.write_all(scene.text.as_bytes())?))?;
    let Range { start, end } = scene.steps;
    writeln!(to, "{}: steps {start} to {end} of {file}", out.display())?;
    if let Some(rule) = scene.broken {
        writeln!(
            to,
            "  step {end} breaks rule {rule}: the trace ends with what should have come"
        )?;
    }
    Ok(())
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
