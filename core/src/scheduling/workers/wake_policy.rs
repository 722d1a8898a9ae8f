//! The wake policy: whether a worker wakes another one for what it makes ready (rule H8).

use core::cell::Cell;

/// The wake policy of one worker. Only its own thread touches it.
///
/// A worker that will check the queues next suppresses wakes, because it takes the work itself. A
/// worker that is in a long poll does not.
#[repr(C)]
pub(crate) struct WakePolicy {
    suppresses: Cell<bool>,
    has_short_polls: Cell<bool>,
    left_work_over: Cell<bool>,
}

impl WakePolicy {
    /// Makes the policy of a worker with long polls, which always wakes another one.
    pub(crate) fn new() -> Self {
        Self {
            suppresses: Cell::new(false),
            has_short_polls: Cell::new(false),
            left_work_over: Cell::new(false),
        }
    }

    /// Tests whether the worker wakes no other one now.
    #[inline]
    pub(crate) fn suppresses(&self) -> bool {
        self.suppresses.get()
    }

    /// Sets whether the worker wakes no other one from now on. Returns what was set before.
    #[inline]
    pub(crate) fn suppress(&self, suppresses: bool) -> bool {
        self.suppresses.replace(suppresses)
    }

    /// Sets whether the worker's polls are short.
    #[cfg(feature = "heap")]
    pub(crate) fn set_short_polls(&self, are_short: bool) {
        self.has_short_polls.set(are_short);
    }

    /// Begins a poll, which leaves other work in the queues or not.
    ///
    /// Among short polls, wakes are suppressed until [`poll_runs`](Self::poll_runs) unless work was
    /// left over at the last poll, too.
    #[inline]
    pub(crate) fn poll_begins(&self, leaves_work_over: bool) {
        let left_before = self.left_work_over.replace(leaves_work_over);
        self.suppresses
            .set(self.has_short_polls.get() && !left_before);
    }

    /// Declares that the poll runs: a short one suppresses wakes.
    #[inline]
    pub(crate) fn poll_runs(&self) {
        self.suppresses.set(self.has_short_polls.get());
    }
}
