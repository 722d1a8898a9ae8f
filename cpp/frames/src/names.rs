//! The debug information of a coroutine: its name, and without optimisation the size of its frame.

use addr2line::{Loader, demangle, gimli};
use anyhow::{Context, Result, anyhow};
use gimli::{DW_AT_byte_size, DW_AT_name, DW_LANG_C_plus_plus, DW_TAG_structure_type};
use object::{Object, ObjectSection};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// What the names of the library's functions have in them in which a frame is listed, mangled or,
/// with internal linkage, not.
const LISTING: [&str; 4] = [
    "promise_rootnw",
    "operator new",
    "take_storage",
    "list_frame",
];

/// Returns the coroutine to which the code at an address belongs, even where it was expanded in
/// another function.
///
/// # Errors
/// If the debug information is damaged.
pub(crate) fn coroutine_at(debug: &Loader, address: u64) -> Result<Option<String>> {
    let mut around = debug
        .find_frames(address)
        .map_err(|error| anyhow!("bad debug information: {error}"))?;
    // From the innermost outwards.
    let mut functions = Vec::new();
    while let Some(frame) = around.next().context("bad debug information")? {
        if let Some(function) = frame.function {
            functions.push(function.raw_name()?.into_owned());
        }
    }
    let listing = functions
        .iter()
        .rposition(|name| LISTING.iter().any(|part| name.contains(part)));
    let coroutine = functions.get(listing.map_or(0, |at| at + 1));
    Ok(coroutine.map(|name| plain(name)))
}

/// Returns `blink` for `_ZN3app5blinkEN6corank2inIXadL_Z…`, as a linker sees it, or for just
/// `blink`.
///
/// Of two coroutines with one name the larger counts. What has internal linkage has no namespaces
/// in GCC's debug information, so no tool has them.
fn plain(raw: &str) -> String {
    if let Some(demangled) = demangle(raw, DW_LANG_C_plus_plus) {
        return of_demangled(&demangled);
    }
    match of_mangled(raw) {
        Some(name) => name.to_string(),
        None => of_demangled(raw),
    }
}

/// Returns `blink` for `corank::task<void> app::(anonymous namespace)::blink<int>(corank::in<…>)`.
fn of_demangled(name: &str) -> String {
    let name = name.replace("(anonymous namespace)::", "");
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
    plain.rsplit("::").next().unwrap_or_default().to_string()
}

/// Returns `blink` for `_ZN3app5blinkTk…`.
///
/// A name of a kind that the demangler does not know still begins with its identifiers, each behind
/// its length.
fn of_mangled(name: &str) -> Option<&str> {
    let mut rest = name.strip_prefix("_Z")?;
    rest = rest.strip_prefix('N').unwrap_or(rest);
    rest = rest.trim_start_matches(['L', 'K', 'V', 'R', 'O']);
    let mut last = None;
    loop {
        let digits = rest.find(|character: char| !character.is_ascii_digit());
        let (length, identifier) = rest.split_at(digits.unwrap_or(rest.len()));
        let Ok(length) = length.parse::<usize>() else {
            return last;
        };
        last = Some(identifier.get(..length)?);
        rest = &identifier[length..];
    }
}

/// What GCC calls the type of a frame, behind the coroutine's name.
const FRAME: &str = ".Frame";

/// Returns the sizes of the frames, by coroutine, as GCC's debug information has them.
///
/// # Errors
/// If the debug information is damaged.
pub(crate) fn described_frames(file: &object::File) -> Result<BTreeMap<String, u64>> {
    let section = |id: gimli::SectionId| -> Result<Cow<[u8]>> {
        Ok(match file.section_by_name(id.name()) {
            Some(section) => section.uncompressed_data()?,
            None => Cow::Borrowed(&[]),
        })
    };
    let sections = gimli::DwarfSections::load(section)?;
    let endian = if file.is_little_endian() {
        gimli::RunTimeEndian::Little
    } else {
        gimli::RunTimeEndian::Big
    };
    let dwarf = sections.borrow(|bytes| gimli::EndianSlice::new(bytes, endian));
    let mut sizes = BTreeMap::new();
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        let unit = dwarf.unit(header)?;
        let mut entries = unit.entries();
        while let Some((_, entry)) = entries.next_dfs()? {
            if entry.tag() != DW_TAG_structure_type {
                continue;
            }
            let Some(name) = entry.attr_value(DW_AT_name)? else {
                continue;
            };
            let name = dwarf.attr_string(&unit, name)?;
            let name = name.to_string_lossy();
            let Some(coroutine) = name.strip_suffix(FRAME) else {
                continue;
            };
            let size = entry
                .attr_value(DW_AT_byte_size)?
                .and_then(|size| size.udata_value())
                .with_context(|| format!("the type {name} has no size"))?;
            let known = sizes.entry(plain(coroutine)).or_insert(size);
            *known = size.max(*known);
        }
    }
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_however_they_come() {
        for raw in [
            "_ZN3app5blinkEi",
            "_ZN3app5blinkITk13frame_storageiEEvT_",
            "blink",
            "blink<corank::in<(anonymous namespace)::bus_slot> >",
        ] {
            assert_eq!(plain(raw), "blink", "{raw}");
        }
    }

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
            assert_eq!(of_demangled(demangled), plain);
        }
    }

    #[test]
    fn names_that_cannot_be_demangled_are_shown_as_they_are() {
        for (mangled, name) in [
            (
                "_ZN3app5thing6methodITk13frame_storage4slotEEvRT_",
                Some("method"),
            ),
            ("_ZL5blinkTk", Some("blink")),
            ("_Z5blink", Some("blink")),
            ("_ZNK3app5thing6methodEv", Some("method")),
            ("_Z9blink", None),
            ("blink", None),
        ] {
            assert_eq!(of_mangled(mangled), name, "{mangled}");
        }
    }
}
