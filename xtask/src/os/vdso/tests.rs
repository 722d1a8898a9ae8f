//! Tests of what is an image and what is not, on a small file made here.

use corank_abi::page::PAGE_SIZE;
use corank_abi::vdso::{BASE, MAX_SIZE, SYMBOL, VERSION};
use corank_image::{Defect, Image, NotFound, Rights, find, size};

/// The positions of the file's parts.
///
/// Each lies at the same position in the file and in memory.
mod at {
    pub(super) const SEGMENTS: usize = 64;
    pub(super) const SYMBOLS: usize = 0x400;
    pub(super) const HASH: usize = 0x500;
    pub(super) const STRINGS: usize = 0x600;
    pub(super) const VERSIONS: usize = 0x700;
    pub(super) const DEFINITIONS: usize = 0x800;
    pub(super) const RELOCATIONS: usize = 0x900;
    /// The second page, which is read-only once it is relocated.
    pub(super) const TABLE: usize = 0x1000;
    pub(super) const DYNAMIC: usize = 0x1100;
    pub(super) const END: usize = 0x2000;
}

const EXECUTE: usize = 5;
const WRITE: usize = 6;
/// Kinds of segments.
const LOAD: usize = 1;
const DYNAMIC: usize = 2;
const INTERPRETER: usize = 3;
const SEALED: usize = 0x6474_e552;
/// Program headers of the file.
const CODE: usize = at::SEGMENTS;
const DATA: usize = at::SEGMENTS + 56;
const SEAL: usize = at::SEGMENTS + 3 * 56;
/// Offsets inside a program header.
const FLAGS: usize = 4;
const ADDRESS: usize = 16;
const MEMORY: usize = 40;

/// A file that is an image.
///
/// Its table's second word is the address of its code.
struct File(Vec<u8>);

