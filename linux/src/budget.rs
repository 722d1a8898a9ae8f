//! What a coroutine may do in a row: I/O that is always ready must not keep a worker from looking for what is more urgent.

use std::cell::Cell;
use std::task::{Context, Poll};

use corank::{CoroutineId, current};

/// After so many operations in a row that didn't have to wait, the next one lets others run first.
pub const OPERATIONS_IN_A_ROW: u32 = 32;

thread_local! {
    /// Who did the last operation on this thread, and how many in a row.
    static SPENT: Cell<(Option<CoroutineId>, u32)> = const { Cell::new((None, 0)) };
}

/// To be asked before an operation. Pending if the coroutine shall let others run; it is ready again.
pub(crate) fn poll_proceed(cx: &Context<'_>) -> Poll<()> {
    let me = current();
    let proceed = SPENT.try_with(|spent| {
        let (who, count) = spent.get();
        let count = if who == me { count } else { 0 };
        let proceed = count < OPERATIONS_IN_A_ROW;
        spent.set((me, if proceed { count + 1 } else { 0 }));
        proceed
    });
    // What is no coroutine is nobody's business.
    if me.is_none() || proceed.unwrap_or(true) {
        return Poll::Ready(());
    }
    cx.waker().wake_by_ref();
    Poll::Pending
}

/// The coroutine waits: others run.
pub(crate) fn renew() {
    let _ = SPENT.try_with(|spent| spent.set((None, 0)));
}
