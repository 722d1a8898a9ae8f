//! Storage that grows: chunks of control blocks and one allocation per future.

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::{self, NonNull};

use crate::scheduling::config::{Config, SpawnError};
use crate::scheduling::scheduler::Scheduler;
use crate::scheduling::table::block::{Block, Chunk};
use crate::scheduling::table::memory::Memory;
use crate::scheduling::table::storage::{Directory, Storage};

/// The number of slots in a chunk.
///
/// They are few, for executors with a handful of coroutines. So a block mostly shares a page of
/// memory with its chunk's header, which a waker reads. They are enough that header and directory
/// stay below 2 % of the table.
#[cfg(not(loom))]
const SLOTS: usize = 16;
/// The number of slots in a chunk: few, so that loom has few atomics to keep account of.
#[cfg(loom)]
const SLOTS: usize = 2;

/// The number of size classes of futures, in steps of 8 bytes.
///
/// Memory of futures of up to 512 bytes is kept for the next future of that size.
const CLASSES: usize = 64;

pub(crate) struct Heap {
    memory: Memory,
    /// The first block of each chunk: `count` of them, and room for `room`.
    ///
    /// The directory is kept by hand rather than as a `Vec`, which would take its memory from
    /// elsewhere.
    chunks: *mut NonNull<Block>,
    count: usize,
    room: usize,
    /// Memory of futures that are gone, by size.
    ///
    /// Coroutines of the same kind come and go, and the global allocator would be two thirds of the
    /// cost of a spawn. Each piece starts with the pointer to the next one. It goes back to the
    /// allocator with the executor, by [`trim`](Self::trim), or when it was unused for a
    /// [round](Self::reclaim).
    kept: [Cell<*mut u8>; CLASSES],
    /// Memory as in `kept` that no coroutine has used since the round began. It is taken when
    /// there is none in `kept`.
    unused: [Cell<*mut u8>; CLASSES],
}

/// Returns the class of a future's memory, and the layout that all of the class have.
///
/// Returns `None` for memory that is not kept.
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
        Directory::new(self.chunks, SLOTS.trailing_zeros())
    }

    pub(crate) fn new(memory: Memory) -> Self {
        Self {
            memory,
            chunks: ptr::null_mut(),
            count: 0,
            room: 0,
            kept: [const { Cell::new(ptr::null_mut()) }; CLASSES],
            unused: [const { Cell::new(ptr::null_mut()) }; CLASSES],
        }
    }

    #[inline]
    pub(crate) fn allocate(&self, layout: Layout) -> Result<*mut u8, SpawnError> {
        let Some((class, layout)) = class(layout) else {
            return self.memory.allocate(layout);
        };
        // SAFETY: the pieces that are kept are unused, and each starts with the pointer to the next
        // one.
        match unsafe { take_piece(&self.kept[class]) } {
            Some(memory) => Ok(memory),
            None => self.allocate_seldom(class, layout),
        }
    }

    /// Allocates memory of a class of which none was used recently.
    #[cold]
    fn allocate_seldom(&self, class: usize, layout: Layout) -> Result<*mut u8, SpawnError> {
        // SAFETY: as in `allocate`.
        match unsafe { take_piece(&self.unused[class]) } {
            Some(memory) => Ok(memory),
            None => self.memory.allocate(layout),
        }
    }

    /// Keeps the memory of a future for the next one, or gives it back to the allocator.
    ///
    /// # Safety
    /// `memory` came from [`allocate`](Self::allocate) for this layout, or is null; it is not used
    /// again.
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
            None => unsafe { self.memory.free(memory, layout) },
        }
    }

    /// Gives memory back to the allocator.
    ///
    /// # Safety
    /// As for [`free`](Self::free), of memory that is not null.
    #[cfg(all(feature = "alloc", not(feature = "image")))]
    pub(crate) unsafe fn discard(&self, memory: *mut u8, layout: Layout) {
        let layout = class(layout).map_or(layout, |(_, layout)| layout);
        // SAFETY: the caller's promise; all of a class have its layout.
        unsafe { self.memory.free(memory, layout) }
    }

    /// Gives all memory that is kept back to the allocator.
    pub(crate) fn trim(&self) {
        self.give_back(&self.unused, usize::MAX);
        self.give_back(&self.kept, usize::MAX);
    }

    /// Gives up to `limit` pieces back to the allocator that were not used since the last round
    /// began.
    ///
    /// Returns how many pieces it gave back. If that is less than `limit`, the round has ended, and
    /// the next one begins with all that is kept now.
    #[cfg(not(feature = "image"))]
    pub(crate) fn reclaim(&self, limit: usize) -> usize {
        let given = self.give_back(&self.unused, limit);
        if given < limit {
            for (kept, unused) in self.kept.iter().zip(&self.unused) {
                unused.set(kept.replace(ptr::null_mut()));
            }
        }
        given
    }

    /// Tests whether memory is kept for later.
    #[cfg(not(feature = "image"))]
    pub(crate) fn keeps_memory(&self) -> bool {
        let mut lists = self.kept.iter().chain(&self.unused);
        lists.any(|list| !list.get().is_null())
    }

    /// Gives up to `limit` pieces of these lists back to the allocator; returns how many.
    fn give_back(&self, lists: &[Cell<*mut u8>; CLASSES], limit: usize) -> usize {
        let mut given = 0;
        for (class, list) in lists.iter().enumerate() {
            while given < limit {
                // SAFETY: as in `allocate`.
                let Some(memory) = (unsafe { take_piece(list) }) else {
                    break;
                };
                // SAFETY: every piece of the class was allocated with this layout.
                unsafe {
                    let layout = Layout::from_size_align_unchecked(8 * (class + 1), 8);
                    self.memory.free(memory, layout);
                }
                given += 1;
            }
        }
        given
    }

    pub(crate) fn slots(&self) -> u32 {
        (self.count * SLOTS) as u32
    }

    pub(crate) fn grow(&mut self, scheduler: NonNull<Scheduler>) -> Result<(u32, u32), SpawnError> {
        let first = self.slots();
        // One index is "no block".
        if first > u32::MAX - 2 * SLOTS as u32 {
            return Err(SpawnError::TableFull);
        }
        if self.count == self.room {
            self.make_room()?;
        }
        let memory = self.memory.allocate(Layout::new::<Chunk<SLOTS>>())?;
        let memory: *mut Chunk<SLOTS> = memory.cast();
        let memory = NonNull::new(memory).ok_or(SpawnError::OutOfMemory)?;
        // SAFETY: the memory was allocated for just that, and there is room for one more pointer.
        unsafe {
            self.chunks
                .add(self.count)
                .write(Chunk::write(memory, scheduler, first));
        }
        self.count += 1;
        Ok((first, SLOTS as u32))
    }

    /// Makes room for at least one more chunk in the directory.
    fn make_room(&mut self) -> Result<(), SpawnError> {
        let room = (2 * self.room).max(4);
        let layout = directory_of(room).ok_or(SpawnError::OutOfMemory)?;
        let chunks: *mut NonNull<Block> = self.memory.allocate(layout)?.cast();
        // SAFETY: the new one has room for all of the old one's, which is ours and is not used
        // again.
        unsafe {
            chunks.copy_from_nonoverlapping(self.chunks, self.count);
            self.free_directory();
        }
        self.chunks = chunks;
        self.room = room;
        Ok(())
    }

    /// Gives the directory's memory back to the allocator.
    ///
    /// # Safety
    /// The directory is not used again.
    unsafe fn free_directory(&self) {
        if let Some(layout) = directory_of(self.room).filter(|_| self.room > 0) {
            // SAFETY: `make_room` allocated it with this layout.
            unsafe { self.memory.free(self.chunks.cast(), layout) }
        }
    }
}

