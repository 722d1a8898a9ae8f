//! The state that the threads, handles and coroutines of one runtime share.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::Waker;
use std::thread::{JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use corank::{CoroutineId, ExecutorId, Levels, Priority, SharedExecutor, WorkerId};
use corank_figures::Figures;
#[cfg(feature = "recording")]
use corank_recording::{Kind, Role};

use crate::builder::Builder;
use crate::class::Class;
use crate::executor::Executor;
use crate::idle::{Parker, Pause, Wakeup, Watch};
use crate::reactor::Reactor;
use crate::reclaim::Reclaim;
#[cfg(feature = "recording")]
use crate::recording::Recorder;
use crate::spare_pool::SparePool;
use crate::time::{self, nanoseconds};

/// Bounds the time until `drain` notices that a thread outside the runtime cancelled the last
/// coroutine.
const DRAIN_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Lets other threads wake a worker and read what it polls.
#[derive(Clone)]
pub(crate) struct WorkerEntry {
    pub(crate) parker: Arc<Parker>,
    pub(crate) worker: WorkerId,
    /// Its name where it polls in another shard, if there are shards.
    pub(crate) elsewhere: Option<WorkerId>,
    /// Its number among those of its role, which is that of its shard, if there are shards.
    pub(crate) number: usize,
    pub(crate) role: WorkerRole,
    /// Ends the sleep of a worker that does not sleep in the reactor; `None` for one that does.
    pub(crate) sleeper: Option<Waker>,
}

/// What the thread of a worker is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WorkerRole {
    /// Polls coroutines and checks for events.
    Worker,
    /// Polls in the place of a worker whose poll lasts; see
    /// [`Builder::spare_workers`](crate::Builder::spare_workers).
    Spare,
    /// Polls work that is not urgent, in a class of its own; see
    /// [`Builder::bulk`](crate::Builder::bulk).
    Bulk,
}

impl WorkerEntry {
    /// Tests whether the worker polls nothing and will not before it is woken.
    pub(crate) fn is_inactive(&self) -> bool {
        if self.role == WorkerRole::Spare {
            self.parker.batch_begun() == 0
        } else {
            self.parker.is_parked()
        }
    }

    /// Ends the worker's sleep or, if it is awake, its next sleep.
    pub(crate) fn wake(&self, reactor: &Reactor) {
        if self.parker.wake() == Wakeup::Interrupt {
            match &self.sleeper {
                Some(sleeper) => sleeper.wake_by_ref(),
                None => reactor.interrupt(),
            }
        }
    }
}

/// Reaches the tokio runtime whose threads are the workers.
#[cfg(feature = "tokio")]
pub(crate) struct TokioLink {
    pub(crate) handle: ::tokio::runtime::Handle,
    /// Adds a worker until nothing is ready, because the others may stand behind tokio's tasks.
    pub(crate) rescue: Box<dyn Fn() + Send + Sync>,
}

/// Holds what the threads, handles and coroutines of one runtime share.
pub(crate) struct Shared {
    /// The first part of the threads' names.
    pub(crate) name: String,
    /// When the runtime started, in nanoseconds of its clock.
    pub(crate) started: u64,
    /// The counters of its coroutines, if they are counted.
    pub(crate) figures: Option<&'static Figures>,
    /// Records what the scheduler does, if it is to be recorded.
    #[cfg(feature = "recording")]
    pub(crate) recorder: Option<&'static Recorder>,
    pub(crate) executor: Executor,
    pub(crate) reactor: Arc<Reactor>,
    pub(crate) watch: Watch,
    /// One for each shard of the executor.
    pub(crate) reclaim: Vec<Reclaim>,
    /// The number of workers, of each kind.
    #[cfg(feature = "tower")]
    pub(crate) workers: usize,
    /// The age at which a poll counts as long, in nanoseconds; beyond all ages if there are no
    /// spare workers.
    pub(crate) spare_after: u64,
    pub(crate) spares: SparePool,
    /// The level from which work is for threads of a class of their own, if any is.
    pub(crate) bulk: Option<(Priority, Class)>,
    /// Counts the spare workers that stand by or are about to.
    pub(crate) standing_by: AtomicUsize,
    /// The threads of the spare workers, by number; `None` once the runtime stops.
    pub(crate) spare_threads: Mutex<Option<Vec<JoinHandle<()>>>>,
    /// One for each worker, in the order in which they began.
    entries: Mutex<Vec<WorkerEntry>>,
    /// Pauses the watchdog, if there is one.
    pub(crate) pause: OnceLock<Pause>,
    /// What the feature `tokio` adds, if the runtime was built with it.
    #[cfg(feature = "tokio")]
    pub(crate) tokio: OnceLock<TokioLink>,
    /// Workers leave after the poll that they are in.
    pub(crate) stopping: AtomicBool,
    /// Set while a thread waits until there is no coroutine.
    draining: AtomicBool,
    drained: (Mutex<()>, Condvar),
    /// The futures that `block_on` waits for: their coroutines and the names of their types.
    roots: Mutex<Vec<(CoroutineId, &'static str)>>,
}

/// Keeps the name of a coroutine's future known until it is dropped.
pub(crate) struct RootName<'a>(&'a Shared, CoroutineId);

