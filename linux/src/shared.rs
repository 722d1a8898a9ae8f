//! The state that the threads, handles and coroutines of one runtime share.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use corank::{Config, SharedExecutor, WorkerId};

use crate::idle::{Parker, Pause, Wakeup, Watch};
use crate::reactor::Reactor;

/// Bounds the time until `drain` notices that a thread outside the runtime cancelled the last
/// coroutine.
const DRAIN_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Lets other threads wake a worker and read what it polls.
#[derive(Clone)]
pub(crate) struct WorkerEntry {
    pub(crate) parker: Arc<Parker>,
    pub(crate) worker: WorkerId,
}

/// Holds what the threads, handles and coroutines of one runtime share.
pub(crate) struct Shared {
    pub(crate) executor: SharedExecutor,
    pub(crate) reactor: Arc<Reactor>,
    pub(crate) watch: Watch,
    /// One for each worker, in the order in which they began.
    entries: Mutex<Vec<WorkerEntry>>,
    /// Pauses the watchdog, if there is one.
    pub(crate) pause: OnceLock<Pause>,
    /// Workers leave after the poll that they are in.
    pub(crate) stopping: AtomicBool,
    /// Set while a thread waits until there is no coroutine.
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

    /// Wakes a parked worker, if there is one, to check for events that no other worker checks for.
    pub(crate) fn wake_successor(&self) {
        let _ = (self.entries().iter()).any(|entry| entry.parker.wake_sleeper());
    }

    pub(crate) fn wake_all(&self) {
        for entry in self.entries().iter() {
            if entry.parker.wake() == Wakeup::Interrupt {
                self.reactor.interrupt();
            }
        }
        if let Some(pause) = self.pause.get() {
            pause.note_awake();
        }
    }

    /// Wakes the thread that drains if there is no coroutine left; called by workers after each
    /// batch.
    #[inline]
    pub(crate) fn note_progress(&self) {
        if self.draining.load(Ordering::Relaxed) && self.executor.live() == 0 {
            drop(self.drained.0.lock());
            self.drained.1.notify_all();
        }
    }

    /// Waits until there is no coroutine, and no longer than until `end`.
    pub(crate) fn drain(&self, end: Instant) {
        let mut guard = (self.drained.0.lock()).unwrap_or_else(PoisonError::into_inner);
        self.draining.store(true, Ordering::Relaxed);
        // Idle workers have called `note_progress` before.
        while self.executor.live() > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            // Workers notify. A thread outside the runtime that cancels the last coroutine does
            // not: the next check finds that.
            let waited = (self.drained.1).wait_timeout(guard, left.min(DRAIN_CHECK_INTERVAL));
            guard = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
