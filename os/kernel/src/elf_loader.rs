//! From an ELF file to an address space that can run.
use crate::memory::address_space::{AddressSpace, PROGRAM};
use crate::memory::page_table::Flags;
use crate::memory::{OutOfMemory, PAGE_SIZE, page_down, page_up};
use core::fmt;
use elf::ElfBytes;
use elf::abi::{EM_RISCV, ET_EXEC, PF_W, PF_X, PT_LOAD};
use elf::endian::LittleEndian;
use elf::file::Class;
use elf::segment::ProgramHeader;

/// Why a file cannot be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadError {
    /// Not an executable ELF file for 64-bit RISC-V, or one whose segments lie where they must not.
    NotAProgram,
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
            LoadError::NotAProgram => "not an executable for 64-bit RISC-V",
            LoadError::OutOfMemory => "not enough memory",
        })
    }
}

/// Copies the segments of `file` into `space`, sets the heap behind them, and returns where the program begins.
///
/// # Errors
/// See [`LoadError`]. The address space is then good for nothing but being dropped.
pub(crate) fn load(file: &[u8], space: &mut AddressSpace) -> Result<usize, LoadError> {
    let program =
        ElfBytes::<LittleEndian>::minimal_parse(file).map_err(|_| LoadError::NotAProgram)?;
    let header = &program.ehdr;
    if header.class != Class::ELF64 || header.e_machine != EM_RISCV || header.e_type != ET_EXEC {
        return Err(LoadError::NotAProgram);
    }
    let mut end = 0;
    for segment in program.segments().ok_or(LoadError::NotAProgram)? {
        if segment.p_type == PT_LOAD && segment.p_memsz > 0 {
            let data = program
                .segment_data(&segment)
                .map_err(|_| LoadError::NotAProgram)?;
            end = end.max(load_segment(&segment, data, space)?);
        }
    }
    space.set_heap(end);
    Ok(header.e_entry as usize)
}

/// Returns where the segment ends.
fn load_segment(
    segment: &ProgramHeader,
    data: &[u8],
    space: &mut AddressSpace,
) -> Result<usize, LoadError> {
    let start = usize::try_from(segment.p_vaddr).map_err(|_| LoadError::NotAProgram)?;
    let end = start
        .checked_add(segment.p_memsz as usize)
        .ok_or(LoadError::NotAProgram)?;
    if start < PROGRAM.start || end > PROGRAM.end || data.len() > end - start {
        return Err(LoadError::NotAProgram);
    }
    let mut flags = Flags::USER | Flags::READ;
    flags.set(Flags::WRITE, segment.p_flags & PF_W != 0);
    flags.set(Flags::EXECUTE, segment.p_flags & PF_X != 0);
    for page in (page_down(start)..page_up(end)).step_by(PAGE_SIZE) {
        // Two segments that share a page would need one set of rights for both.
        if space.is_mapped(page) {
            return Err(LoadError::NotAProgram);
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
            // SAFETY: the frame is fresh and belongs to the address space; the part lies inside one page.
            unsafe {
                ((frame + from - page) as *mut u8)
                    .copy_from_nonoverlapping(part.as_ptr(), part.len())
            };
        }
    }
    Ok(end)
}