impl Drop for RootName<'_> {
    fn drop(&mut self) {
        self.0.roots().retain(|&(id, _)| id != self.1);
    }
}

/// The runtimes of this process that have not gone, by their executors.
static RUNTIMES: Mutex<Vec<(ExecutorId, Weak<Shared>)>> = Mutex::new(Vec::new());

fn runtimes() -> MutexGuard<'static, Vec<(ExecutorId, Weak<Shared>)>> {
    RUNTIMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the runtime of an executor; `None` if it is none's.
pub(crate) fn find(executor: ExecutorId) -> Option<Arc<Shared>> {
    let runtimes = runtimes();
    let (_, found) = runtimes.iter().find(|(id, _)| *id == executor)?;
    found.upgrade()
}

impl Drop for Shared {
    fn drop(&mut self) {
        runtimes().retain(|(id, _)| !self.executor.has(*id));
    }
}

impl Shared {
    /// Lets threads find the runtime by its executor.
    pub(crate) fn publish(self: &Arc<Self>) {
        let ids = self.executor.shards().iter().filter_map(SharedExecutor::id);
        runtimes().extend(ids.map(|id| (id, Arc::downgrade(self))));
    }

    /// Creates the state of a runtime that has no workers yet.
    ///
    /// `config` is that of the builder and may have more. An observer in it counts in `figures`.
    ///
    /// # Errors
    /// Fails if there are no descriptors for the reactor.
    pub(crate) fn new(
        executor: Executor,
        builder: &Builder,
        figures: Option<&'static Figures>,
    ) -> io::Result<Self> {
        Ok(Self {
            name: builder.thread_name().to_string(),
            started: time::clock(),
            figures,
            #[cfg(feature = "recording")]
            recorder: None,
            reclaim: executor.shards().iter().map(|_| Reclaim::new()).collect(),
            executor,
            reactor: Arc::new(Reactor::new()?),
            watch: Watch::new(),
            #[cfg(feature = "tower")]
            workers: builder.workers_wanted(),
            spare_after: builder.spare_after().map_or(u64::MAX, nanoseconds),
            spares: SparePool::new(),
            bulk: builder.bulk_class(),
            standing_by: AtomicUsize::new(0),
            spare_threads: Mutex::new(Some(Vec::new())),
            entries: Mutex::default(),
            pause: OnceLock::new(),
            #[cfg(feature = "tokio")]
            tokio: OnceLock::new(),
            stopping: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            drained: (Mutex::new(()), Condvar::new()),
            roots: Mutex::default(),
        })
    }

    /// Adds what records the scheduler.
    #[cfg(feature = "recording")]
    pub(crate) fn recorded_by(mut self, recorder: Option<&'static Recorder>) -> Self {
        self.recorder = recorder;
        self
    }

    /// Adds the worker of this thread, which takes these levels.
    pub(crate) fn add_entry(&self, entry: WorkerEntry, takes: Levels) {
        #[cfg(feature = "recording")]
        if let Some(recorder) = self.recorder {
            let role = match entry.role {
                WorkerRole::Worker => Role::Worker,
                WorkerRole::Spare => Role::Spare,
                WorkerRole::Bulk => Role::Bulk,
            };
            recorder.begin_worker(role, entry.number, takes);
        }
        #[cfg(not(feature = "recording"))]
        let _ = takes;
        self.entries().push(entry);
    }

