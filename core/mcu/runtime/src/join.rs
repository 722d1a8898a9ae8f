//! Handles of tasks (rules X5 to X8).

use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll};

use corank::{JoinError, Priority};

use crate::critical;
use crate::scheduler::{self, current_task, free_output};
use crate::task::{CoroutineId, Header, Phase};
use crate::waiter::Waiter;

/// A handle of a task. Awaiting it returns the output, and donates the level of what awaits to the
/// task meanwhile (rule I1).
///
/// Dropping it detaches the task. The memory of a task is free again when it has exited and its
/// handle is gone.
pub struct JoinHandle<T> {
    /// `None` after the output was returned.
    task: Option<&'static Header>,
    id: CoroutineId,
    waiter: Waiter,
    _output: PhantomData<T>,
}

// SAFETY: everything is touched with interrupts masked, and the output is `Send`.
unsafe impl<T: Send> Send for JoinHandle<T> {}

impl<T> core::fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("JoinHandle").field(&self.id).finish()
    }
}

impl<T> JoinHandle<T> {
    pub(crate) fn new(task: &'static Header, id: CoroutineId) -> Self {
        Self {
            task: Some(task),
            id,
            waiter: Waiter::new(),
            _output: PhantomData,
        }
    }

    /// Returns the identifier, also after the exit.
    #[must_use]
    pub fn id(&self) -> CoroutineId {
        self.id
    }

    /// Cancels the task as [`cancel`](crate::cancel) does.
    pub fn cancel(&self) -> bool {
        scheduler::cancel(self.id)
    }

    /// Sets the task's base level as [`reprioritize`](crate::reprioritize) does.
    pub fn reprioritize(&self, level: Priority) -> bool {
        scheduler::reprioritize(self.id, level)
    }

    /// Tests whether the task has exited.
    #[must_use]
    pub fn has_exited(&self) -> bool {
        critical(|| self.id.find().is_none())
    }

    /// Returns the result if the task has exited, and the handle otherwise.
    ///
    /// # Errors
    /// The handle.
    pub fn try_join(mut self) -> Result<Result<T, JoinError>, Self> {
        match self.take() {
            Some(result) => Ok(result),
            None => Err(self),
        }
    }

    /// Takes the result of a task that has exited, and frees its memory.
    fn take(&mut self) -> Option<Result<T, JoinError>> {
        let task = self.task?;
        let phase = critical(|| task.phase.get());
        if !phase.has(Phase::RETIRED) {
            return None;
        }
        self.task = None;
        let result = if phase.has(Phase::OUTPUT) {
            // SAFETY: the output is there, of this type, and this handle alone refers to it.
            Ok(unsafe { (task.operations().output)(task).cast::<T>().read() })
        } else {
            Err(JoinError::Cancelled)
        };
        critical(|| task.phase.set(Phase::FREE));
        Some(result)
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    /// # Panics
    /// If it is polled after it has returned the result.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the waiter, which is pinned, is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        let task = this.task.expect("a result is returned once");
        let waker = cx.waker().clone();
        let former = critical(|| {
            if task.phase.get().has(Phase::RETIRED) {
                this.waiter.end();
                return None;
            }
            Some(this.waiter.wait(waker, current_task(), Some(task)))
        });
        if former.is_some() {
            return Poll::Pending;
        }
        drop(this.waiter.take_waker());
        this.take().map_or(Poll::Pending, Poll::Ready)
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        let Some(task) = self.task else {
            return;
        };
        // A program that awaits no handle contains nothing of waits.
        if self.waiter.takes_part() {
            critical(|| self.waiter.end());
        }
        drop(self.waiter.take_waker());
        detach(task);
    }
}

/// Leaves a task whose handle is dropped to itself (rule X7).
#[inline(never)]
fn detach(task: &Header) {
    let left = critical(|| {
        let phase = task.phase.get().without(Phase::HELD);
        task.phase.set(phase);
        if !phase.has(Phase::RETIRED) {
            return false;
        }
        if !phase.has(Phase::OUTPUT) {
            task.phase.set(Phase::FREE);
        }
        phase.has(Phase::OUTPUT)
    });
    if left {
        free_output(task);
    }
}
