//! A flag that tells a worker that it is alone in its domain, so that it has nothing to ask.
//!
//! The worker sets it, the agent ends it. It lies in the worker itself, which therefore never
//! moves: so alone in its domain a worker pays one load and one comparison before a poll, and finds
//! the word without another load.

use crate::atomic::{AtomicU32, Ordering, fence};

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct AloneFlag(AtomicU32);

impl AloneFlag {
    /// Whether there is nothing to ask. Relaxed, and one load: for before every poll.
    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// By the worker: there is nothing to ask for as long as it `is_alone`, which is asked again
    /// after this is shown. So whoever comes meanwhile is seen here, or [clears](Self::clear) it
    /// afterwards.
    pub(crate) fn set_while(&self, is_alone: impl FnOnce() -> bool) {
        self.0.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !is_alone() {
            self.0.store(0, Ordering::Relaxed);
        }
    }

    /// By the agent, after it has written what the worker is to see.
    pub(crate) fn clear(&self) {
        fence(Ordering::SeqCst);
        self.0.store(0, Ordering::Relaxed);
    }
}

/// The words of a process's workers, for its agent.
#[cfg(not(loom))]
#[derive(Default)]
pub(crate) struct AloneFlags(std::sync::Mutex<Vec<(usize, &'static AloneFlag)>>);

#[cfg(not(loom))]
impl AloneFlags {
    /// A worker begins.
    ///
    /// # Safety
    /// `alone_flag` stays in its place until the worker [leaves](Self::leave).
    pub(crate) unsafe fn enter(&self, worker: usize, alone_flag: &AloneFlag) {
        // SAFETY: it is used under the lock alone, and not after `leave`; until then it stays, as
        // the caller promises.
        let alone_flag: &'static AloneFlag = unsafe { &*std::ptr::from_ref(alone_flag) };
        self.lock().push((worker, alone_flag));
    }

    /// The worker ends. Its word is not used after this returns.
    pub(crate) fn leave(&self, worker: usize) {
        self.lock().retain(|(entered, _)| *entered != worker);
    }

    /// By the agent: [`AloneFlag::clear`] for all.
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
