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
//! A stack's last [`EAGER_STACK`] bytes are there from the beginning. The rest comes with the first
//! touch. A stack of a thread that has not begun or has ended is not mapped, so touching it is a
//! fault.
use super::bulk;
use super::frame::{self, Frame};
use super::kernel_space;
use super::page_table::{Flags, PageTable, Unmapped};
use super::user::{Access, BadAddress};
use super::{OutOfMemory, PAGE_SIZE, page_down, page_up};
use crate::{hart, pace};
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

/// How many pages and tables a piece of a copy takes.
const COPIED_AT_ONCE: usize = 3 * pace::PAGES;

/// How many frames that copies have in common are released at once.
const RELEASED_AT_ONCE: usize = 512;

/// Readable and writable memory of a program.
pub(crate) const USER_DATA: Flags = Flags::READ.union(Flags::WRITE).union(Flags::USER);

/// A process's page table and what its heap covers.
#[derive(Debug)]
pub(crate) struct AddressSpace {
    table: PageTable,
    /// The frames that the program can't write to, which its copies have too.
    read_only: Arc<Vec<Frame>>,
    heap: Range<usize>,
    /// Up to where the heap's pages are mapped.
    ///
    /// That is behind its end only while the end moves.
    heap_mapped: usize,
    /// The end of the heap is being moved, or the heap copied.
    heap_is_moving: bool,
    /// How many pages of memory belong to it.
    pages: usize,
    satp: usize,
    /// Bit *i*: hart *i* may hold translations that are no longer true.
    stale: AtomicU64,
}

/// Returns the stack of the thread `tid`, guard page included.
///
/// Returns `None` beyond the last possible thread.
pub(crate) fn stack_of(tid: usize) -> Option<Range<usize>> {
    if tid == 0 {
        return Some(MAIN_STACK);
    }
    let start = THREAD_STACKS
        .start
        .checked_add(tid.checked_mul(THREAD_STACK)?)?;
    (start + THREAD_STACK <= THREAD_STACKS.end).then_some(start..start + THREAD_STACK)
}

/// A stack of the process's own, of which not every page is mapped.
enum Stack {
    /// The main thread's stack, or one for user-level interrupts.
    ///
    /// It may grow as long as the process exists.
    OfProcess,
    /// The stack of a thread that has or had this last page.
    ///
    /// It may grow while that page is mapped.
    OfThread(usize),
}

/// Returns the stack whose usable part contains `address`.
fn stack_at(address: usize) -> Option<Stack> {
    let (offset, stack) = if MAIN_STACK.contains(&address) {
        (address - MAIN_STACK.start, Stack::OfProcess)
    } else if THREAD_STACKS.contains(&address) {
        let offset = (address - THREAD_STACKS.start) % THREAD_STACK;
        let last = page_down(address - offset + THREAD_STACK - 1);
        (offset, Stack::OfThread(last))
    } else if UPCALL_STACKS.contains(&address) {
        let offset = (address - UPCALL_STACKS.start) % upcall::STACK_SIZE;
        (offset, Stack::OfProcess)
    } else {
        return None;
    };
    (offset >= PAGE_SIZE).then_some(stack)
}

