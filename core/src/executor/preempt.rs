//! Preemption in the middle of a poll (rules S8 to S10).
//!
//! A platform that can interrupt a poll calls back into the executor on another stack. The
//! interrupted coroutine is *preempted*: it keeps its stack, and what is strictly more urgent is
//! polled. That may be preempted in turn, so preempted coroutines form a list, the latest first.
//! They continue in that order, each when nothing strictly more urgent is ready.
//!
//! ```text
//!   poll(40) ──── interrupt                                         resume ──── poll(40) goes on
//!                     └─ poll(20) ── interrupt           resume ── poll(20) ends
//!                                        └─ poll(10) ends
//! ```

use crate::executor::Executor;
use crate::priority::Priority;
use crate::scheduling::config::{Interrupted, Step, SystemView};
use crate::scheduling::table::block::BlockRef;

/// A poll that was interrupted by [`Executor::preempt`].
pub struct Preempted<'a> {
    executor: &'a Executor,
    block: BlockRef,
    paused: bool,
}

impl Executor {
    /// Preempts the coroutine that is being polled (rule S8), and calls `meanwhile`, which polls
    /// what is more urgent.
    ///
    /// Call this in the middle of a poll, from an interrupt handler or from other code that may run
    /// there. When `meanwhile` has returned, the coroutine continues (rule S9). If no coroutine is
    /// being polled, `meanwhile` is not called and the result is `None`.
    ///
    /// The interrupted code must not be in the middle of an operation of this executor. It must be
    /// code that could as well run on another thread, while this thread does something else.
    ///
    /// ```
    /// use corank::{Executor, Interrupted, Priority, Step};
    ///
    /// let executor = std::rc::Rc::new(Executor::new());
    /// let inner = executor.clone();
    /// executor.spawn(Priority::DEFAULT, async move {
    ///     inner.spawn(Priority::MOST_URGENT, async {}).unwrap();
    ///     inner.spawn(Priority::DEFAULT, async {}).unwrap();
    ///     inner.preempt(Interrupted::Ready, |poll| {
    ///         assert_eq!(poll.step(), Step::Ran);
    ///         assert_eq!(poll.step(), Step::Idle, "nothing is strictly more urgent any more");
    ///     });
    /// })?;
    /// executor.run_until_idle();
    /// # Ok::<(), corank::SpawnError>(())
    /// ```
    pub fn preempt<R>(
        &self,
        interrupted: Interrupted,
        meanwhile: impl FnOnce(&Preempted<'_>) -> R,
    ) -> Option<R> {
        let scheduler = self.scheduler();
        let block = scheduler.worker_context().current.get()?;
        let preempted = Preempted {
            executor: self,
            block,
            paused: scheduler.set_aside(block, interrupted),
        };
        Some(meanwhile(&preempted))
    }
}

impl Preempted<'_> {
    /// Runs [`step_under`](Self::step_under) for a system of one executor.
    pub fn step(&self) -> Step {
        self.step_under(&crate::Relaxed)
    }

    /// Runs [`Executor::step_under`] among the coroutines that are strictly more urgent than the
    /// preempted one.
    ///
    /// Returns [`Step::Idle`] if there is none. The policy is strict here, and these picks are not
    /// counted (rule B2).
    pub fn step_under(&self, view: &impl SystemView) -> Step {
        let scheduler = self.executor.scheduler();
        let above = Above {
            block: self.block,
            view,
        };
        let polls = if self.block.level() == Priority::MOST_URGENT {
            // Nothing is more urgent. Arrivals still enter the ready queues, and due timers fire.
            self.executor.ready();
            0
        } else {
            1
        };
        match scheduler.run_alone(&above, polls).0 {
            _ if polls == 0 => Step::Idle,
            Step::Elsewhere if !self.is_anyone_above() => Step::Idle,
            step => step,
        }
    }

    /// Tests whether anything strictly more urgent is ready.
    fn is_anyone_above(&self) -> bool {
        let ready = self.executor.scheduler().ready().most_urgent();
        ready.is_some_and(|ready| ready.is_more_urgent_than(self.block.level()))
    }

    /// Returns the effective priority of the preempted coroutine.
    ///
    /// It may change meanwhile, for instance when a more urgent coroutine begins to wait for it.
    pub fn priority(&self) -> Priority {
        self.block.level()
    }
}

/// Resumes the coroutine (*resume*), also when `meanwhile` panics.
impl Drop for Preempted<'_> {
    fn drop(&mut self) {
        self.executor.scheduler().take_back(self.block, self.paused);
    }
}

impl core::fmt::Debug for Preempted<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Preempted")
            .field("id", &self.block.id())
            .finish_non_exhaustive()
    }
}

/// The preempted coroutine as seen by [`SystemView`]: something that waits elsewhere.
///
/// Only what is strictly more urgent runs before it.
struct Above<'a, V> {
    block: BlockRef,
    view: &'a V,
}

impl<V: SystemView> SystemView for Above<'_, V> {
    fn most_urgent_elsewhere(&self) -> Option<Priority> {
        let elsewhere = self.view.most_urgent_elsewhere();
        // The level is stated as one more urgent than it is, so that an equal yields too.
        let level = self.block.level().level().saturating_sub(1);
        let ours = Priority::of_valid(level);
        Some(elsewhere.map_or(ours, |elsewhere| elsewhere.min(ours)))
    }
}
