//! A future of unknown type, its output, and what the executor can do with them.

use core::alloc::Layout;
use core::future::Future;
use core::mem::ManuallyDrop;
use core::pin::Pin;
use core::task::{Context, Poll};

use crate::block::Block;

/// What the control block knows about the type of its future.
pub(crate) struct VTable {
    pub(crate) layout: Layout,
    /// Polls the future. When it is ready, it has been dropped and the output stands in its place. If it panics,
    /// `Block::future_gone` says whether the future is still there.
    pub(crate) poll: unsafe fn(&Block, &mut Context<'_>) -> Poll<()>,
    pub(crate) drop_future: unsafe fn(*mut u8),
    pub(crate) drop_output: unsafe fn(*mut u8),
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

/// Runs a destructor of the user's when nobody is left to be told of its panic: the panic hook has told it.
pub(crate) fn contain(destroy: impl FnOnce()) {
    #[cfg(feature = "std")]
    if let Err(panic) = isolate(destroy) {
        dispose(panic);
    }
    #[cfg(not(feature = "std"))]
    destroy();
}

/// Drops what a panic carried. Should that panic in turn, what the second one carried is leaked rather than tried.
#[cfg(feature = "std")]
pub(crate) fn dispose(panic: Panic) {
    if let Err(second) = isolate(move || drop(panic)) {
        core::mem::forget(second);
    }
}

/// Runs code of the user's.
#[cfg(not(feature = "std"))]
pub(crate) fn isolate<R>(run: impl FnOnce() -> R) -> Result<R, Panic> {
    Ok(run())
}

/// Lets a panic go on that was none of a coroutine's.
pub(crate) fn resume(panic: Panic) -> ! {
    #[cfg(feature = "std")]
    std::panic::resume_unwind(panic);
    #[cfg(not(feature = "std"))]
    match panic {}
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
    /// The block's memory holds a future, which is never moved again.
    unsafe fn poll(block: &Block, context: &mut Context<'_>) -> Poll<()> {
        let memory = block.memory.get();
        let future: *mut F = memory.cast();
        // SAFETY: the caller promises that the future is there and stays where it is.
        match unsafe { Pin::new_unchecked(&mut *future) }.poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(output) => {
                // First the mark: should the destructor panic, nobody runs it again.
                block.future_gone.set(true);
                if core::mem::needs_drop::<F>() {
                    // SAFETY: the future is there and is dropped once.
                    if let Err(panic) = isolate(|| unsafe { future.drop_in_place() }) {
                        contain(move || drop(output));
                        resume(panic);
                    }
                }
                // SAFETY: the future is gone, and its memory has room for the output, which shares it in the union.
                unsafe { memory.cast::<F::Output>().write(output) };
                Poll::Ready(())
            }
        }
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
