//! Time: running beside a clock, and firing timers (rules T1 to T8).

use core::pin::Pin;

use super::Scheduler;
use crate::scheduling::config::{Step, SystemView};
use crate::scheduling::table::block::BlockRef;
use crate::scheduling::time::POLLS_PER_CLOCK_READ;
use crate::scheduling::time::timers::Timer;
#[cfg(all(feature = "heap", not(feature = "image")))]
use crate::scheduling::workers::budget::spending::Spending;
use crate::scheduling::workers::context::{self, Entered};
use crate::scheduling::workers::worker_context::WorkerContext;

impl Scheduler {
    /// Runs a scheduler that is not shared, as [`run_by_clock`](Self::run_by_clock).
    pub(crate) fn run_alone(&self, view: &impl SystemView, limit: u64) -> (Step, u64) {
        self.run_by_clock::<false>(&self.worker_context, view, limit)
    }

    /// Runs up to `limit` polls, and checks the clock if there is one.
    ///
    /// `SHARED` is as for [`run`](Self::run).
    pub(crate) fn run_by_clock<const SHARED: bool>(
        &self,
        worker_context: &WorkerContext,
        view: &impl SystemView,
        limit: u64,
    ) -> (Step, u64) {
        let round = if self.timers.has_clock() {
            POLLS_PER_CLOCK_READ
        } else {
            u64::MAX
        };
        let mut polls = 0;
        #[cfg(all(feature = "heap", not(feature = "image")))]
        let _budget = CallBudget::begin(worker_context);
        self.check_clock(worker_context);
        loop {
            let (step, more) = self.run::<SHARED>(worker_context, view, round.min(limit - polls));
            polls += more;
            #[cfg(all(feature = "heap", not(feature = "image")))]
            if worker_context.spending.is_over() {
                return (step, polls);
            }
            match step {
                Step::Ran if polls < limit => drop(self.check_clock(worker_context)),
                Step::Idle if self.check_clock(worker_context) > 0 => {}
                step => return (step, polls),
            }
        }
    }

    /// Fires what is due by the clock, if there are timers, and returns how many.
    #[inline]
    pub(super) fn check_clock(&self, worker_context: &WorkerContext) -> usize {
        match self.timers.check_clock() {
            None => 0,
            Some(now) => {
                let _entered = Entered::new(worker_context);
                self.fire_timers(now)
            }
        }
    }

    pub(crate) fn fire_timers(&self, now: u64) -> usize {
        self.timers
            .fire(now, |waker| self.unlocked(|| waker.wake()))
    }

    /// Abandons all timers, so that none refers to the scheduler any more.
    pub(crate) fn abandon_timers(&self) {
        self.timers.abandon(|waker| self.unlocked(|| drop(waker)));
    }

    /// Returns the time now.
    ///
    /// It is the clock's, or else the latest that the platform has reported.
    pub(crate) fn now(&self) -> u64 {
        self.timers.now()
    }

    /// Returns when the next timer is due.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.timers.next_deadline()
    }

    /// Starts a timer of the coroutine that is polled here, if any.
    ///
    /// # Safety
    /// Before the timer is dropped, the caller calls [`cancel_timer`](Self::cancel_timer) if it
    /// still waits.
    pub(crate) unsafe fn set_timer(&self, timer: Pin<&Timer>, deadline: u64) {
        if self.is_shared() {
            self.note_deadline(deadline);
        }
        // SAFETY: the caller's promise.
        unsafe { self.timers.set(timer, deadline, self.sleeper()) }
    }

    /// Gives a pending timer to the coroutine that is polled here now, if any.
    pub(crate) fn hand_over_timer(&self, timer: &Timer) {
        self.timers.hand_over(timer, self.sleeper());
    }

    /// Returns the coroutine of this scheduler that is polled here.
    ///
    /// A coroutine of another scheduler does not count, and its block may go first.
    fn sleeper(&self) -> Option<BlockRef> {
        context::current().filter(|block| core::ptr::eq(block.scheduler().as_ptr(), self))
    }

    /// Takes a pending timer out of the heap.
    pub(crate) fn cancel_timer(&self, timer: &Timer) {
        self.timers.cancel(timer);
    }
}

/// The budget of one call that runs coroutines. In the midst of a poll, that poll's budget is as
/// before when this is dropped.
#[cfg(all(feature = "heap", not(feature = "image")))]
pub(super) struct CallBudget<'a> {
    worker_context: &'a WorkerContext,
    outer: Option<Spending>,
}

#[cfg(all(feature = "heap", not(feature = "image")))]
impl<'a> CallBudget<'a> {
    #[inline]
    pub(super) fn begin(worker_context: &'a WorkerContext) -> Self {
        let is_inner = worker_context.current.get().is_some();
        let outer = is_inner.then(|| worker_context.spending.clone());
        worker_context.spending.begin_call();
        Self {
            worker_context,
            outer,
        }
    }
}

#[cfg(all(feature = "heap", not(feature = "image")))]
impl Drop for CallBudget<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(outer) = &self.outer {
            self.worker_context.spending.restore(outer);
        }
    }
}
