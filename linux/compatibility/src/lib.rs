//! The crate that the examples of other crates call `futures_lite`. It is the real one, except for
//! [`future::block_on`], which runs its future as a coroutine of a Corank runtime. So the examples
//! are run as they are published (`build.rs` takes them from the crates' sources).

pub use real::*;

/// The real module, except for `block_on`.
pub mod future {
    use std::pin::{Pin, pin};
    use std::sync::LazyLock;
    use std::task::{Context, Poll};

    use corank_linux::{Builder, Runtime};

    pub use real::future::*;

    /// The one runtime of all examples, which run beside each other.
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        let runtime = Builder::new().workers(2).name("compatible").build();
        runtime.expect("threads for the examples")
    });

    /// A future and its output, which stay with the thread that waits.
    struct Lent<F: Future> {
        future: *mut F,
        output: *mut Option<F::Output>,
    }

    // SAFETY: the thread that lent them waits, so that one thread at a time touches them. That is
    // not enough for a future that keeps something of a thread's own, such as the guard of a lock,
    // from one poll to the next. So this is only for the examples, none of which does that.
    unsafe impl<F: Future> Send for Lent<F> {}

    impl<F: Future> Future for Lent<F> {
        type Output = ();

        fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
            let lent = &mut *self;
            // SAFETY: both stay where they are until this is finished or dropped, and the future is
            // pinned there.
            let (future, output) =
                unsafe { (Pin::new_unchecked(&mut *lent.future), &mut *lent.output) };
            future.poll(cx).map(|value| *output = Some(value))
        }
    }

    /// Runs a future as a coroutine, and waits for it here.
    ///
    /// # Panics
    /// Panics as the future does.
    pub fn block_on<T>(future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let mut output = None;
        // SAFETY: `Lent` does not move it.
        let future: *mut _ = unsafe { future.as_mut().get_unchecked_mut() };
        lend(Lent {
            future,
            output: &raw mut output,
        });
        output.expect("a coroutine that is finished has its output")
    }

    fn lend<F: Future>(lent: Lent<F>) {
        let lent: Pin<Box<dyn Future<Output = ()> + Send + '_>> = Box::pin(lent);
        // SAFETY: only the lifetime changes. `block_on` returns, or panics, when the coroutine is
        // over and `lent` with it.
        let lent: Pin<Box<dyn Future<Output = ()> + Send>> = unsafe { std::mem::transmute(lent) };
        RUNTIME.block_on(lent);
    }
}
