//! The address space of a process.
//!
//! ```text
//! 0x0000_1000 …              the program's segments, then its heap
//! 0x1f_fe00_0000 + n·64K     the stacks for user-level interrupts, likewise
//! 0x1f_ff00_0000             the main thread's stack: 1 MiB, the first page of it a guard
//! 0x20_0000_0000 + tid·64K   the stacks of the other threads: 64 KiB each, the first page of each a guard
//! 0x3f_0000_0000             process page, system page, the scheduler's image, rings
//! top                        trampoline and harts' pages, not for user mode
//! ```
//! A stack's last [`EAGER_STACK`] bytes are there from the beginning; the rest comes with the first touch.
use super::bulk;
use super::frame::Frame;
use super::kernel_space;
use super::page_table::{Flags, PageTable, Unmapped};
use super::user::{Access, BadAddress};
use super::{OutOfMemory, PAGE_SIZE, page_down, page_up};
use crate::hart;
use alloc::sync::Arc;
use alloc::vec::Vec;
use corank_abi::page::WORKERS;
use corank_abi::upcall;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

/// Programs lie above the first page, so that a null pointer is a fault.
pub(crate) const PROGRAM: Range<usize> = PAGE_SIZE..0x10_0000_0000;
const MAIN_STACK: Range<usize> = 0x1f_ff00_0000..0x1f_ff10_0000;
const THREAD_STACKS: Range<usize> = 0x20_0000_0000..0x3f_0000_0000;
const THREAD_STACK: usize = 64 << 10;
const UPCALL_STACKS: Range<usize> =
    upcall::STACKS..upcall::STACKS + WORKERS * upcall::STACK_COUNT * upcall::STACK_SIZE;
const _: () = assert!(UPCALL_STACKS.end <= MAIN_STACK.start);
/// How much of a stack is mapped when its thread begins, in bytes.
pub(crate) const EAGER_STACK: usize = 2 * PAGE_SIZE;

/// Readable and writable memory of a program.
pub(crate) const USER_DATA: Flags = Flags::READ.union(Flags::WRITE).union(Flags::USER);

/// A process's page table and what its heap covers.
#[derive(Debug)]
pub(crate) struct AddressSpace {
    table: PageTable,
    /// What the program can't write to: its copies have the same frames.
    read_only: Arc<Vec<Frame>>,
    heap: Range<usize>,
    satp: usize,
    /// Bit *i*: hart *i* may hold translations that are no longer true.
    stale: AtomicU64,
}

/// The stack of the thread `tid`, guard page included; `None` beyond the last possible thread.
pub(crate) fn stack_of(tid: usize) -> Option<Range<usize>> {
    if tid == 0 {
        return Some(MAIN_STACK);
    }
    let start = THREAD_STACKS
        .start
        .checked_add(tid.checked_mul(THREAD_STACK)?)?;
    (start + THREAD_STACK <= THREAD_STACKS.end).then_some(start..start + THREAD_STACK)
}

/// The stack whose usable part contains `address`.
fn is_in_stack(address: usize) -> bool {
    let offset = if MAIN_STACK.contains(&address) {
        address - MAIN_STACK.start
    } else if THREAD_STACKS.contains(&address) {
        (address - THREAD_STACKS.start) % THREAD_STACK
    } else if UPCALL_STACKS.contains(&address) {
        (address - UPCALL_STACKS.start) % upcall::STACK_SIZE
    } else {
        return false;
    };
    offset >= PAGE_SIZE
}

impl AddressSpace {
    /// An address space with nothing in it for user mode. `id` tells it from others in the translation buffers.
    ///
    /// # Errors
    /// When no frame is free.
    pub(crate) fn new(id: u16) -> Result<AddressSpace, OutOfMemory> {
        let mut table = PageTable::new()?;
        table.share_top(kernel_space::page_table());
        let satp = 8 << 60 | usize::from(id) << 44 | table.root() >> 12;
        Ok(AddressSpace {
            table,
            read_only: Arc::default(),
            heap: 0..0,
            satp,
            stale: AtomicU64::new(u64::MAX),
        })
    }

