//! The pages that this process shares with the kernel.
pub use corank_abi::page::{
    DEFAULT_LEVEL, Deadlines, PAGE_SIZE, PROCESS_PAGE, ProcessPage, SYSTEM_PAGE, SystemPage,
};

/// What this process says of its coroutines (seed 003, section 2.3.2.1).
#[inline]
#[must_use]
pub fn process() -> &'static ProcessPage {
    // SAFETY: the kernel maps the page into every process, readable and writable, for as long as it lives; all fields are atomic.
    unsafe { &*core::ptr::with_exposed_provenance(PROCESS_PAGE) }
}

/// What the kernel says to everyone.
#[inline]
#[must_use]
pub fn system() -> &'static SystemPage {
    // SAFETY: the kernel maps the page into every process, read-only, for as long as it lives; all fields are atomic and this
    // crate never writes them.
    unsafe { &*core::ptr::with_exposed_provenance(SYSTEM_PAGE) }
}
