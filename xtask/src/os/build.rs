//! Building the kernel and the programs, and packing the programs into the archive that the kernel
//! finds in memory.

use super::programs::{self, Entry, read};
use super::vdso;
use crate::process;
use crate::progress::Progress;
use crate::repository;
use crate::toolchain::{BareMetal, Target};
use anyhow::{Context, Result, bail};
use corank_abi::vdso::FILE;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The kernel's binary.
const KERNEL: &str = "corank-kernel";
/// The package with the system's programs as its binaries.
const APPS: &str = "corank-apps";

/// A program of many names, as `os/apps/src/bin/tools` lists them.
///
/// It lies in the archive under each of them.
const TOOLS: (&str, &[&str]) = (
    "tools",
    &[
        "cat", "cp", "df", "echo", "false", "ls", "mkdir", "mv", "ps", "rm", "rmdir", "sleep",
        "sync", "top", "true", "wc",
    ],
);

/// The kernel's feature that measures stretches of work.
pub(crate) const STRETCH: &str = "stretch";

/// Time limit of a build.
const LIMIT: Duration = Duration::from_secs(1200);
/// The number of lines that are shown of a failing build.
const TAIL: usize = 60;

/// The files that QEMU boots.
pub(crate) struct Image {
    /// The kernel's ELF file.
    pub(crate) kernel: PathBuf,
    /// A tar archive of the programs, each under its name, and the shared scheduler's image.
    pub(crate) archive: PathBuf,
}

impl Image {
    /// Returns a program of the archive.
    ///
    /// # Errors
    /// When the archive has no program of this name.
    pub(crate) fn program(&self, name: &str) -> Result<Vec<u8>> {
        let entries = unpack(&self.archive)?;
        let found = entries.into_iter().find(|(other, _)| other == name);
        Ok(found
            .with_context(|| format!("there is no program {name}"))?
            .1)
    }

    /// Returns the same image with more programs, which no system has, in another archive.
    ///
    /// # Errors
    /// When the archive cannot be read or written.
    pub(crate) fn with_programs(&self, archive: &Path, programs: Vec<Entry>) -> Result<Self> {
        let mut entries = unpack(&self.archive)?;
        entries.extend(programs);
        pack(archive, entries)?;
        Ok(Self {
            kernel: self.kernel.clone(),
            archive: archive.to_path_buf(),
        })
    }
}

/// Whether programs may ask the kernel for faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Faults {
    /// They may not: the kernel has no injected faults.
    Absent,
    /// They may: it is a kernel for tests.
    Present,
}

/// Builds the kernel, the shared scheduler's image and all programs.
///
/// It adds the programs from `outside` under their file names, and takes `image` instead of the
/// built image if there is one. A program from outside replaces the system's program of the same
/// name, and a note says so.
///
/// # Errors
/// When the build fails, or two programs from outside have one name.
pub(crate) fn build(
    outside: &[PathBuf],
    image: Option<&Path>,
    progress: &mut Progress,
) -> Result<Image> {
    build_with(Faults::Absent, outside, image, progress)
}

/// Builds the system with a kernel for tests, which lets programs ask for faults.
pub(crate) fn build_for_tests(progress: &mut Progress) -> Result<Image> {
    build_with(Faults::Present, &[], None, progress)
}

/// Builds as [`build`] does, with one of the two kernels.
///
/// Cargo keeps both, so that building them in turn compiles nothing again.
pub(crate) fn build_with(
    faults: Faults,
    outside: &[PathBuf],
    image: Option<&Path>,
    progress: &mut Progress,
) -> Result<Image> {
    let toolchain = BareMetal::require()?;
    let mut command = toolchain.cargo(Target::RiscV, "build");
    command.arg("--release").current_dir(repository::path("os"));
    if faults == Faults::Present {
        command.arg(format!("--features={KERNEL}/faults"));
    }
    let binaries = binaries(command, &[], progress)?;
    let built = binaries.iter().find(|binary| binary.name == KERNEL);
    let Some(built) = built else {
        bail!("building os/ gave no binary named {KERNEL}");
    };
    let kernel = built.path.with_file_name(match faults {
        Faults::Absent => "kernel",
        Faults::Present => "kernel-with-faults",
    });
    replace(&built.path, &kernel)?;
    let mut entries: Vec<Entry> = Vec::new();
    for binary in binaries.iter().filter(|binary| binary.package == APPS) {
        let program = without_debug(&read(&binary.path)?)
            .with_context(|| format!("can't make sense of {}", binary.path.display()))?;
        if binary.name == TOOLS.0 {
            let named = |name: &&str| (name.to_string(), program.clone());
            entries.extend(TOOLS.1.iter().map(named));
        }
        entries.push((binary.name.clone(), program));
    }
    for name in programs::add(&mut entries, outside)? {
        progress.interrupt(|| {
            eprintln!("note: `{name}` is the program from outside, not the system's own");
        });
    }
    let image = match image {
        Some(path) => path.to_path_buf(),
        None => vdso::build(toolchain, &[], progress)?,
    };
    entries.push((FILE.to_string(), read(&image)?));
    let archive = archive_path(outside);
    pack(&archive, entries)?;
    Ok(Image { kernel, archive })
}

