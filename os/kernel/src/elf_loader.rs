//! From an ELF file to an address space that can run.
use crate::memory::address_space::{AddressSpace, PROGRAM};
use crate::memory::page_table::Flags;
use crate::memory::{OutOfMemory, PAGE_SIZE, frame, page_down, page_up};
use crate::pace::{self, checkpoint};
use core::fmt;
use elf::ElfBytes;
use elf::ParseError;
use elf::abi::{EI_CLASS, ELFCLASS64, ELFMAGIC, EM_RISCV, ET_EXEC, PF_W, PF_X, PT_LOAD};
use elf::endian::LittleEndian;
use elf::segment::ProgramHeader;

/// Why a file cannot be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadError {
    /// Not an ELF file, or one whose header says nonsense.
    NotElf,
    /// Something that its header names lies behind its end.
    Truncated,
    /// For another machine, or no executable at a fixed address.
    WrongKind,
    /// A segment lies where programs must not, or is larger in the file than in memory.
    BadSegment,
    /// Two segments share a page.
    Overlap,
    /// Execution would begin outside all executable segments.
    BadEntry,
    /// No memory for it.
    OutOfMemory,
}

impl From<OutOfMemory> for LoadError {
    fn from(_: OutOfMemory) -> LoadError {
        LoadError::OutOfMemory
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LoadError::NotElf => "not an ELF file",
            LoadError::Truncated => "the file is cut off",
            LoadError::WrongKind => "not an executable for 64-bit RISC-V at a fixed address",
            LoadError::BadSegment => "a segment lies where programs must not, or has wrong sizes",
            LoadError::Overlap => "two segments share a page",
            LoadError::BadEntry => "it does not begin in an executable segment",
            LoadError::OutOfMemory => "not enough memory",
        })
    }
}

impl From<ParseError> for LoadError {
    fn from(error: ParseError) -> LoadError {
        match error {
            // The library finds that an offset and a size lead out of the file.
            ParseError::SliceReadError(_) | ParseError::IntegerOverflow => LoadError::Truncated,
            _ => LoadError::NotElf,
        }
    }
}

/// Copies the segments of `file` into `space`, and sets the heap behind them.
///
/// Returns where the program begins.
///
/// # Errors
/// See [`LoadError`]. The address space is then good for nothing but being dropped.
pub(crate) async fn load(file: &[u8], space: &mut AddressSpace) -> Result<usize, LoadError> {
    if !file.starts_with(&ELFMAGIC) {
        return Err(LoadError::NotElf);
    }
    // Files for 32 bits are laid out differently.
    if file.get(EI_CLASS) != Some(&ELFCLASS64) {
        return Err(LoadError::WrongKind);
    }
    let program = ElfBytes::<LittleEndian>::minimal_parse(file)?;
    let header = &program.ehdr;
    if header.e_machine != EM_RISCV || header.e_type != ET_EXEC {
        return Err(LoadError::WrongKind);
    }
    let mut end = 0;
    let mut begins_in_code = false;
    for segment in program.segments().ok_or(LoadError::NotElf)? {
        if segment.p_type == PT_LOAD && segment.p_memsz > 0 {
            let data = program.segment_data(&segment)?;
            let segment_end = load_segment(&segment, data, space).await?;
            let range = segment.p_vaddr as usize..segment_end;
            begins_in_code |=
                segment.p_flags & PF_X != 0 && range.contains(&(header.e_entry as usize));
            end = end.max(segment_end);
        }
    }
    if !begins_in_code {
        return Err(LoadError::BadEntry);
    }
    space.set_heap(end);
    Ok(header.e_entry as usize)
}

/// Copies one segment into `space`.
///
/// Returns where the segment ends.
async fn load_segment(
    segment: &ProgramHeader,
    data: &[u8],
    space: &mut AddressSpace,
) -> Result<usize, LoadError> {
    let start = segment.p_vaddr as usize;
    let end = start
        .checked_add(segment.p_memsz as usize)
        .ok_or(LoadError::BadSegment)?;
    if start < PROGRAM.start || end > PROGRAM.end || data.len() > end - start {
        return Err(LoadError::BadSegment);
    }
    if (end - start) / PAGE_SIZE > frame::free() {
        return Err(LoadError::OutOfMemory);
    }
    let mut flags = Flags::USER | Flags::READ;
    flags.set(Flags::WRITE, segment.p_flags & PF_W != 0);
    flags.set(Flags::EXECUTE, segment.p_flags & PF_X != 0);
    let mut pages = 0;
    for page in (page_down(start)..page_up(end)).step_by(PAGE_SIZE) {
        pages += 1;
        if pages % pace::PAGES == 0 {
            checkpoint().await;
        }
        // Two segments that share a page would need one set of rights for both.
        if space.is_mapped(page) {
            return Err(LoadError::Overlap);
        }
        let frame = if flags.contains(Flags::WRITE) {
            space.map_zeroed(page, flags)?
        } else {
            space.map_read_only(page, flags)?
        };
        let from = start.max(page);
        let to = (start + data.len()).min(page + PAGE_SIZE);
        if from < to {
            let part = &data[from - start..to - start];
            // SAFETY: the frame is fresh and belongs to the address space; the part lies inside one
            // page.
            unsafe {
                ((frame + from - page) as *mut u8)
                    .copy_from_nonoverlapping(part.as_ptr(), part.len())
            };
        }
    }
    Ok(end)
}
