//! A scheduler in the program itself.
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

static CONTEXT: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

// There is one thread.
corank::context_slot! {
    get: || CONTEXT.load(Ordering::Relaxed),
    set: |context| CONTEXT.store(context.cast_mut(), Ordering::Relaxed),
}

/// Nothing has to be found.
pub(crate) fn init() {}
