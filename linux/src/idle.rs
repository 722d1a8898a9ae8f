//! Parks and wakes idle workers, and decides which worker checks for events meanwhile.
//!
//! One idle worker *watches*: it sleeps in the kernel until there is an event, or until the next
//! timer is due. The other idle workers park. No worker needs to watch while a busy worker is
//! *short-polling*: its polls have been so short that it checks for events before a watcher could
//! have.
//!
//! A worker that stops watching or short-polling wakes a parked successor if no other worker checks
//! for events. If the poll of a short-polling worker does not end, the [watchdog](crate::watchdog)
//! does that for it.
//!
//! ```text
//!            park                      wake               resume
//!   awake ───────────▶ sleeps|watches ───────▶ notified ────────▶ awake
//!     │                     wake                  ▲
//!     └───────────────────────────────────────────┘
//! ```

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(loom)]
use loom::thread::{self, Thread};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(not(loom))]
use std::thread::{self, Thread};

const AWAKE: u8 = 0;
/// Asleep on its own thread.
const SLEEPS: u8 = 1;
/// Asleep in the kernel, waiting for events, or as a task of another scheduler.
const WATCHES: u8 = 2;
/// Woken, and has not polled since.
const NOTIFIED: u8 = 3;

/// Set in a worker's busy time while it is inside a batch. The rest is then the time at which the
/// batch began, less the time in batches before, and otherwise the time in batches.
///
/// So one word says all, and a reader never finds one half of a change.
const BATCH: u64 = 1 << 63;

/// Parks one worker, and wakes it.
pub(crate) struct Parker {
    state: AtomicU8,
    /// Set while [`Watch`] counts the worker as short-polling.
    ///
    /// The worker sets it after it was counted; whichever thread clears it then subtracts it from
    /// the count.
    short_polling: AtomicBool,
    /// Number of polls begun, for the watchdog.
    polls: AtomicU64,
    /// When the last batch of polls began, in nanoseconds of the runtime's clock; 0 before the
    /// first one, and while a spare worker does not poll.
    batch: AtomicU64,
    /// The time in batches; see [`BATCH`].
    busy: AtomicU64,
    /// The number of the poll that the watchdog has found twice, and when it found it first.
    held: (AtomicU64, AtomicU64),
    thread: Thread,
}

/// States what the caller of [`Parker::wake`] still has to do.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wakeup {
    /// Nothing: the worker was awake or already woken, or has been unparked.
    Done,
    /// Interrupt the reactor: the worker sleeps in the kernel.
    Interrupt,
}

impl Parker {
    /// Creates the parker of the worker on this thread.
    pub(crate) fn current() -> Self {
        Self {
            state: AtomicU8::new(AWAKE),
            short_polling: AtomicBool::new(false),
            polls: AtomicU64::new(0),
            batch: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            held: (AtomicU64::new(0), AtomicU64::new(0)),
            thread: thread::current(),
        }
    }

    /// Begins a sleep that another scheduler makes; returns false if the worker was woken before.
    ///
    /// Ends with [`end_sleep`](Self::end_sleep).
    #[cfg(feature = "tokio")]
    pub(crate) fn begin_sleep(&self) -> bool {
        self.transition(AWAKE, WATCHES)
    }

    /// Tests whether the worker was woken since [`begin_sleep`](Self::begin_sleep); if so, it is
    /// awake.
    #[cfg(feature = "tokio")]
    pub(crate) fn end_sleep(&self) -> bool {
        self.transition(NOTIFIED, AWAKE)
    }

    /// Counts a poll that begins; called by the worker itself.
    #[inline]
    pub(crate) fn note_poll(&self) {
        // Only this worker writes it.
        let polls = self.polls.load(Ordering::Relaxed);
        self.polls.store(polls.wrapping_add(1), Ordering::Relaxed);
    }

    pub(crate) fn polls(&self) -> u64 {
        self.polls.load(Ordering::Relaxed)
    }

    /// Notes that a batch of polls begins; called by the worker itself.
    pub(crate) fn begin_batch(&self, now: u64) {
        self.batch.store(now, Ordering::Relaxed);
        // Only this worker writes it.
        let busy = self.busy.load(Ordering::Relaxed);
        let begin = now.saturating_sub(busy) | BATCH;
        self.busy.store(begin, Ordering::Relaxed);
    }

