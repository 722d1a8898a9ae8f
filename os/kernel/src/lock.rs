//! The lock of what harts share for a moment.
//!
//! It is held for a few instructions, and its holder waits for nothing meanwhile, so a hart that
//! wants it spins. But a hart of an emulated or virtual machine is a thread of some host. That host
//! may take the processor from the hart that holds the lock, for milliseconds. In that time the
//! harts that spin keep the host from giving it back. So a hart that has spun for long
//! [pauses](init) between two checks, as the locks of guests of Xen and KVM do.
use core::sync::atomic::{AtomicU32, Ordering};
use spin::Once;

/// A mutual-exclusion lock for which a hart spins, and pauses once it has spun for long.
pub(crate) type Mutex<T> = lock_api::Mutex<RawLock, T>;

/// A guard: the lock is held while it exists.
pub(crate) type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawLock, T>;

/// The number of checks of a lock that another hart holds before a hart pauses: some microseconds.
const PATIENCE: u32 = 200;

/// How a hart pauses.
static PAUSE: Once<extern "C" fn()> = Once::new();

/// Lets harts `pause` that have spun for long.
///
/// Until this is called they only spin.
pub(crate) fn init(pause: extern "C" fn()) {
    PAUSE.call_once(|| pause);
}

/// [`LOCKED`] or [`UNLOCKED`].
///
/// It is a word: RISC-V has atomic instructions for words, and a byte takes eight where a word
/// takes three.
pub(crate) struct RawLock(AtomicU32);

const UNLOCKED: u32 = 0;
const LOCKED: u32 = 1;

impl RawLock {
    #[cold]
    #[inline(never)]
    fn wait(&self) {
        let mut checks = 0;
        while self.0.load(Ordering::Relaxed) == LOCKED || !lock_api::RawMutex::try_lock(self) {
            core::hint::spin_loop();
            checks += 1;
            if checks >= PATIENCE
                && let Some(pause) = PAUSE.get()
            {
                pause();
            }
        }
    }
}

// SAFETY: the hart that has made it LOCKED has it locked, one at a time, until that makes it
// UNLOCKED.
unsafe impl lock_api::RawMutex for RawLock {
    const INIT: Self = Self(AtomicU32::new(UNLOCKED));

    type GuardMarker = lock_api::GuardSend;

    #[inline]
    fn lock(&self) {
        if !self.try_lock() {
            self.wait();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        // Acquire: what the holder before did is visible.
        self.0.swap(LOCKED, Ordering::Acquire) == UNLOCKED
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.0.store(UNLOCKED, Ordering::Release);
    }

    fn is_locked(&self) -> bool {
        self.0.load(Ordering::Relaxed) == LOCKED
    }
}
