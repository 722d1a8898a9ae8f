//! Asynchronous system calls: a submission ring and a completion ring, shared by a process and the
//! kernel.
//!
//! The layout at the address that [`RING_SETUP`](crate::call::RING_SETUP) returns: a
//! [`RingHeader`], then at [`SUBMISSIONS`] bytes the [`Submission`]s, `entries` of them, then
//! directly the [`Completion`]s, `entries` of them.
//!
//! Both rings work alike: `head` and `tail` count up for ever and wrap at 2³²; an entry's place is
//! its number modulo `entries`; the ring is empty when they are equal. The producer writes the
//! entry, then stores `tail` (release); the consumer loads `tail` (acquire), reads the entry, then
//! stores `head`: [`Counters`]. Each side keeps a copy of the counter that it writes itself, and
//! does not trust the one in memory.
//!
//! The kernel never drops a completion: while the completion ring is full it keeps them
//! ([`Outbox`]), and says how many in [`RingHeader::kept`]. It takes a submission only when it has
//! room to keep the completion, so a process that takes none finds that its further submissions
//! stay in their ring. A process that has emptied the ring and finds that number not 0 enters the
//! kernel, which then fills the ring again. Whether something has arrived depends on both
//! ([`RingHeader::has_completions`]), because the process may empty the ring between the kernel's
//! check of it and its keeping. Both are written before the process's [`Flag`](crate::upcall::Flag)
//! is raised, so a thread that opens the flag and checks then misses nothing.
//! `os/abi/tests/loom_ring.rs` tries every interleaving.
extern crate alloc;

use crate::kept::Kept;
use alloc::collections::TryReserveError;
#[cfg(not(loom))]
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

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
    /// Until when [`RING_ENTER`](crate::call::RING_ENTER) may block, in ticks of the `time`
    /// register; `u64::MAX`: for ever. Written by the process.
    pub deadline: AtomicU64,
    /// Number of entries of each ring. Written by the kernel at set-up; it ignores a later change.
    pub entries: AtomicU32,
    /// How many completions the kernel keeps because their ring is full. Written by the kernel.
    pub kept: AtomicU32,
    /// Padding up to [`SUBMISSIONS`].
    pub reserved: [u32; 8],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<RingHeader>() == SUBMISSIONS);

impl RingHeader {
    /// Tests whether there are completions, in the ring or kept.
    ///
    /// For the process, which expects number `head` as its next completion.
    #[inline]
    #[must_use]
    pub fn has_completions(&self, head: u32) -> bool {
        self.completions().available(head) != 0 || self.kept.load(Ordering::Acquire) != 0
    }

    /// Returns the counters of the submission ring: the process is the producer.
    #[inline]
    #[must_use]
    pub fn submissions(&self) -> Counters<'_> {
        Counters {
            head: &self.submission_head,
            tail: &self.submission_tail,
        }
    }

    /// Returns the counters of the completion ring: the kernel is the producer.
    #[inline]
    #[must_use]
    pub fn completions(&self) -> Counters<'_> {
        Counters {
            head: &self.completion_head,
            tail: &self.completion_tail,
        }
    }
}

/// The two counters of a ring.
///
/// Each operation is one side's, and takes the counter that this side keeps itself.
#[derive(Clone, Copy, Debug)]
pub struct Counters<'a> {
    head: &'a AtomicU32,
    tail: &'a AtomicU32,
}

impl Counters<'_> {
    /// Returns how many entries the consumer has not taken.
    ///
    /// For the producer, which writes number `tail` as its next entry. More than the ring has if
    /// the consumer has written nonsense.
    #[inline]
    #[must_use]
    pub fn used(self, tail: u32) -> u32 {
        tail.wrapping_sub(self.head.load(Ordering::Acquire))
    }

    /// Publishes entry number `tail`, which the producer has written, and returns the number of the
    /// next.
    #[inline]
    #[must_use = "it is the producer's own counter from now on"]
    pub fn publish(self, tail: u32) -> u32 {
        self.publish_many(tail, 1)
    }

    /// Publishes so many entries from number `tail` on, which the producer has written.
    ///
    /// Returns the number of the next.
    #[inline]
    #[must_use = "it is the producer's own counter from now on"]
    pub fn publish_many(self, tail: u32, entries: u32) -> u32 {
        let next = tail.wrapping_add(entries);
        self.tail.store(next, Ordering::Release);
        next
    }

    /// Returns how many entries are there.
    ///
    /// For the consumer, which reads number `head` as its next entry. More than the ring has if the
    /// producer has written nonsense.
    #[inline]
    #[must_use]
    pub fn available(self, head: u32) -> u32 {
        self.tail.load(Ordering::Acquire).wrapping_sub(head)
    }

    /// Frees the place of entry number `head`, which the consumer has read, and returns the number
    /// of the next.
    #[inline]
    #[must_use = "it is the consumer's own counter from now on"]
    pub fn take(self, head: u32) -> u32 {
        let next = head.wrapping_add(1);
        self.head.store(next, Ordering::Release);
        next
    }
}

