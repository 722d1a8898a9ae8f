//! A word that others change to make its owner decide again, and on which its owner may sleep.
//!
//! It carries no other meaning. A worker that is rung decides anew from the pages. So a superfluous
//! ring costs one decision, and the next tick makes up for a missing one.

use crate::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The doorbell of one worker.
///
/// It lies on a cache line of its own, because its owner reads it before every poll.
#[repr(C, align(64))]
#[derive(Default)]
pub(crate) struct Doorbell {
    word: AtomicU32,
    #[cfg(loom)]
    kernel: LoomFutex,
}

impl Doorbell {
    /// Returns the word that the owner compares with later.
    ///
    /// It is one relaxed load, for use before every poll.
    #[inline]
    pub(crate) fn load(&self) -> u32 {
        self.word.load(Ordering::Relaxed)
    }

    /// Returns the word like [`load`](Self::load), and makes visible what the last ringer did
    /// before.
    pub(crate) fn load_acquire(&self) -> u32 {
        self.word.load(Ordering::Acquire)
    }

    /// Rings for an owner that is running.
    pub(crate) fn ring(&self) {
        self.word.fetch_add(1, Ordering::Release);
    }

    /// Rings for an owner that sleeps, or is about to, and wakes it.
    pub(crate) fn ring_and_wake(&self) {
        self.ring();
        self.wake();
    }

    /// Sleeps until the doorbell rings, unless it has rung since the word was `seen`.
    ///
    /// It sleeps at most for `limit`, and possibly for less.
    #[cfg(not(loom))]
    pub(crate) fn sleep(&self, seen: u32, limit: Duration) {
        use rustix::thread::futex;
        let limit = rustix::fs::Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        };
        // Not private, because the ringer is another process. It fails where the word has changed,
        // after the limit and at a signal. In each of these cases the caller checks again.
        let _ = futex::wait(&self.word, futex::Flags::empty(), seen, Some(&limit));
    }

    #[cfg(not(loom))]
    fn wake(&self) {
        use rustix::thread::futex;
        // It fails where no thread can sleep, such as on a word that is not mapped any more.
        let _ = futex::wake(&self.word, futex::Flags::empty(), 1);
    }

    #[cfg(loom)]
    pub(crate) fn sleep(&self, seen: u32, _limit: Duration) {
        self.kernel.sleep(|| self.load() == seen);
    }

    #[cfg(loom)]
    fn wake(&self) {
        self.kernel.wake();
    }
}

/// A model of what a futex promises, without a time limit.
///
/// loom reports a sleep that nothing ends.
#[cfg(loom)]
#[derive(Default)]
struct LoomFutex {
    lock: loom::sync::Mutex<()>,
    sleepers: loom::sync::Condvar,
}

#[cfg(loom)]
impl LoomFutex {
    fn sleep(&self, unchanged: impl FnOnce() -> bool) {
        let lock = self.lock.lock().unwrap();
        if unchanged() {
            drop(self.sleepers.wait(lock).unwrap());
        }
    }

    fn wake(&self) {
        drop(self.lock.lock().unwrap());
        self.sleepers.notify_all();
    }
}
