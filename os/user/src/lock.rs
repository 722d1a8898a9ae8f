//! The lock of what the threads of a process share: a word of its memory.
//!
//! ```text
//!   0 ──lock──▶ holder ──another thread finds it taken──▶ holder, awaited
//!   ▲              │                                           │
//!   └───unlock─────┴───────────────unlock and yield────────────┘
//! ```
//! The kernel does not know the lock. So the thread that finds it taken lends its level to the
//! holder ([`yield_to`]), which the kernel may have taken off the hart for that very thread. The
//! holder yields when it unlocks, and so gives the level back.
use core::sync::atomic::{AtomicUsize, Ordering};

use talc::lock_api;

use crate::thread::{self, yield_now, yield_to};

/// A lock with priority inheritance.
///
/// A coroutine must not be preempted while it holds the lock, as its own thread would wait for it.
/// Without another thread that wants it, locking and unlocking stay in user mode.
pub(crate) struct Lock(AtomicUsize);

const FREE: usize = 0;

/// Beside the number of the thread that holds it: another thread waits.
const AWAITED: usize = 1 << (usize::BITS - 1);

// SAFETY: only one thread at a time has replaced `FREE` by its number, and only that one puts
// `FREE` back.
unsafe impl lock_api::RawMutex for Lock {
    // The trait asks for a constant as the initial value.
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "not every version of clippy exempts implementations of traits"
    )]
    const INIT: Self = Self(AtomicUsize::new(FREE));
    type GuardMarker = lock_api::GuardNoSend;

    #[inline]
    fn lock(&self) {
        if !self.try_lock() {
            self.wait();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        let free =
            self.0
                .compare_exchange(FREE, thread::id() + 1, Ordering::Acquire, Ordering::Relaxed);
        free.is_ok()
    }

    #[inline]
    unsafe fn unlock(&self) {
        if self.0.swap(FREE, Ordering::Release) & AWAITED != 0 {
            give_back();
        }
    }
}

impl Lock {
    /// Locks it after another thread.
    #[cold]
    #[inline(never)]
    fn wait(&self) {
        loop {
            let holder = self.0.load(Ordering::Relaxed);
            if holder == FREE {
                if lock_api::RawMutex::try_lock(self) {
                    return;
                }
                continue;
            }
            let awaited = holder | AWAITED;
            let known =
                self.0
                    .compare_exchange(holder, awaited, Ordering::Relaxed, Ordering::Relaxed);
            if known.is_ok() {
                // Without such a thread it has unlocked meanwhile.
                let _ = yield_to((holder & !AWAITED) - 1);
            }
        }
    }
}

#[cold]
#[inline(never)]
fn give_back() {
    yield_now();
}
