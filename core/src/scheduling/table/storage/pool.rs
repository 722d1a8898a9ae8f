//! Storage of fixed size, in static memory: for targets without an allocator.

use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use crate::atomic::{AtomicU8, Ordering};
use crate::scheduling::config::{Config, SpawnError};
use crate::scheduling::scheduler::Scheduler;
use crate::scheduling::table::block::{Block, Chunk};
use crate::scheduling::table::storage::{Directory, Storage};

/// Room for `COROUTINES` coroutines whose futures take at most `BYTES` bytes each (aligned to 8),
/// and for the scheduler.
///
/// ```
/// # #[cfg(all(feature = "std", not(loom)))] {
/// use corank::{Config, Executor, Pool, Priority, SpawnError};
///
/// static POOL: Pool<2, 64> = Pool::new();
/// let executor = Executor::in_pool(&POOL, Config::new())?;
/// executor.spawn(Priority::DEFAULT, async {})?;
/// executor.spawn(Priority::DEFAULT, async {})?;
/// assert_eq!(executor.spawn(Priority::DEFAULT, async {}).unwrap_err(), SpawnError::TableFull);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pool<const COROUTINES: usize, const BYTES: usize> {
    in_use: AtomicU8,
    scheduler: UnsafeCell<MaybeUninit<Scheduler>>,
    chunk: UnsafeCell<MaybeUninit<Chunk<COROUTINES>>>,
    first: UnsafeCell<MaybeUninit<NonNull<Block>>>,
    futures: UnsafeCell<[MaybeUninit<Room<BYTES>>; COROUTINES]>,
}

/// Room for one future.
#[repr(C, align(8))]
struct Room<const BYTES: usize>([u8; BYTES]);

// SAFETY: only the one executor that `in_use` admits touches the cells, and what that shares with
// other threads is made for it, as on the heap.
unsafe impl<const COROUTINES: usize, const BYTES: usize> Sync for Pool<COROUTINES, BYTES> {}

impl<const COROUTINES: usize, const BYTES: usize> Pool<COROUTINES, BYTES> {
    /// Creates an empty pool, usable in a `static`.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self {
            in_use: AtomicU8::new(0),
            scheduler: UnsafeCell::new(MaybeUninit::uninit()),
            chunk: UnsafeCell::new(MaybeUninit::uninit()),
            first: UnsafeCell::new(MaybeUninit::uninit()),
            futures: UnsafeCell::new([const { MaybeUninit::uninit() }; COROUTINES]),
        }
    }

    pub(crate) fn scheduler(
        &'static self,
        config: Config,
    ) -> Result<NonNull<Scheduler>, PoolInUse> {
        if self.in_use.swap(1, Ordering::Acquire) != 0 {
            return Err(PoolInUse);
        }
        let scheduler: NonNull<Scheduler> = NonNull::from(&self.scheduler).cast();
        let chunk: NonNull<Chunk<COROUTINES>> = NonNull::from(&self.chunk).cast();
        // SAFETY: `in_use` gives us the cells; the memory fits, and is written before anything
        // reads it.
        unsafe {
            let first: *mut NonNull<Block> = self.first.get().cast();
            first.write(Chunk::write(chunk, scheduler, 0));
            let storage = Storage::Pool(Slots {
                first,
                slots: COROUTINES as u32,
                handed_out: 0,
                futures: NonNull::from(&self.futures).cast(),
                room: Layout::new::<Room<BYTES>>(),
                in_use: &self.in_use,
            });
            scheduler.write(Scheduler::new(config, storage));
            Scheduler::place(scheduler);
        }
        Ok(scheduler)
    }
}

#[cfg(not(loom))]
impl<const COROUTINES: usize, const BYTES: usize> Default for Pool<COROUTINES, BYTES> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const COROUTINES: usize, const BYTES: usize> fmt::Debug for Pool<COROUTINES, BYTES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool<{COROUTINES}, {BYTES}>")
    }
}

/// The error for a pool that is in use.
///
/// A pool serves one executor at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolInUse;

impl fmt::Display for PoolInUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another executor uses this pool, or wakers of one still exist")
    }
}

impl core::error::Error for PoolInUse {}

/// A pool without its type.
pub(crate) struct Slots {
    /// The only entry of the directory, in the pool itself.
    first: *const NonNull<Block>,
    slots: u32,
    handed_out: u32,
    futures: NonNull<u8>,
    /// Size and alignment of the room for one future.
    room: Layout,
    in_use: &'static AtomicU8,
}

impl Slots {
    pub(crate) fn directory(&self) -> Directory {
        // One chunk, however large.
        Directory::new(self.first, 31)
    }

    pub(crate) fn handed_out(&self) -> u32 {
        self.handed_out
    }

    /// Hands out all slots, the first time.
    ///
    /// They have referred to their scheduler since the pool was set up.
    pub(crate) fn hand_out(
        &mut self,
        _scheduler: NonNull<Scheduler>,
    ) -> Result<(u32, u32), SpawnError> {
        if self.handed_out == self.slots {
            return Err(SpawnError::TableFull);
        }
        self.handed_out = self.slots;
        Ok((0, self.slots))
    }

    #[inline]
    pub(crate) fn memory(&self, layout: Layout, index: u32) -> Result<*mut u8, SpawnError> {
        if layout.size() > self.room.size() || layout.align() > self.room.align() {
            return Err(SpawnError::FutureTooLarge {
                needs: layout.size(),
                room: self.room.size(),
            });
        }
        // SAFETY: the pool has a room for each block.
        Ok(unsafe { self.futures.add(self.room.size() * index as usize).as_ptr() })
    }

    /// Does nothing, because a room belongs to its block.
    pub(crate) fn free(&self, _memory: *mut u8, _layout: Layout) {}

    pub(crate) fn in_use(&self) -> &'static AtomicU8 {
        self.in_use
    }
}

/// Lets the next executor have the pool.
pub(crate) fn free_again(in_use: &'static AtomicU8) {
    in_use.store(0, Ordering::Release);
}
