//! A test that a program is smaller because the scheduler is in the image.
//!
//! It builds `os/footprint` with the scheduler in the image, and with one of its own.

use super::super::Context;
use super::super::machine::{PROGRAM_TESTS, ProgramTest};
use super::file;
use crate::os::build::{self, binaries};
use crate::repository;
use crate::toolchain::{BareMetal, Target};
use anyhow::{Context as _, Result, bail, ensure};
use object::elf::{SHF_ALLOC, SHF_EXECINSTR, SHF_WRITE};
use object::{Object, ObjectSection, SectionFlags};
use std::path::{Path, PathBuf};

/// The package and its binary.
const NAME: &str = "corank-footprint";

/// The least percentage by which the program is larger without the image.
///
/// `os/footprint/README.md` says how many it is today.
const AT_LEAST: u64 = 50;

/// Tests that both programs print what `hello-async` prints, and that the one without a scheduler
/// is smaller.
pub(super) fn a_program_is_smaller(context: &mut Context) -> Result<()> {
    let shared = program(context, "with-the-image", &["--features", "image"])?;
    let own = program(context, "with-its-own", &["--no-default-features"])?;
    let image = build::build(&[shared.clone(), own.clone()], None, &mut context.progress)?;
    let hello = ProgramTest::of_file(&repository::path(PROGRAM_TESTS).join("hello-async.toml"))?;
    for program in [&shared, &own] {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        if let Some(failure) = hello.running(&name).on(1, &image, context)? {
            bail!("{name} {failure}");
        }
    }
    let (shared, own) = (Size::of(&shared)?, Size::of(&own)?);
    context.show(&format!(
        "a program with the scheduler in the image has {shared}, with its own {own}"
    ));
    ensure!(
        own.sum() * 100 >= shared.sum() * (100 + AT_LEAST),
        "the image saves too little: {shared} with it, {own} without"
    );
    Ok(())
}

/// Builds the program with these features, and returns it under this name.
fn program(context: &mut Context, name: &str, features: &[&str]) -> Result<PathBuf> {
    let mut command = BareMetal::require()?.cargo(Target::RiscV, "build");
    command
        .args(["--release", "--package", NAME])
        .args(features)
        .current_dir(repository::path("os"));
    let built = binaries(command, &[], &mut context.progress)?
        .into_iter()
        .find(|binary| binary.name == NAME)
        .with_context(|| format!("building os/footprint gave no binary named {NAME}"))?;
    file(name, &std::fs::read(built.path)?)
}

/// The constant memory of a program, in bytes.
struct Size {
    code: u64,
    constants: u64,
}

impl Size {
    fn of(program: &Path) -> Result<Self> {
        let contents = std::fs::read(program)?;
        let file = object::File::parse(contents.as_slice())?;
        let is = |section: &object::Section<'_, '_>, flag: u32| matches!(section.flags(), SectionFlags::Elf { sh_flags } if sh_flags & u64::from(flag) != 0);
        let mut size = Self {
            code: 0,
            constants: 0,
        };
        for section in file.sections().filter(|section| is(section, SHF_ALLOC)) {
            if is(&section, SHF_EXECINSTR) {
                size.code += section.size();
            } else if !is(&section, SHF_WRITE) {
                size.constants += section.size();
            }
        }
        Ok(size)
    }

    fn sum(&self) -> u64 {
        self.code + self.constants
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} bytes of code and {} of constants",
            self.code, self.constants
        )
    }
}
