//! Tests of the shared scheduler's image that need more than one image, one kernel or one version of a program.

use super::Context;
use super::machine::{MOST_HARTS, ProgramTest, tail};
use super::outcome::Outcome;
use crate::os::build::{self, Image};
use crate::os::vdso;
use crate::repository;
use crate::toolchain::BareMetal;
use anyhow::{Context as _, Result, bail, ensure};
use corank_abi::vdso::{VERSION, WRONG_VERSION};
use elf::ElfBytes;
use elf::endian::LittleEndian;
use std::path::{Path, PathBuf};

/// The program that says what the image decides.
const PROBE: &str = "scheduling";
/// A version that no image has, as long as the real one.
const UNKNOWN: &str = "corank_?";

/// One test, and its name.
type Test = (&'static str, fn(&mut Context) -> Result<()>);

const TESTS: &[Test] = &[
    ("the kernel conforms", the_kernel_conforms),
    (
        "another image decides for all",
        another_image_decides_for_all,
    ),
    (
        "the scheduler is in the image alone",
        the_scheduler_is_in_the_image_alone,
    ),
    (
        "the kernel refuses what it does not know",
        the_kernel_refuses,
    ),
    ("a program of another version says so", a_program_says_so),
];

pub(super) fn tests(context: &mut Context) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for (name, test) in TESTS {
        context.progress.say(name);
        outcome.add(match test(context) {
            Ok(()) => Outcome::passed(),
            Err(error) => {
                context.show(&format!("{name}: {error:#}"));
                Outcome::failed()
            }
        });
    }
    Ok(outcome)
}

/// What a program prints, and its exit code.
fn boot(image: &Image, program: &str) -> Result<(String, u8)> {
    ProgramTest::expecting(program, 0, &[]).boot(1, image, None)
}

fn build(context: &mut Context, programs: &[PathBuf], image: Option<&Path>) -> Result<Image> {
    build::build(programs, image, &mut context.progress)
}

/// A file for a test, in a folder that git ignores.
fn file(name: &str, contents: &[u8]) -> Result<PathBuf> {
    let folder = repository::path("os/target/image-tests");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(name);
    std::fs::write(&path, contents)?;
    Ok(path)
}

/// The conformance traces, inside the kernel.
fn the_kernel_conforms(context: &mut Context) -> Result<()> {
    let plain = build(context, &[], None)?;
    let kernel = build::kernel_with("conformance", &mut context.progress)?;
    let image = Image { kernel, ..plain };
    for smp in [1, MOST_HARTS] {
        let (output, code) = ProgramTest::default().boot(smp, &image, None)?;
        ensure!(
            code == 0 && output.contains(" passed, 0 failed"),
            "on {smp} harts ended with code {code}:\n{}",
            tail(&output)
        );
    }
    Ok(())
}

/// With another image, and the same kernel and programs, coroutines and processes are scheduled in another way; and a larger
/// image takes memory once, but nothing of each process.
fn another_image_decides_for_all(context: &mut Context) -> Result<()> {
    let toolchain = BareMetal::require()?;
    let strict = Probe::run(&build(context, &[], None)?)?;
    let alike = vdso::build(toolchain, &["alike"], &mut context.progress)?;
    // Under a name of its own: the next build of the image takes the place of this one.
    let alike = file("alike.so", &std::fs::read(alike)?)?;
    let alike = Probe::run(&build(context, &[], Some(&alike))?)?;

    for order in [&strict.process, &strict.kernel] {
        ensure!(order.is_sorted(), "not strict: {order:?}");
    }
    let alternates = alike.process.windows(2).all(|pair| pair[0] != pair[1]);
    ensure!(alternates, "not alike: {:?}", alike.process);
    // Threads wait for other things as well, so that their turns do not alternate exactly.
    ensure!(!alike.kernel.is_sorted(), "strict: {:?}", alike.kernel);
    ensure!(
        strict.memory >= alike.memory + 16,
        "{} frames with the smaller image, {} with the larger",
        strict.memory,
        alike.memory
    );
    ensure!(
        strict.child == alike.child,
        "a process takes {} frames with the smaller image, {} with the larger",
        strict.child,
        alike.child
    );
    Ok(())
}

/// Kernel and programs are smaller by what the image has: no function of the scheduler is in them.
fn the_scheduler_is_in_the_image_alone(context: &mut Context) -> Result<()> {
    let kernel = build(context, &[], None)?.kernel;
    let folder = kernel.parent().context("the kernel lies in a folder")?;
    let image = folder.join("corank-vdso");
    ensure!(has_scheduler(&image)?, "not even the image has one");
    for client in [kernel.clone(), folder.join("hello-async")] {
        ensure!(
            !has_scheduler(&client)?,
            "{} has one of its own",
            client.display()
        );
    }
    Ok(())
}

