//! The coroutine control block (COPS, section 3.1) and the chunks of memory that hold blocks.

use core::cell::Cell;
use core::mem::offset_of;
use core::ops::Deref;
use core::ptr::{self, NonNull};

use crate::atomic::{AtomicU8, AtomicU32, Ordering};
use crate::priority::Priority;
use crate::scheduling::instrumentation::recorder::TaskStats;
use crate::scheduling::scheduler::Scheduler;
use crate::scheduling::table::id::CoroutineId;
use crate::scheduling::table::link::Link;
use crate::scheduling::table::task::VTable;
use crate::scheduling::waiter::Waiter;
use crate::scheduling::wake::signals::Signals;

/// "No block": the end of a list of indices.
pub(crate) const NONE: u32 = u32::MAX;

/// The state of a coroutine in its life (rules S1 to S5).
///
/// The diagram is in `spec/contract.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u8)]
pub enum State {
    /// In the ready queue of its level.
    Ready,
    /// Being polled.
    Running,
    /// Waiting for a wake.
    Blocked,
    /// Preempted in the middle of a poll: it goes on when nothing strictly more urgent is ready
    /// (rules S8 to S10).
    ReadyWithStack,
    /// Preempted as above, but its poll waits, for instance in a blocking system call.
    BlockedWithStack,
    /// Finished, cancelled or panicked; its handle may still hold the result.
    Exited,
}

/// One coroutine.
///
/// Only the owner touches the `Cell`s. The owner is the executor's thread or, where several workers
/// share a scheduler, the thread that holds its scheduler lock. All other code reaches a block
/// through a waker or a [`Remote`](crate::Remote) and uses the atomic fields alone.
///
/// The state is not implicit as in COPS: one byte spares a search of the queues.
#[repr(C)]
pub(crate) struct Block {
    // The first 32 bytes are all that a yield touches, so that most blocks cost one cache line.
    /// The future while there is one; the output between exit and join; dangling otherwise.
    pub(crate) memory: Cell<*mut u8>,
    /// The functions for `memory`, or `None` if the slot is free.
    pub(crate) vtable: Cell<Option<&'static VTable>>,
    /// Neighbours in the ready queue; `next` also links free slots.
    pub(crate) next: Cell<Link>,
    pub(crate) previous: Cell<Link>,
    /// Index in the table.
    index: u32,
    /// The effective level. Atomic because a waker on another thread announces it.
    level: AtomicU8,
    pub(crate) state: Cell<State>,
    pub(crate) flags: Cell<Flags>,
    /// Whether the future has been dropped, or its destructor is under way: not to be dropped
    /// again.
    ///
    /// The field belongs to the worker that runs the future's code, so it is none of the flags.
    pub(crate) future_gone: Cell<bool>,

    /// The first of the waiters that this coroutine is part of: those in which it waits, and those
    /// that wait for it.
    pub(crate) waiters: Cell<Option<NonNull<Waiter>>>,
    /// A number that goes up each time the slot is given back.
    pub(crate) generation: Cell<u32>,
    pub(crate) signals: Signals,
    /// Next block in the inbox. Written by the code that pushes, read by the owner.
    pub(crate) inbox_next: AtomicU32,
    /// Index in its chunk.
    slot: u16,
    /// The base level, what demotion knows of the coroutine, and in which queue it is.
    pub(crate) base_state: Cell<BaseState>,
    pub(crate) stats: TaskStats,
}

// The experiment `core` has at most 64 bytes beside the future as its target; a chunk's header and
// directory entry add a quarter of a byte.
#[cfg(all(target_pointer_width = "64", not(loom), not(feature = "stats")))]
const _: () = assert!(size_of::<Block>() == 56);

/// The base level of a coroutine, its use, and whether it is in the second queue of its level
/// (rules B7 to B10).
///
/// All are in one word, so that one comparison finds the usual case, that of a coroutine without a
/// use in the first queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct BaseState(u16);

impl BaseState {
    /// The base level fills the bits below.
    const USED: u16 = 1 << 8;
    const MOST_USED: u8 = 127;
    const SECOND: u16 = 1 << 15;

    #[inline]
    pub(crate) const fn new(base: Priority) -> Self {
        Self(base.level() as u16)
    }

    /// Tests whether the coroutine has no use and is not in a second queue.
    #[inline]
    pub(crate) fn is_plain(self) -> bool {
        self.0 < Self::USED
    }

    #[inline]
    pub(crate) fn base(self) -> Priority {
        Priority::of_valid(self.0 as u8)
    }

