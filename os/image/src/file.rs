//! What makes a file an image, and its contents in memory.
use core::fmt;
use core::ops::Range;

use corank_abi::page::PAGE_SIZE;
use corank_abi::vdso::MAX_SIZE;
use elf::ElfBytes;
use elf::abi::*;
use elf::dynamic::DynamicTable;
use elf::endian::LittleEndian;
use elf::file::Class;
use elf::parse::ParseError;
use elf::relocation::{Rela, RelaIterator};
use elf::segment::{ProgramHeader, SegmentTable};

/// The first thing that makes a file no image for the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defect(pub &'static str);

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for Defect {}

impl From<ParseError> for Defect {
    fn from(_: ParseError) -> Self {
        Defect("it is not a whole ELF file")
    }
}

fn ensure(good: bool, otherwise: &'static str) -> Result<(), Defect> {
    if good { Ok(()) } else { Err(Defect(otherwise)) }
}

/// What a page of an image may be used for.
///
/// All may be read; none is both writable and executable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Constants, or what only relocation writes: shared.
    Read,
    /// Code: shared.
    Execute,
    /// Variables: each address space has its own.
    Write,
}

/// The dynamic section's entries that an image may have. Anything else would ask the kernel to do
/// what it does not do: to load other files, to run functions, to bind symbols, to relocate code.
const DYNAMIC: [i64; 17] = [
    DT_SONAME,
    DT_SYMBOLIC,
    DT_FLAGS,
    DT_RELA,
    DT_RELASZ,
    DT_RELAENT,
    DT_RELACOUNT,
    DT_SYMTAB,
    DT_SYMENT,
    DT_STRTAB,
    DT_STRSZ,
    DT_HASH,
    DT_GNU_HASH,
    DT_VERSYM,
    DT_VERDEF,
    DT_VERDEFNUM,
    DT_FLAGS_1,
];

const RELA_SIZE: usize = 24;

/// A file that is an image.
///
/// Its segments lie one after the other from address 0 on, no page belongs to two, and all its
/// relocations are relative.
#[derive(Debug)]
pub struct Image<'a> {
    elf: ElfBytes<'a, LittleEndian>,
    segments: SegmentTable<'a, LittleEndian>,
    relocations: &'a [u8],
    /// Bytes in memory: whole pages.
    size: usize,
    /// What is read-only once it is relocated.
    sealed: Range<usize>,
}

