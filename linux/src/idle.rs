//! How idle workers park and are called, and which worker looks for events meanwhile.
//!
//! One idle worker *watches*: it sleeps in the kernel until there is an event, or until the next timer is due. The other idle workers
//! park. No worker needs to watch while a busy worker is *short-polling*: its polls have been so short that it looks for events before a
//! watcher could have. A worker that stops watching or short-polling, and leaves no other that does, wakes a successor among those parked.
//! If the poll of a short-polling worker does not end, the [watchdog](crate::watchdog) does that for it.
//!
//! ```text
//!           prepare                    wake                take
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
/// On its thread.
const SLEEPS: u8 = 1;
/// In the kernel.
const WATCHES: u8 = 2;
/// Called, and not looked since.
const NOTIFIED: u8 = 3;

/// Where one worker parks.
pub(crate) struct Parker {
    state: AtomicU8,
    /// Whether [`Watch`] counts it as short-polling. Set by the worker alone, after it was counted; cleared by whoever then counts it out.
    short_polling: AtomicBool,
    /// Polls that it has begun so far, for the watchdog.
    polls: AtomicU64,
    thread: Thread,
}

/// What to do to end somebody's sleep.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Nothing: it is awake, or has been called, or was unparked.
    Done,
    /// It sleeps in the kernel.
    Interrupt,
}

impl Parker {
    /// For the worker of this thread.
    pub(crate) fn here() -> Self {
        Self {
            state: AtomicU8::new(AWAKE),
            short_polling: AtomicBool::new(false),
            polls: AtomicU64::new(0),
            thread: thread::current(),
        }
    }

    /// By the worker, when it begins a poll.
    #[inline]
    pub(crate) fn note_poll(&self) {
        // Nobody else writes it.
        let polls = self.polls.load(Ordering::Relaxed);
        self.polls.store(polls.wrapping_add(1), Ordering::Relaxed);
    }

    pub(crate) fn polls(&self) -> u64 {
        self.polls.load(Ordering::Relaxed)
    }

    /// What its thread is called.
    pub(crate) fn name(&self) -> &str {
        self.thread.name().unwrap_or("?")
    }

    /// Whether the worker has nothing to do, or had nothing a moment ago.
    pub(crate) fn is_parked(&self) -> bool {
        matches!(self.state.load(Ordering::Acquire), SLEEPS | WATCHES)
    }

    /// Ends the worker's sleep or, if it is awake, its next one.
    pub(crate) fn wake(&self) -> Call {
        // Release: what is to be done is seen by the worker that takes this.
        match self.state.swap(NOTIFIED, Ordering::AcqRel) {
            SLEEPS => {
                self.thread.unpark();
                Call::Done
            }
            WATCHES => Call::Interrupt,
            _ => Call::Done,
        }
    }

    /// Wakes the worker if it sleeps on its thread; false if not.
    pub(crate) fn wake_sleeper(&self) -> bool {
        let woken = self.change(SLEEPS, NOTIFIED);
        if woken {
            self.thread.unpark();
        }
        woken
    }

    /// False if it was called meanwhile.
    fn change(&self, from: u8, to: u8) -> bool {
        self.state
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Sleeps until it is called.
    fn sleep(&self) {
        while self.state.load(Ordering::Acquire) == SLEEPS {
            thread::park();
        }
    }

    /// Awake again: it is going to look for whatever it was called for.
    fn take(&self) {
        self.state.swap(AWAKE, Ordering::AcqRel);
    }
}

/// Whether events are looked after: by one who watches, or by busy workers that are short-polling.
///
/// Both who ends that and who goes to sleep change this word, and then look at the other's: whoever comes second sees what the first one
/// did.
pub(crate) struct Watch(AtomicUsize);

/// Somebody sleeps in the kernel, or is about to.
const TAKEN: usize = 1;
/// One short-polling worker.
const SHORT_POLLING: usize = 2;

impl Watch {
    pub(crate) fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// Whether somebody sleeps in the kernel, or is about to. It may be otherwise when this returns.
    pub(crate) fn is_taken(&self) -> bool {
        self.0.load(Ordering::Relaxed) & TAKEN != 0
    }