/// Returns the path of the archive.
///
/// Two runs at a time with different programs from outside have two archives.
fn archive_path(outside: &[PathBuf]) -> PathBuf {
    let name = match outside {
        [] => "programs.tar".to_string(),
        _ => {
            let mut hasher = DefaultHasher::new();
            outside.hash(&mut hasher);
            format!("programs-{:016x}.tar", hasher.finish())
        }
    };
    repository::path("os/target").join(name)
}

/// Builds the kernel with one of its features, and returns a copy under a name of its own.
pub(crate) fn kernel_with(feature: &str, progress: &mut Progress) -> Result<PathBuf> {
    let mut command = BareMetal::require()?.cargo(Target::RiscV, "build");
    command
        .args(["--release", "--package", KERNEL, "--features", feature])
        .current_dir(repository::path("os"));
    let binaries = binaries(command, &[], progress)?;
    let built = binaries.into_iter().find(|binary| binary.name == KERNEL);
    let built = built.context("building the kernel gave none")?.path;
    let kernel = built.with_file_name(format!("kernel-with-{feature}"));
    replace(&built, &kernel)?;
    Ok(kernel)
}

/// A binary that cargo has built.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Binary {
    package: String,
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

/// Runs a `cargo build` or `cargo rustc`, with `flags` for the compiler of the latter, and lists
/// the binaries that it made.
///
/// # Errors
/// When the build fails. The message has what the compiler said.
pub(crate) fn binaries(
    mut command: Command,
    flags: &[&str],
    progress: &mut Progress,
) -> Result<Vec<Binary>> {
    command.arg("--message-format=json-render-diagnostics");
    if !flags.is_empty() {
        command.arg("--").args(flags);
    }
    // The messages are lines of JSON. All other lines are for people.
    let is_message = |line: &str| line.starts_with('{');
    let finished = process::capture(&command, LIMIT, |line| {
        if !is_message(line) {
            progress.say(line.trim());
        }
    })?;
    if !finished.success() {
        let said: Vec<&str> = finished
            .output
            .lines()
            .filter(|line| !is_message(line))
            .collect();
        let end = said[said.len().saturating_sub(TAIL)..].join("\n");
        bail!(
            "`{}` failed; the end of what it said:\n{end}",
            process::describe(&command)
        );
    }
    Ok(finished.output.lines().filter_map(binary).collect())
}

/// Returns the binary that one of cargo's messages announces, if it announces one.
fn binary(message: &str) -> Option<Binary> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let path = message.get("executable")?.as_str()?;
    let name = message.get("target")?.get("name")?.as_str()?;
    // `path+file:///…/os/apps#corank-apps@0.1.0`: the name is left out if it is that of the
    // folder.
    let id = message.get("package_id")?.as_str()?;
    let (folder, version) = id.split_once('#')?;
    let package = match version.split_once('@') {
        Some((package, _)) => package,
        None => folder.rsplit('/').next()?,
    };
    Some(Binary {
        package: package.to_string(),
        name: name.to_string(),
        path: path.into(),
    })
}

/// Copies a file in one step.
///
/// A program that reads the old copy at the same time goes on with the old copy.
fn replace(from: &Path, to: &Path) -> Result<()> {
    let fresh = to.with_extension(std::process::id().to_string());
    std::fs::copy(from, &fresh)
        .and_then(|_| std::fs::rename(&fresh, to))
        .with_context(|| format!("can't copy {} to {}", from.display(), to.display()))
}

