//! Stacks of kernel threads.
//!
//! They are frames behind a guard page, in a part of the kernel's address space of their own.
//!
//! ```text
//! START + n·SLOT              the guard, where nothing is mapped: an overflow is a trap, which is reported
//! START + n·SLOT + 4 KiB      the stack, [`SIZE`] bytes
//! ```
//! The tables for all of them are there from boot on, so that a stack takes its frames and nothing
//! else.
use super::frame::Frame;
use super::page_table::{Flags, PageTable};
use super::{OutOfMemory, PAGE_SIZE};
use crate::lock::Mutex;
use alloc::vec::Vec;
use core::arch::asm;
use core::ops::Range;
use spin::Once;

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
    /// The page table that maps them.
    ///
    /// The kernel's page table has the same tables.
    table: PageTable,
    /// Slots that can be used again, and the first that was never used.
    returned: Vec<u16>,
    fresh: u16,
    /// Slots that came back, and of which harts may remember where they were.
    stale: Vec<u16>,
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
            // They never grow, so what the kernel's heap holds then says nothing of how many stacks
            // there were.
            returned: Vec::with_capacity(MAX_STACKS),
            fresh: 0,
            stale: Vec::with_capacity(MAX_STACKS),
            in_use: 0,
        })
    });
    Ok(())
}

/// Returns how many stacks are in use.
pub(crate) fn in_use() -> usize {
    STACKS.get().map_or(0, |stacks| stacks.lock().in_use)
}

/// A stack that belongs to its holder.
#[derive(Debug)]
pub(crate) struct Stack {
    slot: u16,
}

impl Stack {
    /// Makes a stack with arbitrary contents.
    ///
    /// # Errors
    /// When there are [`MAX_STACKS`], or no frame is free.
    pub(crate) fn new() -> Result<Stack, OutOfMemory> {
        let mut stacks = STACKS.get().ok_or(OutOfMemory)?.lock();
        if stacks.in_use >= MAX_STACKS {
            return Err(OutOfMemory);
        }
        let slot = stacks.take_slot();
        stacks.in_use += 1;
        // From here on its drop gives back as much of it as there is.
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

    /// Returns its upper end, from which it grows down.
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
        // Nothing uses these addresses before `take_slot` has made all harts forget them. So the
        // frames are free already.
        stacks.stale.push(self.slot);
        stacks.in_use -= 1;
    }
}

impl Stacks {
    /// Takes a slot that no hart remembers anything of.
    ///
    /// There is one, because fewer than [`MAX_STACKS`] are in use.
    fn take_slot(&mut self) -> u16 {
        if let Some(slot) = self.returned.pop() {
            return slot;
        }
        if usize::from(self.fresh) < MAX_STACKS {
            self.fresh += 1;
            return self.fresh - 1;
        }
        // All at once, because each time all harts have to answer.
        forget(START..START + MAX_STACKS * SLOT);
        core::mem::swap(&mut self.returned, &mut self.stale);
        self.returned.pop().expect("what is not in use came back")
    }
}

/// Forgets the translations of these addresses on every hart.
fn forget(addresses: Range<usize>) {
    // SAFETY: forgetting translations is always allowed.
    unsafe { asm!("sfence.vma") };
    sbi_rt::remote_sfence_vma(sbi_rt::HartMask::all(), addresses.start, addresses.len());
}
