//! The one word through which other threads, harts and interrupt handlers reach a coroutine, and
//! its protocol.
//!
//! The owner is the executor's thread. Every other thread may only set signals here and, when that
//! set `QUEUED` for the first time, push the block on the executor's inbox. The owner empties the
//! inbox before each pick, takes the signals of each block and applies them to its own, non-atomic
//! state. So every rule of scheduling is applied by the owner alone:
//!
//! ```text
//!  any thread: wake/cancel/reprioritize      owner: drain, before each pick
//!  ────────────────────────────────────      ───────────────────────────────
//!  set the signal, set QUEUED                take the inbox's list
//!    QUEUED was clear → push, notify         for each block, oldest first:
//!    QUEUED was set   → done: the              take all signals, clear QUEUED
//!      setter pushes, and the owner            apply: priority, cancel, wake
//!      has not taken the signals yet
//! ```
//!
//! *No wake is lost* (rule W4): a signal is set before the push or while the block is still queued,
//! in both cases before the owner takes the signals, in the same word. `tests/loom.rs` and
//! `spec/promela/` explore it.
//!
//! The same word counts the references that wakers and [`Remote`](crate::Remote)s hold, so that
//! "the last reference is gone and the slot is retired" is decided by one atomic operation. A slot
//! is not reused while references to it exist: a waker never reaches a stranger.

use crate::atomic::{AtomicU32, Ordering};
use crate::priority::Priority;

/// The coroutine was woken. Set by any thread, taken by the owner.
const WAKE: u32 = 1 << 0;
/// The coroutine is to be cancelled. Set by any thread, taken by the owner.
const CANCEL: u32 = 1 << 1;
/// The bits under `PRIORITY` hold a new base priority. Set by any thread, taken by the owner.
const REPRIORITIZE: u32 = 1 << 2;
/// The block is in the inbox, or the thread that set this bit is about to push it. Set by any
/// thread, cleared by the owner.
const QUEUED: u32 = 1 << 3;
/// The executor is gone: no signal will be taken any more. Set by the owner, never cleared.
const CLOSED: u32 = 1 << 4;
/// The coroutine has exited and its handle is gone: the slot is free once the last reference is.
/// Set and cleared by the owner.
const RETIRED: u32 = 1 << 5;
const PRIORITY_SHIFT: u32 = 6;
const PRIORITY: u32 = 0x3f << PRIORITY_SHIFT;
/// One reference; the count fills the bits from here up.
const REFERENCE: u32 = 1 << 12;
const REFERENCES: u32 = !(REFERENCE - 1);

/// The most references that one coroutine can have.
///
/// This is half of what the count holds, so that threads that race beyond it cannot make it
/// overflow before the first of them has noticed. It is less under Miri, for which so many take
/// minutes.
pub(crate) const MAX_REFERENCES: u32 = if cfg!(miri) {
    1 << 10
} else {
    REFERENCES / REFERENCE / 2
};

/// The signals and the count of references of one coroutine, in one atomic word.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Signals(AtomicU32);

/// What another thread asks of a coroutine from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Wake,
    Cancel,
    Reprioritize(Priority),
}

/// The signals that the owner took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) wake: bool,
    pub(crate) cancel: bool,
    pub(crate) priority: Option<Priority>,
    /// The slot was retired and its last reference is gone: the owner reuses it.
    pub(crate) reclaim: bool,
}

/// What the caller of [`Signals::send`] has to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Push the block on the inbox and notify the owner.
    Push,
    /// The block is queued already.
    Pending,
    /// The signal has no receiver: the coroutine or the executor is gone.
    Refused,
}

/// What the caller of [`Signals::release`] has to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    /// Nothing.
    Done,
    /// This is the last reference to a retired slot, and it is not released yet: once it is,
    /// nothing keeps the table alive while the block is pushed. Anchor the table, then call again.
    Anchor,
    /// That was the last reference to a retired slot: push the block, so that the owner reuses it.
    Push,
    /// That was the last reference into a table whose executor is gone: drop the table's anchor.
    Orphan,
}

