//! The layout of the code that a relay step of experiment B executes: `cargo xtask os-layout`.
//!
//! After each change of address space a hart has to find the translation of each page that it
//! touches. QEMU has to find each block of code again. The linker scripts of kernel, programs and
//! image therefore name the functions of a step, so that they lie side by side. Names change. This
//! command boots the machine with QEMU's log of executed blocks, and shows the functions of a step
//! and how a script names them. The test stage `layout` checks that a step touches few pages of
//! code.

use super::boot::{Boot, DEFAULT_MEMORY};
use super::build::{self, Image};
use super::input::Input;
use super::vdso;
use crate::process;
use crate::progress::Progress;
use crate::toolchain::BareMetal;
use anyhow::{Context, Result, bail};
use corank_abi::vdso::{BASE, MAX_SIZE};
use object::{Object, ObjectSymbol, SymbolKind};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

const PAGE_SIZE: u64 = 4096;
/// The address of the trampoline between kernel and programs.
const TRAMPOLINE: u64 = 0xffff_ffff_ffff_f000;
/// The number of tasks in series.
///
/// Their steps come far more often than anything else that repeats.
const TASKS: &str = "200";
const LIMIT: Duration = Duration::from_secs(300);

/// One of the ELF files with code that a step executes.
struct Part {
    name: &'static str,
    /// The linker script that lays it out.
    script: &'static str,
    /// The addresses at which its code may lie.
    range: Range<u64>,
    /// The most pages of it that a step may touch.
    most: usize,
}

/// The parts, with the most pages that a step may touch.
///
/// The kernel and the program touch as many today.
const PARTS: [Part; 3] = [
    Part {
        name: "kernel",
        script: "os/kernel/kernel.ld",
        range: 0x8020_0000..0x8080_0000,
        most: 5,
    },
    Part {
        name: "program",
        script: "os/user/program.ld",
        range: 0x1_0000..0x100_0000,
        most: 3,
    },
    Part {
        name: "image",
        script: "os/vdso/image.ld",
        range: BASE as u64..(BASE + MAX_SIZE) as u64,
        most: 2,
    },
];

/// The blocks of code of one step, in the order in which they were first executed.
type Step = Vec<u64>;

/// The code of a part that a step executes.
pub(crate) struct Touched {
    pub(crate) name: &'static str,
    pub(crate) pages: usize,
    pub(crate) most: usize,
    /// Each function on a line, with the pattern by which a linker script names it.
    pub(crate) functions: String,
}

