//! Tests of programs from outside: a C program that knows only the interface of rCore-Tutorial-v3,
//! and ELF files that no system should run.

use super::Context;
use super::machine::{DISK_SIZE, HARTS, ProgramTest};
use super::outcome::Outcome;
use crate::os::build;
use crate::os::scratch_disk::ScratchDisk;
use crate::repository;
use anyhow::{Context as _, Result, bail};
use std::path::PathBuf;
use std::process::Command;

/// The program's source.
pub(super) const SOURCE: &str = "os/tests/outside/outside.c";

/// Exit code of a machine that cannot start its first program.
const CANNOT_START: u8 = 126;

/// The offsets of fields in an ELF file for 64 bits, in bytes.
mod offset {
    pub(super) const CLASS: usize = 4;
    pub(super) const BYTE_ORDER: usize = 5;
    pub(super) const KIND: usize = 16;
    pub(super) const MACHINE: usize = 18;
    pub(super) const ENTRY: usize = 24;
    pub(super) const PROGRAM_HEADERS: usize = 32;
    pub(super) const HEADER_SIZE: usize = 54;
    pub(super) const HEADER_COUNT: usize = 56;
    // In a program header:
    pub(super) const FLAGS: usize = 4;
    pub(super) const FILE_OFFSET: usize = 8;
    pub(super) const ADDRESS: usize = 16;
    pub(super) const FILE_SIZE: usize = 32;
    pub(super) const MEMORY_SIZE: usize = 40;
}

/// A name, a change to a good file, and the kernel's message about the changed file.
type Spoiled = (&'static str, fn(&mut Vec<u8>), &'static str);

fn put<const N: usize>(file: &mut [u8], at: usize, bytes: [u8; N]) {
    file[at..at + N].copy_from_slice(&bytes);
}

/// Returns the position of the executable segment's program header.
fn code_header(file: &[u8]) -> usize {
    const LOAD: u8 = 1;
    const EXECUTE: u8 = 1;
    let word = |at: usize| usize::from(u16::from_le_bytes([file[at], file[at + 1]]));
    (0..word(offset::HEADER_COUNT))
        .map(|number| word(offset::PROGRAM_HEADERS) + number * word(offset::HEADER_SIZE))
        .find(|at| file[*at] == LOAD && file[at + offset::FLAGS] & EXECUTE != 0)
        .expect("a program has code")
}

fn set_in_header(file: &mut [u8], field: usize, value: u64) {
    let at = code_header(file) + field;
    put(file, at, value.to_le_bytes());
}

const NOT_ELF: &str = "not an ELF file";
const CUT_OFF: &str = "the file is cut off";
const WRONG_KIND: &str = "not an executable for 64-bit RISC-V";
const BAD_SEGMENT: &str = "a segment lies where programs must not";

