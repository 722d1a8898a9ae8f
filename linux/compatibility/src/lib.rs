//! The crate that the examples of other crates call `futures_lite`. It is the real one, except for
//! [`future::block_on`], which runs its future as a coroutine of a Corank runtime. So the examples
//! are run as they are published (`build.rs` takes them from the crates' sources).

pub use real::*;

/// The real module, except for `block_on`.
pub mod future {
    use std::sync::LazyLock;

    use corank_linux::{Builder, Runtime};

    pub use real::future::*;

    /// The one runtime of all examples, which run beside each other.
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        let runtime = Builder::new().workers(2).name("compatible").build();
        runtime.expect("threads for the examples")
    });

    /// Runs a future as a coroutine, and waits for it here.
    ///
    /// # Panics
    /// Panics as the future does.
    pub fn block_on<T>(future: impl Future<Output = T>) -> T {
        RUNTIME.block_on(future)
    }
}