/// Takes the first piece of a list of memory that is kept.
///
/// # Safety
/// Each piece of the list is unused, and starts with the pointer to the next one, or null.
#[inline]
unsafe fn take_piece(list: &Cell<*mut u8>) -> Option<*mut u8> {
    let memory = list.get();
    if memory.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    list.set(unsafe { memory.cast::<*mut u8>().read() });
    Some(memory)
}

/// Returns the layout of a directory with room for so many chunks.
fn directory_of(room: usize) -> Option<Layout> {
    Layout::array::<NonNull<Block>>(room).ok()
}

/// Makes a scheduler with its table on the heap.
///
/// Returns `None` if there is no memory for it.
pub(crate) fn scheduler(config: Config, memory: Memory) -> Option<NonNull<Scheduler>> {
    let place = memory.allocate(Layout::new::<Scheduler>()).ok()?;
    let scheduler: NonNull<Scheduler> = NonNull::new(place.cast())?;
    let storage = Storage::Heap(Heap::new(memory));
    // SAFETY: the memory was allocated for just that.
    unsafe {
        scheduler.write(Scheduler::new(config, storage));
        Scheduler::place(scheduler);
    }
    Some(scheduler)
}

/// Frees a scheduler, its blocks and its directory.
///
/// # Safety
/// Nothing refers to the scheduler or its blocks any more. It came from [`scheduler`].
pub(super) unsafe fn destroy(scheduler: NonNull<Scheduler>) {
    // SAFETY: the caller's promise.
    let Storage::Heap(heap) = (unsafe { scheduler.as_ref() }).storage() else {
        return;
    };
    heap.trim();
    let memory = heap.memory;
    for index in 0..heap.count {
        // SAFETY: `grow` wrote so many.
        let block = unsafe { heap.chunks.add(index).read() };
        let chunk = Chunk::<SLOTS>::of_first(block);
        // Overwrites the atomics, so that loom panics at an access that comes too late.
        // SAFETY: nothing else uses the memory.
        #[cfg(loom)]
        unsafe {
            chunk.write_bytes(0xff, 1)
        };
        // SAFETY: `grow` allocated it with this layout; blocks have no destructor.
        unsafe { memory.free(chunk.as_ptr().cast(), Layout::new::<Chunk<SLOTS>>()) };
    }
    // SAFETY: nothing uses directory or scheduler any more, which were allocated with these
    // layouts.
    unsafe {
        heap.free_directory();
        scheduler.drop_in_place();
        // As above.
        #[cfg(loom)]
        scheduler.write_bytes(0xff, 1);
        memory.free(scheduler.as_ptr().cast(), Layout::new::<Scheduler>());
    }
}
