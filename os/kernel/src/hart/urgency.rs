//! The executor that all harts serve, and what is more urgent than what runs here.

use crate::clock;
use corank::{Levels, Priority, SharedExecutor};
use core::sync::atomic::Ordering;
use spin::Once;

/// The executor that all harts serve.
pub(super) static EXECUTOR: Once<SharedExecutor> = Once::new();

/// Returns the executor, which all harts serve.
///
/// # Panics
/// Before the first hart has started.
pub(crate) fn executor() -> &'static SharedExecutor {
    EXECUTOR.get().expect("made when the first hart starts")
}

/// Tests whether anything is ready that no hart serves and that is strictly more urgent than
/// `priority`.
#[inline]
pub(crate) fn is_more_urgent_ready(priority: Priority) -> bool {
    // What the executor publishes (see `clock::make_executor`), without asking the executor: each
    // system call comes here.
    let ready = clock::system_page().ready.load(Ordering::Relaxed);
    let ready = Levels::from_bits(ready).most_urgent();
    ready.is_some_and(|ready| ready.is_more_urgent_than(priority))
}

/// Tests whether the coroutine that calls this should yield.
///
/// It should if an interrupt is pending, or if something strictly more urgent is ready. False where
/// no coroutine runs.
#[inline]
pub(crate) fn has_more_urgent_work() -> bool {
    let pending = riscv::register::sip::read().bits() != 0;
    let ready = clock::system_page().ready.load(Ordering::Relaxed) != 0;
    (pending || ready) && must_yield(pending)
}

/// Tests whether anything has arrived that the executor takes in when the calling coroutine yields.
///
/// False where no coroutine runs.
pub(crate) fn has_arrivals() -> bool {
    let arriving = clock::system_page().arriving.load(Ordering::Relaxed);
    arriving != 0 && corank::current().is_some()
}

#[cold]
fn must_yield(pending: bool) -> bool {
    let current = corank::current().and_then(|coroutine| executor().priority(coroutine));
    current.is_some_and(|priority| pending || is_more_urgent_ready(priority))
}
