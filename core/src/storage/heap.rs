//! Storage that grows: chunks of control blocks and one allocation per future.

use alloc::alloc::{alloc, dealloc};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::alloc::Layout;
use core::ptr::NonNull;

use crate::block::{Block, Chunk};
use crate::executor::{Config, SpawnError};
use crate::scheduler::Scheduler;
use crate::storage::Storage;

/// Slots in a chunk: small enough for an executor with a handful of coroutines, large enough that the directory is
/// 0.2 % of the table.
const SLOTS: usize = 64;

pub(crate) struct Heap {
    /// The first block of each chunk.
    chunks: Vec<NonNull<Block>>,
}

impl Heap {
    #[inline]
    pub(crate) fn block(&self, index: u32) -> NonNull<Block> {
        debug_assert!((index as usize) < self.chunks.len() * SLOTS);
        // SAFETY: an index in the table has a chunk, with room for `SLOTS` blocks.
        unsafe {
            self.chunks
                .get_unchecked(index as usize / SLOTS)
                .add(index as usize % SLOTS)
        }
    }

    pub(crate) fn slots(&self) -> u32 {
        (self.chunks.len() * SLOTS) as u32
    }

    pub(crate) fn grow(&mut self, scheduler: NonNull<Scheduler>) -> Result<(u32, u32), SpawnError> {
        let first = self.slots();
        // One index is "no block".
        if first > u32::MAX - 2 * SLOTS as u32 {
            return Err(SpawnError::TableFull);
        }
        self.chunks
            .try_reserve(1)
            .map_err(|_| SpawnError::OutOfMemory)?;
        let memory: NonNull<Chunk<SLOTS>> =
            NonNull::new(allocate(Layout::new::<Chunk<SLOTS>>())?.cast())
                .ok_or(SpawnError::OutOfMemory)?;
        // SAFETY: the memory was allocated for just that.
        self.chunks
            .push(unsafe { Chunk::write(memory, scheduler, first) });
        Ok((first, SLOTS as u32))
    }
}

/// A scheduler whose table is on the heap.
pub(crate) fn scheduler(config: Config) -> NonNull<Scheduler> {
    let storage = Storage::Heap(Heap { chunks: Vec::new() });
    NonNull::from(Box::leak(Box::new(Scheduler::new(config, storage))))
}

/// # Safety
/// Nobody refers to the scheduler or its blocks any more; it came from [`scheduler`].
pub(super) unsafe fn destroy(scheduler: NonNull<Scheduler>) {
    // SAFETY: the caller's promise.
    let scheduler = unsafe { Box::from_raw(scheduler.as_ptr()) };
    if let Storage::Heap(heap) = scheduler.storage() {
        for block in &heap.chunks {
            let chunk = Chunk::<SLOTS>::of_first(*block);
            // SAFETY: `grow` allocated it with this layout; blocks have no destructor.
            unsafe { dealloc(chunk.as_ptr().cast(), Layout::new::<Chunk<SLOTS>>()) };
        }
    }
}

#[inline]
pub(super) fn allocate(layout: Layout) -> Result<*mut u8, SpawnError> {
    if layout.size() == 0 {
        return Ok(core::ptr::without_provenance_mut(layout.align()));
    }
    // SAFETY: the size is not zero.
    let memory = unsafe { alloc(layout) };
    if memory.is_null() {
        return Err(SpawnError::OutOfMemory);
    }
    Ok(memory)
}

/// # Safety
/// `memory` came from [`allocate`] with this layout, or is null; it is not used again.
#[inline]
pub(super) unsafe fn free(memory: *mut u8, layout: Layout) {
    if layout.size() != 0 && !memory.is_null() {
        // SAFETY: the caller's promise.
        unsafe { dealloc(memory, layout) }
    }
}