/// The kernel's end of the completion ring.
///
/// Under a lock: completions come from every hart.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Number of the next completion in the ring.
    tail: u32,
    /// Completions for which the ring had no room, oldest first.
    kept: Kept,
}

impl Outbox {
    /// Returns how many completions are kept.
    #[inline]
    #[must_use]
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Returns how many completions it can keep.
    #[inline]
    #[must_use]
    pub fn room(&self) -> usize {
        self.kept.room()
    }

    /// Returns how many bytes of memory the room for so many completions takes at most.
    #[must_use]
    pub const fn bytes(completions: usize) -> usize {
        Kept::bytes(completions)
    }

    /// Makes room to keep so many completions, no less than there was.
    ///
    /// Copies no more than 512 of them, however many are kept.
    ///
    /// # Errors
    /// When there is no memory for them; what there was room for stays.
    pub fn make_room(&mut self, completions: usize) -> Result<(), TryReserveError> {
        self.kept.make_room(completions)
    }

    /// Puts a completion into the ring with so many entries, by `write`, which gets its number, or
    /// keeps it while there is no room.
    ///
    /// Takes no memory. There must be [`room`](Self::room) for it, which the kernel makes before it
    /// takes a submission. Without room the completion is lost. That is a defect of the kernel,
    /// which does not end the machine.
    #[inline]
    pub fn add(
        &mut self,
        header: &RingHeader,
        entries: u32,
        write: impl FnMut(u32, Completion),
        completion: Completion,
    ) {
        if self.kept.len() == 0 && self.in_ring(header, entries) < entries {
            self.publish(header, write, completion);
        } else {
            let is_kept = self.kept.push(completion);
            debug_assert!(is_kept, "a completion that there is no room for");
            self.fill(header, entries, write);
        }
    }

    /// Returns how many completions there are for the process, kept ones included.
    ///
    /// Moves those into the ring as far as there is room.
    #[inline]
    pub fn ready(
        &mut self,
        header: &RingHeader,
        entries: u32,
        write: impl FnMut(u32, Completion),
    ) -> u32 {
        if self.kept.len() != 0 {
            self.fill(header, entries, write);
        }
        self.in_ring(header, entries) + self.kept.len() as u32
    }

    /// Moves as many kept completions into the ring as there was room for at the beginning.
    ///
    /// The process sees them at once, so that each costs a few instructions.
    #[cold]
    fn fill(&mut self, header: &RingHeader, entries: u32, mut write: impl FnMut(u32, Completion)) {
        let room = entries - self.in_ring(header, entries);
        let count = self.kept.len().min(room as usize);
        for (number, completion) in (0..).zip(self.kept.drain(count)) {
            write(self.tail.wrapping_add(number), completion);
        }
        self.tail = header.completions().publish_many(self.tail, count as u32);
        header.kept.store(self.kept.len() as u32, Ordering::Release);
    }

    /// Returns how many completions the process has not taken.
    ///
    /// A head that cannot be counts as a full ring.
    fn in_ring(&self, header: &RingHeader, entries: u32) -> u32 {
        header.completions().used(self.tail).min(entries)
    }

    fn publish(
        &mut self,
        header: &RingHeader,
        mut write: impl FnMut(u32, Completion),
        completion: Completion,
    ) {
        write(self.tail, completion);
        self.tail = header.completions().publish(self.tail);
    }
}

/// One asynchronous system call.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Submission {
    /// Comes back in [`Completion::key`]. The kernel gives it no meaning.
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
/// Flag of a [`Submission`] of [`READ`](crate::call::READ) or [`WRITE`](crate::call::WRITE): the
/// call takes its file along. The file is closed when the call has ended, however it ends; what is
/// linked behind the call comes after that. From when the kernel takes the submission, the
/// descriptor is not the program's any more: at some moment until the call has ended, it is free
/// for another file.
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