impl File {
    fn good() -> File {
        let mut file = File(vec![0; at::END]);
        file.0[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        file.set(16, 2, 3).set(18, 2, 243).set(20, 4, 1); // a shared object for RISC-V
        file.set(32, 8, at::SEGMENTS).set(54, 2, 56).set(56, 2, 4);
        file.segment(CODE, LOAD, EXECUTE, 0..at::TABLE);
        file.segment(DATA, LOAD, WRITE, at::TABLE..at::END);
        file.segment(
            DATA + 56,
            DYNAMIC,
            WRITE,
            at::DYNAMIC..at::DYNAMIC + 10 * 16,
        );
        file.segment(SEAL, SEALED, 4, at::TABLE..at::END);
        // Symbol 1 of 2, in version 2, at the table.
        file.set(at::SYMBOLS + 24, 4, 1).set(at::SYMBOLS + 30, 2, 9);
        file.set(at::SYMBOLS + 32, 8, at::TABLE);
        file.set(at::HASH, 4, 1).set(at::HASH + 4, 4, 2);
        file.text(at::STRINGS + 1, SYMBOL)
            .text(at::STRINGS + 32, VERSION);
        file.set(at::VERSIONS + 2, 2, 2);
        // The base definition, then that of the version.
        file.set(at::DEFINITIONS + 4, 2, 1)
            .set(at::DEFINITIONS + 12, 4, 20);
        file.set(at::DEFINITIONS + 16, 4, 28);
        file.set(at::DEFINITIONS + 28 + 4, 2, 2)
            .set(at::DEFINITIONS + 28 + 12, 4, 20);
        file.set(at::DEFINITIONS + 28 + 20, 4, 32);
        file.set(at::RELOCATIONS, 8, at::TABLE + 8)
            .set(at::RELOCATIONS + 8, 8, 3);
        file.set(at::RELOCATIONS + 16, 8, 0x200);
        let entries = [
            (4, at::HASH),
            (5, at::STRINGS),
            (6, at::SYMBOLS),
            (7, at::RELOCATIONS),
            (8, 24),
            (10, 64),
            (0x6fff_fff0, at::VERSIONS),
            (0x6fff_fffc, at::DEFINITIONS),
            (0x6fff_fffd, 2),
        ];
        for (place, (tag, value)) in entries.into_iter().enumerate() {
            let entry = at::DYNAMIC + 16 * place;
            file.set(entry, 8, tag).set(entry + 8, 8, value);
        }
        file
    }

    fn set(&mut self, at: usize, size: usize, value: usize) -> &mut File {
        self.0[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        self
    }

    fn text(&mut self, at: usize, text: &str) -> &mut File {
        self.0[at..at + text.len()].copy_from_slice(text.as_bytes());
        self
    }

    fn segment(&mut self, header: usize, kind: usize, flags: usize, range: std::ops::Range<usize>) {
        let (start, length) = (range.start, range.len());
        self.set(header, 4, kind).set(header + FLAGS, 4, flags);
        for (field, value) in [
            (8, start),
            (16, start),
            (24, start),
            (32, length),
            (40, length),
        ] {
            self.set(header + field, 8, value);
        }
    }

    fn loaded(&self) -> Vec<u8> {
        let image = Image::check(&self.0).expect("a good image");
        let mut memory = vec![0xff; image.size()];
        image.load(&mut memory, BASE);
        memory
    }
}

/// Returns the good file after a change.
fn changed(change: impl FnOnce(&mut File)) -> File {
    let mut file = File::good();
    change(&mut file);
    file
}

#[test]
fn a_good_image_is_loaded_and_relocated() {
    let file = File::good();
    let image = Image::check(&file.0).unwrap();
    assert_eq!(image.size(), 2 * PAGE_SIZE);
    assert!(image.pages().eq([Rights::Execute, Rights::Read]));
    let memory = file.loaded();
    let word = u64::from_le_bytes(memory[at::TABLE + 8..][..8].try_into().unwrap());
    assert_eq!(word, (BASE + 0x200) as u64);
    assert_eq!(memory[..at::TABLE], file.0[..at::TABLE]);
}

#[test]
fn variables_are_private_beyond_what_is_sealed() {
    let file = changed(|file| {
        file.set(DATA + MEMORY, 8, 3 * PAGE_SIZE);
    });
    let image = Image::check(&file.0).unwrap();
    use Rights::*;
    assert!(image.pages().eq([Execute, Read, Write, Write]));
    assert!(file.loaded()[at::END..].iter().all(|byte| *byte == 0));
}

#[test]
fn a_symbol_is_found_by_name_and_version() {
    let memory = File::good().loaded();
    assert_eq!(size(&memory[..PAGE_SIZE]), Ok(2 * PAGE_SIZE));
    assert_eq!(find(&memory, SYMBOL, VERSION), Ok(at::TABLE));
    assert_eq!(find(&memory, "corank", VERSION), Err(NotFound::NoSymbol));
    assert_eq!(
        find(&memory, SYMBOL, "corank_0"),
        Err(NotFound::OtherVersion)
    );
    assert_eq!(find(&memory, SYMBOL, "corank"), Err(NotFound::OtherVersion));
}

#[test]
fn a_symbol_that_is_not_defined_is_not_found() {
    let file = changed(|file| {
        file.set(at::SYMBOLS + 30, 2, 0);
    });
    assert_eq!(
        find(&file.loaded(), SYMBOL, VERSION),
        Err(NotFound::NoSymbol)
    );
}

#[test]
fn what_is_no_image_has_no_symbols() {
    assert_eq!(find(&[], SYMBOL, VERSION), Err(NotFound::NoImage));
    assert_eq!(size(&[0; PAGE_SIZE]), Err(NotFound::NoImage));
    let large = changed(|file| {
        file.set(DATA + MEMORY, 8, MAX_SIZE);
    });
    assert_eq!(size(&large.0), Err(NotFound::NoImage));
}

/// Tests that finding and loading end, whatever value a byte of the image has.
#[test]
fn damage_anywhere_is_survived() {
    let good = File::good();
    let used = (0..at::RELOCATIONS + 24).chain(at::DYNAMIC..at::DYNAMIC + 160);
    for place in used {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut file = File(good.0.clone());
            file.0[place] = value;
            let _ = find(&file.0, SYMBOL, VERSION);
            let _ = size(&file.0);
            if let Ok(image) = Image::check(&file.0) {
                image.load(&mut vec![0; image.size()], BASE);
            }
        }
    }
    for length in 0..good.0.len() {
        let _ = find(&good.0[..length], SYMBOL, VERSION);
        assert!(Image::check(&good.0[..length]).is_err());
    }
}

#[test]
fn each_defect_has_its_message() {
    // A position, and a number with its size in bytes that is written there.
    let cases = [
        ((18, 2, 62), "not for 64-bit RISC-V"),
        ((16, 2, 2), "not a shared object"),
        ((CODE + FLAGS, 4, 7), "both writable and executable"),
        ((DATA + ADDRESS, 8, 0x3000), "one after the other"),
        ((DATA + MEMORY, 8, MAX_SIZE), "too large"),
        ((CODE, 4, INTERPRETER), "an interpreter"),
        ((SEAL + MEMORY, 8, 0x100), "does not end on a page"),
        ((at::DYNAMIC + 5 * 16, 8, 1), "asks for more"),
        ((at::RELOCATIONS + 8, 8, 2), "other relocations"),
        ((at::RELOCATIONS, 8, 0x100), "outside of its variables"),
        (
            (at::RELOCATIONS + 16, 8, at::END),
            "outside of its variables",
        ),
    ];
    for ((place, size, value), message) in cases {
        let file = changed(|file| {
            file.set(place, size, value);
        });
        let defect = Image::check(&file.0).expect_err("it is damaged").0;
        assert!(
            defect.contains(message),
            "`{defect}` instead of `{message}`"
        );
    }
    assert_eq!(Defect("why").to_string(), "why");
}