    /// Counts the time of a batch of polls that ends; called by the worker itself.
    pub(crate) fn count_batch(&self, now: u64) {
        let begin = self.busy.load(Ordering::Relaxed) & !BATCH;
        self.busy
            .store(now.saturating_sub(begin), Ordering::Relaxed);
    }

    /// Returns the time that the worker has spent in batches of polls until now, in nanoseconds.
    pub(crate) fn busy_time(&self, now: u64) -> u64 {
        let busy = self.busy.load(Ordering::Relaxed);
        if busy & BATCH == 0 {
            busy
        } else {
            now.saturating_sub(busy & !BATCH)
        }
    }

    /// Notes that the watchdog has found the poll with this number before, at `since`; 0 for a poll
    /// that it has found once.
    pub(crate) fn note_held(&self, poll: u64, since: u64) {
        self.held.1.store(0, Ordering::Relaxed);
        self.held.0.store(poll, Ordering::Relaxed);
        // Release, and Acquire in `held_since`: the number is that of this time.
        self.held.1.store(since, Ordering::Release);
    }

    /// Returns when the watchdog found the poll first that the worker is inside of; `None` if it
    /// has not found it twice.
    pub(crate) fn held_since(&self) -> Option<u64> {
        let since = self.held.1.load(Ordering::Acquire);
        let poll = self.held.0.load(Ordering::Relaxed);
        (since != 0 && poll == self.polls()).then_some(since)
    }

    /// Notes that a spare worker polls no more for now.
    pub(crate) fn end_batch(&self) {
        self.batch.store(0, Ordering::Relaxed);
    }

    /// Returns when the last batch of polls began, in nanoseconds of the runtime's clock.
    pub(crate) fn batch_begun(&self) -> u64 {
        self.batch.load(Ordering::Relaxed)
    }

    /// Returns the worker's thread.
    #[cfg(not(loom))]
    pub(crate) fn thread_id(&self) -> thread::ThreadId {
        self.thread.id()
    }

    /// Returns the name of the worker's thread.
    pub(crate) fn name(&self) -> &str {
        self.thread.name().unwrap_or("?")
    }

    /// Tests whether the worker is parked or watches; the answer may be outdated at once.
    pub(crate) fn is_parked(&self) -> bool {
        matches!(self.state.load(Ordering::Acquire), SLEEPS | WATCHES)
    }

    /// Ends the worker's sleep or, if it is awake, its next sleep.
    pub(crate) fn wake(&self) -> Wakeup {
        // Release: the worker that resumes after this sees the work that was published before.
        match self.state.swap(NOTIFIED, Ordering::AcqRel) {
            SLEEPS => {
                self.thread.unpark();
                Wakeup::Done
            }
            WATCHES => Wakeup::Interrupt,
            _ => Wakeup::Done,
        }
    }

    /// Wakes the worker if it sleeps on its thread; returns false if it does not.
    pub(crate) fn wake_sleeper(&self) -> bool {
        let woken = self.transition(SLEEPS, NOTIFIED);
        if woken {
            self.thread.unpark();
        }
        woken
    }

    /// Moves from one state to another; returns false if the parker was in a different state.
    fn transition(&self, from: u8, to: u8) -> bool {
        self.state
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Parks the worker, which has nothing to do and never watches.
    ///
    /// Returns at once if it was woken before.
    pub(crate) fn park_alone(&self) {
        if self.transition(AWAKE, SLEEPS) {
            self.sleep();
        }
        self.resume();
    }

    /// Sleeps on this thread until another thread wakes it.
    fn sleep(&self) {
        while self.state.load(Ordering::Acquire) == SLEEPS {
            thread::park();
        }
    }

    /// Returns to `AWAKE`: the worker polls for the work that it was woken for.
    fn resume(&self) {
        self.state.swap(AWAKE, Ordering::AcqRel);
    }
}

/// Records which workers check for events: an idle one that watches, and busy ones that are
/// short-polling.
///
/// A worker that stops checking and a worker that parks both write this word, and then read the
/// other's state. So the later of the two sees what the earlier one did.
///
pub(crate) struct Watch(AtomicUsize);

/// A worker sleeps in the kernel, or is about to.
const TAKEN: usize = 1;
/// One short-polling worker.
const SHORT_POLLING: usize = 2;

impl Watch {
    pub(crate) fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// Tests whether a worker watches or is about to; the answer may be outdated at once.
    pub(crate) fn is_taken(&self) -> bool {
        self.0.load(Ordering::Relaxed) & TAKEN != 0
    }

