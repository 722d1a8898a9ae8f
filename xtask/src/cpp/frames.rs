//! `cargo xtask frames`: the coroutine frames in a firmware, from the table that the compiler left in it.
//!
//! Each place in the code that creates a coroutine has one entry in the section `.corank.frames`, which is not loaded: the address of that
//! place, the frame's size, the room of the slot (see `cpp/include/corank/place.hpp`). Debug information gives the coroutine's name; nothing is run.

use addr2line::Loader;
use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use object::{Object, ObjectSection, SectionFlags};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const SECTION: &str = ".corank.frames";

/// What `cargo xtask frames` takes.
#[derive(Args)]
pub(crate) struct Options {
    /// A linked firmware, with debug information
    elf: PathBuf,
    /// Fails if the firmware's data, without stack and heap, takes more bytes of RAM than this
    #[arg(long, value_name = "BYTES")]
    ram: Option<u64>,
    /// Writes the sizes where `corank::exact` reads them, so that slots fit exactly
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

/// The frame of one coroutine; where the compiler made several versions, the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    size: u64,
    room: u64,
}

type Frames = BTreeMap<String, Frame>;

/// Prints the table, and does what the options ask for.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let (frames, ram) = read(&options.elf)?;
    print!("{}", table(&frames, ram));
    if let Some(file) = &options.write {
        let text = sizes(&frames);
        // A file that says the same already is left alone, so that nothing is compiled again.
        if std::fs::read_to_string(file).ok().as_deref() != Some(&text) {
            std::fs::write(file, text)
                .with_context(|| format!("can't write {}", file.display()))?;
        }
    }
    let too_large = frames.iter().find(|(_, frame)| frame.size > frame.room);
    if let Some((name, frame)) = too_large {
        bail!(
            "the frame of `{name}` takes {} bytes, and its slot has room for {}",
            frame.size,
            frame.room
        );
    }
    if let Some(budget) = options.ram
        && ram > budget
    {
        bail!(
            "{} takes {ram} bytes of RAM, {} more than the budget of {budget}",
            options.elf.display(),
            ram - budget
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// The frames, and the bytes of RAM that the data takes.
fn read(elf: &Path) -> Result<(Frames, u64)> {
    let bytes = std::fs::read(elf).with_context(|| format!("can't read {}", elf.display()))?;
    let file = object::File::parse(&*bytes)
        .with_context(|| format!("{} is no ELF file", elf.display()))?;
    let ram = file
        .sections()
        .filter(|section| matches!(section.flags(), SectionFlags::Elf { sh_flags } if sh_flags & 3 == 3))
        .map(|section| section.size())
        .sum();
    let section = file.section_by_name(SECTION).with_context(|| {
        format!(
            "{} has no coroutine: no section {SECTION}; was it built with optimisation?",
            elf.display()
        )
    })?;
    let names = Loader::new(elf).map_err(|error| {
        anyhow!(
            "can't read the debug information of {}: {error}",
            elf.display()
        )
    })?;
    let mut frames = Frames::new();
    for (address, frame) in entries(section.data()?, file.is_64())? {
        let name = name_at(&names, address)?.unwrap_or_else(|| format!("{address:#x}"));
        let known = frames.entry(name).or_insert(frame);
        known.size = known.size.max(frame.size);
        known.room = known.room.min(frame.room);
    }
    Ok((frames, ram))
}

/// The section's entries: an address, and two words of four bytes.
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

/// The coroutine whose frame is made at an address, even where it was inlined: the function around the library's `operator new`.
fn name_at(names: &Loader, address: u64) -> Result<Option<String>> {
    let mut frames = names
        .find_frames(address)
        .map_err(|error| anyhow!("bad debug information: {error}"))?;
    let mut around = Vec::new();
    while let Some(frame) = frames
        .next()
        .map_err(|error| anyhow!("bad debug information: {error}"))?
    {
        if let Some(function) = frame.function {
            around.push(function.demangle()?.into_owned());
        }
    }
    // From the innermost outwards. Without an `operator new` there was no inlining to be told of.
    let library = around
        .iter()
        .rposition(|name| name.contains("operator new") || name.contains("place_frame"));
    let coroutine = around
        .get(library.map_or(0, |at| at + 1))
        .map(String::as_str);
    Ok(coroutine.map(plain_name))
}

/// `blink` of `corank::task<void> app::(anonymous namespace)::blink<int>(corank::in<…>)`. Of two coroutines with one name the larger counts.
fn plain_name(demangled: &str) -> String {
    let name = demangled.replace("(anonymous namespace)::", "");
    let mut depth = 0;
    let mut plain = String::new();
    for character in name.chars() {
        match character {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ if depth > 0 => {}
            // What came before was the type that it returns.
            ' ' => plain.clear(),
            '(' => break,
            other => plain.push(other),
        }
    }
    // What has internal linkage has no namespaces in the debug information; so nobody has.
    plain.rsplit("::").next().unwrap_or_default().to_string()
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

/// The table as `corank/exact.hpp` includes it.
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
    fn names_lose_what_is_around_them() {
        for (demangled, plain) in [
            (
                "blink(corank::in<(anonymous namespace)::blink_slot>)",
                "blink",
            ),
            ("app::(anonymous namespace)::blink(int)", "blink"),
            (
                "corank::task<int> hal::anywhere<corank::slot<256ul> >(corank::slot<256ul>&, int)",
                "anywhere",
            ),
            ("blink", "blink"),
        ] {
            assert_eq!(plain_name(demangled), plain);
        }
    }

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