impl<'a> Image<'a> {
    /// Checks a file.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn check(file: &'a [u8]) -> Result<Self, Defect> {
        let elf = ElfBytes::<LittleEndian>::minimal_parse(file)?;
        let header = &elf.ehdr;
        ensure(
            header.class == Class::ELF64 && header.e_machine == EM_RISCV,
            "it is not for 64-bit RISC-V",
        )?;
        ensure(header.e_type == ET_DYN, "it is not a shared object")?;
        let segments = elf.segments().ok_or(Defect("it has no segments"))?;
        let mut image = Image {
            elf,
            segments,
            relocations: &[],
            size: 0,
            sealed: 0..0,
        };
        for segment in segments.iter() {
            match segment.p_type {
                PT_LOAD => image.size = image.check_loaded(&segment)?,
                PT_GNU_RELRO => image.sealed = sealed(&segment)?,
                PT_INTERP | PT_TLS => {
                    return Err(Defect("it wants an interpreter or thread-local variables"));
                }
                _ => {}
            }
        }
        ensure(image.size > 0, "it has no contents")?;
        ensure(
            image.sealed.end <= image.size,
            "its segments are out of order",
        )?;
        image.relocations = image.check_dynamic()?;
        for relocation in image.relocations() {
            image.check_relocation(&relocation)?;
        }
        image.check_symbols()?;
        Ok(image)
    }

    /// Returns where the segment ends: on a page.
    fn check_loaded(&self, segment: &ProgramHeader) -> Result<usize, Defect> {
        let range = memory(segment)?;
        let data = self.elf.segment_data(segment)?;
        let page = segment.p_vaddr as usize / PAGE_SIZE * PAGE_SIZE;
        ensure(
            data.len() <= range.len(),
            "a segment is larger in the file than in memory",
        )?;
        ensure(
            page == self.size,
            "its pages are not one after the other, each part of one segment",
        )?;
        let allowed = [PF_R, PF_R | PF_X, PF_R | PF_W];
        ensure(
            allowed.contains(&(segment.p_flags & (PF_R | PF_W | PF_X))),
            "a segment is not readable, or both writable and executable",
        )?;
        if self.size == 0 {
            ensure(
                segment.p_offset == 0 && segment.p_vaddr == 0,
                "it does not begin with its header",
            )?;
        }
        Ok(range.end.next_multiple_of(PAGE_SIZE))
    }

    /// Returns the table of relocations.
    fn check_dynamic(&self) -> Result<&'a [u8], Defect> {
        let dynamic = self
            .find(PT_DYNAMIC)
            .ok_or(Defect("it has no dynamic section"))?;
        let table = DynamicTable::new(LittleEndian, Class::ELF64, self.elf.segment_data(&dynamic)?);
        let (mut start, mut size) = (0, 0);
        for entry in table.iter().take_while(|entry| entry.d_tag != DT_NULL) {
            ensure(
                DYNAMIC.contains(&entry.d_tag),
                "its dynamic section asks for more than relative relocations",
            )?;
            match entry.d_tag {
                DT_RELA => start = entry.d_val(),
                DT_RELASZ => size = entry.d_val(),
                DT_FLAGS => ensure(
                    entry.d_val() as i64 & (DF_TEXTREL | DF_STATIC_TLS) == 0,
                    "its code needs relocating",
                )?,
                _ => {}
            }
        }
        let bad = Defect("its table of relocations lies outside");
        let start = usize::try_from(start).map_err(|_| bad)?;
        let size = usize::try_from(size).map_err(|_| bad)?;
        let table = self.bytes(start, size).ok_or(bad)?;
        ensure(size.is_multiple_of(RELA_SIZE), bad.0)?;
        Ok(table)
    }

    fn check_relocation(&self, relocation: &Rela) -> Result<(), Defect> {
        ensure(
            relocation.r_type == R_RISCV_RELATIVE && relocation.r_sym == 0,
            "it has other relocations than relative ones",
        )?;
        let inside = self.segments.iter().any(|segment| {
            segment.p_type == PT_LOAD
                && segment.p_flags & PF_W != 0
                && relocation.r_offset >= segment.p_vaddr
                && relocation.r_offset - segment.p_vaddr <= segment.p_memsz.saturating_sub(8)
        });
        let target = usize::try_from(relocation.r_addend);
        ensure(
            inside
                && relocation.r_offset.is_multiple_of(8)
                && target.is_ok_and(|at| at < self.size),
            "a relocation lies or points outside of its variables",
        )
    }

    /// Checks that every dynamic symbol is defined here.
    fn check_symbols(&self) -> Result<(), Defect> {
        let Some((symbols, _)) = self.elf.dynamic_symbol_table()? else {
            return Ok(());
        };
        let undefined = symbols.iter().skip(1).any(|symbol| symbol.is_undefined());
        ensure(!undefined, "it has an undefined symbol")
    }

    fn find(&self, kind: u32) -> Option<ProgramHeader> {
        self.segments.iter().find(|segment| segment.p_type == kind)
    }

    /// Returns the bytes of the file that belong at `address`.
    fn bytes(&self, address: usize, length: usize) -> Option<&'a [u8]> {
        self.loaded()
            .find_map(|(start, data)| data.get(address.checked_sub(start)?..)?.get(..length))
    }

    /// Returns each segment's address, and what the file has of it.
    fn loaded(&self) -> impl Iterator<Item = (usize, &'a [u8])> {
        self.segments
            .iter()
            .filter(|segment| segment.p_type == PT_LOAD)
            .filter_map(|segment| {
                Some((
                    segment.p_vaddr as usize,
                    self.elf.segment_data(&segment).ok()?,
                ))
            })
    }

    fn relocations(&self) -> RelaIterator<'a, LittleEndian> {
        RelaIterator::new(LittleEndian, Class::ELF64, self.relocations)
    }

    /// Returns the number of bytes in memory, in whole pages.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns what each page may be used for.
    pub fn pages(&self) -> impl Iterator<Item = Rights> {
        (0..self.size).step_by(PAGE_SIZE).map(|page| {
            let mut rights = Rights::Read;
            for segment in self
                .segments
                .iter()
                .filter(|segment| segment.p_type == PT_LOAD)
            {
                let start = segment.p_vaddr as usize / PAGE_SIZE * PAGE_SIZE;
                if (start..(segment.p_vaddr + segment.p_memsz) as usize).contains(&page) {
                    rights = match segment.p_flags {
                        flags if flags & PF_X != 0 => Rights::Execute,
                        flags if flags & PF_W != 0 && !self.sealed.contains(&page) => Rights::Write,
                        _ => Rights::Read,
                    };
                }
            }
            rights
        })
    }

    /// Writes the image to `memory` as it has to be at `base`.
    ///
    /// # Panics
    /// If `memory` is not of the image's [`size`](Self::size).
    pub fn load(&self, memory: &mut [u8], base: usize) {
        assert_eq!(memory.len(), self.size);
        memory.fill(0);
        for (start, data) in self.loaded() {
            memory[start..start + data.len()].copy_from_slice(data);
        }
        for relocation in self.relocations() {
            let place = relocation.r_offset as usize;
            let target = base + relocation.r_addend as usize;
            memory[place..place + 8].copy_from_slice(&target.to_le_bytes());
        }
    }
}

/// Returns where a segment lies in memory.
fn memory(segment: &ProgramHeader) -> Result<Range<usize>, Defect> {
    let end = segment.p_vaddr.checked_add(segment.p_memsz);
    match (usize::try_from(segment.p_vaddr), end.map(usize::try_from)) {
        (Ok(start), Some(Ok(end))) if end <= MAX_SIZE => Ok(start..end),
        _ => Err(Defect("it is too large")),
    }
}

/// Returns the pages that are read-only after relocation.
///
/// The linker ends them on a page.
fn sealed(segment: &ProgramHeader) -> Result<Range<usize>, Defect> {
    let range = memory(segment)?;
    ensure(
        range.end.is_multiple_of(PAGE_SIZE),
        "what is read-only after relocation does not end on a page",
    )?;
    Ok(range.start / PAGE_SIZE * PAGE_SIZE..range.end)
}