    /// Returns the units of use.
    pub(crate) fn used(self) -> u8 {
        (self.0 / Self::USED) as u8 & Self::MOST_USED
    }

    pub(crate) fn is_second(self) -> bool {
        self.0 & Self::SECOND != 0
    }

    /// Adds units of use.
    #[must_use]
    pub(crate) fn using(self, units: u8) -> Self {
        let used = self.used().saturating_add(units).min(Self::MOST_USED);
        Self((self.0 & (Self::SECOND | (Self::USED - 1))) | (u16::from(used) * Self::USED))
    }

    #[must_use]
    pub(crate) fn in_second(self, is_second: bool) -> Self {
        let second = if is_second { Self::SECOND } else { 0 };
        Self(self.0 & !Self::SECOND | second)
    }
}

/// The owner's notes on a coroutine: a set of the constants below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Flags(u8);

impl Flags {
    /// Woken while it ran: ready again when the poll returns.
    pub(crate) const WOKEN: Self = Self(1 << 0);
    /// Cancelled while it ran: exits when the poll returns.
    pub(crate) const CANCELLED: Self = Self(1 << 1);
    /// A `JoinHandle` exists.
    pub(crate) const HANDLE: Self = Self(1 << 2);
    /// Exited, and the output waits to be taken; see [`result`](Block::result).
    pub(crate) const OUTPUT: Self = Self(1 << 3);
    /// Exited, and what the panic carried waits to be taken.
    #[cfg(feature = "std")]
    pub(crate) const PANIC: Self = Self(1 << 4);
    /// Exited, and the handle has given its result. Both bits of a result say that.
    pub(crate) const TAKEN: Self = Self(1 << 3 | 1 << 4);
    /// Picked where coroutines are demoted: what the poll takes is counted (rule B7).
    pub(crate) const WATCHED: Self = Self(1 << 5);
    /// It has set a timer with a published bound: see [`crate::scheduling::time::deadlines`].
    #[cfg(target_has_atomic = "64")]
    pub(crate) const SLEPT: Self = Self(1 << 6);

    /// Exited, and the slot is given back when the handle is released.
    ///
    /// Not set while foreign wakers are called at the exit. A handle that is released meanwhile
    /// leaves the slot to the exit.
    pub(crate) const DISCARDABLE: Self = Self(1 << 7);

    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Block {
    fn new(index: u32, slot: u16) -> Self {
        Self {
            memory: Cell::new(ptr::null_mut()),
            vtable: Cell::new(None),
            waiters: Cell::new(None),
            next: Cell::new(Link::NONE),
            previous: Cell::new(Link::NONE),
            generation: Cell::new(0),
            signals: Signals::new(),
            inbox_next: AtomicU32::new(NONE),
            level: AtomicU8::new(Priority::DEFAULT.level()),
            base_state: Cell::new(BaseState::new(Priority::DEFAULT)),
            state: Cell::new(State::Exited),
            flags: Cell::new(Flags::default()),
            index,
            slot,
            future_gone: Cell::new(false),
            stats: TaskStats::default(),
        }
    }

    /// Readies a free slot for a new coroutine.
    pub(crate) fn occupy(&self, priority: Priority, memory: *mut u8, vtable: &'static VTable) {
        self.memory.set(memory);
        self.vtable.set(Some(vtable));
        self.signals.reset();
        self.base_state.set(BaseState::new(priority));
        self.set_level(priority);
        self.flags.set(Flags::HANDLE);
        self.future_gone.set(false);
    }

    pub(crate) fn level(&self) -> Priority {
        Priority::of_valid(self.level.load(Ordering::Relaxed))
    }

    pub(crate) fn set_level(&self, priority: Priority) {
        self.level.store(priority.level(), Ordering::Relaxed);
    }

    pub(crate) fn base(&self) -> Priority {
        self.base_state.get().base()
    }

    #[inline]
    pub(crate) fn has(&self, flag: Flags) -> bool {
        self.flags.get().0 & flag.0 != 0
    }

    /// Returns what remains of the result of an exited coroutine: `OUTPUT`, `PANIC`, `TAKEN`, or
    /// nothing if it was cancelled.
    #[inline]
    pub(crate) fn result(&self) -> Flags {
        Flags(self.flags.get().0 & Flags::TAKEN.0)
    }

    #[inline]
    pub(crate) fn insert(&self, flags: Flags) {
        self.flags.set(self.flags.get().or(flags));
    }

    #[inline]
    pub(crate) fn remove(&self, flags: Flags) {
        self.flags.set(Flags(self.flags.get().0 & !flags.0));
    }

    /// Returns the block's index in the table.
    #[inline]
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    pub(crate) fn id(&self) -> CoroutineId {
        CoroutineId {
            index: self.index,
            generation: self.generation.get(),
        }
    }
}

/// A pointer to a block that keeps the provenance of the whole chunk.
///
/// Invariant, upheld by the code that makes one (`unsafe`): the chunk outlives every use of the
/// copy. Within the owner, chunks live as long as the scheduler; outside, a counted reference (see
/// [`crate::scheduling::wake::signals`]) keeps them.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct BlockRef(NonNull<Block>);

impl Deref for BlockRef {
    type Target = Block;

