//! The memory that a process shares with the kernel's scheduler.
//!
//! `src/bpf/page.h` has the same layout.

use std::mem::offset_of;
use std::sync::atomic::AtomicU64;

/// The number of levels, and the value of a level that means none.
pub const LEVELS: u64 = 64;
/// The number of threads that a process can show.
pub const SLOTS: usize = 63;

/// The number of deadlines that a thread can show.
pub const DEADLINES: usize = 2;

/// Something that becomes due.
#[repr(C)]
#[derive(Debug)]
pub struct Deadline {
    /// When, in nanoseconds of `CLOCK_MONOTONIC`; 0 for never.
    pub at: AtomicU64,
    /// At which level.
    pub level: AtomicU64,
}

/// What one thread shows. Only the thread writes it.
#[repr(C)]
#[derive(Debug)]
pub struct Slot {
    /// The thread's number in the machine, or 0 if the slot is free.
    pub thread: AtomicU64,
    /// The level of what it runs or would run next; [`LEVELS`] if it has nothing to run.
    pub level: AtomicU64,
    /// The level that counts from a wake until the thread shows another.
    pub waiting: AtomicU64,
    unused: AtomicU64,
    /// What becomes due while the thread runs something less urgent or waits for a processor.
    pub deadlines: [Deadline; DEADLINES],
}

/// The memory that one process writes and the kernel reads.
#[repr(C)]
#[derive(Debug)]
pub struct Page {
    /// Changes when a slot gets another thread.
    pub generation: AtomicU64,
    unused: [AtomicU64; 7],
    /// The threads.
    pub slots: [Slot; SLOTS],
}

/// What the kernel writes and every process with a page reads.
#[repr(C)]
#[derive(Debug)]
pub struct Board {
    /// The most urgent level that waits for a processor; [`LEVELS`] if none does.
    pub queued: AtomicU64,
    /// Changes when that has changed for another reason than that a thread went on.
    pub changes: AtomicU64,
}

const _: () = assert!(size_of::<Slot>() == 64 && size_of::<Page>() == 4096);
const _: () = assert!(offset_of!(Slot, deadlines) == 32 && offset_of!(Page, slots) == 64);
