//! A scheduler that is a shard of a [`ShardedExecutor`](crate::ShardedExecutor): what it shows the
//! others, and polls of a worker that comes from another shard (rules H15 to H18).

use alloc::sync::Arc;
use core::ptr::NonNull;
use core::task::Waker;

use super::Scheduler;
use crate::scheduling::config::{Step, SystemView};
use crate::scheduling::workers::worker_context::WorkerContext;

impl Scheduler {
    /// Shows what is ready, if this is a shard. Requires the scheduler lock.
    ///
    /// Returns the call of a worker of another shard that should come, if one `may_call` and this
    /// shard's own was not called.
    #[inline]
    pub(super) fn show(&self, may_call: bool, was_called: bool) -> Option<Arc<Waker>> {
        let post = self.post.as_ref()?;
        let waiting = self.ready.get().union(self.published().arriving());
        post.show(waiting, self.live.get());
        if was_called {
            post.board.call_sleeper(post.shard);
            None
        } else if may_call && (!waiting.is_empty() || self.sooner.take()) {
            post.choose_sleeper()
        } else {
            None
        }
    }

    /// Tests whether a worker of another shard sleeps.
    #[inline]
    pub(super) fn has_sleepers(&self) -> bool {
        (self.post.as_ref()).is_some_and(|post| post.board.has_sleepers())
    }

    /// Makes the worker at this worker context count as idle; returns false if something is ready.
    ///
    /// Requires the scheduler lock. Due timers fire before.
    pub(crate) fn begin_sleep(&self, worker_context: &WorkerContext) -> bool {
        self.check_clock(worker_context);
        if self.published().has_arrivals() || self.has_taken() {
            self.drain_inbox();
        }
        if !self.ready.get().is_empty() {
            return false;
        }
        if let Some(worker) = worker_context.worker()
            && !worker.idle.replace(true)
        {
            self.count_idle(u32::wrapping_add);
        }
        true
    }

    /// Polls up to `limit` coroutines from a worker context of another shard's worker, which holds
    /// the scheduler lock and takes only some levels.
    ///
    /// It is a worker of this scheduler meanwhile, and no worker calls it. The picks are strict and
    /// not counted.
    ///
    /// # Safety
    /// `helper` stays where it is until this returns, and has entered no scheduler.
    pub(crate) unsafe fn help(
        &self,
        helper: NonNull<WorkerContext>,
        view: &impl SystemView,
        limit: u64,
    ) -> (Step, u64) {
        // SAFETY: the caller's promise.
        let this = unsafe { helper.as_ref() };
        this.spending.allow(self.budget);
        this.next.set(self.worker_contexts.replace(Some(helper)));
        let _listed = Listed(self, this);
        self.run_some_levels(this, view, limit)
    }
}

/// A worker context in a scheduler's list until this is dropped, under the scheduler lock.
struct Listed<'a>(&'a Scheduler, &'a WorkerContext);

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.0.remove_context(self.1);
    }
}
