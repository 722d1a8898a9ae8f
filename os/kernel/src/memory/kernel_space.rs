//! The kernel's own address space.
//!
//! Physical memory and devices lie at their own addresses. On top, in every address space, lie the
//! trampoline and the harts' pages.
use super::frame::Frame;
use super::page_table::{Flags, PageTable};
use super::stack;
use super::{OutOfMemory, PAGE_SIZE, page_down, page_up};
use crate::hart;
use crate::machine::{MAX_HARTS, Machine};
use spin::Once;

/// Where the trampoline is mapped in every address space: the last page.
pub(crate) const TRAMPOLINE: usize = usize::MAX - PAGE_SIZE + 1;

/// Returns where the page of the hart with this index is mapped in every address space.
pub(crate) const fn hart_page(index: usize) -> usize {
    TRAMPOLINE - (index + 1) * PAGE_SIZE
}

/// Size of the stack of each hart but the first, in bytes.
///
/// Below each lies a page that is not there.
const STACK: usize = 64 << 10;

/// Returns the upper end of the stack of a hart other than the first.
///
/// The first hart's stack is part of the kernel's image.
pub(crate) const fn hart_stack(index: usize) -> usize {
    hart_page(MAX_HARTS) - (index - 1) * (STACK + PAGE_SIZE)
}

static TABLE: Once<PageTable> = Once::new();

unsafe extern "C" {
    static kernel_start: u8;
    static kernel_text_end: u8;
    static kernel_rodata_end: u8;
    static kernel_end: u8;
    static trampoline: u8;
}

/// Returns where the kernel's image ends, stack included.
pub(crate) fn image_end() -> usize {
    &raw const kernel_end as usize
}

/// Returns the trampoline's physical address.
pub(crate) fn trampoline_address() -> usize {
    &raw const trampoline as usize
}

/// Builds the kernel's page table, to which `map_more` adds what it wants.
///
/// The table is not used before [`satp`] is written.
///
/// # Errors
/// When no frame is left for it.
pub(crate) fn init(
    machine: &Machine,
    map_more: impl FnOnce(&mut PageTable),
) -> Result<(), OutOfMemory> {
    let mut table = PageTable::new()?;
    let (text, data) = (
        Flags::READ | Flags::EXECUTE | Flags::GLOBAL,
        Flags::READ | Flags::WRITE | Flags::GLOBAL,
    );
    let start = &raw const kernel_start as usize;
    let text_end = &raw const kernel_text_end as usize;
    let rodata_end = &raw const kernel_rodata_end as usize;
    table.map_identity(start..text_end, text)?;
    table.map_identity(text_end..rodata_end, Flags::READ | Flags::GLOBAL)?;
    table.map_identity(rodata_end..page_down(machine.memory.end), data)?;
    for device in machine.devices() {
        table.map_identity(page_down(device.start)..page_up(device.end), data)?;
    }
    table.map(TRAMPOLINE, trampoline_address(), text)?;
    for index in 0..MAX_HARTS {
        table.map(hart_page(index), hart::page_address(index), data)?;
    }
    for index in 1..machine.harts().len() {
        let end = hart_stack(index);
        for page in (end - STACK..end).step_by(PAGE_SIZE) {
            table.map(page, Frame::zeroed()?.into_address(), data)?;
        }
    }
    stack::init(&mut table)?;
    map_more(&mut table);
    TABLE.call_once(|| table);
    Ok(())
}

/// Returns the value of the `satp` register for the kernel's address space.
///
/// # Panics
/// Before [`init`].
pub(crate) fn satp() -> usize {
    8 << 60 | page_table().root() >> 12
}

/// Returns the kernel's page table.
///
/// # Panics
/// Before [`init`].
pub(crate) fn page_table() -> &'static PageTable {
    TABLE
        .get()
        .expect("the kernel's address space is there from boot on")
}
