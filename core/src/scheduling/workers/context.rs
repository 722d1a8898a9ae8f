//! Which executor runs *here*: one pointer per thread, hart or processor core, to the
//! [`WorkerContext`] from which it runs.
//!
//! It answers two questions:
//! - On which executor do [`crate::spawn`] and its like act?
//! - Is a waker being called by the executor's own thread, so that the ready queues may be touched
//!   without atomics?
//!
//! All other code, an interrupt handler on the same hart included, must see null (or another
//! executor) and goes through the inbox.
//!
//! With `std` the slot is a thread-local variable. Without it the port supplies the slot with
//! [`context_slot!`].
//!
//! [`context_slot!`]: crate::context_slot

use crate::scheduling::scheduler::Scheduler;
use crate::scheduling::table::block::BlockRef;
use crate::scheduling::workers::worker_context::WorkerContext;

#[cfg(all(feature = "std", not(loom)))]
mod slot {
    use core::cell::Cell;

    std::thread_local! {
        static SLOT: Cell<*const ()> = const { Cell::new(core::ptr::null()) };
    }

    pub(super) fn get() -> *const () {
        // During the destruction of a thread's local variables no executor runs there any more.
        SLOT.try_with(Cell::get).unwrap_or(core::ptr::null())
    }

    pub(super) fn set(context: *const ()) {
        SLOT.with(|slot| slot.set(context));
    }
}

#[cfg(loom)]
mod slot {
    use core::cell::Cell;

    loom::thread_local! {
        static SLOT: Cell<*const ()> = Cell::new(core::ptr::null());
    }

    pub(super) fn get() -> *const () {
        SLOT.with(Cell::get)
    }

    pub(super) fn set(context: *const ()) {
        SLOT.with(|slot| slot.set(context));
    }
}

#[cfg(all(feature = "image", target_arch = "riscv64"))]
mod slot {
    use crate::scheduling::image::CONTEXT_SLOT;
    use core::arch::asm;

    #[inline]
    pub(super) fn get() -> *const () {
        let context;
        // SAFETY: the client keeps the slot there (see `crate::scheduling::image`).
        unsafe {
            asm!("ld {}, {}(tp)", out(reg) context, const CONTEXT_SLOT, options(nostack, preserves_flags, readonly));
        }
        context
    }

    #[inline]
    pub(super) fn set(context: *const ()) {
        // SAFETY: as above.
        unsafe {
            asm!("sd {}, {}(tp)", in(reg) context, const CONTEXT_SLOT, options(nostack, preserves_flags));
        }
    }
}

#[cfg(all(not(feature = "std"), not(loom), not(feature = "image")))]
mod slot {
    unsafe extern "Rust" {
        fn _corank_context_get() -> *const ();
        fn _corank_context_set(context: *const ());
    }

    pub(super) fn get() -> *const () {
        // SAFETY: `context_slot!` defines it with this signature, and `ContextSlot` promises what
        // it does.
        unsafe { _corank_context_get() }
    }

    pub(super) fn set(context: *const ()) {
        // SAFETY: as above.
        unsafe { _corank_context_set(context) }
    }
}

/// A word for each thread, hart or core, in which the crate keeps what runs there.
///
/// It is for [`context_slot!`](crate::context_slot).
///
/// Both functions are called on every wake, so they should be a few instructions.
///
/// # Safety
/// [`get`](Self::get) returns what [`set`](Self::set) last stored *on the same thread, hart or
/// core*: the crate follows that pointer. Before the first `set`, and in an interrupt handler,
/// `get` returns null. Neither function calls the crate or panics.
#[cfg(not(feature = "image"))]
pub unsafe trait ContextSlot {
    /// Returns the word.
    fn get() -> *const ();

    /// Stores the word.
    fn set(context: *const ());
}

/// Supplies the context slot of a platform without `std`.
///
/// The argument is a type that implements [`ContextSlot`](crate::ContextSlot). To be used once in a
/// program.
///
/// ```
/// # #[cfg(false)] // with `std` the slot is already there
/// mod platform {
///     use core::sync::atomic::{AtomicPtr, Ordering};
///     static WORD: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
///     struct Slot;
///     // SAFETY: there is one core, and interrupt handlers read null.
///     unsafe impl corank::ContextSlot for Slot {
///         fn get() -> *const () {
///             if in_interrupt() { core::ptr::null() } else { WORD.load(Ordering::Relaxed) }
///         }
///         fn set(context: *const ()) {
///             WORD.store(context.cast_mut(), Ordering::Relaxed);
///         }
///     }
///     corank::context_slot!(Slot);
/// }
/// ```
///
/// A type that does not make the promise is refused:
///
/// ```compile_fail,E0277
/// struct Slot;
/// corank::context_slot!(Slot);
/// ```
#[cfg(not(feature = "image"))]
#[macro_export]
macro_rules! context_slot {
    ($slot:ty) => {
        // SAFETY: the names are corank's own, and the macro is used once per program or the linker
        // complains.
        #[unsafe(no_mangle)]
        extern "Rust" fn _corank_context_get() -> *const () {
            <$slot as $crate::ContextSlot>::get()
        }
        // SAFETY: as above.
        #[unsafe(no_mangle)]
        extern "Rust" fn _corank_context_set(context: *const ()) {
            <$slot as $crate::ContextSlot>::set(context)
        }
    };
}

/// Tests whether the executor with this worker context runs on this thread or hart right now.
#[inline]
pub(crate) fn is_current(worker_context: *const WorkerContext) -> bool {
    core::ptr::eq(slot::get().cast(), worker_context)
}

/// Returns the worker context from which an executor runs on this thread or hart right now.
///
/// The reference must not be kept.
#[inline]
pub(crate) fn worker_context<'a>() -> Option<&'a WorkerContext> {
    // SAFETY: the slot holds null or a worker context that is in use here and so alive.
    unsafe { slot::get().cast::<WorkerContext>().as_ref() }
}

/// Returns the worker context from which this scheduler runs here, if it does.
#[inline]
pub(crate) fn worker_context_of<'a>(scheduler: *const Scheduler) -> Option<&'a WorkerContext> {
    worker_context().filter(|worker_context| core::ptr::eq(worker_context.scheduler(), scheduler))
}

/// Returns the executor that runs on this thread or hart right now.
///
/// The reference must not be kept.
#[inline]
pub(crate) fn here<'a>() -> Option<&'a Scheduler> {
    // SAFETY: a scheduler that runs here is alive.
    unsafe { worker_context()?.scheduler().as_ref() }
}

/// A guard that makes a worker context the one from which a scheduler runs here, until it is
/// dropped.
///
/// Executors may nest.
pub(crate) struct Entered {
    outer: *const (),
}

impl Entered {
    #[inline]
    pub(crate) fn new(worker_context: *const WorkerContext) -> Self {
        let outer = slot::get();
        slot::set(worker_context.cast());
        Self { outer }
    }
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        slot::set(self.outer);
    }
}

/// Returns the coroutine that is being polled here, if any.
#[inline]
pub(crate) fn current() -> Option<BlockRef> {
    worker_context()?.current.get()
}

/// Returns the coroutine that is being polled here, unless several workers may poll it.
#[inline]
pub(crate) fn current_of_one_thread() -> Option<BlockRef> {
    let worker_context = worker_context()?;
    // Coroutines of a shared scheduler are polled from the worker contexts of its workers, and
    // without a heap there are none.
    if cfg!(feature = "heap") && worker_context.worker().is_some() {
        return None;
    }
    worker_context.current.get()
}