    /// The value of the `satp` register for this address space.
    pub(crate) fn satp(&self) -> usize {
        self.satp
    }

    /// Whether the hart has to forget the translations of this address space before it uses it.
    pub(crate) fn take_stale(&self, hart: usize) -> bool {
        let bit = 1 << hart;
        self.stale.load(Ordering::Relaxed) & bit != 0
            && self.stale.fetch_and(!bit, Ordering::AcqRel) & bit != 0
    }

    /// To be called after a translation was taken away, and before its frame is used for anything else. Harts that run the
    /// program now forget it at once, the others before they run it again. A new translation needs nothing: a hart that
    /// remembers that there was none traps once and then forgets (see [`crate::thread`]).
    fn changed(&self) {
        self.stale.store(u64::MAX, Ordering::Release);
        hart::forget_elsewhere(self.satp);
    }

    /// Maps a fresh frame of zeros at `page`, and returns the frame's address.
    ///
    /// # Errors
    /// When no frame is free.
    pub(crate) fn map_zeroed(&mut self, page: usize, flags: Flags) -> Result<usize, OutOfMemory> {
        let frame = Frame::zeroed()?;
        let address = frame.address();
        self.table.map(page, address, flags | Flags::OWNED)?;
        let _ = frame.into_address();
        Ok(address)
    }

    /// Maps a fresh frame of zeros at `page` that the program can't write to, and returns the frame's address. Copies of
    /// this address space will have the same frame.
    ///
    /// # Errors
    /// When no frame is free.
    ///
    /// # Panics
    /// When this address space is or has a copy.
    pub(crate) fn map_read_only(
        &mut self,
        page: usize,
        flags: Flags,
    ) -> Result<usize, OutOfMemory> {
        let frames = Arc::get_mut(&mut self.read_only).expect("a copy has the program already");
        frames.try_reserve(1).map_err(|_| OutOfMemory)?;
        let frame = Frame::zeroed()?;
        let address = frame.address();
        let flags = flags.difference(Flags::WRITE) | Flags::SHARED;
        self.table.map(page, address, flags)?;
        frames.push(frame);
        Ok(address)
    }

    /// Maps memory that stays somebody else's. That one keeps it until this mapping is gone.
    ///
    /// # Errors
    /// When no frame is left for a table.
    pub(crate) fn map_borrowed(
        &mut self,
        page: usize,
        frame: usize,
        flags: Flags,
    ) -> Result<(), OutOfMemory> {
        self.table.map(page, frame, flags)
    }

    /// Whether anything is mapped at `address`.
    pub(crate) fn is_mapped(&self, address: usize) -> bool {
        self.table.lookup(address).is_some()
    }

    /// Takes away every page in `range`.
    pub(crate) fn unmap(&mut self, range: Range<usize>) {
        // As many as one call to the other harts is worth.
        let mut unmapped = heapless::Vec::<Unmapped, 64>::new();
        for page in range.step_by(PAGE_SIZE) {
            if unmapped.is_full() {
                self.changed();
                unmapped.clear();
            }
            if let Some(page) = self.table.unmap(page) {
                let _ = unmapped.push(page);
            }
        }
        if !unmapped.is_empty() {
            self.changed();
        }
        // The frames are free from here on.
    }

    /// The physical address of the page of `address`, if a program may use it so. Maps a page of a stack that was not there yet.
    ///
    /// # Errors
    /// [`BadAddress`] if it may not.
    pub(crate) fn translate(
        &mut self,
        address: usize,
        access: Access,
    ) -> Result<usize, BadAddress> {
        let wanted = Flags::USER
            | match access {
                Access::Read => Flags::READ,
                Access::Write => Flags::WRITE,
                Access::Execute => Flags::EXECUTE,
            };
        let bad = BadAddress { address, access };
        if address >= 1 << 38 {
            return Err(bad);
        }
        match self.table.lookup(address) {
            Some(entry) if entry.flags().contains(wanted) => Ok(entry.address()),
            None if access != Access::Execute && is_in_stack(address) => self
                .map_zeroed(page_down(address), USER_DATA)
                .map_err(|_| bad),
            _ => Err(bad),
        }
    }

