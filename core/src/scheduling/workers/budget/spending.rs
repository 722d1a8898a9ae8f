//! What a worker spends of the budget of its poll.

use core::cell::Cell;
use core::num::NonZeroU32;
use core::time::Duration;

use crate::priority::Levels;
use crate::scheduling::scheduler::Scheduler;
use crate::scheduling::table::block::BlockRef;
use crate::scheduling::workers::context;
use crate::scheduling::workers::worker_context::WorkerContext;

/// The operations that a poll may make without waiting, as
/// [`Config::budget`](crate::Config::budget) sets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    operations: NonZeroU32,
    /// In nanoseconds, from the first operation in one call that runs coroutines.
    time: u64,
}

/// The refusals in one poll after which the budget begins anew.
///
/// A coroutine that is refused ends its poll. If it does not, it polls in a loop of its own, such
/// as that of a `block_on`, and would never end it.
const MOST_REFUSALS: u32 = 1024;

impl Budget {
    pub(crate) const fn new(operations: NonZeroU32, time: Duration) -> Self {
        Self {
            operations,
            time: time.as_nanos() as u64,
        }
    }
}

/// Takes one operation from the budget of the poll that goes on here; see [`super::take`].
#[inline]
pub(super) fn take() -> bool {
    match context::worker_context() {
        Some(here) if here.spending.allowed.get() > 0 => take_here(here),
        #[cfg(feature = "std")]
        Some(here) if !here.outer.get().is_null() => {
            // SAFETY: a passing worker context is used on one thread, while what was entered before
            // stays.
            take_here(unsafe { &*here.outer.get() })
        }
        _ => true,
    }
}

/// Takes one operation where polls have a budget.
#[inline(never)]
fn take_here(here: &WorkerContext) -> bool {
    let Some(block) = here.current.get() else {
        return true;
    };
    let scheduler = Scheduler::of(block);
    match scheduler.budget() {
        None => true,
        Some(budget) => scheduler.take_operation(here, block, budget),
    }
}

impl Scheduler {
    /// Takes an operation from the budget of the poll of `block` at `here`.
    ///
    /// It needs no scheduler lock.
    fn take_operation(&self, here: &WorkerContext, block: BlockRef, budget: Budget) -> bool {
        let spending = &here.spending;
        let used = spending.operations.get();
        let granted = if used == 0 {
            // Asked for the first one, too: with it the time begins.
            self.has_time(here, budget);
            true
        } else {
            used < budget.operations.get()
                && !self.is_urgent_ready(block)
                && self.has_time(here, budget)
        };
        if granted {
            spending.operations.set(used + 1);
            return true;
        }
        let refused = spending.refused.get() + 1;
        spending.refused.set(refused);
        if refused >= MOST_REFUSALS {
            spending.begin_poll();
        }
        false
    }

    /// Tests whether something strictly more urgent than `block` is ready, or has arrived.
    fn is_urgent_ready(&self, block: BlockRef) -> bool {
        let published = self.published();
        let waiting: Levels = published.ready().union(published.arriving());
        let most_urgent = waiting.most_urgent();
        #[cfg(all(feature = "std", target_has_atomic = "64"))]
        let most_urgent = match &self.post {
            None => most_urgent,
            // The union has what this shard shows, and this one may have more.
            Some(post) => most_urgent
                .into_iter()
                .chain(post.board.most_urgent())
                .min(),
        };
        most_urgent.is_some_and(|level| level.is_more_urgent_than(block.level()))
    }

    /// Tests whether the time is not over. When it is, the call that runs coroutines ends after
    /// this poll, so that timers fire and the platform checks for events.
    fn has_time(&self, here: &WorkerContext, budget: Budget) -> bool {
        let Some(now) = self.timers.read_clock() else {
            return true;
        };
        let spending = &here.spending;
        let end = spending.end.get();
        if end == 0 {
            spending.end.set(now.saturating_add(budget.time));
            return true;
        }
        if now < end {
            return true;
        }
        spending.end_call();
        false
    }
}

/// What a worker has used of its budget. It belongs to the worker's thread alone.
#[derive(Clone, Default)]
pub(crate) struct Spending {
    /// The operations that a poll may make; 0 without a budget.
    allowed: Cell<u32>,
    /// Operations granted in this poll.
    operations: Cell<u32>,
    /// Operations refused in this poll.
    refused: Cell<u32>,
    /// When the time is over, in nanoseconds; 0 if it has not begun.
    end: Cell<u64>,
    /// The polls that are left in the call that runs coroutines here.
    pub(crate) left: Cell<u32>,
    /// The polls that the call gives up because the time is over.
    given_up: Cell<u32>,
    /// Whether the call ends because the time is over.
    is_over: Cell<bool>,
}

impl Spending {
    /// Sets the budget of each poll from now on.
    pub(crate) fn allow(&self, budget: Option<Budget>) {
        let allowed = budget.map_or(0, |budget| budget.operations.get());
        self.allowed.set(allowed);
    }

    /// Begins the budget of a poll.
    #[inline]
    pub(crate) fn begin_poll(&self) {
        self.operations.set(0);
        self.refused.set(0);
    }

    /// Begins a call that runs coroutines.
    #[inline]
    pub(crate) fn begin_call(&self) {
        self.end.set(0);
        self.is_over.set(false);
    }

    /// Makes the call that runs coroutines return after this poll.
    fn end_call(&self) {
        if !self.is_over.replace(true) {
            self.given_up.set(self.left.replace(0));
        }
    }

    /// Goes on with what `other` says, after polls in the midst of another one.
    pub(crate) fn restore(&self, other: &Self) {
        self.operations.set(other.operations.get());
        self.refused.set(other.refused.get());
        self.end.set(other.end.get());
        self.left.set(other.left.get());
        self.given_up.set(other.given_up.get());
        self.is_over.set(other.is_over.get());
    }

    /// Returns how many polls of a round the call gave up.
    #[inline]
    pub(crate) fn take_given_up(&self) -> u32 {
        self.given_up.take()
    }

    /// Tests whether the call ends because the time is over.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.get()
    }
}
