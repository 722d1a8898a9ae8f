//! The state that the threads, handles and coroutines of one runtime share.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use corank::{Config, SharedExecutor, WorkerId};

use crate::idle::{Call, Parker, Pause, Watch};
use crate::reactor::Reactor;

/// How long it takes to notice that the last coroutine was cancelled by a thread that is no worker.
const DRAIN_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Where others find a worker.
#[derive(Clone)]
pub(crate) struct WorkerEntry {
    pub(crate) parker: Arc<Parker>,
    pub(crate) worker: WorkerId,
}

/// What threads, handles and coroutines of one runtime share.
pub(crate) struct Shared {
    pub(crate) executor: SharedExecutor,
    pub(crate) reactor: Arc<Reactor>,
    pub(crate) watch: Watch,
    /// Every worker's, in the order in which they began.
    entries: Mutex<Vec<WorkerEntry>>,
    /// Where the watchdog sleeps, if there is one.
    pub(crate) pause: OnceLock<Pause>,
    /// Workers leave when their poll has ended.
    pub(crate) stopping: AtomicBool,
    /// Somebody waits until there is no coroutine any more.
    draining: AtomicBool,
    drained: (Mutex<()>, Condvar),
}

impl Shared {
    /// Creates the state of a runtime that has no workers yet.
    ///
    /// # Errors
    /// Fails if there are no descriptors for the reactor.
    pub(crate) fn new(config: Config) -> io::Result<Self> {
        Ok(Self {
            executor: SharedExecutor::with(config),
            reactor: Arc::new(Reactor::new()?),
            watch: Watch::new(),
            entries: Mutex::default(),
            pause: OnceLock::new(),
            stopping: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            drained: (Mutex::new(()), Condvar::new()),
        })
    }

    pub(crate) fn entries(&self) -> MutexGuard<'_, Vec<WorkerEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody looks after events any more: wakes a worker that sleeps, if there is one, to do so.
    pub(crate) fn wake_successor(&self) {
        let _ = (self.entries().iter()).any(|entry| entry.parker.wake_sleeper());
    }

    pub(crate) fn wake_all(&self) {
        for entry in self.entries().iter() {
            if entry.parker.wake() == Call::Interrupt {
                self.reactor.interrupt();
            }
        }
        if let Some(pause) = self.pause.get() {
            pause.note_awake();
        }
    }

    /// By a worker, now and then: tells whoever waits for the last coroutine.
    #[inline]
    pub(crate) fn note_progress(&self) {
        if self.draining.load(Ordering::Relaxed) && self.executor.live() == 0 {
            drop(self.drained.0.lock());
            self.drained.1.notify_all();
        }
    }

    /// Waits until there is no coroutine, at most until `end`.
    pub(crate) fn drain(&self, end: Instant) {
        let mut guard = (self.drained.0.lock()).unwrap_or_else(PoisonError::into_inner);
        self.draining.store(true, Ordering::Relaxed);
        // Those who are idle have noted their progress before.
        while self.executor.live() > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            // Workers tell. Another thread that cancels the last one doesn't: that is found at the next look.
            let waited = (self.drained.1).wait_timeout(guard, left.min(DRAIN_CHECK_INTERVAL));
            guard = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
