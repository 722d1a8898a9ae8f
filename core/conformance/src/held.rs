//! What a scene's primitives have in common, whatever library they are of: waits as boxed futures,
//! and what a coroutine holds.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::pin::Pin;

use corank_model::Op;

pub(crate) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// The primitives that the coroutines of a scene share: of one thread, or of a shared executor.
pub(crate) trait Shared {
    /// Waits as `op` says.
    ///
    /// Returns `None` if that is nothing to wait for.
    fn wait(&self, op: Op) -> Option<Boxed<'_, Got<'_>>>;

    /// Applies an operation that does not wait.
    ///
    /// Returns false if `op` is no such operation.
    fn apply(&self, op: Op) -> bool;
}

/// The result of a wait.
pub(crate) enum Got<'a> {
    Nothing,
    Message(u64),
    Hold(Hold<'a>),
}

impl<'a> Got<'a> {
    pub(crate) async fn nothing(wait: impl Future<Output = ()>) -> Self {
        wait.await;
        Got::Nothing
    }

    pub(crate) fn hold(given_back_by: Op, guard: impl Guard + 'a) -> Self {
        Got::Hold(Hold {
            given_back_by,
            _guard: Box::new(guard),
        })
    }
}

/// A lock or a permit.
pub(crate) trait Guard {}

impl<T> Guard for T {}

pub(crate) struct Hold<'a> {
    given_back_by: Op,
    _guard: Box<dyn Guard + 'a>,
}

/// What a coroutine holds, given back in the contract's order: the latest first (X9).
#[derive(Default)]
pub(crate) struct Held<'a>(pub(crate) Vec<Hold<'a>>);

impl Held<'_> {
    /// Gives back the latest thing that `op` is about.
    ///
    /// Returns false if there is none.
    pub(crate) fn give_back(&mut self, op: Op) -> bool {
        let at = self.0.iter().rposition(|hold| hold.given_back_by == op);
        at.map(|at| drop(self.0.remove(at))).is_some()
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}
