//! Watching an executor (feature `hooks`).

use core::fmt;

use crate::priority::Priority;
use crate::scheduling::config::Config;
use crate::scheduling::table::block::Flags;
use crate::scheduling::table::id::CoroutineId;

/// An observer of every transition of every coroutine.
///
/// It is called at the moment of the transition, on the thread that makes it: that of the executor
/// or, with several workers, the one that has the scheduler lock. It is for traces, such as events
/// of the crate `tracing`. Every method does nothing unless it is implemented. It is `Sync` because
/// one observer may serve several threads.
///
/// # Safety
/// The methods run in the middle of an operation, while the lists of ready coroutines and of
/// waiters are being changed. So they call nothing of this crate, neither directly nor by dropping
/// or waking something of it, and they do not panic.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use corank::{Config, CoroutineId, Executor, Observer, Priority};
///
/// struct Polls(AtomicU32);
/// // SAFETY: it counts, and nothing else.
/// unsafe impl Observer for Polls {
///     fn poll_started(&self, _: CoroutineId, _: Priority) {
///         self.0.fetch_add(1, Ordering::Relaxed);
///     }
/// }
/// static POLLS: Polls = Polls(AtomicU32::new(0));
///
/// let executor = Executor::with(Config::new().observer(&POLLS));
/// executor.spawn(Priority::DEFAULT, corank::yield_now())?;
/// executor.run_until_idle();
/// assert_eq!(POLLS.0.load(Ordering::Relaxed), 2);
/// # }
/// # Ok::<(), corank::SpawnError>(())
/// ```
///
/// ```compile_fail,E0200
/// struct Silent;
/// impl corank::Observer for Silent {}
/// ```
pub unsafe trait Observer: Sync {
    /// Reports that a new coroutine is ready.
    fn spawned(&self, id: CoroutineId, priority: Priority) {
        let _ = (id, priority);
    }

    /// Reports that a wake of a coroutine takes effect, whatever its state (rules W1 to W3).
    ///
    /// If the coroutine is blocked, `woken` follows at once. A coroutine that wakes itself on a
    /// shared executor is not reported here.
    fn wake_applied(&self, id: CoroutineId) {
        let _ = id;
    }

    /// Reports that a coroutine has become ready again.
    ///
    /// This is by a wake now, or by one during the poll that has just ended.
    fn woken(&self, id: CoroutineId, priority: Priority) {
        let _ = (id, priority);
    }

    /// Reports that a coroutine is about to be polled, at this effective priority.
    fn poll_started(&self, id: CoroutineId, priority: Priority) {
        let _ = (id, priority);
    }

    /// Reports that the poll is over, by return or panic.
    ///
    /// `woken`, `blocked` or `exited` follows for this coroutine.
    fn poll_ended(&self, id: CoroutineId) {
        let _ = id;
    }

    /// Reports that a coroutine is blocked, after its poll has ended without a wake.
    fn blocked(&self, id: CoroutineId) {
        let _ = id;
    }

    /// Reports that the poll of this coroutine is interrupted.
    ///
    /// Others are polled in the middle of it (rule S8).
    fn preempted(&self, id: CoroutineId) {
        let _ = id;
    }

    /// Reports that the poll of a preempted coroutine goes on, at this effective priority (rule
    /// S9).
    fn resumed(&self, id: CoroutineId, priority: Priority) {
        let _ = (id, priority);
    }

    /// Reports that a coroutine's effective priority has changed: its own, or what it inherits.
    fn reprioritized(&self, id: CoroutineId, from: Priority, to: Priority) {
        let _ = (id, from, to);
    }

    /// Reports that a coroutine has another base priority, before its effective one follows.
    fn base_changed(&self, id: CoroutineId, base: Priority) {
        let _ = (id, base);
    }

    /// Reports that `lender` donates its priority to `borrower` from now on (rule I1).
    ///
    /// The same two may be reported several times, once for each wait.
    fn donation_began(&self, lender: CoroutineId, borrower: CoroutineId) {
        let _ = (lender, borrower);
    }

    /// Reports that one donation of `lender` to `borrower` is over (rule I4).
    fn donation_ended(&self, lender: CoroutineId, borrower: CoroutineId) {
        let _ = (lender, borrower);
    }

    /// Reports that a coroutine has exited.
    ///
    /// What awaits it is woken next.
    fn exited(&self, id: CoroutineId, exit: Exit) {
        let _ = (id, exit);
    }
}

/// The way in which a coroutine ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// With its output.
    Finished,
    /// Its future was dropped.
    Cancelled,
    /// By a panic.
    Panicked,
}

impl Exit {
    pub(crate) fn of(result: Flags) -> Self {
        #[cfg(feature = "std")]
        if result == Flags::PANIC {
            return Self::Panicked;
        }
        if result == Flags::OUTPUT {
            Self::Finished
        } else {
            Self::Cancelled
        }
    }
}

/// The observer in a [`Config`].
#[derive(Clone, Copy, Default)]
pub(crate) struct Watch(pub(crate) Option<&'static dyn Observer>);

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "set" } else { "none" })
    }
}

impl Config {
    /// Sets the observer of every transition.
    pub const fn observer(mut self, observer: &'static dyn Observer) -> Self {
        self.observer = Watch(Some(observer));
        self
    }
}
