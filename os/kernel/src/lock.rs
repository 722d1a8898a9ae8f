//! The lock of what harts share for a moment.
//!
//! It is held for a few instructions, and nobody waits for anything while it is held, so a hart that wants it spins. But a hart of an emulated or
//! virtual machine is a thread of some host, which may take the processor from the one that holds the lock: for milliseconds, in which those
//! that spin keep the host from giving it back. So a hart that has spun for long [dozes](hart::doze) between two looks, as
//! the locks of guests of Xen and KVM do.
use crate::hart;
use core::sync::atomic::{AtomicBool, Ordering};

/// See the module's documentation.
pub(crate) type Mutex<T> = lock_api::Mutex<RawLock, T>;

/// While it exists the lock is held.
pub(crate) type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawLock, T>;

/// Looks at a lock that another hart holds, some microseconds, before a hart dozes.
const PATIENCE: u32 = 200;

/// Whether somebody holds it.
pub(crate) struct RawLock(AtomicBool);

impl RawLock {
    #[cold]
    fn wait(&self) {
        let mut looks = 0;
        while self.0.load(Ordering::Relaxed) || !lock_api::RawMutex::try_lock(self) {
            core::hint::spin_loop();
            looks += 1;
            if looks >= PATIENCE {
                hart::doze();
            }
        }
    }
}

// SAFETY: it is locked by whoever has made it true, one at a time, until that makes it false.
unsafe impl lock_api::RawMutex for RawLock {
    const INIT: Self = Self(AtomicBool::new(false));

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
        self.0
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.0.store(false, Ordering::Release);
    }

    fn is_locked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
