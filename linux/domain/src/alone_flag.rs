//! A flag that tells a worker that it is alone in its domain, so that it has nothing to ask.
//!
//! The worker sets it, the agent clears it. It lies in the worker itself, which therefore never
//! moves. So a worker that is alone in its domain pays one load and one comparison before a poll.
//! It finds the word without another load.

use crate::atomic::{AtomicU32, Ordering, fence};

/// The flag of one worker, nonzero if the worker has nothing to ask.
#[derive(Default)]
pub(crate) struct AloneFlag(AtomicU32);

impl AloneFlag {
    /// Tests whether there is nothing to ask.
    ///
    /// It is one relaxed load, for use before every poll.
    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Sets the flag for as long as the worker `is_alone`; called by the worker.
    ///
    /// `is_alone` is called again after the flag is shown. So a participant that comes meanwhile is
    /// seen here, or [clears](Self::clear) the flag afterwards.
    pub(crate) fn set_while(&self, is_alone: impl FnOnce() -> bool) {
        self.0.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !is_alone() {
            self.0.store(0, Ordering::Relaxed);
        }
    }

    /// Clears the flag; called by the agent after it has written what the worker is to see.
    pub(crate) fn clear(&self) {
        fence(Ordering::SeqCst);
        self.0.store(0, Ordering::Relaxed);
    }
}

/// The flags of a process's workers, for its agent.
#[cfg(not(loom))]
#[derive(Default)]
pub(crate) struct AloneFlags(std::sync::Mutex<Vec<(usize, &'static AloneFlag)>>);

#[cfg(not(loom))]
impl AloneFlags {
    /// Registers the flag of a worker that begins.
    ///
    /// # Safety
    /// `alone_flag` stays in its place until the worker [leaves](Self::leave).
    pub(crate) unsafe fn enter(&self, worker: usize, alone_flag: &AloneFlag) {
        // SAFETY: it is used under the lock alone, and not after `leave`. Until then it stays, as
        // the caller promises.
        let alone_flag: &'static AloneFlag = unsafe { &*std::ptr::from_ref(alone_flag) };
        self.lock().push((worker, alone_flag));
    }

    /// Unregisters the flag of a worker that ends. The flag is not used after this returns.
    pub(crate) fn leave(&self, worker: usize) {
        self.lock().retain(|(entered, _)| *entered != worker);
    }

    /// Does [`AloneFlag::clear`] for all workers; called by the agent.
    pub(crate) fn clear(&self) {
        for (_, alone_flag) in self.lock().iter() {
            alone_flag.clear();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(usize, &'static AloneFlag)>> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
