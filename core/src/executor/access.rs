//! How the rest of the crate makes coroutines, reaches them by identifier, and releases their
//! handles.
//!
//! It is the same for a scheduler that is built in and for one behind an image (see
//! [`crate::scheduling::image`]).

use crate::executor::join::JoinHandle;
use crate::ownership::Ownership;
use crate::priority::Priority;
use crate::scheduling::config::SpawnError;
use crate::scheduling::join_waiter::JoinWaiter;
use crate::scheduling::scheduler::Scheduler;
use crate::scheduling::table::block::{BlockRef, State};
use crate::scheduling::table::id::CoroutineId;
use crate::scheduling::turn::HeldAtLast;
use crate::scheduling::wake::stored_waker::StoredWaker;
use crate::scheduling::workers::context::{self, Entered};
use crate::scheduling::workers::worker_context::WorkerContext;

impl Scheduler {
    /// Acts on the live coroutine with this identifier; `None` for a stale one (rule C2).
    pub(crate) fn on<R>(&self, id: CoroutineId, act: impl FnOnce(BlockRef) -> R) -> Option<R> {
        self.find(id).map(act)
    }

    /// Wakes the coroutine with this identifier, as [`wake`](Self::wake) does.
    ///
    /// Returns false if the identifier is stale, or the coroutine has exited.
    pub(crate) fn wake_by_id(&self, id: CoroutineId) -> bool {
        let woken = self.on(id, |block| {
            self.wake(block);
            block.state.get() != State::Exited
        });
        woken.unwrap_or(false)
    }

    /// Creates a coroutine (*create*), ready at the tail of its level.
    ///
    /// `make` builds its future where it will stay, so that the future is never moved. It calls
    /// nothing of the scheduler's, and is dropped if there is no place. With a shared scheduler,
    /// the future and its output are `Send`; the caller ensures that.
    #[inline]
    pub(crate) fn spawn<F: Future + 'static, O: Ownership>(
        &self,
        priority: Priority,
        make: impl FnOnce() -> F,
    ) -> Result<JoinHandle<F::Output, O>, SpawnError> {
        let mut make = Some(make);
        let spawned = O::own(self, || {
            let room = O::JoinWaiter::reserve(self)?;
            match self.admit(priority, &mut make) {
                Ok(block) => Ok((block, room)),
                Err(error) => {
                    // SAFETY: it was reserved here.
                    unsafe { O::JoinWaiter::discard(room, self) };
                    Err(error)
                }
            }
        });
        // Now that nothing is held: if it is still there, its destructor is the user's code.
        drop(make);
        spawned.map(|(block, room)| JoinHandle::new(block, O::JoinWaiter::new(room)))
    }

    /// Releases the handle of `block`, with the output or without it, and ends its wait.
    ///
    /// Returns what remains of the wait: a waker, for the caller to drop.
    #[must_use]
    pub(crate) fn release_handle<O: Ownership>(
        block: BlockRef,
        waiter: &O::JoinWaiter,
    ) -> Option<StoredWaker> {
        if O::SHARED {
            return Self::release_shared::<O>(block, waiter);
        }
        let scheduler = block.scheduler();
        let this = Self::of(block);
        let waker = waiter.get().end_held();
        if this.forget_handle(block) {
            Self::unanchor(scheduler);
        }
        waker
    }

    /// Releases a handle of a shared scheduler, as [`release_handle`](Self::release_handle) does.
    ///
    /// This is the one operation after which nothing keeps the scheduler for the caller. Once the
    /// scheduler lock is free, other threads may end and free the scheduler. Nothing here touches
    /// it after that, unless an anchor is to be released.
    #[cold]
    #[inline(never)]
    fn release_shared<O: Ownership>(
        block: BlockRef,
        waiter: &O::JoinWaiter,
    ) -> Option<StoredWaker> {
        let scheduler = block.scheduler();
        let release = || {
            // SAFETY: the scheduler lock is held, and the handle still counts.
            let this = unsafe { scheduler.as_ref() };
            let waker = waiter.get().end_held();
            // SAFETY: its wait has ended, and the handle is gone after this.
            unsafe { waiter.release(this) };
            (waker, this.forget_handle(block))
        };
        let (waker, was_last) = match context::worker_context_of(scheduler.as_ptr()) {
            // The outer operation keeps the scheduler, and frees the scheduler lock.
            Some(worker_context) if worker_context.holds.get() => release(),
            Some(worker_context) => {
                let _held = HeldAtLast::new(scheduler, worker_context);
                release()
            }
            None => {
                let worker_context: &WorkerContext = &WorkerContext::passing(scheduler.as_ptr());
                let _entered = Entered::new(worker_context);
                let _held = HeldAtLast::new(scheduler, worker_context);
                release()
            }
        };
        if was_last {
            Self::unanchor(scheduler);
        }
        waker
    }

    /// Takes the output of a finished coroutine, once.
    ///
    /// # Safety
    /// `T` is the output's type, and the result was `OUTPUT` until the caller made it `TAKEN`.
    pub(crate) unsafe fn take_output<T>(&self, block: BlockRef) -> T {
        // SAFETY: the caller's promise; the memory counts as empty from here on.
        let output = unsafe { block.memory.get().cast::<T>().read() };
        self.free_memory(block);
        output
    }
}
