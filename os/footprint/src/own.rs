//! A scheduler in the program itself.
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

static CONTEXT: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

struct Slot;

// SAFETY: there is one thread, and no interrupt handler uses the scheduler.
unsafe impl corank::ContextSlot for Slot {
    fn get() -> *const () {
        CONTEXT.load(Ordering::Relaxed)
    }

    fn set(context: *const ()) {
        CONTEXT.store(context.cast_mut(), Ordering::Relaxed);
    }
}

corank::context_slot!(Slot);

/// Does nothing, because the scheduler is linked in.
pub(crate) fn init() {}