const SPOILED: &[Spoiled] = &[
    ("empty", |file| file.clear(), NOT_ELF),
    (
        "text",
        |file| *file = b"#!/bin/sh\necho hello\n".to_vec(),
        NOT_ELF,
    ),
    ("magic", |file| file[0] = 0, NOT_ELF),
    ("big-endian", |file| file[offset::BYTE_ORDER] = 2, NOT_ELF),
    ("32-bit", |file| file[offset::CLASS] = 1, WRONG_KIND),
    (
        "x86",
        |file| put(file, offset::MACHINE, [62, 0]),
        WRONG_KIND,
    ),
    ("object", |file| put(file, offset::KIND, [1, 0]), WRONG_KIND),
    ("half", |file| file.truncate(file.len() / 2), CUT_OFF),
    ("header-only", |file| file.truncate(64), CUT_OFF),
    ("half-a-header", |file| file.truncate(40), CUT_OFF),
    (
        "many-headers",
        |file| put(file, offset::HEADER_COUNT, [0xfe, 0xff]),
        CUT_OFF,
    ),
    (
        "headers-far-away",
        |file| put(file, offset::PROGRAM_HEADERS, [0xff; 8]),
        CUT_OFF,
    ),
    (
        "data-far-away",
        |file| set_in_header(file, offset::FILE_OFFSET, 1 << 40),
        CUT_OFF,
    ),
    (
        "file-size-wraps",
        |file| set_in_header(file, offset::FILE_SIZE, u64::MAX - 100),
        CUT_OFF,
    ),
    (
        "memory-size-wraps",
        |file| set_in_header(file, offset::MEMORY_SIZE, u64::MAX),
        BAD_SEGMENT,
    ),
    (
        "smaller-in-memory",
        |file| set_in_header(file, offset::MEMORY_SIZE, 1),
        BAD_SEGMENT,
    ),
    (
        "at-zero",
        |file| set_in_header(file, offset::ADDRESS, 0),
        BAD_SEGMENT,
    ),
    (
        "in-the-kernel",
        |file| set_in_header(file, offset::ADDRESS, 0xffff_ffff_8020_0000),
        BAD_SEGMENT,
    ),
    (
        "on-the-stack",
        |file| set_in_header(file, offset::ADDRESS, 0x1f_ff00_0000),
        BAD_SEGMENT,
    ),
    (
        "overlapping",
        |file| set_in_header(file, offset::ADDRESS, 0x10000),
        "two segments share a page",
    ),
    (
        "entry-nowhere",
        |file| put(file, offset::ENTRY, [0; 8]),
        "it does not begin in an executable segment",
    ),
    (
        "too-large",
        |file| set_in_header(file, offset::MEMORY_SIZE, 0xe_0000_0000),
        "not enough memory",
    ),
];

/// Runs the program, with a disk and without, then each of the spoiled files.
///
/// The latter run on one hart only: they are refused before the number of harts matters.
pub(super) fn test(context: &mut Context) -> Result<Outcome> {
    let folder = repository::path("target/outside");
    std::fs::create_dir_all(&folder).with_context(|| format!("can't make {}", folder.display()))?;
    let good = folder.join("outside");
    compile(&good, context)?;
    let mut programs = vec![good.clone()];
    let bytes = std::fs::read(&good)?;
    for (name, spoil, _) in SPOILED {
        let mut spoiled = bytes.clone();
        spoil(&mut spoiled);
        let path = folder.join(name);
        std::fs::write(&path, spoiled)?;
        programs.push(path);
    }
    let image = build::build(&programs, None, &mut context.progress)?;
    let mut outcome = Outcome::default();
    for smp in HARTS {
        let disk = ScratchDisk::new("outside", DISK_SIZE)?;
        for (attached, expected) in [(None, "no disk"), (Some(disk.attached()), "kept")] {
            let test =
                ProgramTest::expecting("outside one two", 42, &["outside one two", expected]);
            outcome.add(test.judge(smp, &image, attached, context)?);
        }
        outcome.add(context.fsck(&disk)?);
        if disk.read("outside.txt")? != b"through a pipe" {
            bail!("outside.txt on the disk has not what the program has written");
        }
    }
    for (name, _, reason) in SPOILED {
        let says = format!("corank: cannot start {name}: {reason}");
        let test = ProgramTest::expecting(name, CANNOT_START, &[&says]);
        outcome.add(test.judge(1, &image, None, context)?);
    }
    Ok(outcome)
}

/// Compiles the program with a compiler that knows nothing of this project.
fn compile(output: &PathBuf, context: &mut Context) -> Result<()> {
    let mut command = Command::new("clang-19");
    command.args([
        "--target=riscv64-unknown-elf",
        "-march=rv64gc",
        "-mabi=lp64d",
        "-mcmodel=medany",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-ffreestanding",
        "-nostdlib",
        "-static",
        "-fuse-ld=lld-19",
        "-Wl,--image-base=0x10000",
        "-o",
    ]);
    command.arg(output).arg(repository::path(SOURCE));
    let finished = context.command(&command)?;
    if !finished.success() {
        bail!("{SOURCE} does not compile:\n{}", finished.tail(20));
    }
    Ok(())
}
