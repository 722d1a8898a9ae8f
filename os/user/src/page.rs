//! The pages that this process shares with the kernel.
use corank_abi::page::worker_page;
pub use corank_abi::page::{
    DEFAULT_LEVEL, Deadlines, PAGE_SIZE, PROCESS_PAGE, ProcessPage, SYSTEM_PAGE, SystemPage,
    WORKERS,
};

use crate::local;

/// Returns what this process publishes of its coroutines (AsyncOS, section 2.3.2.1), as far as they
/// are worker 0's.
///
/// A program with one executor is that worker.
#[inline]
#[must_use]
pub fn process() -> &'static ProcessPage {
    // SAFETY: the kernel maps the page into every process, readable and writable, for as long as it
    // lives; all fields are atomic.
    unsafe { &*core::ptr::with_exposed_provenance(PROCESS_PAGE) }
}

/// Returns what the calling thread publishes of its coroutines: its own page if it runs an
/// executor, or ever did, else that of worker 0.
#[inline]
#[must_use]
pub fn here() -> &'static ProcessPage {
    // SAFETY: as above; the pages of workers also stay.
    unsafe { &*core::ptr::with_exposed_provenance(local::block().page.get()) }
}

/// Returns a worker's page.
pub(crate) fn of(worker: usize) -> &'static ProcessPage {
    // SAFETY: as above: a caller that has a worker's number knows that there was one.
    unsafe { &*core::ptr::with_exposed_provenance(worker_page(worker)) }
}

/// Returns what the kernel publishes for all processes.
#[inline]
#[must_use]
pub fn system() -> &'static SystemPage {
    // SAFETY: the kernel maps the page into every process, read-only, for as long as it lives; all
    // fields are atomic and this crate never writes them.
    unsafe { &*core::ptr::with_exposed_provenance(SYSTEM_PAGE) }
}
