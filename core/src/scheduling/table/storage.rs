//! Where control blocks and futures live: in memory from the allocator, or in a [`Pool`].
//!
//! Both hand out slots in chunks that never move, so that the rest of the crate doesn't know the
//! difference.

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::scheduling::config::SpawnError;
use crate::scheduling::scheduler::Scheduler;
use crate::scheduling::table::block::Block;

#[cfg(feature = "heap")]
mod heap;
mod pool;

#[cfg(feature = "heap")]
pub(crate) use crate::scheduling::table::memory::Memory;
#[cfg(feature = "heap")]
pub(crate) use heap::scheduler as heap_scheduler;
pub use pool::{Pool, PoolInUse};

/// Finds a block by its index, in chunks of 2^`shift` blocks.
#[derive(Clone, Copy)]
pub(crate) struct Directory {
    /// The first block of each chunk.
    chunks: *const NonNull<Block>,
    #[cfg(feature = "heap")]
    shift: u32,
    /// 2^`shift` - 1
    #[cfg(feature = "heap")]
    mask: u32,
}

impl Directory {
    #[cfg_attr(not(feature = "heap"), expect(unused_variables))]
    fn new(chunks: *const NonNull<Block>, shift: u32) -> Self {
        Self {
            chunks,
            #[cfg(feature = "heap")]
            shift,
            #[cfg(feature = "heap")]
            mask: (1 << shift) - 1,
        }
    }

    /// Returns the block at `index`.
    ///
    /// # Safety
    /// `index` is in the table, and the storage has not grown since it gave the directory.
    #[inline]
    pub(crate) unsafe fn block(self, index: u32) -> NonNull<Block> {
        // Pools have one chunk: without the other storage there is nothing to look up.
        #[cfg(not(feature = "heap"))]
        let (chunk, slot) = (0, index);
        #[cfg(feature = "heap")]
        let (chunk, slot) = (index >> (self.shift & 31), index & self.mask);
        // SAFETY: the caller promises that the index has a chunk, which has room for 2^`shift`
        // blocks.
        unsafe { (*self.chunks.add(chunk as usize)).add(slot as usize) }
    }
}

/// One of the two kinds of storage.
#[cfg_attr(
    feature = "heap",
    expect(
        clippy::large_enum_variant,
        reason = "one per executor, and never moved"
    )
)]
pub(crate) enum Storage {
    #[cfg(feature = "heap")]
    Heap(heap::Heap),
    Pool(pool::Slots),
}

impl Storage {
    /// Returns where the blocks are, until the storage grows.
    pub(crate) fn directory(&self) -> Directory {
        match self {
            #[cfg(feature = "heap")]
            Self::Heap(heap) => heap.directory(),
            Self::Pool(slots) => slots.directory(),
        }
    }

    /// Returns the number of slots, free ones included.
    pub(crate) fn slots(&self) -> u32 {
        match self {
            #[cfg(feature = "heap")]
            Self::Heap(heap) => heap.slots(),
            Self::Pool(slots) => slots.handed_out(),
        }
    }

    /// Adds free slots; returns the index of the first, and how many.
    pub(crate) fn grow(&mut self, scheduler: NonNull<Scheduler>) -> Result<(u32, u32), SpawnError> {
        match self {
            #[cfg(feature = "heap")]
            Self::Heap(heap) => heap.grow(scheduler),
            Self::Pool(slots) => slots.hand_out(scheduler),
        }
    }

    /// Allocates memory for the future of the block at `index`.
    #[inline]
    pub(crate) fn allocate(&self, layout: Layout, index: u32) -> Result<*mut u8, SpawnError> {
        match self {
            #[cfg(feature = "heap")]
            Self::Heap(heap) => heap.allocate(layout),
            Self::Pool(slots) => slots.memory(layout, index),
        }
    }

    /// Frees what [`allocate`](Self::allocate) gave.
    ///
    /// # Safety
    /// `memory` came from this storage, for this layout, and is not used again. Null is ignored.
    #[inline]
    pub(crate) unsafe fn free(&self, memory: *mut u8, layout: Layout) {
        match self {
            #[cfg(feature = "heap")]
            // SAFETY: the caller's promise.
            Self::Heap(heap) => unsafe { heap.free(memory, layout) },
            Self::Pool(slots) => slots.free(memory, layout),
        }
    }

    /// Frees what [`allocate`](Self::allocate) gave, and keeps nothing for later.
    ///
    /// # Safety
    /// As for [`free`](Self::free).
    #[cfg(all(feature = "alloc", not(feature = "image")))]
    pub(crate) unsafe fn discard(&self, memory: *mut u8, layout: Layout) {
        match self {
            // SAFETY: the caller's promise.
            Self::Heap(heap) => unsafe { heap.discard(memory, layout) },
            Self::Pool(slots) => slots.free(memory, layout),
        }
    }

    /// Gives memory that is kept for later back to the allocator.
    #[cfg(feature = "heap")]
    pub(crate) fn trim(&self) {
        if let Self::Heap(heap) = self {
            heap.trim();
        }
    }

    /// Gives memory back that was not used for a round; see [`heap::Heap::reclaim`].
    #[cfg(all(feature = "heap", not(feature = "image")))]
    pub(crate) fn reclaim(&self, limit: usize) -> usize {
        match self {
            Self::Heap(heap) => heap.reclaim(limit),
            Self::Pool(_) => 0,
        }
    }

    /// Tests whether memory is kept for later.
    #[cfg(all(feature = "heap", not(feature = "image")))]
    pub(crate) fn keeps_memory(&self) -> bool {
        match self {
            Self::Heap(heap) => heap.keeps_memory(),
            Self::Pool(_) => false,
        }
    }

    /// Frees the scheduler and its table.
    ///
    /// # Safety
    /// Nothing refers to either any more.
    pub(crate) unsafe fn destroy(scheduler: NonNull<Scheduler>) {
        // SAFETY: no other reference is left; the caller's promise.
        unsafe {
            match scheduler.as_ref().storage() {
                #[cfg(feature = "heap")]
                Self::Heap(_) => heap::destroy(scheduler),
                Self::Pool(slots) => {
                    let in_use = slots.in_use();
                    scheduler.drop_in_place();
                    pool::free_again(in_use);
                }
            }
        }
    }
}
