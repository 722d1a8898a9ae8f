//! The budget of a poll (rule O8): how many operations that are ready at once a coroutine makes
//! before it lets others run.
//!
//! An operation is one `await` of a primitive, or of I/O, that need not wait. A poll that makes one
//! after the other would otherwise keep its worker, and nothing would be picked or fired, and no
//! event seen, as long as it goes on. So each such operation first asks [`take`].
//!
//! ```text
//!   poll begins: nothing used
//!   take ── the first operation ─────────────────────────────▶ granted
//!        ── all are used, the time is over, or something
//!           more urgent is ready ────────────────────────────▶ refused: the caller wakes itself,
//!        ── otherwise ───────────────────────────────────────▶ granted     and ends pending
//! ```
//!
//! There is no budget without a heap, where it would cost each poll some instructions, and none in
//! an image, whose clients do not see into the scheduler.

use core::task::{Context, Poll};

use crate::scheduling::scheduler::Scheduler;

#[cfg(all(feature = "heap", not(feature = "image")))]
pub(crate) mod spending;

/// Takes one operation from the budget of the poll that goes on here.
///
/// Returns false if the coroutine is to let others run first. Code outside a poll has no budget.
#[inline]
pub(crate) fn take() -> bool {
    #[cfg(all(feature = "heap", not(feature = "image")))]
    return spending::take();
    #[cfg(not(all(feature = "heap", not(feature = "image"))))]
    true
}

/// Takes one operation as [`take`] does, of an executor that mostly is the one that runs here.
///
/// It costs less where that executor has no budget.
#[inline]
pub(crate) fn take_for(scheduler: &Scheduler) -> bool {
    #[cfg(all(feature = "heap", not(feature = "image")))]
    return scheduler.budget().is_none() || take();
    #[cfg(not(all(feature = "heap", not(feature = "image"))))]
    {
        let _ = scheduler;
        true
    }
}

/// Takes one operation from the budget of the poll that goes on here (rule O8).
///
/// To be called before an operation that need not wait, by primitives that are not this crate's,
/// such as I/O. If it is pending, the operation is not made: the task has been woken, and the poll
/// should end. Outside a coroutine, and where the executor has [no budget](crate::Config::budget),
/// it is always ready.
///
/// Cost: a few loads, and one reading of the clock.
#[inline]
pub fn poll_proceed(cx: &Context<'_>) -> Poll<()> {
    if take() {
        return Poll::Ready(());
    }
    cx.waker().wake_by_ref();
    Poll::Pending
}
