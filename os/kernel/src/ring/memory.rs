//! The memory of the rings, to which the process writes too.
use crate::memory::account::{self, Account, Charge};
use crate::memory::{OutOfMemory, PAGE_SIZE, page_up};
use alloc::alloc::{alloc_zeroed, dealloc};
use alloc::sync::Arc;
use corank_abi::page::ring_base;
use corank_abi::ring::{Completion, RingHeader, SUBMISSIONS, Submission};
use core::alloc::Layout;
use core::mem::offset_of;
use core::sync::atomic::Ordering;

// The rings of one worker end where the next one's begin.
const _: () = assert!(
    SUBMISSIONS + super::MAX_ENTRIES * (size_of::<Submission>() + size_of::<Completion>())
        <= ring_base(1) - ring_base(0)
);

/// Whole pages of the kernel's heap that are also mapped in a process.
#[derive(Debug)]
pub(crate) struct Memory {
    start: *mut u8,
    layout: Layout,
    /// Number of entries of each ring; a power of two.
    pub(crate) entries: u32,
    _charge: Charge,
}

// SAFETY: the memory belongs to the value. Code that writes to it holds the ring's lock or uses
// atomics.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Makes rings with this many entries each.
    pub(crate) fn new(entries: u32, account: &Arc<Account>) -> Result<Memory, OutOfMemory> {
        let size =
            SUBMISSIONS + entries as usize * (size_of::<Submission>() + size_of::<Completion>());
        let layout = Layout::from_size_align(page_up(size), PAGE_SIZE).map_err(|_| OutOfMemory)?;
        // A block that begins with a page may cost another page.
        let charge = account::charge(account, layout.size() + PAGE_SIZE)?;
        // SAFETY: the size is not zero: a ring has a header.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            return Err(OutOfMemory);
        }
        let memory = Memory {
            start,
            layout,
            entries,
            _charge: charge,
        };
        memory.header().entries.store(entries, Ordering::Relaxed);
        memory.header().deadline.store(u64::MAX, Ordering::Relaxed);
        Ok(memory)
    }

    /// Returns the physical addresses of its pages, in order.
    pub(crate) fn frames(&self) -> impl Iterator<Item = usize> {
        let start = self.start as usize;
        (start..start + self.layout.size()).step_by(PAGE_SIZE)
    }

    pub(crate) fn header(&self) -> &RingHeader {
        // SAFETY: the memory begins with a header, which is atomic but for padding that is never
        // read.
        unsafe { &*self.start.cast() }
    }

    /// Returns a copy of a submission, whatever it is.
    pub(crate) fn submission(&self, number: u32) -> Submission {
        let index = (number % self.entries) as usize;
        // SAFETY: the index is below `entries`, for which there is room, and every bit pattern is a
        // submission. If the program is writing to it, the copy is any bit pattern.
        unsafe {
            self.start
                .add(SUBMISSIONS)
                .cast::<Submission>()
                .add(index)
                .read_volatile()
        }
    }

    /// Returns the flags of a submission, whatever they are.
    pub(crate) fn flags(&self, number: u32) -> u8 {
        let index = (number % self.entries) as usize;
        let offset = SUBMISSIONS + index * size_of::<Submission>() + offset_of!(Submission, flags);
        // SAFETY: as in `submission`.
        unsafe { self.start.add(offset).read_volatile() }
    }

    pub(crate) fn write_completion(&self, number: u32, completion: Completion) {
        let index = (number % self.entries) as usize;
        let offset = SUBMISSIONS + self.entries as usize * size_of::<Submission>();
        // SAFETY: as in `submission`, with room for `entries` completions behind the submissions.
        unsafe {
            self.start
                .add(offset)
                .cast::<Completion>()
                .add(index)
                .write_volatile(completion)
        };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; the process's mapping of it is gone.
        unsafe { dealloc(self.start, self.layout) };
    }
}
