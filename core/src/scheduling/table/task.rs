//! A future of unknown type, its output, and what the executor can do with them.

use core::alloc::Layout;
use core::future::Future;
use core::mem::ManuallyDrop;
use core::pin::Pin;
use core::task::{Context, Poll};

use crate::callback::{c_fn, define_c_fn};
use crate::scheduling::table::block::BlockRef;
use crate::scheduling::wake::waker;

/// The functions of a future's type, for the control block.
///
/// It crosses the boundary of the shared image (see [`crate::scheduling::image`]), so its layout
/// and calls are C's. A panic may pass where panics unwind.
#[repr(C)]
pub(crate) struct VTable {
    size: usize,
    align: usize,
    /// Polls the future, with a waker for the block of an executor of one thread or of a shared
    /// one.
    ///
    /// Returns true if it is finished: then it has been dropped and the output stands in its place.
    /// If it panics, `Block::future_gone` says whether the future is still there.
    pub(crate) poll: c_fn!((BlockRef, bool) -> bool),
    pub(crate) drop_future: c_fn!((*mut u8)),
    pub(crate) drop_output: c_fn!((*mut u8)),
    /// The name of the future's type, for people. Nothing reads it where there is no `std`.
    #[cfg(feature = "std")]
    pub(crate) name: fn() -> &'static str,
}

impl VTable {
    /// Returns the layout of the memory for the future or its output.
    #[inline]
    pub(crate) fn layout(&self) -> Layout {
        // SAFETY: `Stage::VTABLE` took both from a layout.
        unsafe { Layout::from_size_align_unchecked(self.size, self.align) }
    }
}

/// The payload of a panic.
#[cfg(feature = "std")]
pub(crate) type Panic = std::boxed::Box<dyn core::any::Any + Send>;
/// The payload of a panic, of which there is none: without unwinding a panic does not come back.
#[cfg(not(feature = "std"))]
pub(crate) type Panic = core::convert::Infallible;

/// Runs code of the user's, and catches its panic (rule F1).
#[cfg(feature = "std")]
pub(crate) fn isolate<R>(run: impl FnOnce() -> R) -> Result<R, Panic> {
    // What the closure leaves half done is the coroutine's own, and the coroutine ends.
    std::panic::catch_unwind(core::panic::AssertUnwindSafe(run))
}

/// Runs a destructor of the user's, and drops its panic: the panic hook has reported it already,
/// and no caller is left to receive it.
pub(crate) fn contain(destroy: impl FnOnce()) {
    #[cfg(feature = "std")]
    if let Err(panic) = isolate(destroy) {
        dispose(panic);
    }
    #[cfg(not(feature = "std"))]
    destroy();
}

/// Drops the payload of a panic.
///
/// If that panics in turn, the payload of the second panic is leaked rather than dropped.
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

/// Continues a panic that [`isolate`] has caught.
pub(crate) fn resume(panic: Panic) -> ! {
    #[cfg(feature = "std")]
    std::panic::resume_unwind(panic);
    #[cfg(not(feature = "std"))]
    match panic {}
}

/// The future, later its output.
///
/// They never exist together, and the control block's state says which one does.
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
    /// Polls the future of `block`; see [`VTable::poll`].
    ///
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
                // The mark comes first: if the destructor panics, it is not run again.
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
    /// Drops the future.
    ///
    /// # Safety
    /// `this` holds a future, which is not used again.
    fn drop_future(this: *mut u8) {
        // SAFETY: the caller's promise; both fields start at offset 0 of the union.
        unsafe { this.cast::<F>().drop_in_place() }
    }
    }

    define_c_fn! {
    /// Drops the output.
    ///
    /// # Safety
    /// `this` holds an output, which is not used again.
    fn drop_output(this: *mut u8) {
        // SAFETY: as in `drop_future`.
        unsafe { this.cast::<F::Output>().drop_in_place() }
    }
    }
}
