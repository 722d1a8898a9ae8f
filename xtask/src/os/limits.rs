//! The longest stretches of kernel work without a check for more urgent work: `cargo xtask limits`.
//!
//! Boots a kernel with the feature `stretch` on one hart, in a machine that counts instructions.
//! Then it runs the programs that make the kernel work most: its tests, random calls, and the
//! experiments' programs. The kernel prints the longest stretches at its end.

use super::boot::{Boot, DEFAULT_MEMORY};
use super::build::{self, Image};
use super::input::Input;
use super::scratch_disk::ScratchDisk;
use crate::progress::Progress;
use crate::repository;
use anyhow::{Context, Result, ensure};
use clap::Args;
use corank_report::passage::Passage;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

/// What `cargo xtask limits` takes.
#[derive(Args)]
pub(crate) struct Options {
    /// Writes the table into the documentation
    #[arg(long)]
    write: bool,
    /// Runs these programs with their arguments, each as one word, instead of the usual ones
    #[arg(value_name = "COMMAND", conflicts_with = "write")]
    commands: Vec<String>,
}

/// The page that has the table.
const PAGE: &str = "docs/limits.md";
/// The name of the marks around the table.
const MARK: &str = "longest-stretches";
/// The number of lines of the table.
const LINES: usize = 10;
/// Bytes of the machine's disk.
const DISK: u64 = 64 << 20;
/// Time limit of a program.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// The beginning of a line of the kernel's report.
const PREFIX: &str = "corank: longest ";

/// The programs that make the kernel work.
const COMMANDS: [&str; 6] = [
    "usertests",
    "lateness",
    "attacker calls 1 3",
    "experiment-a --n 200 --order in-order,shuffled --processes 1,3",
    "experiment-b --n 200 --bytes 1,4096,10000 --processes 1,3",
    "experiment-global check --most 6",
];

/// The longest stretch of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stretch {
    instructions: u64,
    /// The work that the kernel did first and last.
    works: (String, String),
    program: String,
}

/// Measures, and prints or writes the table.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let mut progress = Progress::spinner("building the operating system");
    let mut image = build::build_for_tests(&mut progress)?;
    image.kernel = build::kernel_with(build::STRETCH, &mut progress)?;
    let mut commands: Vec<&str> = options.commands.iter().map(String::as_str).collect();
    if commands.is_empty() {
        commands = COMMANDS.to_vec();
    }
    let mut longest = BTreeMap::new();
    for command in commands {
        progress.say(command);
        for stretch in measure(&image, command)? {
            let known = longest
                .entry(stretch.works.clone())
                .or_insert_with(|| stretch.clone());
            if stretch.instructions > known.instructions {
                *known = stretch;
            }
        }
    }
    progress.finish();
    let mut longest: Vec<Stretch> = longest.into_values().collect();
    longest.sort_by_key(|stretch| std::cmp::Reverse(stretch.instructions));
    longest.truncate(LINES);
    let table = table(&longest)?;
    print!("{table}");
    if options.write {
        let file = repository::path(PAGE);
        let page = std::fs::read_to_string(&file)
            .with_context(|| format!("can't read {}", file.display()))?;
        let passage = Passage {
            page: PAGE,
            name: MARK,
            text: format!("\n{table}"),
        };
        std::fs::write(&file, passage.write_into(&page)?)
            .with_context(|| format!("can't write {}", file.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a program, and returns what the kernel reports at the end.
fn measure(image: &Image, command: &str) -> Result<Vec<Stretch>> {
    let disk = ScratchDisk::new("limits", DISK)?;
    let boot = Boot {
        smp: 1,
        memory: DEFAULT_MEMORY.to_string(),
        limit: Some(LIMIT),
        disk: Some(disk.attached()),
        network: None,
        input: Input::None,
        count: Some(0),
        command: command.split_whitespace().map(str::to_string).collect(),
    };
    let mut output = Vec::new();
    boot.run(image, |bytes| output.extend_from_slice(bytes))?;
    let output = String::from_utf8_lossy(&output);
    let program = command.split_whitespace().next().unwrap_or_default();
    let stretches: Vec<_> = output
        .lines()
        .filter_map(|line| stretch(line, program))
        .collect();
    ensure!(
        !stretches.is_empty(),
        "the kernel has reported nothing of `{command}`:\n{output}"
    );
    Ok(stretches)
}

/// Parses a line of the kernel's report.
fn stretch(line: &str, program: &str) -> Option<Stretch> {
    let mut words = line.trim_end().strip_prefix(PREFIX)?.split(' ');
    let instructions = words.next()?.parse().ok()?;
    let works = (words.next()?.to_string(), words.next()?.to_string());
    Some(Stretch {
        instructions,
        works,
        program: program.to_string(),
    })
}

fn table(longest: &[Stretch]) -> Result<String> {
    let mut table =
        String::from("| instructions | began with | ended with | program |\n|---:|---|---|---|\n");
    for stretch in longest {
        let (first, last) = &stretch.works;
        let (instructions, program) = (stretch.instructions, &stretch.program);
        writeln!(table, "| {instructions} | {first} | {last} | `{program}` |")?;
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_report_is_a_stretch() {
        let expected = Stretch {
            instructions: 1234,
            works: ("call-57".to_string(), "end".to_string()),
            program: "sh".to_string(),
        };
        let line = "corank: longest 1234 call-57 end of 9\r";
        assert_eq!(stretch(line, "sh"), Some(expected));
        assert_eq!(stretch("corank: booted with 256 MiB", "sh"), None);
    }
}
