//! Asynchronous system calls: a submission ring and a completion ring, shared by a process and the kernel.
//!
//! The layout at the address that [`RING_SETUP`](crate::call::RING_SETUP) returns: a [`RingHeader`], then at
//! [`SUBMISSIONS`] bytes the [`Submission`]s, `entries` of them, then directly the [`Completion`]s, `entries` of them.
//!
//! Both rings work alike: `head` and `tail` count up for ever and wrap at 2³²; an entry's place is its number modulo
//! `entries`; the ring is empty when they are equal. The producer writes the entry, then stores `tail` (release); the
//! consumer loads `tail` (acquire), reads the entry, then stores `head`. The kernel never drops a completion: while the
//! completion ring is full it keeps them.
use core::sync::atomic::{AtomicU32, AtomicU64};

/// Offset of the first submission from the ring's address, in bytes.
pub const SUBMISSIONS: usize = 64;

/// Start of the rings' memory.
#[repr(C)]
#[derive(Debug, Default)]
pub struct RingHeader {
    /// Next submission that the kernel takes. Written by the kernel.
    pub submission_head: AtomicU32,
    /// Next free submission. Written by the process.
    pub submission_tail: AtomicU32,
    /// Next completion that the process takes. Written by the process.
    pub completion_head: AtomicU32,
    /// Next free completion. Written by the kernel.
    pub completion_tail: AtomicU32,
    /// Until when [`RING_ENTER`](crate::call::RING_ENTER) may block, in ticks of the `time` register; `u64::MAX`: for ever.
    /// Written by the process.
    pub deadline: AtomicU64,
    /// Number of entries of each ring. Written by the kernel at set-up; it does not believe a later change.
    pub entries: AtomicU32,
    /// Padding up to [`SUBMISSIONS`].
    pub reserved: [u32; 9],
}

const _: () = assert!(size_of::<RingHeader>() == SUBMISSIONS);

/// One asynchronous system call.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Submission {
    /// Comes back in [`Completion::key`]; the kernel gives it no meaning.
    pub key: u64,
    /// Number of the call: any of [`crate::call`] that can block or works on a file descriptor.
    pub call: u32,
    /// Level at which the kernel serves it: that of the coroutine that asks.
    pub level: u8,
    /// Any of [`LINK`], [`SILENT`] and [`CLOSE_FILE`].
    pub flags: u8,
    /// Zero.
    pub reserved: u16,
    /// Arguments of the call.
    pub arguments: [u64; 3],
}

/// Flag of a [`Submission`]: the next one starts only when this one has completed.
pub const LINK: u8 = 1;
/// Flag of a [`Submission`]: no completion is wanted.
pub const SILENT: u8 = 2;
/// Flag of a [`Submission`] of [`READ`](crate::call::READ) or [`WRITE`](crate::call::WRITE): the call takes its file along. The file
/// is closed when the call has ended, however it ends; what is linked behind the call comes after that. From when the kernel takes the
/// submission, the descriptor is not the program's any more: at some moment until the call has ended, it is free for another file.
pub const CLOSE_FILE: u8 = 4;

/// The result of one asynchronous system call.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Completion {
    /// [`Submission::key`]
    pub key: u64,
    /// What the synchronous call would have returned.
    pub result: i64,
}