impl Signals {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Clears the word, for a new coroutine in a slot that no other thread can reach.
    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    pub(crate) fn send(&self, signal: Signal) -> Sent {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if word & (CLOSED | RETIRED) != 0 {
                return Sent::Refused;
            }
            let signalled = match signal {
                Signal::Wake => word | WAKE,
                Signal::Cancel => word | CANCEL,
                Signal::Reprioritize(priority) => {
                    word & !PRIORITY | REPRIORITIZE | u32::from(priority.level()) << PRIORITY_SHIFT
                }
            };
            // Even when the word would not change it is written: what the caller did before the
            // wake must be visible to the poll that follows, and only a write to the word orders
            // the two.
            match self.0.compare_exchange_weak(
                word,
                signalled | QUEUED,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) if word & QUEUED == 0 => return Sent::Push,
                Ok(_) => return Sent::Pending,
                Err(now) => word = now,
            }
        }
    }

    /// Takes all signals of a block, by the owner, which has taken the block from the inbox.
    pub(crate) fn take(&self) -> Taken {
        let word = self.0.fetch_and(
            !(WAKE | CANCEL | REPRIORITIZE | QUEUED | PRIORITY),
            Ordering::AcqRel,
        );
        let level = (word & PRIORITY) >> PRIORITY_SHIFT;
        Taken {
            wake: word & WAKE != 0,
            cancel: word & CANCEL != 0,
            priority: (word & REPRIORITIZE != 0).then(|| Priority::of_valid(level as u8)),
            reclaim: word & RETIRED != 0 && word & REFERENCES == 0,
        }
    }

    /// Declares the slot retired, by the owner; returns true if it may be reused at once.
    pub(crate) fn retire(&self) -> bool {
        // Without references no other thread can reach the word, and nothing is queued: no
        // read-modify-write needed.
        if self.0.load(Ordering::Acquire) & (REFERENCES | QUEUED) == 0 {
            return true;
        }
        let word = self.0.fetch_or(RETIRED, Ordering::AcqRel);
        word & (REFERENCES | QUEUED) == 0
    }

    /// Marks the executor as gone, by the owner; returns true if references remain.
    pub(crate) fn close(&self) -> bool {
        self.0.fetch_or(CLOSED, Ordering::AcqRel) & REFERENCES != 0
    }

    /// Tests whether the coroutine and its handle, or the owner, are gone.
    pub(crate) fn is_refusing(&self) -> bool {
        self.0.load(Ordering::Relaxed) & (CLOSED | RETIRED) != 0
    }

    /// Tests whether a new priority was asked for that the owner has not taken.
    pub(crate) fn is_reprioritizing(&self) -> bool {
        self.0.load(Ordering::Relaxed) & REPRIORITIZE != 0
    }

    /// Tests whether the owner has gone away.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.load(Ordering::Relaxed) & CLOSED != 0
    }

    /// Counts one more reference; returns true if it is the first one into a table whose executor
    /// is gone.
    ///
    /// Then the caller anchors the table for it, as [`close`](Self::close) does for the references
    /// that it finds.
    ///
    /// # Panics
    /// Beyond [`MAX_REFERENCES`].
    #[must_use]
    pub(crate) fn acquire(&self) -> bool {
        let word = self.0.fetch_add(REFERENCE, Ordering::Relaxed);
        if word / REFERENCE >= MAX_REFERENCES {
            self.0.fetch_sub(REFERENCE, Ordering::Relaxed);
            panic!("more than {MAX_REFERENCES} wakers of one coroutine");
        }
        word & CLOSED != 0 && word & REFERENCES == 0
    }

    /// Counts one reference less.
    ///
    /// `anchored` says that the caller keeps the table alive by other means.
    pub(crate) fn release(&self, anchored: bool) -> Released {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let mut after = word - REFERENCE;
            let mut released = Released::Done;
            if after & REFERENCES == 0 {
                if word & CLOSED != 0 {
                    released = Released::Orphan;
                } else if word & (RETIRED | QUEUED) == RETIRED {
                    if !anchored {
                        return Released::Anchor;
                    }
                    after |= QUEUED;
                    released = Released::Push;
                }
            }
            match self
                .0
                .compare_exchange_weak(word, after, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return released,
                Err(now) => word = now,
            }
        }
    }
}
