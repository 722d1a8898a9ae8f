//! Tests of the shared scheduler's image that need several images, kernels or versions of a
//! program.

mod footprint;

use super::Context;
use super::machine::{HARTS, PROGRAM_TESTS, ProgramTest, tail};
use super::outcome::Outcome;
use crate::os::build;
use crate::os::vdso;
use crate::repository;
use crate::toolchain::BareMetal;
use anyhow::{Context as _, Result, bail, ensure};
use corank_abi::page::PAGE_SIZE;
use corank_abi::vdso::{BASE, FILE, SYMBOL, VERSION, WRONG_VERSION};
use corank_image::{Image, find};
use elf::ElfBytes;
use elf::endian::LittleEndian;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The program that prints what the image decides.
const PROBE: &str = "scheduling";
/// A version that no image has, of the same length as the real one.
const UNKNOWN: &str = "corank_?";

/// The message of kernel and programs for an image with other layouts than theirs.
const MISMATCH: &str = "its functions or layouts are not those that its version promises";

/// One test, and its name.
type Test = (&'static str, fn(&mut Context) -> Result<()>);

const TESTS: &[Test] = &[
    ("the kernel conforms", the_kernel_conforms),
    (
        "programs may ask for faults in kernels for tests alone",
        faults_are_for_tests,
    ),
    (
        "another image decides for all",
        another_image_decides_for_all,
    ),
    (
        "the scheduler is in the image alone",
        the_scheduler_is_in_the_image_alone,
    ),
    (
        "a program is smaller without a scheduler of its own",
        footprint::a_program_is_smaller,
    ),
    (
        "the kernel refuses what it does not know",
        the_kernel_refuses,
    ),
    (
        "a program of another version or with other layouts says so",
        a_program_says_so,
    ),
    (
        "variables are each address space's own",
        variables_are_each_address_spaces_own,
    ),
    (
        "nothing of Rust's own layout crosses",
        nothing_of_rusts_own_layout_crosses,
    ),
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

/// Boots a program, and returns its output and its exit code.
fn boot(image: &build::Image, program: &str) -> Result<(String, u8)> {
    ProgramTest::expecting(program, 0, &[]).boot(1, image, None)
}

fn build(
    context: &mut Context,
    programs: &[PathBuf],
    image: Option<&Path>,
) -> Result<build::Image> {
    build::build(programs, image, &mut context.progress)
}

/// Returns the path at which the build puts a binary.
fn release(name: &str) -> PathBuf {
    repository::path("os/target/riscv64gc-unknown-none-elf/release").join(name)
}

/// Builds an image with this feature, and returns a copy under the feature's name.
///
/// The next build of the image overwrites cargo's own file.
fn image_with(feature: &str, context: &mut Context) -> Result<PathBuf> {
    let built = vdso::build(BareMetal::require()?, &[feature], &mut context.progress)?;
    file(&format!("{feature}.so"), &std::fs::read(built)?)
}

/// Writes a file for a test, in a folder that git ignores.
fn file(name: &str, contents: &[u8]) -> Result<PathBuf> {
    let folder = repository::path("os/target/image-tests");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(name);
    std::fs::write(&path, contents)?;
    Ok(path)
}

/// Returns the test of the conformance traces in a process.
fn conformance() -> Result<ProgramTest> {
    ProgramTest::of_file(&repository::path(PROGRAM_TESTS).join("conformance.toml"))
}

/// Tests that the conformance traces have the same result inside the kernel as in a process.
fn the_kernel_conforms(context: &mut Context) -> Result<()> {
    let plain = build(context, &[], None)?;
    let kernel = build::kernel_with("conformance", &mut context.progress)?;
    let image = build::Image { kernel, ..plain };
    let test = conformance()?;
    for smp in HARTS {
        // This kernel starts no program, whatever its command line names.
        if let Some(failure) = test.on(smp, &image, context)? {
            bail!("on {smp} harts it {failure}");
        }
    }
    Ok(())
}

/// Tests that the default kernel has no faults: neither a call nor code nor data.
///
/// The kernel for tests has them, which shows that the search would find them.
fn faults_are_for_tests(context: &mut Context) -> Result<()> {
    // `fault::injection` in the names that the compiler gives.
    const MANGLED: &[u8] = b"5fault9injection";
    let plain = build(context, &[], None)?;
    let for_tests = build::build_for_tests(&mut context.progress)?;
    for (image, has_faults) in [(plain, false), (for_tests, true)] {
        let kernel = std::fs::read(&image.kernel)?;
        ensure!(
            has_symbol(&kernel, MANGLED)? == has_faults,
            "{} has symbols of faults, or lacks them",
            image.kernel.display()
        );
        let (output, code) = boot(&image, "misbehave faults")?;
        ensure!(
            code == u8::from(has_faults),
            "ended with code {code}:\n{}",
            tail(&output)
        );
    }
    Ok(())
}

/// Tests that another image, with the same kernel and programs, schedules coroutines and processes
/// in another way.
///
/// A larger image also takes more memory once, but none in each process.
fn another_image_decides_for_all(context: &mut Context) -> Result<()> {
    let strict = Loaded::build(None, context)?;
    let alike = Loaded::build(Some(image_with("alike", context)?), context)?;
    let larger = (
        alike.pages.saturating_sub(strict.pages),
        alike.archive.saturating_sub(strict.archive),
    );
    for ((smp, strict), alike) in HARTS.into_iter().zip(strict.probes).zip(alike.probes) {
        compare(smp, &strict?, &alike?, larger).with_context(|| format!("on {smp} harts"))?;
    }
    Ok(())
}

/// The probe's output in a system with an image, and the sizes in pages that belong to the image.
struct Loaded {
    /// The size of the image in memory.
    pages: usize,
    /// The size of the archive, which has the image as a file.
    archive: usize,
    probes: [Result<Probe>; HARTS.len()],
}

impl Loaded {
    fn build(image: Option<PathBuf>, context: &mut Context) -> Result<Self> {
        let file = match &image {
            Some(image) => image.clone(),
            None => vdso::build(BareMetal::require()?, &[], &mut context.progress)?,
        };
        let size = Image::check(&std::fs::read(file)?)?.size();
        let built = build(context, &[], image.as_deref())?;
        let archive = std::fs::metadata(&built.archive)?.len() as usize;
        Ok(Self {
            pages: size / PAGE_SIZE,
            archive: archive.div_ceil(PAGE_SIZE),
            probes: HARTS.map(|smp| Probe::run(smp, &built)),
        })
    }
}

/// Compares two images by the probe's output.
///
/// `larger` has the numbers of pages by which the image and the archive are larger.
fn compare(smp: u32, strict: &Probe, alike: &Probe, larger: (usize, usize)) -> Result<()> {
    ensure!(
        strict.process.is_sorted(),
        "not strict: {:?}",
        strict.process
    );
    let alternates = alike.process.windows(2).all(|pair| pair[0] != pair[1]);
    ensure!(alternates, "not alike: {:?}", alike.process);
    // On several harts the two processes run at the same time.
    if smp == 1 {
        ensure!(strict.kernel.is_sorted(), "not strict: {:?}", strict.kernel);
        // Threads also wait for other things, so their turns do not alternate exactly.
        ensure!(!alike.kernel.is_sorted(), "strict: {:?}", alike.kernel);
    }
    let (image, archive) = larger;
    let taken = strict.memory.saturating_sub(alike.memory);
    // The image takes its memory once, for the kernel and all processes. The kernel's record of
    // each page may take another frame or two.
    ensure!(
        image >= 16 && (image + archive..image + archive + image / 2).contains(&taken),
        "an image of {image} pages more, in an archive of {archive} pages more, takes {taken} frames",
    );
    ensure!(
        strict.child == alike.child,
        "a process takes {} frames with the smaller image, {} with the larger",
        strict.child,
        alike.child
    );
    Ok(())
}

/// Tests that each address space has its own variables of the image.
///
/// With this image, every second scheduler of an address space treats all levels alike. The
/// kernel's scheduler is the first of its address space, so the kernel counts too.
fn variables_are_each_address_spaces_own(context: &mut Context) -> Result<()> {
    let image = image_with(vdso::WITH_A_VARIABLE, context)?;
    let image = build(context, &[], Some(&image))?;
    let expected = [
        "first: strict\n",
        // With a copy of what its parent had.
        "forked: alike\n",
        // As if there were no child.
        "second: alike\n",
        "third: strict\n",
        // From the beginning.
        "started: strict\n",
    ];
    let test = ProgramTest::expecting("scheduling counted", 0, &expected);
    for smp in HARTS {
        if let Some(failure) = test.on(smp, &image, context)? {
            bail!("on {smp} harts it {failure}");
        }
    }
    Ok(())
}

/// Tests an image that has the fields of all Rust's own types in a random order.
///
/// The kernel and the programs have another order. This works only if everything that both sides
/// touch is laid out as in C.
fn nothing_of_rusts_own_layout_crosses(context: &mut Context) -> Result<()> {
    let image = vdso::build_shuffled(BareMetal::require()?, &mut context.progress)?;
    let image = build(context, &[], Some(&image))?;
    let test = conformance()?;
    match test.on(1, &image, context)? {
        Some(failure) => bail!("it {failure}"),
        None => Ok(()),
    }
}

/// Tests that neither the kernel nor any program has a function of the scheduler.
fn the_scheduler_is_in_the_image_alone(context: &mut Context) -> Result<()> {
    let built = build(context, &[], None)?;
    ensure!(
        !has_scheduler(&std::fs::read(&built.kernel)?)?,
        "the kernel has one of its own"
    );
    let mut archive = tar::Archive::new(File::open(&built.archive)?);
    let mut programs = 0;
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = entry.path()?.display().to_string();
        let mut contents = Vec::new();
        entry.read_to_end(&mut contents)?;
        let is_image = name == FILE;
        ensure!(
            has_scheduler(&contents).with_context(|| name.clone())? == is_image,
            "{name}: only the image should have a scheduler"
        );
        programs += usize::from(!is_image);
    }
    ensure!(programs > 20, "there are just {programs} programs");
    Ok(())
}

/// Tests whether one of a file's symbols is a function of the core's scheduler.
fn has_scheduler(file: &[u8]) -> Result<bool> {
    // `corank::scheduling::scheduler` in the names that the compiler gives.
    has_symbol(file, b"6corank10scheduling9scheduler")
}

/// Tests whether one of a file's symbols has `part` in its name.
fn has_symbol(file: &[u8], part: &[u8]) -> Result<bool> {
    let elf = ElfBytes::<LittleEndian>::minimal_parse(file)?;
    let (symbols, names) = elf.symbol_table()?.context("it has no symbols")?;
    let is_one = |symbol: elf::symbol::Symbol| {
        let name = names.get_raw(symbol.st_name as usize).unwrap_or_default();
        name.windows(part.len()).any(|window| window == part)
    };
    Ok(symbols.iter().any(is_one))
}

/// The output of the probe.
struct Probe {
    process: Vec<u8>,
    kernel: Vec<u8>,
    /// Free frames.
    memory: usize,
    /// Frames that a child takes.
    child: usize,
}

impl Probe {
    fn run(smp: u32, image: &build::Image) -> Result<Probe> {
        let (output, code) = ProgramTest::expecting(PROBE, 0, &[]).boot(smp, image, None)?;
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

/// Returns `file` with each `VERSION` in it replaced by `UNKNOWN`.
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

/// Returns the fingerprint of the layouts in an image: the second word of its table.
fn layout_of(image: &[u8]) -> Result<[u8; 8]> {
    let image = Image::check(image)?;
    let mut memory = vec![0; image.size()];
    image.load(&mut memory, BASE);
    let table = find(&memory, SYMBOL, VERSION)?;
    Ok(memory[table + 8..table + 16].try_into()?)
}

/// Returns `file`, which has this fingerprint of the layouts once, with another fingerprint.
fn of_other_layout(mut file: Vec<u8>, layout: [u8; 8]) -> Result<Vec<u8>> {
    let mut places = (0..file.len()).filter(|at| file[*at..].starts_with(&layout));
    let (Some(place), None) = (places.next(), places.next()) else {
        bail!("the fingerprint of the layouts is not in the file, or several times");
    };
    file[place] ^= 1;
    Ok(file)
}

/// Tests that the kernel refuses images of another version or with other layouts, and damaged ones.
///
/// The kernel says what is wrong, and ends the machine.
fn the_kernel_refuses(context: &mut Context) -> Result<()> {
    let good = std::fs::read(vdso::build(
        BareMetal::require()?,
        &[],
        &mut context.progress,
    )?)?;
    let mut writable_code = good.clone();
    // This changes the flags of the first loaded segment, in the second program header.
    writable_code[64 + 56 + 4] |= 2;
    let cases = [
        (of_unknown_version(good.clone())?, "another version"),
        (of_other_layout(good.clone(), layout_of(&good)?)?, MISMATCH),
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

/// Tests that programs built for another version or for other layouts than the image's say so.
fn a_program_says_so(context: &mut Context) -> Result<()> {
    build(context, &[], None)?;
    let built = |name| std::fs::read(release(name));
    let hello = built("hello")?;
    let layout = layout_of(&built("corank-vdso")?)?;
    let cases = [
        (
            "hello-of-another-version",
            of_unknown_version(hello.clone())?,
            UNKNOWN,
        ),
        (
            "hello-with-other-layouts",
            of_other_layout(hello, layout)?,
            MISMATCH,
        ),
    ];
    let programs = cases
        .iter()
        .map(|(name, contents, _)| file(name, contents))
        .collect::<Result<Vec<_>>>()?;
    let image = build(context, &programs, None)?;
    for (name, _, message) in cases {
        let (output, code) = boot(&image, name)?;
        ensure!(
            i32::from(code) == WRONG_VERSION
                && output.contains(message)
                && output.contains("build the program for this system"),
            "{name} ended with code {code}:\n{}",
            tail(&output)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unknown_version_takes_the_same_room() {
        assert_eq!(UNKNOWN.len(), VERSION.len());
        let names = |version| format!("a {version} b {version}\0").into_bytes();
        let file = of_unknown_version(names(VERSION)).unwrap();
        assert_eq!(file, names(UNKNOWN));
        assert!(of_unknown_version(b"nothing of the kind".to_vec()).is_err());
    }
}
