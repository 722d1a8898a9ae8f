//! Where control blocks and futures live: in memory from the allocator, or in a [`Pool`].
//!
//! Both hand out slots in chunks that never move, so that the rest of the crate doesn't know the difference.

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::block::{Block, BlockRef};
use crate::executor::SpawnError;
use crate::scheduler::Scheduler;

#[cfg(feature = "alloc")]
mod heap;
mod pool;

#[cfg(feature = "alloc")]
pub(crate) use heap::scheduler as heap_scheduler;
pub use pool::{Pool, PoolInUse};

/// One of the two kinds of storage.
pub(crate) enum Storage {
    #[cfg(feature = "alloc")]
    Heap(heap::Heap),
    Pool(pool::Slots),
}

impl Storage {
    /// The block at an index that is in the table.
    #[inline]
    pub(crate) fn block(&self, index: u32) -> BlockRef {
        let block: NonNull<Block> = match self {
            #[cfg(feature = "alloc")]
            Self::Heap(heap) => heap.block(index),
            Self::Pool(slots) => slots.block(index),
        };
        // SAFETY: chunks live as long as the scheduler.
        unsafe { BlockRef::new(block) }
    }

    /// The block at any index.
    pub(crate) fn find(&self, index: u32) -> Option<BlockRef> {
        (index < self.slots()).then(|| self.block(index))
    }

    /// How many slots there are, free ones included.
    pub(crate) fn slots(&self) -> u32 {
        match self {
            #[cfg(feature = "alloc")]
            Self::Heap(heap) => heap.slots(),
            Self::Pool(slots) => slots.handed_out(),
        }
    }

    /// Adds free slots: the index of the first, and how many.
    pub(crate) fn grow(&mut self, scheduler: NonNull<Scheduler>) -> Result<(u32, u32), SpawnError> {
        match self {
            #[cfg(feature = "alloc")]
            Self::Heap(heap) => heap.grow(scheduler),
            Self::Pool(slots) => slots.hand_out(),
        }
    }

    /// Memory for the future of the block at `index`.
    #[inline]
    pub(crate) fn allocate(&self, layout: Layout, index: u32) -> Result<*mut u8, SpawnError> {
        match self {
            #[cfg(feature = "alloc")]
            Self::Heap(_) => heap::allocate(layout),
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
            #[cfg(feature = "alloc")]
            // SAFETY: the caller's promise.
            Self::Heap(_) => unsafe { heap::free(memory, layout) },
            Self::Pool(slots) => slots.free(memory, layout),
        }
    }

    /// Frees the scheduler and its table.
    ///
    /// # Safety
    /// Nobody refers to either any more.
    pub(crate) unsafe fn destroy(scheduler: NonNull<Scheduler>) {
        // SAFETY: nobody else is left; the caller's promise.
        unsafe {
            match scheduler.as_ref().storage() {
                #[cfg(feature = "alloc")]
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