impl AddressSpace {
    /// Makes an address space with nothing in it for user mode.
    ///
    /// `id` tells it from others in the translation buffers.
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
            heap_mapped: 0,
            heap_is_moving: false,
            pages: 0,
            satp,
            stale: AtomicU64::new(u64::MAX),
        })
    }

    /// Returns the value of the `satp` register for this address space.
    pub(crate) fn satp(&self) -> usize {
        self.satp
    }

    /// Tests whether the hart has to forget the translations of this address space before it uses
    /// it.
    pub(crate) fn take_stale(&self, hart: usize) -> bool {
        let bit = 1 << hart;
        self.stale.load(Ordering::Relaxed) & bit != 0
            && self.stale.fetch_and(!bit, Ordering::AcqRel) & bit != 0
    }

    /// Makes all harts forget translations that were taken away.
    ///
    /// To be called after a translation was taken away, and before its frame is used for anything
    /// else. Harts that run the program now forget it at once, the others before they run it again.
    /// A new translation needs nothing, because a hart that remembers that there was none traps
    /// once and then forgets.
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
        self.pages += 1;
        let _ = frame.into_address();
        Ok(address)
    }

    /// Maps a fresh frame of zeros at `page` that the program can't write to.
    ///
    /// Returns the frame's address. Copies of this address space will have the same frame.
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
        self.pages += 1;
        frames.push(frame);
        Ok(address)
    }

    /// Maps memory that does not belong to this address space.
    ///
    /// Its owner keeps it until this mapping is gone.
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

    /// Tests whether anything is mapped at `address`.
    pub(crate) fn is_mapped(&self, address: usize) -> bool {
        self.table.lookup(address).is_some()
    }

    /// Takes away every page in `range`.
    pub(crate) fn unmap(&mut self, range: Range<usize>) {
        // As many pages as one call to the other harts is worth.
        let mut unmapped = heapless::Vec::<Unmapped, 64>::new();
        for page in range.step_by(PAGE_SIZE) {
            if unmapped.is_full() {
                self.changed();
                unmapped.clear();
            }
            if let Some(page) = self.table.unmap(page) {
                self.pages -= usize::from(page.is_owned());
                let _ = unmapped.push(page);
            }
        }
        if !unmapped.is_empty() {
            self.changed();
        }
        // The frames are free from here on.
    }

    /// Returns the physical address of the page of `address`, if a program may use it so.
    ///
    /// Maps a page of a stack that was not there yet.
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
        let bad = BadAddress {
            address,
            access,
            lacks_memory: false,
        };
        if address >= 1 << 38 {
            return Err(bad);
        }
        match self.table.lookup(address) {
            Some(entry) if entry.flags().contains(wanted) => Ok(entry.address()),
            None if access != Access::Execute && self.may_grow(address) => self
                .map_zeroed(page_down(address), USER_DATA)
                .map_err(|OutOfMemory| BadAddress {
                    lacks_memory: true,
                    ..bad
                }),
            _ => Err(bad),
        }
    }

    /// Tests whether a page of a stack may be mapped at `address` by a touch.
    ///
    /// [`map_stack`](Self::map_stack) maps the last page of a thread's stack when the thread
    /// begins, and it stays mapped until the thread ends. So no page is mapped for a thread that
    /// does not exist.
    fn may_grow(&self, address: usize) -> bool {
        match stack_at(address) {
            None => false,
            Some(Stack::OfProcess) => true,
            Some(Stack::OfThread(last)) => self.is_mapped(last),
        }
    }

    /// Maps the part of the thread's stack that is there from the beginning, and returns the
    /// stack's upper end.
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

    /// Sets where the heap begins: empty, behind the program.
    pub(crate) fn set_heap(&mut self, start: usize) {
        self.heap = page_up(start)..page_up(start);
        self.heap_mapped = self.heap.end;
    }

    /// Begins to move the end of the heap by `bytes`, or to copy the heap.
    ///
    /// Returns the end and its new position, or `None` while another move is under way.
    /// [`end_move`](Self::end_move) comes after it.
    ///
    /// # Errors
    /// When the heap would leave its place, or if there cannot be as many frames.
    pub(crate) fn begin_move(&mut self, bytes: isize) -> Result<Option<Range<usize>>, OutOfMemory> {
        if self.heap_is_moving {
            return Ok(None);
        }
        let old = self.heap.end;
        let new = old.checked_add_signed(bytes).ok_or(OutOfMemory)?;
        if new < self.heap.start || new > PROGRAM.end {
            return Err(OutOfMemory);
        }
        let missing = page_up(new).saturating_sub(self.heap_mapped) / PAGE_SIZE;
        if missing > frame::free() {
            return Err(OutOfMemory);
        }
        self.heap_is_moving = true;
        // What is taken away counts no more from here on.
        self.heap.end = old.min(new);
        Ok(Some(Range {
            start: old,
            end: new,
        }))
    }

    /// Maps or takes away a bounded number of the heap's pages, so that they reach to `end`.
    ///
    /// Returns whether they do.
    ///
    /// # Errors
    /// When no frame is left.
    pub(crate) fn move_some(&mut self, end: usize) -> Result<bool, OutOfMemory> {
        let (end, mapped) = (page_up(end), self.heap_mapped);
        if end > mapped {
            for page in (mapped..end).step_by(PAGE_SIZE).take(pace::PAGES) {
                self.map_zeroed(page, USER_DATA)?;
                self.heap_mapped = page + PAGE_SIZE;
            }
        } else {
            let from = end.max(mapped.saturating_sub(8 * pace::PAGES * PAGE_SIZE));
            self.unmap(from..mapped);
            self.heap_mapped = from;
        }
        Ok(self.heap_mapped == end)
    }

    /// Tests whether nothing is mapped behind the heap's end.
    ///
    /// Nothing is unless a move was given up.
    pub(crate) fn heap_is_exact(&self) -> bool {
        self.heap_mapped == page_up(self.heap.end)
    }

    /// Makes the heap end at `end` from now on.
    ///
    /// Another move may begin.
    pub(crate) fn end_move(&mut self, end: usize) {
        self.heap.end = end;
        self.heap_is_moving = false;
    }

    /// Returns how many pages of memory belong to it.
    pub(crate) fn pages(&self) -> usize {
        self.pages
    }

    /// Copies a bounded number of pages into `copy`, from the page `start` on.
    ///
    /// Frames that nothing writes to are not copied, and both have them then. Borrowed pages are
    /// left out. Returns where to go on, or `None` when all is copied. The heap does not move
    /// meanwhile.
    ///
    /// An emulator gains most from frames in common, because it translates the code in them once,
    /// not once for each process.
    ///
    /// # Errors
    /// When no frame is left.
    pub(crate) fn copy_some(
        &self,
        copy: &mut AddressSpace,
        start: usize,
    ) -> Result<Option<usize>, OutOfMemory> {
        if start == 0 {
            copy.heap = self.heap.clone();
            copy.heap_mapped = self.heap_mapped;
            copy.read_only = self.read_only.clone();
        }
        self.table
            .visit_pages(start, COPIED_AT_ONCE, |page, entry| {
                if entry.flags().contains(Flags::SHARED) {
                    copy.pages += 1;
                    return copy.table.map(page, entry.address(), entry.flags());
                }
                if !entry.flags().contains(Flags::OWNED) {
                    return Ok(());
                }
                let mut frame = Frame::uninitialised()?;
                let (from, to) = (entry.address() as *const u8, frame.bytes_mut().as_mut_ptr());
                // SAFETY: the page belongs to this address space, and the frame to nothing else;
                // user memory is only touched by copying.
                unsafe { bulk::copy(from, to, PAGE_SIZE) };
                copy.table.map(page, frame.address(), entry.flags())?;
                copy.pages += 1;
                let _ = frame.into_address();
                Ok(())
            })
    }

    /// Releases a bounded part of its memory, which nothing uses any more.
    ///
    /// Returns whether there may be more.
    pub(crate) fn release_some(&mut self) -> bool {
        self.table.release_some() || {
            let frames = Arc::get_mut(&mut self.read_only);
            frames.is_some_and(|frames| {
                frames.truncate(frames.len().saturating_sub(RELEASED_AT_ONCE));
                !frames.is_empty()
            })
        }
    }
}
