//! The executor that all harts serve, and what is more urgent than what runs here.

use corank::{Config, Levels, Priority, Published, SharedExecutor};
use corank_abi::page::SystemPage;
use core::sync::atomic::Ordering;
use spin::Once;

static EXECUTOR: Once<SharedExecutor> = Once::new();

/// The page in which the executor publishes what is ready.
static PAGE: Once<&'static SystemPage> = Once::new();

/// Makes the executor, which lets a hart `pause` that has spun for long.
///
/// It publishes in the system's page what is ready and that no hart serves. That is the system's
/// bitmap, always up to date (rules G7 and H7).
pub(crate) fn init(page: &'static SystemPage, pause: extern "C" fn()) {
    const { assert!(size_of::<Published>() <= core::mem::offset_of!(SystemPage, timebase_hz)) };
    // SAFETY: the page starts with the same three words as `Published`, all of them atomic; it
    // stays for ever, and nothing else writes them.
    let published = unsafe { &*core::ptr::from_ref(page).cast::<Published>() };
    let config = Config::new().publish_to(published).relax(pause);
    PAGE.call_once(|| page);
    EXECUTOR.call_once(|| SharedExecutor::with(config));
}

/// Returns the executor, which all harts serve.
///
/// # Panics
/// Before [`init`].
pub(crate) fn executor() -> &'static SharedExecutor {
    EXECUTOR.get().expect("made when the first hart starts")
}

/// Returns the page that every process can read.
///
/// # Panics
/// Before [`init`].
pub(crate) fn system_page() -> &'static SystemPage {
    PAGE.get().expect("made when the first hart starts")
}

/// Returns the priority of a level.
///
/// A level that does not exist counts as the least urgent.
pub(crate) fn priority(level: u8) -> Priority {
    Priority::new(level).unwrap_or(Priority::LEAST_URGENT)
}

/// Returns the live level of the coroutine of the kernel that calls this.
pub(crate) fn current_level() -> u8 {
    corank::current()
        .and_then(|coroutine| executor().priority(coroutine))
        .unwrap_or_default()
        .level()
}

/// Tests whether anything is ready that no hart serves and that is strictly more urgent than
/// `priority`.
#[inline]
pub(crate) fn is_more_urgent_ready(priority: Priority) -> bool {
    // What the executor publishes, without asking the executor: each system call comes here.
    let ready = system_page().ready.load(Ordering::Relaxed);
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
    let ready = system_page().ready.load(Ordering::Relaxed) != 0;
    (pending || ready) && must_yield(pending)
}

/// Tests whether anything has arrived that the executor takes when the calling coroutine yields.
///
/// False where no coroutine runs.
pub(crate) fn has_arrivals() -> bool {
    let arriving = system_page().arriving.load(Ordering::Relaxed);
    arriving != 0 && corank::current().is_some()
}

#[cold]
fn must_yield(pending: bool) -> bool {
    let current = corank::current().and_then(|coroutine| executor().priority(coroutine));
    current.is_some_and(|priority| pending || is_more_urgent_ready(priority))
}
