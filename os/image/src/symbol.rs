//! Looking a symbol up in an image that is mapped: from the ELF header to the dynamic symbols and
//! their versions.
//!
//! Every program has this code, so it is small. It reads words at offsets, where the crate `elf`
//! would cost a program six kilobytes. Layouts and names are those of the System V ABI (gABI) and,
//! for versions, of the Linux Standard Base.
use core::fmt;

use corank_abi::page::PAGE_SIZE;
use corank_abi::vdso::MAX_SIZE;
use elf::abi::{
    DT_HASH, DT_NULL, DT_STRTAB, DT_SYMTAB, DT_VERDEF, DT_VERSYM, ELFMAGIC, PT_DYNAMIC, PT_LOAD,
    SHN_UNDEF,
};

/// Why an image does not have what a client looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotFound {
    /// It is damaged, or has no dynamic symbols with versions.
    NoImage,
    /// No symbol with that name.
    NoSymbol,
    /// The symbol is there, but not in that version.
    OtherVersion,
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoImage => "it is no ELF image with versioned dynamic symbols",
            Self::NoSymbol => "it does not have the symbol",
            Self::OtherVersion => "it has another version of the interface",
        })
    }
}

impl core::error::Error for NotFound {}

/// Returns the number of `size` bytes at `at`; `None` outside of the image.
#[inline(never)]
fn number(image: &[u8], at: usize, size: usize) -> Option<usize> {
    let bytes = image.get(at..at.checked_add(size)?)?;
    let number = bytes
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte));
    usize::try_from(number).ok()
}

/// Tests whether the string at `at` is `text`.
#[inline(never)]
fn is_text(image: &[u8], at: usize, text: &str) -> bool {
    let end = at.saturating_add(text.len());
    image.get(at..end) == Some(text.as_bytes()) && image.get(end) == Some(&0)
}

/// Returns where the program headers lie.
fn segments(image: &[u8]) -> Option<impl Iterator<Item = usize>> {
    const CLASS_64_LITTLE_ENDIAN: usize = 0x0102;
    if image.get(..4)? != ELFMAGIC || number(image, 4, 2)? != CLASS_64_LITTLE_ENDIAN {
        return None;
    }
    let (first, size, count) = (
        number(image, 32, 8)?,
        number(image, 54, 2)?,
        number(image, 56, 2)?,
    );
    Some((0..count).map(move |index| first.saturating_add(index * size)))
}

/// Returns the kind of a program header, and where its segment begins and ends in memory.
fn segment(image: &[u8], header: usize) -> Option<(u32, usize, usize)> {
    let kind = number(image, header, 4)? as u32;
    let start = number(image, header.checked_add(16)?, 8)?;
    let end = start.checked_add(number(image, header.checked_add(40)?, 8)?)?;
    Some((kind, start, end))
}

/// Returns how many bytes an image takes in memory, whole pages, given its first page.
///
/// # Errors
/// [`NotFound::NoImage`] if that is not the first page of an image, or of one larger than
/// [`MAX_SIZE`].
pub fn size(first_page: &[u8]) -> Result<usize, NotFound> {
    let mut size = 0;
    for header in segments(first_page).ok_or(NotFound::NoImage)? {
        if let (PT_LOAD, _, end) = segment(first_page, header).ok_or(NotFound::NoImage)? {
            size = size.max(end);
        }
    }
    match size {
        1..=MAX_SIZE => Ok(size.next_multiple_of(PAGE_SIZE)),
        _ => Err(NotFound::NoImage),
    }
}

/// Where the dynamic section's entries lead.
#[derive(Default)]
struct Dynamic {
    hash: usize,
    strings: usize,
    symbols: usize,
    versions: usize,
    definitions: usize,
}

impl Dynamic {
    fn read(image: &[u8]) -> Option<Self> {
        let mut found = Self::default();
        for header in segments(image)? {
            let (PT_DYNAMIC, start, end) = segment(image, header)? else {
                continue;
            };
            for entry in (start..end).step_by(16) {
                let value = number(image, entry.checked_add(8)?, 8)?;
                match number(image, entry, 8)? as i64 {
                    DT_NULL => break,
                    DT_HASH => found.hash = value,
                    DT_STRTAB => found.strings = value,
                    DT_SYMTAB => found.symbols = value,
                    DT_VERSYM => found.versions = value,
                    DT_VERDEF => found.definitions = value,
                    _ => {}
                }
            }
        }
        // The image begins with its header, so that none of them lies at 0.
        let all = [
            found.hash,
            found.strings,
            found.symbols,
            found.versions,
            found.definitions,
        ];
        (!all.contains(&0)).then_some(found)
    }

    /// Tests whether the definition of a version with this index has this name.
    fn is_version(&self, image: &[u8], index: usize, name: &str) -> Option<bool> {
        let mut definition = self.definitions;
        loop {
            if number(image, definition.checked_add(4)?, 2)? == index {
                let aux = definition.checked_add(number(image, definition.checked_add(12)?, 4)?)?;
                let text = self.strings.checked_add(number(image, aux, 4)?)?;
                return Some(is_text(image, text, name));
            }
            match number(image, definition.checked_add(16)?, 4)? {
                0 => return Some(false),
                next => definition = definition.checked_add(next)?,
            }
        }
    }
}

/// Returns where the symbol of this name and version lies in `image`, the whole image as it is
/// mapped: an offset inside of it.
///
/// # Errors
/// See [`NotFound`].
pub fn find(image: &[u8], symbol: &str, version: &str) -> Result<usize, NotFound> {
    let search = || -> Option<Result<usize, NotFound>> {
        let dynamic = Dynamic::read(image)?;
        let mut missing = NotFound::NoSymbol;
        // The hash table has a chain entry for each symbol; the first one means nothing.
        for index in 1..number(image, dynamic.hash.checked_add(4)?, 4)? {
            let entry = dynamic.symbols.checked_add(index.checked_mul(24)?)?;
            let name = dynamic.strings.checked_add(number(image, entry, 4)?)?;
            let section = number(image, entry.checked_add(6)?, 2)?;
            if !is_text(image, name, symbol) || section == usize::from(SHN_UNDEF) {
                continue;
            }
            let its = number(image, dynamic.versions.checked_add(2 * index)?, 2)? & 0x7fff;
            if dynamic.is_version(image, its, version)? {
                let offset = number(image, entry.checked_add(8)?, 8)?;
                return (offset < image.len()).then_some(Ok(offset));
            }
            missing = NotFound::OtherVersion;
        }
        Some(Err(missing))
    };
    search().unwrap_or(Err(NotFound::NoImage))
}