/// Whether one of a file's symbols is a function of the core's scheduler.
fn has_scheduler(path: &Path) -> Result<bool> {
    // `corank::scheduler` in the names that the compiler gives.
    const MANGLED: &[u8] = b"6corank9scheduler";
    let file = std::fs::read(path).with_context(|| format!("can't read {}", path.display()))?;
    let elf = ElfBytes::<LittleEndian>::minimal_parse(&file)?;
    let (symbols, names) = elf.symbol_table()?.context("it has no symbols")?;
    let is_one = |symbol: elf::symbol::Symbol| {
        let name = names.get_raw(symbol.st_name as usize).unwrap_or_default();
        name.windows(MANGLED.len()).any(|part| part == MANGLED)
    };
    Ok(symbols.iter().any(is_one))
}

/// What the probe says.
struct Probe {
    process: Vec<u8>,
    kernel: Vec<u8>,
    /// Free frames.
    memory: usize,
    /// Frames of a child.
    child: usize,
}

impl Probe {
    fn run(image: &Image) -> Result<Probe> {
        let (output, code) = boot(image, PROBE)?;
        ensure!(code == 0, "ended with code {code}:\n{}", tail(&output));
        let line = |name: &str| {
            let mut lines = output.lines();
            lines
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
                .with_context(|| format!("{PROBE} printed no line `{name}`:\n{}", tail(&output)))
        };
        Ok(Probe {
            process: serde_json::from_str(line("process")?)?,
            kernel: serde_json::from_str(line("kernel")?)?,
            memory: line("memory")?.parse()?,
            child: line("child")?.parse()?,
        })
    }
}

/// `file` with each `VERSION` in it replaced by `UNKNOWN`.
fn of_unknown_version(mut file: Vec<u8>) -> Result<Vec<u8>> {
    let mut places = 0;
    for at in 0..file.len() - VERSION.len() {
        if file[at..].starts_with(VERSION.as_bytes()) {
            file[at..at + UNKNOWN.len()].copy_from_slice(UNKNOWN.as_bytes());
            places += 1;
        }
    }
    ensure!(places > 0, "{VERSION} is nowhere in the file");
    Ok(file)
}

/// An image of another version, and damaged ones: the kernel says what is wrong, and ends the machine.
fn the_kernel_refuses(context: &mut Context) -> Result<()> {
    let good = std::fs::read(vdso::build(
        BareMetal::require()?,
        &[],
        &mut context.progress,
    )?)?;
    let mut writable_code = good.clone();
    // The flags of the first segment that is loaded: the second program header.
    writable_code[64 + 56 + 4] |= 2;
    let cases = [
        (of_unknown_version(good.clone())?, "another version"),
        (good[..good.len() / 2].to_vec(), "not a whole ELF file"),
        (writable_code, "both writable and executable"),
    ];
    for (contents, message) in cases {
        let path = file("refused.so", &contents)?;
        match boot(&build(context, &[], Some(&path))?, "hello") {
            Ok((output, code)) => {
                bail!("`{message}`: it ran, with code {code}:\n{}", tail(&output))
            }
            Err(error) => {
                let said = format!("{error:#}");
                let status = format!("exit status: {WRONG_VERSION}");
                ensure!(
                    said.contains(message) && said.contains(&status),
                    "`{message}`: {said}"
                );
            }
        }
    }
    Ok(())
}

/// A program that was built for a version which the image does not have.
fn a_program_says_so(context: &mut Context) -> Result<()> {
    build(context, &[], None)?;
    let hello = repository::path("os/target/riscv64gc-unknown-none-elf/release/hello");
    let hello = of_unknown_version(std::fs::read(hello)?)?;
    let program = file("hello-of-another-version", &hello)?;
    let image = build(context, &[program], None)?;
    let (output, code) = boot(&image, "hello-of-another-version")?;
    ensure!(
        i32::from(code) == WRONG_VERSION
            && output.contains(UNKNOWN)
            && output.contains("build the program for this system"),
        "ended with code {code}:\n{}",
        tail(&output)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unknown_version_takes_the_same_room() {
        assert_eq!(UNKNOWN.len(), VERSION.len());
        let file = of_unknown_version(b"a corank_1 b corank_1\0".to_vec()).unwrap();
        assert_eq!(file, b"a corank_? b corank_?\0");
        assert!(of_unknown_version(b"nothing of the kind".to_vec()).is_err());
    }
}