    /// Makes the caller the watcher if no worker checks for events; returns whether it did.
    fn take(&self) -> bool {
        // A write even if it changes nothing: that orders it among the other writes.
        self.0.fetch_or(0, Ordering::AcqRel) == 0
            && (self.0)
                .compare_exchange(0, TAKEN, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
    }

    /// Subtracts `what`; calls `wake_successor` if no worker is left that checks for events.
    fn end(&self, what: usize, wake_successor: impl FnOnce()) {
        if self.0.fetch_sub(what, Ordering::AcqRel) == what {
            wake_successor();
        }
    }

    /// Counts the busy worker of `parker` as short-polling; called by that worker.
    pub(crate) fn begin_short_polling(&self, parker: &Parker) {
        if !parker.short_polling.load(Ordering::Relaxed) {
            self.0.fetch_add(SHORT_POLLING, Ordering::AcqRel);
            parker.short_polling.store(true, Ordering::Release);
        }
    }

    /// Stops counting the worker of `parker` as short-polling, if it was counted.
    ///
    /// Calls `wake_successor`, which [wakes a sleeping worker](Parker::wake_sleeper), if no worker
    /// is left that checks for events.
    pub(crate) fn end_short_polling(&self, parker: &Parker, wake_successor: impl FnOnce()) {
        if parker.short_polling.swap(false, Ordering::AcqRel) {
            self.end(SHORT_POLLING, wake_successor);
        }
    }

    /// Parks the worker of `parker`, which has nothing to do.
    ///
    /// Returns at once if it was woken before.
    ///
    /// If no worker checks for events, calls `watch`, which sleeps in the kernel. Then calls
    /// `wake_successor`, which [wakes a sleeping worker](Parker::wake_sleeper), unless other
    /// workers check for events or this one is going to be `short_polling`. If another worker
    /// checks for events, sleeps until it is woken.
    pub(crate) fn park(
        &self,
        parker: &Parker,
        short_polling: bool,
        watch: impl FnOnce(),
        wake_successor: impl FnOnce(),
    ) {
        // It is going to watch, unless other workers check for events.
        self.end_short_polling(parker, || ());
        let watches = if self.take() {
            true
        } else if parker.transition(AWAKE, SLEEPS) {
            // The worker that checked for events may not have seen that this one sleeps.
            self.take() || {
                parker.sleep();
                false
            }
        } else {
            false
        };
        if watches && (parker.transition(AWAKE, WATCHES) || parker.transition(SLEEPS, WATCHES)) {
            watch();
        }
        // In this order, so that in between no worker begins to watch in vain.
        if short_polling {
            self.begin_short_polling(parker);
        }
        if watches {
            self.end(TAKEN, wake_successor);
        }
        parker.resume();
    }
}

/// Pauses a thread that has nothing to do while all workers are parked: the watchdog's.
pub(crate) struct Pause {
    paused: AtomicBool,
    thread: Thread,
}

impl Pause {
    /// Creates the pause of the current thread.
    pub(crate) fn current() -> Self {
        Self {
            paused: AtomicBool::new(false),
            thread: thread::current(),
        }
    }

    /// Sleeps until a worker is awake; called by the thread of this pause.
    ///
    /// Returns at once unless `all_parked` returns true.
    pub(crate) fn sleep(&self, all_parked: impl FnOnce() -> bool) {
        self.paused.store(true, Ordering::Relaxed);
        // Either a worker that resumes sees the pause, or `all_parked` sees that the worker is
        // awake.
        fence(Ordering::SeqCst);
        if all_parked() {
            while self.paused.load(Ordering::Acquire) {
                thread::park();
            }
        }
        self.paused.store(false, Ordering::Relaxed);
    }

    /// Ends the pause; called by a worker that resumes, and when the runtime stops.
    pub(crate) fn note_awake(&self) {
        fence(Ordering::SeqCst);
        if self.paused.load(Ordering::Relaxed) && self.paused.swap(false, Ordering::AcqRel) {
            self.thread.unpark();
        }
    }
}