/// Prints the functions that a step executes.
pub(crate) fn run() -> Result<ExitCode> {
    let mut progress = Progress::spinner("building the operating system");
    let touched = touched(&mut progress);
    progress.finish();
    for (part, touched) in PARTS.iter().zip(touched?) {
        println!(
            "{}: {} pages of code in a step ({})\n{}",
            touched.name, touched.pages, part.script, touched.functions
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Boots the machine and returns what a step of each part touches.
///
/// # Errors
/// When building or booting fails, or no step is found.
pub(crate) fn touched(progress: &mut Progress) -> Result<Vec<Touched>> {
    let image = build::build(&[], None, progress)?;
    let files: [PathBuf; 3] = [
        image.kernel.clone(),
        image.kernel.with_file_name("experiment-b"),
        vdso::build(BareMetal::require()?, &[], progress)?,
    ];
    progress.say("a run that logs what it executes");
    let step = step(&image)?;
    let parts = PARTS.iter().zip(files);
    parts
        .map(|(part, file)| touched_of(part, &file, &step))
        .collect()
}

fn touched_of(part: &Part, file: &Path, step: &Step) -> Result<Touched> {
    let base = if part.range.start == BASE as u64 {
        part.range.start
    } else {
        0
    };
    let symbols = functions(file, base)?;
    let mut pages = BTreeSet::new();
    let (mut seen, mut functions) = (BTreeSet::new(), String::new());
    for block in step.iter().filter(|block| part.range.contains(block)) {
        pages.insert(block / PAGE_SIZE);
        let behind = symbols.partition_point(|symbol| symbol.0 <= *block);
        if let Some((address, size, name)) = behind.checked_sub(1).map(|at| &symbols[at])
            && seen.insert(*address)
        {
            writeln!(functions, "  {address:x} {size:5} {}", pattern(name))?;
        }
    }
    Ok(Touched {
        name: part.name,
        pages: pages.len(),
        most: part.most,
        functions,
    })
}

/// Returns address, size and name of a file's functions, in the order of their addresses.
fn functions(file: &Path, base: u64) -> Result<Vec<(u64, u64, String)>> {
    let data = std::fs::read(file).with_context(|| format!("can't read {}", file.display()))?;
    let elf = object::File::parse(&*data)
        .with_context(|| format!("{} is no ELF file", file.display()))?;
    let is_function = |name: &str| !name.is_empty() && !name.starts_with(".L");
    let mut found: Vec<_> = elf
        .symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text)
        .filter_map(|symbol| {
            let name = symbol.name().ok().filter(|name| is_function(name))?;
            Some((base + symbol.address(), symbol.size(), name.to_string()))
        })
        .collect();
    found.sort();
    Ok(found)
}

/// Returns the section of a function as a pattern that matches in other builds too.
///
/// Of a mangled name (Rust's v0) it has the identifiers alone, because the text between them
/// depends on the build.
fn pattern(name: &str) -> String {
    if !name.starts_with("_R") {
        return format!(".text.{name}");
    }
    let mut pattern = String::from(".text._R");
    let mut rest = &name[2..];
    while let Some(first) = rest.chars().next() {
        // A crate's number, from `Cs` to `_`, may look like an identifier.
        if let Some(number) = rest.strip_prefix("Cs")
            && let Some((_, behind)) = number.split_once('_')
        {
            rest = behind;
            continue;
        }
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let length: usize = rest[..digits].parse().unwrap_or(0);
        let identifier = rest[digits..].get(..length).unwrap_or("");
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if length > 1
            && identifier.starts_with(|c: char| c.is_ascii_alphabetic())
            && identifier.chars().all(is_word)
        {
            // Writing to a string can't fail.
            let _ = write!(pattern, "*{length}{identifier}");
            rest = &rest[digits + length..];
        } else {
            rest = &rest[digits.max(first.len_utf8())..];
        }
    }
    pattern + "*"
}

/// Returns the step that comes most often.
///
/// A step is what is executed from one entry of user mode to the next.
fn step(image: &Image) -> Result<Step> {
    let boot = Boot {
        smp: 1,
        memory: DEFAULT_MEMORY.to_string(),
        limit: None,
        disk: None,
        network: None,
        input: Input::None,
        count: Some(0),
        command: [
            "experiment-b",
            "--models",
            "coroutine",
            "--bytes",
            "1",
            "--runs",
            "1",
            "--n",
            TASKS,
        ]
        .map(str::to_string)
        .to_vec(),
    };
    let mut command = boot.qemu(image);
    // The log goes to standard error. Its lines are:
    // `Trace 0: host address [base/address/flags/flags] name`
    command.args(["-d", "exec,nochain"]);
    let mut child = process::limited(&command, LIMIT, false)?
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("can't start QEMU")?;
    let log = BufReader::new(child.stderr.take().expect("standard error is piped"));
    let mut steps: HashMap<BTreeSet<u64>, (usize, Step)> = HashMap::new();
    let (mut step, mut seen, mut before) = (Step::new(), BTreeSet::new(), 0);
    for line in log.split(b'\n') {
        let Some(block) = block(&String::from_utf8_lossy(&line?)) else {
            continue;
        };
        let enters_user =
            before >= TRAMPOLINE && block < TRAMPOLINE && !PARTS[0].range.contains(&block);
        before = block;
        if enters_user {
            let pages = step.iter().map(|block| block / PAGE_SIZE).collect();
            let step = std::mem::take(&mut step);
            seen.clear();
            steps.entry(pages).or_insert((0, step)).0 += 1;
        }
        if seen.insert(block) {
            step.push(block);
        }
    }
    let status = child.wait()?;
    match steps.into_values().max_by_key(|(times, _)| *times) {
        Some((times, step)) if status.success() && times > 50 => Ok(step),
        _ => bail!("QEMU's log of executed blocks shows no steps of experiment B ({status})"),
    }
}

/// Returns the address in a line of the log.
fn block(line: &str) -> Option<u64> {
    let fields = line.strip_prefix("Trace ")?.split_once('[')?.1;
    u64::from_str_radix(fields.split('/').nth(1)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_leave_out_what_depends_on_the_build() {
        assert_eq!(
            pattern("_RNvMs0_NtNtCskOoYlNH_13corank_kernel4ring5serveNtB7_4Ring5serve"),
            ".text._R*13corank_kernel*4ring*5serve*4Ring*5serve*"
        );
        assert_eq!(
            pattern("_RNvNtCs7kOoYlNH_13corank_kernel6thread3run"),
            ".text._R*13corank_kernel*6thread*3run*"
        );
        assert_eq!(pattern("memcpy"), ".text.memcpy");
    }

    #[test]
    fn the_log_has_an_address_in_each_line() {
        let line = "Trace 0: 0x7f0768000 [0000000000000000/0000003f00081000/00000001/ff000201] run";
        assert_eq!(block(line), Some(0x3f_0008_1000));
        assert_eq!(block("cpu_io_recompile: rewound execution"), None);
    }
}