    /// True if nobody looked after events: now the caller does.
    fn take(&self) -> bool {
        // A write even where it changes nothing: that orders it among the others'.
        self.0.fetch_or(0, Ordering::AcqRel) == 0
            && (self.0)
                .compare_exchange(0, TAKEN, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
    }

    /// Ends what the word says of the caller; calls `wake_successor` if that leaves nobody who looks after events.
    fn end(&self, what: usize, wake_successor: impl FnOnce()) {
        if self.0.fetch_sub(what, Ordering::AcqRel) == what {
            wake_successor();
        }
    }

    /// The busy worker at `parker` is short-polling from now on. To be called by that worker.
    pub(crate) fn begin_short_polling(&self, parker: &Parker) {
        if !parker.short_polling.load(Ordering::Relaxed) {
            self.0.fetch_add(SHORT_POLLING, Ordering::AcqRel);
            parker.short_polling.store(true, Ordering::Release);
        }
    }

    /// The worker at `parker` is not short-polling any more, if it was; calls `wake_successor`, which [wakes one who sleeps](Parker::wake_sleeper), if that leaves
    /// nobody who looks after events.
    pub(crate) fn end_short_polling(&self, parker: &Parker, wake_successor: impl FnOnce()) {
        if parker.short_polling.swap(false, Ordering::AcqRel) {
            self.end(SHORT_POLLING, wake_successor);
        }
    }

    /// The worker at `parker` has nothing to do: calls `watch`, which sleeps in the kernel, if nobody looks after events, and then `wake_successor`,
    /// which [wakes one who sleeps](Parker::wake_sleeper), unless others look or this one will be `short_polling`; else sleeps until it is called.
    /// Returns at once if it was called before.
    pub(crate) fn park(
        &self,
        parker: &Parker,
        short_polling: bool,
        watch: impl FnOnce(),
        wake_successor: impl FnOnce(),
    ) {
        // It is going to watch itself, unless others do.
        self.end_short_polling(parker, || ());
        let watches = if self.take() {
            true
        } else if parker.change(AWAKE, SLEEPS) {
            // Whoever looked after events just now has perhaps not seen that this one sleeps.
            self.take() || {
                parker.sleep();
                false
            }
        } else {
            false
        };
        if watches && (parker.change(AWAKE, WATCHES) || parker.change(SLEEPS, WATCHES)) {
            watch();
        }
        // First the one, then the other: in between nobody goes to watch in vain.
        if short_polling {
            self.begin_short_polling(parker);
        }
        if watches {
            self.end(TAKEN, wake_successor);
        }
        parker.take();
    }
}

/// Where someone sleeps who has nothing to do while all workers are parked.
pub(crate) struct Pause {
    paused: AtomicBool,
    thread: Thread,
}

impl Pause {
    /// For the caller's thread.
    pub(crate) fn here() -> Self {
        Self {
            paused: AtomicBool::new(false),
            thread: thread::current(),
        }
    }

    /// By that thread: sleeps until a worker is awake. Returns at once unless `all_parked`.
    pub(crate) fn sleep(&self, all_parked: impl FnOnce() -> bool) {
        self.paused.store(true, Ordering::Relaxed);
        // Either a worker that was parked sees that a thread pauses, or it is seen here not to be parked.
        fence(Ordering::SeqCst);
        if all_parked() {
            while self.paused.load(Ordering::Acquire) {
                thread::park();
            }
        }
        self.paused.store(false, Ordering::Relaxed);
    }

    /// By a worker that was parked, or whoever ended that for good: ends the sleep.
    pub(crate) fn note_awake(&self) {
        fence(Ordering::SeqCst);
        if self.paused.load(Ordering::Relaxed) && self.paused.swap(false, Ordering::AcqRel) {
            self.thread.unpark();
        }
    }
}
