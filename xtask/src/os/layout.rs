//! The layout of the code that a relay step of experiment B executes: `cargo xtask os-layout`.
//!
//! After each change of address space a hart has to find the translation of each page that it
//! touches. QEMU has to find each block of code again. The linker scripts of kernel, programs and
//! image therefore include lists of the functions of a step, so that they lie side by side. Names
//! change, so this command writes the lists: it boots the machine with QEMU's log of executed
//! blocks. The test stage `layout` checks that a step touches few pages of code.

mod log;
mod names;

use super::build;
use super::vdso;
use crate::progress::Progress;
use crate::repository;
use crate::toolchain::BareMetal;
use anyhow::{Context, Result};
use corank_abi::vdso::{BASE, MAX_SIZE};
use log::{Blocks, Log, PAGE_SIZE};
use object::{Object, ObjectSymbol, SymbolKind};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What `cargo xtask os-layout` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Write the lists that the linker scripts include, for the compiler that is used here
    #[arg(long)]
    write: bool,
}

/// One of the ELF files with code that a step executes.
struct Part {
    name: &'static str,
    /// Where its linker script lies, and the lists that this includes.
    folder: &'static str,
    /// The addresses at which its code may lie.
    range: Range<u64>,
    /// The most pages of it that a step may touch.
    most: usize,
}

/// The parts, with the most pages that a step may touch.
const PARTS: [Part; 3] = [
    Part {
        name: "kernel",
        folder: "os/kernel",
        range: 0x8020_0000..0x8080_0000,
        most: 5,
    },
    Part {
        name: "program",
        folder: "os/user",
        range: 0x1_0000..0x100_0000,
        most: 3,
    },
    Part {
        name: "image",
        folder: "os/vdso",
        range: BASE as u64..(BASE + MAX_SIZE) as u64,
        most: 2,
    },
];

/// The lists of functions, and of their constants: jump tables.
const FUNCTIONS: &str = "hot.ld";
const CONSTANTS: &str = "hot-constants.ld";

/// The code of a part that a step executes.
pub(crate) struct Touched {
    pub(crate) name: &'static str,
    pub(crate) pages: usize,
    pub(crate) most: usize,
    /// Each function on a line, by its address, size and name.
    pub(crate) functions: String,
}

/// The system, with the files of its parts.
struct System {
    image: build::Image,
    files: [PathBuf; 3],
}

/// Prints the functions that a step executes, or writes the lists.
///
/// # Errors
/// When building or booting fails, no step is found, or a list cannot be written.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let mut progress = Progress::spinner("building the operating system");
    let touched = if options.write {
        write(&mut progress)?;
        progress.say("building the operating system with the new lists");
        touched(&mut progress)?
    } else {
        touched(&mut progress)?
    };
    progress.finish();
    for (part, touched) in PARTS.iter().zip(touched) {
        println!(
            "{}: {} pages of code in a step ({})\n{}",
            touched.name, touched.pages, part.folder, touched.functions
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Boots the machine and returns what a step of each part touches.
///
/// # Errors
/// When building or booting fails, or no step is found.
pub(crate) fn touched(progress: &mut Progress) -> Result<Vec<Touched>> {
    let system = System::build(progress)?;
    let Log { step, .. } = system.run("coroutine", progress)?;
    let parts = PARTS.iter().zip(&system.files);
    parts
        .map(|(part, file)| {
            let (mut pages, mut functions) = (BTreeSet::new(), String::new());
            for block in step.iter().filter(|block| part.range.contains(block)) {
                pages.insert(block / PAGE_SIZE);
            }
            for (address, size, name) in part.functions(file, &step)? {
                writeln!(functions, "  {address:x} {size:5} {name}")?;
            }
            Ok(Touched {
                name: part.name,
                pages: pages.len(),
                most: part.most,
                functions,
            })
        })
        .collect()
}

/// Writes the lists: a step, then what else coroutines and then threads execute often.
fn write(progress: &mut Progress) -> Result<()> {
    let system = System::build(progress)?;
    let compiler = BareMetal::require()?.compiler()?;
    let coroutines = system.run("coroutine", progress)?;
    let threads = system.run("thread-block", progress)?;
    let blocks = [coroutines.step, coroutines.hot, threads.hot].concat();
    for (part, file) in PARTS.iter().zip(&system.files) {
        let (mut code, mut constants) = (String::new(), String::new());
        let mut seen = BTreeSet::new();
        for (_, _, name) in part.functions(file, &blocks)? {
            let name = names::pattern(&name);
            if seen.insert(name.clone()) {
                writeln!(code, "*(.text*.{name})")?;
                writeln!(constants, "*(.rodata.{name})")?;
            }
        }
        for (list, lines) in [(FUNCTIONS, code), (CONSTANTS, constants)] {
            let path = repository::path(part.folder).join(list);
            let content = std::fs::read_to_string(&path)
                .with_context(|| format!("can't read {}", path.display()))?;
            std::fs::write(&path, names::updated(&content, &compiler, &lines))
                .with_context(|| format!("can't write {}", path.display()))?;
        }
    }
    Ok(())
}

impl System {
    fn build(progress: &mut Progress) -> Result<System> {
        let image = build::build(&[], None, progress)?;
        let files = [
            image.kernel.clone(),
            image.kernel.with_file_name("experiment-b"),
            vdso::build(BareMetal::require()?, &[], progress)?,
        ];
        Ok(System { image, files })
    }

    fn run(&self, model: &str, progress: &mut Progress) -> Result<Log> {
        progress.say("a run that logs what it executes");
        log::run(&self.image, model, &PARTS[0].range)
    }
}

impl Part {
    /// Returns address, size and name of the functions of its file that have these blocks, in the
    /// order of the blocks.
    fn functions(&self, file: &Path, blocks: &Blocks) -> Result<Vec<(u64, u64, String)>> {
        let base = if self.range.start == BASE as u64 {
            self.range.start
        } else {
            0
        };
        let symbols = symbols(file, base)?;
        let mut seen = BTreeSet::new();
        let found = blocks
            .iter()
            .filter(|block| self.range.contains(block))
            .filter_map(|block| {
                let behind = symbols.partition_point(|symbol| symbol.0 <= *block);
                let symbol = &symbols[behind.checked_sub(1)?];
                seen.insert(symbol.0).then(|| symbol.clone())
            });
        Ok(found.collect())
    }
}

/// Returns address, size and name of a file's functions, in the order of their addresses.
fn symbols(file: &Path, base: u64) -> Result<Vec<(u64, u64, String)>> {
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
