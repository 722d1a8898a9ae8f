//! A coroutine's budget of operations in a row: I/O that is always ready must not keep a worker
//! from more urgent coroutines.

use std::cell::Cell;
use std::task::{Context, Poll};

use corank::{CoroutineId, current};

/// Limits the operations in a row that a coroutine completes without waiting; before the next one
/// it lets others run.
pub const OPERATIONS_IN_A_ROW: u32 = 32;

thread_local! {
    /// The coroutine of the last operation on this thread, and its operations in a row.
    static SPENT: Cell<(Option<CoroutineId>, u32)> = const { Cell::new((None, 0)) };
}

/// Takes one operation from the budget.
///
/// Returns pending if the coroutine is to let others run first. Then it is ready again.
pub(crate) fn poll_proceed(cx: &Context<'_>) -> Poll<()> {
    let me = current();
    let proceed = SPENT.try_with(|spent| {
        let (last, count) = spent.get();
        let count = if last == me { count } else { 0 };
        let proceed = count < OPERATIONS_IN_A_ROW;
        spent.set((me, if proceed { count + 1 } else { 0 }));
        proceed
    });
    // Code outside a coroutine has no budget.
    if me.is_none() || proceed.unwrap_or(true) {
        return Poll::Ready(());
    }
    cx.waker().wake_by_ref();
    Poll::Pending
}

/// Renews the budget, because the coroutine waits and others run.
pub(crate) fn renew() {
    let _ = SPENT.try_with(|spent| spent.set((None, 0)));
}
