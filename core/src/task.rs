//! A future of unknown type, its output, and what the executor can do with them.

use core::alloc::Layout;
use core::future::Future;
use core::mem::ManuallyDrop;
use core::pin::Pin;
use core::task::{Context, Poll};

/// What the control block knows about the type of its future.
pub(crate) struct VTable {
    pub(crate) layout: Layout,
    /// Polls the future. Unless that is pending, the future has been dropped.
    pub(crate) poll: unsafe fn(*mut u8, &mut Context<'_>) -> Polled,
    pub(crate) drop_future: unsafe fn(*mut u8),
    pub(crate) drop_output: unsafe fn(*mut u8),
}

/// How a poll ended.
pub(crate) enum Polled {
    Pending,
    /// The output stands where the future stood.
    Finished,
    Panicked(Panic),
}

/// What a panic carries.
#[cfg(feature = "std")]
pub(crate) type Panic = std::boxed::Box<dyn core::any::Any + Send>;
/// Without unwinding a panic does not come back.
#[cfg(not(feature = "std"))]
pub(crate) type Panic = core::convert::Infallible;

/// Runs code of the user's; a panic ends here (rule F1).
#[cfg(feature = "std")]
pub(crate) fn isolate<R>(run: impl FnOnce() -> R) -> Result<R, Panic> {
    // What the closure leaves half done is the coroutine's own, and the coroutine ends.
    std::panic::catch_unwind(core::panic::AssertUnwindSafe(run))
}

/// Runs code of the user's.
#[cfg(not(feature = "std"))]
pub(crate) fn isolate<R>(run: impl FnOnce() -> R) -> Result<R, Panic> {
    Ok(run())
}

/// The future, later its output: they never exist together, and the control block's state says which one does.
pub(crate) union Stage<F: Future> {
    future: ManuallyDrop<F>,
    #[allow(
        dead_code,
        reason = "gives the union room for the output, which is accessed by pointer"
    )]
    output: ManuallyDrop<F::Output>,
}

impl<F: Future> Stage<F> {
    pub(crate) const VTABLE: &'static VTable = &VTable {
        layout: Layout::new::<Self>(),
        poll: Self::poll,
        drop_future: Self::drop_future,
        drop_output: Self::drop_output,
    };

    pub(crate) fn new(future: F) -> Self {
        Self {
            future: ManuallyDrop::new(future),
        }
    }

    /// # Safety
    /// `this` holds a future, which is never moved again.
    unsafe fn poll(this: *mut u8, context: &mut Context<'_>) -> Polled {
        let future: *mut F = this.cast();
        // SAFETY: the caller promises that the stage holds the future and that it stays where it is.
        let polled = isolate(|| unsafe { Pin::new_unchecked(&mut *future) }.poll(context));
        let output = match polled {
            Ok(Poll::Pending) => return Polled::Pending,
            Ok(Poll::Ready(output)) => output,
            Err(panic) => {
                // SAFETY: the future is there and is dropped once. A second panic is told by the hook, not by the handle.
                let _ = isolate(|| unsafe { future.drop_in_place() });
                return Polled::Panicked(panic);
            }
        };
        // SAFETY: the future is there and is dropped once: should its destructor panic, it counts as dropped.
        if let Err(panic) = isolate(|| unsafe { future.drop_in_place() }) {
            let _ = isolate(move || drop(output));
            return Polled::Panicked(panic);
        }
        // SAFETY: the future is gone, and its memory is large enough for the output, which shares it in the union.
        unsafe { this.cast::<F::Output>().write(output) };
        Polled::Finished
    }

    /// # Safety
    /// `this` holds a future, which is not used again.
    unsafe fn drop_future(this: *mut u8) {
        // SAFETY: the caller's promise; both fields start at offset 0 of the union.
        unsafe { this.cast::<F>().drop_in_place() }
    }

    /// # Safety
    /// `this` holds an output, which is not used again.
    unsafe fn drop_output(this: *mut u8) {
        // SAFETY: as in `drop_future`.
        unsafe { this.cast::<F::Output>().drop_in_place() }
    }
}
