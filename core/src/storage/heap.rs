//! Storage that grows: chunks of control blocks and one allocation per future.

use alloc::alloc::{alloc, dealloc};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::{self, NonNull};

use crate::block::{Block, Chunk};
use crate::executor::{Config, SpawnError};
use crate::scheduler::Scheduler;
use crate::storage::{Directory, Storage};

/// Slots in a chunk: few, for executors with a handful of coroutines, and so that a block mostly shares a page of memory with its
/// chunk's header, which a waker reads; enough that header and directory stay below 2 % of the table.
#[cfg(not(loom))]
const SLOTS: usize = 16;
/// Few, so that loom has few atomics to keep account of.
#[cfg(loom)]
const SLOTS: usize = 2;

/// Sizes of futures come in steps of 8 bytes; those up to 512 bytes are kept for the next future of that size.
const CLASSES: usize = 64;

pub(crate) struct Heap {
    /// The first block of each chunk.
    chunks: Vec<NonNull<Block>>,
    /// Memory of futures that are gone, by size: coroutines of the same kind come and go, and the global allocator would
    /// be two thirds of the cost of a spawn. Each piece starts with the pointer to the next one. It goes back to the
    /// allocator with the executor, or by [`trim`](Self::trim).
    kept: [Cell<*mut u8>; CLASSES],
}

/// The class of a future's memory, and the layout that all of the class have; `None` for what is not kept.
#[inline]
fn class(layout: Layout) -> Option<(usize, Layout)> {
    if layout.size() == 0 || layout.size() > 8 * CLASSES || layout.align() > 8 {
        return None;
    }
    let class = (layout.size() - 1) / 8;
    // SAFETY: a multiple of 8 up to 512, aligned to 8.
    Some((class, unsafe {
        Layout::from_size_align_unchecked(8 * (class + 1), 8)
    }))
}

impl Heap {
    pub(crate) fn directory(&self) -> Directory {
        Directory::new(self.chunks.as_ptr(), SLOTS.trailing_zeros())
    }

    pub(crate) fn new() -> Self {
        Self {
            chunks: Vec::new(),
            kept: [const { Cell::new(ptr::null_mut()) }; CLASSES],
        }
    }

    #[inline]
    pub(crate) fn allocate(&self, layout: Layout) -> Result<*mut u8, SpawnError> {
        let Some((class, layout)) = class(layout) else {
            return allocate(layout);
        };
        let memory = self.kept[class].get();
        if memory.is_null() {
            return allocate(layout);
        }
        // SAFETY: a piece that is kept starts with the pointer to the next one, and is nobody's.
        self.kept[class].set(unsafe { memory.cast::<*mut u8>().read() });
        Ok(memory)
    }

    /// # Safety
    /// `memory` came from [`allocate`](Self::allocate) for this layout, or is null; it is not used again.
    #[inline]
    pub(crate) unsafe fn free(&self, memory: *mut u8, layout: Layout) {
        if memory.is_null() {
            return;
        }
        match class(layout) {
            Some((class, _)) => {
                // SAFETY: the piece has at least 8 bytes, aligned, and is ours from now on.
                unsafe { memory.cast::<*mut u8>().write(self.kept[class].get()) };
                self.kept[class].set(memory);
            }
            // SAFETY: the caller's promise.
            None => unsafe { free(memory, layout) },
        }
    }

    /// Gives all memory that is kept back to the allocator.
    pub(crate) fn trim(&self) {
        for (class, kept) in self.kept.iter().enumerate() {
            let mut memory = kept.replace(ptr::null_mut());
            while !memory.is_null() {
                // SAFETY: as in `allocate`; every piece of the class was allocated with this layout.
                unsafe {
                    let next = memory.cast::<*mut u8>().read();
                    free(
                        memory,
                        Layout::from_size_align_unchecked(8 * (class + 1), 8),
                    );
                    memory = next;
                }
            }
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
    let storage = Storage::Heap(Heap::new());
    let scheduler = NonNull::from(Box::leak(Box::new(Scheduler::new(config, storage))));
    // SAFETY: it was just made. The reference is derived from the pointer that is given out, not the other way round.
    unsafe { scheduler.as_ref() }.place();
    scheduler
}

/// # Safety
/// Nobody refers to the scheduler or its blocks any more; it came from [`scheduler`].
pub(super) unsafe fn destroy(scheduler: NonNull<Scheduler>) {
    // SAFETY: the caller's promise.
    let scheduler = unsafe { Box::from_raw(scheduler.as_ptr()) };
    if let Storage::Heap(heap) = scheduler.storage() {
        heap.trim();
        for block in &heap.chunks {
            let chunk = Chunk::<SLOTS>::of_first(*block);
            // Whoever comes too late shall not find the atomics as they were: loom panics on those.
            // SAFETY: nobody else uses the memory.
            #[cfg(loom)]
            unsafe {
                chunk.write_bytes(0xff, 1)
            };
            // SAFETY: `grow` allocated it with this layout; blocks have no destructor.
            unsafe { dealloc(chunk.as_ptr().cast(), Layout::new::<Chunk<SLOTS>>()) };
        }
    }
}

#[inline]
fn allocate(layout: Layout) -> Result<*mut u8, SpawnError> {
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
/// `memory` came from [`allocate`] with this layout and is not used again.
#[inline]
unsafe fn free(memory: *mut u8, layout: Layout) {
    if layout.size() != 0 {
        // SAFETY: the caller's promise.
        unsafe { dealloc(memory, layout) }
    }
}