    /// Maps the part of the thread's stack that is there from the beginning, and returns the stack's upper end.
    ///
    /// # Errors
    /// When no frame is free, or `tid` is too large. Nothing of the stack stays mapped.
    pub(crate) fn map_stack(&mut self, tid: usize) -> Result<usize, OutOfMemory> {
        let stack = stack_of(tid).ok_or(OutOfMemory)?;
        for page in (stack.end - EAGER_STACK..stack.end).step_by(PAGE_SIZE) {
            if let Err(error) = self.map_zeroed(page, USER_DATA) {
                self.unmap(stack);
                return Err(error);
            }
        }
        Ok(stack.end)
    }

    /// Takes the thread's stack away.
    pub(crate) fn unmap_stack(&mut self, tid: usize) {
        if let Some(stack) = stack_of(tid) {
            self.unmap(stack);
        }
    }

    /// Says where the heap begins: empty, behind the program.
    pub(crate) fn set_heap(&mut self, start: usize) {
        self.heap = page_up(start)..page_up(start);
    }

    /// Moves the end of the heap by `bytes`, and returns where it was. Whole pages are mapped.
    ///
    /// # Errors
    /// When the heap would leave its place or no frame is left; it then stays as it was.
    pub(crate) fn move_heap_end(&mut self, bytes: isize) -> Result<usize, OutOfMemory> {
        let old = self.heap.end;
        let new = old.checked_add_signed(bytes).ok_or(OutOfMemory)?;
        if new < self.heap.start || new > PROGRAM.end {
            return Err(OutOfMemory);
        }
        if new > old {
            for page in (page_up(old)..page_up(new)).step_by(PAGE_SIZE) {
                if let Err(error) = self.map_zeroed(page, USER_DATA) {
                    self.unmap(page_up(old)..page);
                    return Err(error);
                }
            }
        } else {
            self.unmap(page_up(new)..page_up(old));
        }
        self.heap.end = new;
        Ok(old)
    }

    /// How many pages of memory belong to it. Looks at each one.
    pub(crate) fn pages(&self) -> usize {
        let mut pages = 0;
        let counted: Result<(), core::convert::Infallible> =
            self.table.for_each_page(|_, entry| {
                pages += usize::from(entry.flags().intersects(Flags::OWNED | Flags::SHARED));
                Ok(())
            });
        let Ok(()) = counted;
        pages
    }

    /// A copy with frames of its own, but for those that nobody writes to. Borrowed pages are left out.
    ///
    /// An emulator gains most from frames in common: it translates the code in them once, not once for each process.
    ///
    /// # Errors
    /// When no frame is left.
    pub(crate) fn copy(&self, id: u16) -> Result<AddressSpace, OutOfMemory> {
        let mut copy = AddressSpace::new(id)?;
        copy.heap = self.heap.clone();
        copy.read_only = self.read_only.clone();
        self.table.for_each_page(|page, entry| {
            if entry.flags().contains(Flags::SHARED) {
                return copy.table.map(page, entry.address(), entry.flags());
            }
            if !entry.flags().contains(Flags::OWNED) {
                return Ok(());
            }
            let mut frame = Frame::uninitialised()?;
            let (from, to) = (entry.address() as *const u8, frame.bytes_mut().as_mut_ptr());
            // SAFETY: the page belongs to this address space, and the frame to nothing else; user memory is only touched by
            // copying.
            unsafe { bulk::copy(from, to, PAGE_SIZE) };
            copy.table.map(page, frame.address(), entry.flags())?;
            let _ = frame.into_address();
            Ok(())
        })?;
        Ok(copy)
    }
}
