//! Stacks of kernel threads: frames behind a guard page, in a part of the kernel's address space of their own.
//!
//! ```text
//! START + n·SLOT              the guard, where nothing is mapped: an overflow is a trap, which is reported
//! START + n·SLOT + 4 KiB      the stack, [`SIZE`] bytes
//! ```
//! The tables for all of them are there from boot on, so that a stack takes its frames and nothing else.
use super::frame::Frame;
use super::page_table::{Flags, PageTable};
use super::{OutOfMemory, PAGE_SIZE};
use alloc::vec::Vec;
use core::arch::asm;
use core::ops::Range;
use spin::{Mutex, Once};

/// Bytes of a stack.
pub(crate) const SIZE: usize = 16 << 10;
const SLOT: usize = PAGE_SIZE + SIZE;

/// How many stacks there can be at once.
pub(crate) const MAX_STACKS: usize = 4096;

/// The last gigabyte but one.
const START: usize = 0xffff_ffff_8000_0000;
const _: () = assert!(MAX_STACKS * SLOT <= 1 << 30);

/// The stacks that exist.
struct Stacks {
    /// Maps them. The kernel's page table has the same tables.
    table: PageTable,
    /// Slots that came back, and the first that was never used.
    returned: Vec<u16>,
    fresh: u16,
    in_use: usize,
}

static STACKS: Once<Mutex<Stacks>> = Once::new();

/// Prepares the part of the address space, and makes it part of the kernel's.
///
/// # Errors
/// When no frame is left for its tables.
pub(super) fn init(kernel: &mut PageTable) -> Result<(), OutOfMemory> {
    let mut table = PageTable::new()?;
    table.prepare(START..START + MAX_STACKS * SLOT)?;
    kernel.share(&table, START);
    STACKS.call_once(|| {
        Mutex::new(Stacks {
            table,
            returned: Vec::new(),
            fresh: 0,
            in_use: 0,
        })
    });
    Ok(())
}

/// How many stacks are in use.
pub(crate) fn in_use() -> usize {
    STACKS.get().map_or(0, |stacks| stacks.lock().in_use)
}

/// A stack that belongs to its holder.
#[derive(Debug)]
pub(crate) struct Stack {
    slot: u16,
}

impl Stack {
    /// A stack with arbitrary contents.
    ///
    /// # Errors
    /// When there are [`MAX_STACKS`], or no frame is free.
    pub(crate) fn new() -> Result<Stack, OutOfMemory> {
        let mut stacks = STACKS.get().ok_or(OutOfMemory)?.lock();
        if stacks.in_use >= MAX_STACKS {
            return Err(OutOfMemory);
        }
        let slot = stacks.returned.pop().unwrap_or(stacks.fresh);
        if slot == stacks.fresh {
            stacks.fresh += 1;
        }
        stacks.in_use += 1;
        // From here on it goes back by itself, as far as it has got.
        let stack = Stack { slot };
        let pages = stack.pages();
        for page in pages.step_by(PAGE_SIZE) {
            let mapped = Frame::uninitialised().and_then(|frame| {
                let flags = Flags::READ | Flags::WRITE | Flags::OWNED;
                stacks.table.map(page, frame.address(), flags)?;
                let _ = frame.into_address();
                Ok(())
            });
            if mapped.is_err() {
                drop(stacks);
                drop(stack);
                return Err(OutOfMemory);
            }
        }
        Ok(stack)
    }

    fn pages(&self) -> Range<usize> {
        let start = START + usize::from(self.slot) * SLOT + PAGE_SIZE;
        start..start + SIZE
    }

    /// Its upper end, from which it grows down.
    pub(crate) fn top(&self) -> usize {
        self.pages().end
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let Some(stacks) = STACKS.get() else { return };
        let mut stacks = stacks.lock();
        for page in self.pages().step_by(PAGE_SIZE) {
            stacks.table.unmap(page);
        }
        // Before anyone has the slot again: no hart may remember where it was.
        forget(self.pages());
        stacks.returned.push(self.slot);
        stacks.in_use -= 1;
    }
}

/// Forgets the translations of these pages on every hart.
fn forget(pages: Range<usize>) {
    for page in pages.clone().step_by(PAGE_SIZE) {
        // SAFETY: forgetting translations is always allowed.
        unsafe { asm!("sfence.vma {}, zero", in(reg) page) };
    }
    sbi_rt::remote_sfence_vma(sbi_rt::HartMask::all(), pages.start, pages.len());
}