    #[inline]
    fn deref(&self) -> &Block {
        // SAFETY: the type's invariant. There is never a `&mut Block`.
        unsafe { self.0.as_ref() }
    }
}

impl BlockRef {
    /// Makes a reference to a block.
    ///
    /// # Safety
    /// The type's invariant.
    pub(crate) unsafe fn new(block: NonNull<Block>) -> Self {
        Self(block)
    }

    /// Makes a reference from the data of a `RawWaker`.
    ///
    /// # Safety
    /// `data` came from [`as_data`](Self::as_data), and the type's invariant.
    pub(crate) unsafe fn from_data(data: *const ()) -> Self {
        // SAFETY: `as_data` gave a pointer that is not null.
        Self(unsafe { NonNull::new_unchecked(data.cast_mut().cast()) })
    }

    /// Returns the reference as the data of a `RawWaker`.
    pub(crate) fn as_data(self) -> *const () {
        self.0.as_ptr().cast_const().cast()
    }

    /// Returns the chunk's header, which stands in front of its blocks.
    fn header(self) -> *const ChunkHeader {
        let first = self.0.as_ptr().wrapping_sub(usize::from(self.slot));
        first.wrapping_byte_sub(offset_of!(Chunk<1>, blocks)).cast()
    }

    /// Returns the scheduler that the block belongs to.
    #[inline]
    pub(crate) fn scheduler(self) -> NonNull<Scheduler> {
        // SAFETY: every block is part of a `Chunk`. The pointer was derived from the chunk's
        // memory, which lives as the type's invariant says. The header is not written after the
        // chunk was made.
        unsafe { (*self.header()).scheduler }
    }
}

/// What all blocks of a chunk have in common.
#[repr(C)]
pub(crate) struct ChunkHeader {
    scheduler: NonNull<Scheduler>,
}

/// A chunk of blocks, which never moves.
///
/// So a pointer to a block stays good however the table grows.
#[repr(C)]
pub(crate) struct Chunk<const SLOTS: usize> {
    header: ChunkHeader,
    blocks: [Block; SLOTS],
}

// `BlockRef::header` counts on this for any number of slots.
const _: () = assert!(offset_of!(Chunk<1>, blocks) == offset_of!(Chunk<64>, blocks));

impl<const SLOTS: usize> Chunk<SLOTS> {
    /// Writes a chunk of free slots to `memory` and returns its first block.
    ///
    /// # Safety
    /// `memory` is good for writes of a `Chunk<SLOTS>` and nothing else uses it.
    pub(crate) unsafe fn write(
        memory: NonNull<Self>,
        scheduler: NonNull<Scheduler>,
        base: u32,
    ) -> NonNull<Block> {
        const {
            assert!(
                SLOTS > 0 && SLOTS <= 1 << 16,
                "a chunk has 1 to 65,536 slots"
            )
        };
        let chunk = memory.as_ptr();
        // SAFETY: the caller promises that the memory is good and ours.
        unsafe {
            (&raw mut (*chunk).header).write(ChunkHeader { scheduler });
            let first: *mut Block = (&raw mut (*chunk).blocks).cast();
            for slot in 0..SLOTS {
                first
                    .add(slot)
                    .write(Block::new(base + slot as u32, slot as u16));
            }
            // Derived from the whole chunk, so that `BlockRef::header` may step back to the header.
            NonNull::new_unchecked(chunk.wrapping_byte_add(offset_of!(Self, blocks)).cast())
        }
    }
}

impl<const SLOTS: usize> Chunk<SLOTS> {
    /// Returns the chunk that starts with `block`.
    #[cfg(feature = "heap")]
    pub(crate) fn of_first(block: NonNull<Block>) -> NonNull<Self> {
        // SAFETY: a chunk's first block stands this far behind its start, which is not null.
        unsafe {
            NonNull::new_unchecked(
                block
                    .as_ptr()
                    .wrapping_byte_sub(offset_of!(Self, blocks))
                    .cast(),
            )
        }
    }
}
