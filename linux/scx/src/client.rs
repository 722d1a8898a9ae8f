//! A process's side: its page, and a slot for each thread that shows a level.

use crate::page::{Board, DEADLINES, LEVELS, Page, SLOTS, Slot};
use crate::protocol::{self, REPLY, Reply, Status};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, recvmsg, send, socket_with,
};
use std::cell::Cell;
use std::fmt;
use std::io::{self, IoSliceMut};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// A process's place in the kernel's scheduler. It leaves when this is dropped.
#[derive(Debug)]
pub struct Membership {
    socket: OwnedFd,
    page: Mapping<Page>,
    board: Mapping<Board>,
    granted: u64,
    /// The slots that have a thread.
    taken: AtomicU64,
}

/// The reason why a process has no place.
#[derive(Debug)]
#[non_exhaustive]
pub enum JoinError {
    /// The daemon refused.
    Refused(Status),
    /// What came is no reply of a daemon of this version.
    Protocol,
    /// The system refused.
    System(io::Error),
}

impl From<Errno> for JoinError {
    fn from(error: Errno) -> Self {
        Self::System(error.into())
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(status) => write!(f, "corank-scx refused: {status:?}"),
            Self::Protocol => f.write_str("corank-scx speaks another version of the protocol"),
            Self::System(error) => write!(f, "corank-scx cannot be reached: {error}"),
        }
    }
}

impl std::error::Error for JoinError {}

impl Membership {
    /// Asks the daemon at `path` for a page. Returns `None` if no daemon listens there.
    ///
    /// It waits for the daemon's reply, at most two seconds.
    ///
    /// # Errors
    /// If the daemon refuses or does not answer, or if the system refuses.
    pub fn join(path: &Path) -> Result<Option<Self>, JoinError> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        match connect(&socket, &SocketAddrUnix::new(path)?) {
            Ok(()) => {}
            Err(Errno::NOENT | Errno::CONNREFUSED | Errno::NOTDIR) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        send(&socket, &protocol::request(), SendFlags::NOSIGNAL)?;
        let limit = Timespec {
            tv_sec: 2,
            tv_nsec: 0,
        };
        if poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&limit))? == 0 {
            return Err(Errno::TIMEDOUT.into());
        }
        let mut bytes = [0; REPLY];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(
            &socket,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        )?;
        let files: Vec<OwnedFd> = (ancillary.drain())
            .flat_map(|message| match message {
                RecvAncillaryMessage::ScmRights(files) => files.collect(),
                _ => Vec::new(),
            })
            .collect();
        let reply = Reply::from_bytes(&bytes[..received.bytes]).ok_or(JoinError::Protocol)?;
        if reply.status != Status::Granted {
            return Err(JoinError::Refused(reply.status));
        }
        let [page, board] = files.as_slice() else {
            return Err(JoinError::Protocol);
        };
        Ok(Some(Self {
            page: Mapping::new(page, ProtFlags::READ | ProtFlags::WRITE)?,
            board: Mapping::new(board, ProtFlags::READ)?,
            socket,
            granted: reply.granted,
            taken: AtomicU64::new(1 << SLOTS),
        }))
    }

    /// Returns the levels that this process may show, one bit each.
    #[must_use]
    pub fn granted(&self) -> u64 {
        self.granted
    }

    /// Tests whether the daemon still runs. It costs a system call.
    #[must_use]
    pub fn is_served(&self) -> bool {
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        matches!(poll(&mut fds, Some(&Timespec::default())), Ok(0))
    }

    /// Takes a slot for the calling thread; `None` if there is none left.
    #[must_use]
    pub fn thread(&self) -> Option<Thread<'_>> {
        let taken = self
            .taken
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |taken| {
                (taken != u64::MAX).then(|| taken | (taken + 1))
            })
            .ok()?;
        let at = (!taken).trailing_zeros() as usize;
        let slot = &self.page.get().slots[at];
        for deadline in &slot.deadlines {
            deadline.at.store(0, Ordering::Relaxed);
        }
        slot.waiting.store(LEVELS, Ordering::Relaxed);
        slot.level.store(LEVELS, Ordering::Relaxed);
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        slot.thread.store(thread as u64, Ordering::Release);
        self.page.get().generation.fetch_add(1, Ordering::Release);
        Some(Thread {
            membership: self,
            slot,
            at,
            changes: Cell::new(0),
            last: Cell::new(0),
            _thread: PhantomData,
        })
    }

    /// Returns the board, for tests that try to write it.
    #[doc(hidden)]
    #[must_use]
    pub fn board(&self) -> &Board {
        self.board.get()
    }

    /// Returns the page, for tests that write what makes no sense.
    #[doc(hidden)]
    #[must_use]
    pub fn page(&self) -> &Page {
        self.page.get()
    }
}