/// Returns an ELF file without its debugging information, which no machine needs in its memory.
fn without_debug(file: &[u8]) -> Result<Vec<u8>> {
    let mut builder = object::build::elf::Builder::read(file)?;
    for section in builder.sections.iter_mut() {
        section.delete = section.name.starts_with(b".debug_");
    }
    builder.delete_orphans();
    let mut stripped = Vec::new();
    builder.write(&mut stripped)?;
    Ok(stripped)
}

/// Writes a tar archive with these files, each under the given name.
///
/// The order and the dates are fixed: equal programs give an equal archive. The archive is replaced
/// at once, so that a machine that starts meanwhile finds a whole one.
fn pack(archive: &Path, mut entries: Vec<Entry>) -> Result<()> {
    entries.sort();
    let unfinished = archive.with_extension(format!("{}.tar", std::process::id()));
    let file = File::create(&unfinished)
        .with_context(|| format!("can't write {}", unfinished.display()))?;
    let mut builder = tar::Builder::new(file);
    for (name, content) in &entries {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(0o755);
        builder.append_data(&mut header, name, content.as_slice())?;
    }
    builder.into_inner()?;
    std::fs::rename(&unfinished, archive)
        .with_context(|| format!("can't write {}", archive.display()))
}

/// Returns the files that [`pack`] has packed.
fn unpack(archive: &Path) -> Result<Vec<Entry>> {
    let about = || format!("can't read {}", archive.display());
    let file = read(archive)?;
    let mut entries = Vec::new();
    for entry in tar::Archive::new(file.as_slice())
        .entries()
        .with_context(about)?
    {
        let mut entry = entry.with_context(about)?;
        let name = entry.path().with_context(about)?.display().to_string();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).with_context(about)?;
        entries.push((name, content));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use object::{Object, ObjectSection};

    use super::*;

    #[test]
    fn cargos_messages_name_the_binaries() {
        let message = |id: &str, executable: &str| {
            binary(&format!(
                r#"{{"reason":"compiler-artifact","package_id":"{id}","target":{{"name":"hello"}},"executable":{executable}}}"#
            ))
        };
        let expected = Binary {
            package: APPS.to_string(),
            name: "hello".to_string(),
            path: "/t/hello".into(),
        };
        assert_eq!(
            message("path+file:///r/os/apps#corank-apps@0.1.0", "\"/t/hello\""),
            Some(expected)
        );
        assert_eq!(
            message("path+file:///r/os/user#0.1.0", "\"/t/x\"")
                .unwrap()
                .package,
            "user"
        );
        assert_eq!(
            message("path+file:///r/os/abi#corank-abi@0.1.0", "null"),
            None
        );
        assert_eq!(binary("a warning"), None);
    }

    #[test]
    fn programs_lose_their_debugging_information_and_nothing_else() {
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let stripped = without_debug(&whole).unwrap();
        assert!(stripped.len() < whole.len());
        let [whole, stripped] =
            [&whole, &stripped].map(|file| object::File::parse(&**file).unwrap());
        for section in whole.sections() {
            let name = section.name().unwrap();
            let kept = stripped.section_by_name(name);
            if name.starts_with(".debug_") {
                assert!(kept.is_none(), "{name} is still there");
            } else if name == ".text" {
                assert_eq!(kept.unwrap().data(), section.data());
            }
        }
    }

    #[test]
    fn the_archive_does_not_depend_on_order_or_time() {
        let archive = std::env::temp_dir().join(format!("corank-pack-{}", std::process::id()));
        let entry = |name: &str, content: &str| (name.to_string(), content.into());
        let packed = |entries| {
            pack(&archive, entries).unwrap();
            std::fs::read(&archive).unwrap()
        };
        let first = packed(vec![entry("b", "first"), entry("a", "second")]);
        let other = packed(vec![entry("a", "second"), entry("b", "first")]);
        assert_eq!(first, other);
        let mut names = Vec::new();
        for entry in tar::Archive::new(first.as_slice()).entries().unwrap() {
            names.push(entry.unwrap().path().unwrap().into_owned());
        }
        assert_eq!(names, [PathBuf::from("a"), PathBuf::from("b")]);
        std::fs::remove_file(&archive).unwrap();
    }
}
