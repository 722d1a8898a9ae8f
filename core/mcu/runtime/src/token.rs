//! What lies between the call of a task function and its spawn, and what spawns it.

use core::marker::PhantomData;

use corank::Priority;

use crate::join::JoinHandle;
use crate::scheduler::Scheduler;
use crate::task::{Header, Phase};
use crate::{critical, scheduler};

/// A task that has its memory and its future, and is not spawned yet.
///
/// Dropping it drops the future and frees the memory.
#[must_use = "a task does nothing unless it is spawned"]
pub struct Token<F: Future + 'static> {
    task: &'static Header,
    _future: PhantomData<F>,
}

// SAFETY: the token is the only access to the future.
unsafe impl<F: Future + Send + 'static> Send for Token<F> {}

impl<F: Future + 'static> core::fmt::Debug for Token<F> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Token").finish_non_exhaustive()
    }
}

impl<F: Future + 'static> Token<F> {
    pub(crate) fn new(task: &'static Header) -> Self {
        Self {
            task,
            _future: PhantomData,
        }
    }

    /// Sets the level at which it will be spawned.
    pub fn at(self, level: Priority) -> Self {
        self.task.base.set(level.level());
        self
    }

    fn spawn_on(self, executor: &'static Scheduler) -> JoinHandle<F::Output> {
        let task = self.task;
        core::mem::forget(self);
        JoinHandle::new(task, executor.start(task))
    }

    /// Spawns it beside the task that runs (rule S2), at `level`.
    ///
    /// # Errors
    /// The token, if no task runs here.
    pub fn spawn(self, level: Priority) -> Result<JoinHandle<F::Output>, Self> {
        match scheduler::here() {
            Some(executor) => Ok(self.at(level).spawn_on(executor)),
            None => Err(self),
        }
    }
}

impl<F: Future + 'static> Drop for Token<F> {
    fn drop(&mut self) {
        // SAFETY: the future was never polled and nothing else refers to it.
        unsafe { (self.task.operations().drop)(self.task, false) };
        critical(|| self.task.phase.set(Phase::FREE));
    }
}

/// Spawns tasks on one executor, where that executor runs.
#[derive(Clone, Copy, Debug)]
pub struct Spawner {
    executor: &'static Scheduler,
    /// Not `Send`: tasks whose futures are not `Send` stay where they were made.
    _here: PhantomData<*mut ()>,
}

impl Spawner {
    pub(crate) fn new(executor: &'static Scheduler) -> Self {
        Self {
            executor,
            _here: PhantomData,
        }
    }

    /// Spawns a task at its level (rule S2): that of [`Token::at`], or of its attribute, or the
    /// default level.
    ///
    /// Dropping the handle detaches the task.
    pub fn spawn<F: Future + 'static>(&self, token: Token<F>) -> JoinHandle<F::Output> {
        token.spawn_on(self.executor)
    }

    /// Returns what spawns tasks whose futures are `Send`, from anywhere.
    #[must_use]
    pub fn make_send(&self) -> SendSpawner {
        SendSpawner(self.executor)
    }
}

/// Spawns tasks on one executor, from any context: another executor or an interrupt handler.
#[derive(Clone, Copy, Debug)]
pub struct SendSpawner(&'static Scheduler);

impl SendSpawner {
    pub(crate) fn new(executor: &'static Scheduler) -> Self {
        Self(executor)
    }

    /// Spawns a task as [`Spawner::spawn`] does.
    pub fn spawn<F>(&self, token: Token<F>) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        token.spawn_on(self.0)
    }
}