/// A thread's slot. It shows to the kernel what the thread runs.
#[derive(Debug)]
pub struct Thread<'a> {
    membership: &'a Membership,
    slot: &'a Slot,
    at: usize,
    /// The board's changes at the last yield.
    changes: Cell<u64>,
    /// The level that it showed last.
    last: Cell<u8>,
    /// The slot names the thread that took it.
    _thread: PhantomData<*const ()>,
}

impl Thread<'_> {
    /// Shows the level of what the thread runs from now on, 0 to 63. Returns whether something else
    /// should run first: then a strict thread calls `sched_yield` and shows the level again.
    ///
    /// That is so if something more urgent waits for a processor. The thread is notified once of
    /// each change, because what waits may be unable to run on this processor. If the level is less
    /// urgent than the last, it is so for an equal as well, which may have run less.
    pub fn show(&self, level: u8) -> bool {
        self.slot.level.store(level.into(), Ordering::Relaxed);
        let fell = self.last.replace(level) < level;
        let board = self.membership.board.get();
        let queued = board.queued.load(Ordering::Relaxed);
        if queued > level.into() || queued == level.into() && !fell {
            return false;
        }
        let changes = board.changes.load(Ordering::Relaxed);
        self.changes.replace(changes) != changes || fell
    }

    /// Shows that the thread has nothing to run, and the level at which it is to be woken.
    ///
    /// That is the most urgent level that the event may be for. It counts until the next
    /// [`show`](Self::show).
    pub fn wait(&self, waking: u8) {
        self.slot.waiting.store(waking.into(), Ordering::Relaxed);
        self.slot.level.store(LEVELS, Ordering::Release);
    }

    /// Shows what becomes due: when, in nanoseconds of `CLOCK_MONOTONIC`, and at which level.
    ///
    /// A thread that waits for a processor then waits at that level. A time of 0 is never.
    pub fn due(&self, deadlines: [(u64, u8); DEADLINES]) {
        for (shown, (at, level)) in self.slot.deadlines.iter().zip(deadlines) {
            if shown.level.load(Ordering::Relaxed) != level.into() {
                // In between there is none, so that no time is seen with another's level.
                shown.at.store(0, Ordering::Relaxed);
                fence(Ordering::Release);
                shown.level.store(level.into(), Ordering::Relaxed);
            }
            shown.at.store(at, Ordering::Release);
        }
    }
}

impl Drop for Thread<'_> {
    fn drop(&mut self) {
        self.slot.thread.store(0, Ordering::Release);
        let membership = self.membership;
        (membership.page.get().generation).fetch_add(1, Ordering::Release);
        membership
            .taken
            .fetch_and(!(1 << self.at), Ordering::AcqRel);
    }
}

/// Mapped memory of a type that consists of atomics.
#[derive(Debug)]
struct Mapping<T> {
    start: NonNull<T>,
}

/// The length of a mapping, in bytes.
const LENGTH: usize = 4096;

// SAFETY: atomics alone.
unsafe impl<T> Send for Mapping<T> {}
// SAFETY: atomics alone.
unsafe impl<T> Sync for Mapping<T> {}

impl<T> Mapping<T> {
    fn new(file: impl AsFd, access: ProtFlags) -> Result<Self, Errno> {
        const { assert!(size_of::<T>() <= LENGTH) };
        let none = std::ptr::null_mut();
        // SAFETY: a new mapping, which overlaps nothing.
        let start = unsafe { mmap(none, LENGTH, access, MapFlags::SHARED, file, 0) }?;
        let mapping = Self {
            start: NonNull::new(start.cast()).expect("Linux maps nothing at 0 by itself"),
        };
        // A child takes no part, and must not write its parent's page.
        // SAFETY: the whole mapping, which nothing refers to in a child.
        unsafe { madvise(start, LENGTH, Advice::LinuxDontFork) }?;
        Ok(mapping)
    }

    fn get(&self) -> &T {
        // SAFETY: mapped for as long as `self`, at a page's boundary. A map of the kernel keeps its
        // size, any bits are a `T`, and both sides change atomics.
        unsafe { self.start.as_ref() }
    }
}

impl<T> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: no borrow of it is left.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), LENGTH) };
        debug_assert!(unmapped.is_ok());
    }
}