    /// Runs `act`, in which the worker of this thread sleeps.
    pub(crate) fn idle<R>(&self, act: impl FnOnce() -> R) -> R {
        #[cfg(feature = "recording")]
        self.note(Kind::Idle);
        let result = act();
        #[cfg(feature = "recording")]
        self.note(Kind::Awake);
        result
    }

    /// Runs `act`, in which the worker of this thread steps aside for another process.
    pub(crate) fn aside<R>(&self, act: impl FnOnce() -> R) -> R {
        #[cfg(feature = "recording")]
        self.note(Kind::Aside);
        let result = act();
        #[cfg(feature = "recording")]
        self.note(Kind::Awake);
        result
    }

    #[cfg(feature = "recording")]
    fn note(&self, kind: Kind) {
        if let Some(recorder) = self.recorder {
            recorder.note(kind);
        }
    }

    /// Returns the levels that ordinary workers take.
    pub(crate) fn urgent_levels(&self) -> Levels {
        (self.bulk).map_or(Levels::ALL, |(from, _)| Levels::above(from))
    }

    pub(crate) fn entries(&self) -> MutexGuard<'_, Vec<WorkerEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn roots(&self) -> MutexGuard<'_, Vec<(CoroutineId, &'static str)>> {
        self.roots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names the future behind a coroutine that `block_on` has made.
    pub(crate) fn name_root(&self, id: CoroutineId, name: &'static str) -> RootName<'_> {
        self.roots().push((id, name));
        RootName(self, id)
    }

    /// Returns the name of the future behind a coroutine, if `block_on` has made it.
    pub(crate) fn root_name(&self, id: CoroutineId) -> Option<&'static str> {
        let roots = self.roots();
        roots
            .iter()
            .find(|root| root.0 == id)
            .map(|&(_, name)| name)
    }

    /// Tests whether no coroutine is ready that no worker serves; the answer may be outdated at
    /// once.
    #[cfg(feature = "tokio")]
    pub(crate) fn has_nothing_ready(&self) -> bool {
        self.executor.waiting().is_empty()
    }

    /// Wakes a parked worker, if there is one, to check for events that no other worker checks for.
    pub(crate) fn wake_successor(&self) {
        let entries = self.entries();
        let mut others = entries
            .iter()
            .filter(|entry| entry.role != WorkerRole::Bulk);
        let _ = others.any(|entry| entry.parker.wake_sleeper());
    }

    /// Wakes the spare workers that stand by, because the polls of a worker have become short.
    pub(crate) fn relieve_spares(&self) {
        if self.standing_by.load(Ordering::Relaxed) > 0 {
            let entries = self.entries();
            let spares = entries
                .iter()
                .filter(|entry| entry.role == WorkerRole::Spare);
            for entry in spares.filter(|entry| entry.parker.is_parked()) {
                if entry.parker.wake() == Wakeup::Interrupt {
                    self.reactor.interrupt();
                }
            }
        }
    }

    /// Returns the threads that are inside polls or may be.
    pub(crate) fn threads_in_polls(&self) -> Vec<ThreadId> {
        (self.entries().iter())
            .filter(|entry| !entry.is_inactive())
            .map(|entry| entry.parker.thread_id())
            .collect()
    }

    /// Lets no further spare worker begin, ends the sleep of the others, and returns their threads.
    pub(crate) fn stop_spares(&self) -> Vec<JoinHandle<()>> {
        self.spares.stop();
        let threads = self.spare_threads.lock();
        let threads = threads.unwrap_or_else(PoisonError::into_inner).take();
        threads.unwrap_or_default()
    }

    /// Counts the threads of spare workers; none once the runtime stops.
    pub(crate) fn count_spares(&self) -> usize {
        let threads = self.spare_threads.lock();
        let threads = threads.unwrap_or_else(PoisonError::into_inner);
        threads.as_ref().map_or(0, Vec::len)
    }

    pub(crate) fn wake_all(&self) {
        for entry in self.entries().iter() {
            entry.wake(&self.reactor);
        }
        if let Some(pause) = self.pause.get() {
            pause.note_awake();
        }
    }

    /// Wakes the thread that drains if there is no coroutine left; called by workers after each
    /// batch.
    #[inline]
    pub(crate) fn note_progress(&self) {
        #[cfg(feature = "recording")]
        if let Some(recorder) = self.recorder {
            recorder.note_release();
        }
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
