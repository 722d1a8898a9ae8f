//! The coroutine frames in a firmware, from the table that the compiler left in it; nothing is run.
//!
//! Each coroutine has entries in the section `.corank.frames`, which is not loaded: an address in
//! its code, the frame's size, the room of the slot (see `cpp/include/corank/storage.hpp`). Debug
//! information gives the coroutine's name, and the size as well where GCC compiled without
//! optimisation.
#![forbid(unsafe_code)]

mod names;

use addr2line::Loader;
use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use object::{Object, ObjectSection, SectionFlags};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const SECTION: &str = ".corank.frames";

/// What `cargo xtask frames` and `corank-frames` take.
#[derive(Args, Default)]
pub struct Options {
    /// A linked firmware, with debug information
    pub elf: PathBuf,
    /// Fails if the firmware's data, without stack and heap, takes more bytes of RAM than this
    #[arg(long, value_name = "BYTES")]
    pub ram: Option<u64>,
    /// Writes the sizes where `corank::exact` reads them, so that slots fit exactly
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Prints only frames that are larger than their slots; a program without coroutines is
    /// accepted
    #[arg(long, conflicts_with_all = ["ram", "write"])]
    pub check: bool,
}

/// The frame of one coroutine; where the compiler made several versions, the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    size: u64,
    room: u64,
}

type Frames = BTreeMap<String, Frame>;

/// Prints the table, and does what the options say.
///
/// # Errors
/// If a frame is larger than its slot, the firmware takes more RAM than it may, or a file can't be
/// read or written.
pub fn run(options: &Options) -> Result<()> {
    let elf = options.elf.display();
    let Some((frames, ram)) = read(&options.elf)? else {
        ensure!(
            options.check,
            "{elf} has no coroutine: no section {SECTION}"
        );
        return Ok(());
    };
    if !options.check {
        print!("{}", table(&frames, ram));
    }
    if let Some(file) = &options.write {
        let text = sizes(&frames);
        // A file with the same content is left alone, so that nothing is compiled again.
        if std::fs::read_to_string(file).ok().as_deref() != Some(&text) {
            std::fs::write(file, text)
                .with_context(|| format!("can't write {}", file.display()))?;
        }
    }
    let too_large: Vec<String> = frames
        .iter()
        .filter(|(_, frame)| frame.size > frame.room)
        .map(|(name, frame)| {
            format!(
                "the frame of `{name}` takes {} bytes, and its slot has room for {}",
                frame.size, frame.room
            )
        })
        .collect();
    if !too_large.is_empty() {
        bail!("{elf}: {}", too_large.join("; "));
    }
    if let Some(budget) = options.ram
        && ram > budget
    {
        bail!(
            "{elf} takes {ram} bytes of RAM, {} more than the budget of {budget}",
            ram - budget
        );
    }
    Ok(())
}

/// Returns the size of each coroutine's frame in a linked firmware, by its name.
///
/// # Errors
/// If the file can't be read.
pub fn frame_sizes(elf: &Path) -> Result<BTreeMap<String, u64>> {
    let frames = read(elf)?.map(|(frames, _)| frames).unwrap_or_default();
    let sizes = frames.into_iter().map(|(name, frame)| (name, frame.size));
    Ok(sizes.collect())
}

/// Returns the frames, and the bytes of RAM that the data takes, or `None` if there is no
/// coroutine.
fn read(elf: &Path) -> Result<Option<(Frames, u64)>> {
    let bytes = std::fs::read(elf).with_context(|| format!("can't read {}", elf.display()))?;
    let file = object::File::parse(&*bytes)
        .with_context(|| format!("{} is no ELF file", elf.display()))?;
    let ram = file
        .sections()
        .filter(|section| matches!(section.flags(), SectionFlags::Elf { sh_flags } if sh_flags & 3 == 3))
        .map(|section| section.size())
        .sum();
    let Some(section) = file.section_by_name(SECTION) else {
        return Ok(None);
    };
    let entries = entries(section.data()?, file.is_64())?;
    if entries.is_empty() {
        return Ok(None);
    }
    let debug = Loader::new(elf).map_err(|error| {
        anyhow!(
            "can't read the debug information of {}: {error}",
            elf.display()
        )
    })?;
    let described = if entries.iter().any(|(_, frame)| frame.size == 0) {
        names::described_frames(&file)?
    } else {
        BTreeMap::new()
    };
    let mut frames = Frames::new();
    for (address, mut frame) in entries {
        let name = names::coroutine_at(&debug, address)?.unwrap_or_else(|| format!("{address:#x}"));
        if frame.size == 0 {
            frame.size = *described.get(&name).with_context(|| {
                format!(
                    "nothing says how large the frame of `{name}` is: GCC's -O0 needs -g for that"
                )
            })?;
        }
        let known = frames.entry(name).or_insert(frame);
        known.size = known.size.max(frame.size);
        known.room = known.room.min(frame.room);
    }
    Ok(Some((frames, ram)))
}

/// Returns the section's entries: an address, and two words of four bytes.
fn entries(data: &[u8], wide: bool) -> Result<Vec<(u64, Frame)>> {
    let address_bytes = if wide { 8 } else { 4 };
    let entry = address_bytes + 8;
    ensure!(
        data.len().is_multiple_of(entry),
        "{SECTION} has {} bytes, and an entry has {entry}",
        data.len()
    );
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    Ok(data
        .chunks_exact(entry)
        .map(|entry| {
            let (address, frame) = entry.split_at(address_bytes);
            (
                number(address),
                Frame {
                    size: number(&frame[..4]),
                    room: number(&frame[4..]),
                },
            )
        })
        .collect())
}

fn table(frames: &Frames, ram: u64) -> String {
    let width = frames
        .keys()
        .map(String::len)
        .max()
        .unwrap_or(0)
        .max("coroutine".len());
    let mut text = format!(
        "{:<width$}  {:>6}  {:>6}  {:>6}\n",
        "coroutine", "frame", "room", "unused"
    );
    for (name, frame) in frames {
        let unused = frame.room.saturating_sub(frame.size);
        let _ = writeln!(
            text,
            "{name:<width$}  {:>6}  {:>6}  {unused:>6}",
            frame.size, frame.room
        );
    }
    let _ = writeln!(text, "RAM taken by all data, slots included: {ram} bytes");
    text
}

/// Returns the table as `corank/exact.hpp` includes it.
fn sizes(frames: &Frames) -> String {
    let mut text = "// Sizes of coroutine frames, written by `cargo xtask frames`.\n".to_string();
    for (name, frame) in frames {
        let _ = writeln!(text, "{{\"{name}\", {}}},", frame.size);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read() {
        let frame = Frame { size: 24, room: 40 };
        let narrow = [0x10, 0, 0, 8, 24, 0, 0, 0, 40, 0, 0, 0];
        assert_eq!(entries(&narrow, false).unwrap(), [(0x0800_0010, frame)]);
        let wide = [0x10, 0, 0, 8, 0, 0, 0, 0, 24, 0, 0, 0, 40, 0, 0, 0];
        assert_eq!(entries(&wide, true).unwrap(), [(0x0800_0010, frame)]);
        assert!(entries(&narrow[..11], false).is_err());
    }

    #[test]
    fn the_sizes_are_lines_of_an_array() {
        let frames = Frames::from([("app::blink".to_string(), Frame { size: 24, room: 40 })]);
        assert_eq!(sizes(&frames).lines().nth(1), Some("{\"app::blink\", 24},"));
        assert!(table(&frames, 100).contains("app::blink      24      40      16"));
    }
}
