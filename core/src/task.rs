//! A future of unknown type, its output, and what the executor can do with them.

use core::alloc::Layout;
use core::future::Future;
use core::mem::ManuallyDrop;
use core::pin::Pin;
use core::task::{Context, Poll};

use crate::block::BlockRef;
use crate::call::{c_fn, define_c_fn};
use crate::waker;

/// What the control block knows about the type of its future. Crosses the boundary of the shared
/// image (see [`crate::image`]), so its layout and calls are C's; a panic may pass where there are
/// panics that come back.
#[repr(C)]
pub(crate) struct VTable {
    size: usize,
    align: usize,
    /// Polls the future, with a waker for the block of an executor of one thread or of a shared
    /// one; true if it is finished: then it has been dropped and the output stands in its place. If
    /// it panics, `Block::future_gone` says whether the future is still there.
    pub(crate) poll: c_fn!((BlockRef, bool) -> bool),
    pub(crate) drop_future: c_fn!((*mut u8)),
    pub(crate) drop_output: c_fn!((*mut u8)),
    /// The type of the future, for people. Where there is no `std`, nobody asks.
    #[cfg(feature = "std")]
    pub(crate) name: fn() -> &'static str,
}

impl VTable {
    /// What the future or its output needs of memory.
    #[inline]
    pub(crate) fn layout(&self) -> Layout {
        // SAFETY: `Stage::VTABLE` took both from a layout.
        unsafe { Layout::from_size_align_unchecked(self.size, self.align) }
    }
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

/// Runs a destructor of the user's when nobody is left to be told of its panic: the panic hook has
/// told it.
pub(crate) fn contain(destroy: impl FnOnce()) {
    #[cfg(feature = "std")]
    if let Err(panic) = isolate(destroy) {
        dispose(panic);
    }
    #[cfg(not(feature = "std"))]
    destroy();
}

/// Drops what a panic carried. Should that panic in turn, what the second one carried is leaked
/// rather than tried.
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

/// The future, later its output: they never exist together, and the control block's state says
/// which one does.
#[allow(
    dead_code,
    reason = "the fields give the union room and are accessed by pointer"
)]
pub(crate) union Stage<F: Future> {
    future: ManuallyDrop<F>,
    output: ManuallyDrop<F::Output>,
}

impl<F: Future> Stage<F> {
    pub(crate) const VTABLE: &'static VTable = &VTable {
        size: size_of::<Self>(),
        align: align_of::<Self>(),
        poll: Self::poll,
        drop_future: Self::drop_future,
        drop_output: Self::drop_output,
        #[cfg(feature = "std")]
        name: core::any::type_name::<F>,
    };

    define_c_fn! {
    /// # Safety
    /// The block's memory holds a future, which is never moved again.
    fn poll(block: BlockRef, shared: bool) -> bool {
        let waker = waker::borrowed(block, shared);
        let mut context = Context::from_waker(&waker);
        let memory = block.memory.get();
        let future: *mut F = memory.cast();
        // SAFETY: the caller promises that the future is there and stays where it is.
        match unsafe { Pin::new_unchecked(&mut *future) }.poll(&mut context) {
            Poll::Pending => false,
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
                // SAFETY: the future is gone, and its memory has room for the output, which shares
                // it in the union.
                unsafe { memory.cast::<F::Output>().write(output) };
                true
            }
        }
    }
    }

    define_c_fn! {
    /// # Safety
    /// `this` holds a future, which is not used again.
    fn drop_future(this: *mut u8) {
        // SAFETY: the caller's promise; both fields start at offset 0 of the union.
        unsafe { this.cast::<F>().drop_in_place() }
    }
    }

    define_c_fn! {
    /// # Safety
    /// `this` holds an output, which is not used again.
    fn drop_output(this: *mut u8) {
        // SAFETY: as in `drop_future`.
        unsafe { this.cast::<F::Output>().drop_in_place() }
    }
    }
}
