//! Spare workers: what is polled in the place of a worker whose poll lasts (rules H11 to H13).

use core::cell::Cell;
use core::ptr::NonNull;

use super::Scheduler;
use crate::priority::Priority;
use crate::scheduling::config::{Step, SystemView};
use crate::scheduling::table::task::isolate;
use crate::scheduling::time::POLLS_PER_CLOCK_READ;
use crate::scheduling::workers::context::Entered;
use crate::scheduling::workers::worker_context::WorkerContext;

impl Scheduler {
    /// Returns the worker that a spare one should act for now, if there is one.
    ///
    /// It is the one with the least urgent poll, if something ready is strictly more urgent. An
    /// idle worker comes before any spare one. Timers that are due fire first, and arrivals enter
    /// the ready queues. The scheduler lock is held by the spare worker's context.
    pub(crate) fn find_held_up(&self, spare: &WorkerContext) -> Option<NonNull<WorkerContext>> {
        let _entered = Entered::new(spare);
        self.note_check(spare);
        self.check_clock(spare);
        if self.published().has_arrivals() || self.has_taken() {
            self.drain_inbox();
        }
        let mut least = self.most_urgent.get()?;
        let mut found = None;
        for worker_context in self.worker_contexts() {
            let Some(worker) = worker_context.worker() else {
                continue;
            };
            if worker.idle.get() && !worker.is_spare() {
                return None;
            }
            if let Some(level) = worker_context.running.get()
                && !worker.has_spare()
                && least.is_more_urgent_than(level)
            {
                least = level;
                found = Some(NonNull::from(worker_context));
            }
        }
        found
    }

    /// Works as [`find_held_up`](Self::find_held_up).
    ///
    /// If the result is `None`, the spare worker is called when that changes, and when a timer is
    /// set that is due earlier.
    pub(crate) fn stand_by(&self, spare: &WorkerContext) -> Option<NonNull<WorkerContext>> {
        let found = self.find_held_up(spare);
        if found.is_none()
            && let Some(notifier) = spare.worker()
        {
            // Before the scheduler lock is released: code that makes something ready after this
            // calls.
            notifier.idle.set(true);
            self.count_idle(u32::wrapping_add);
        }
        found
    }

    /// Polls what is strictly more urgent than the poll of the worker at the address `of`, from a
    /// spare worker that holds the scheduler lock.
    ///
    /// The picks are strict and not counted.
    pub(crate) fn run_spare(
        &self,
        spare: &WorkerContext,
        of: usize,
        view: &impl SystemView,
        limit: u64,
    ) -> (Step, u64) {
        let _entered = Entered::new(spare);
        self.note_check(spare);
        let (Some(notifier), Some(of)) = (spare.worker(), self.worker_at(of)) else {
            return (Step::Idle, 0);
        };
        if of.worker().is_none_or(|of| of.has_spare()) {
            return (Step::Idle, 0);
        }
        notifier.act_for(Some(of));
        self.check_clock(spare);
        let outer = spare.current.get();
        let most = u32::try_from(limit.min(POLLS_PER_CLOCK_READ)).unwrap_or(u32::MAX);
        let left = Cell::new(most);
        let step = loop {
            match isolate(|| self.run_spare_until_panic(spare, view, &left)) {
                Ok(step) => break step,
                Err(panic) => {
                    self.lock(spare);
                    self.poll_panicked(spare, outer, panic);
                }
            }
        };
        notifier.act_for(None);
        self.show_running(spare, None);
        (step, u64::from(most - left.get()))
    }

    fn run_spare_until_panic(
        &self,
        spare: &WorkerContext,
        view: &impl SystemView,
        left: &Cell<u32>,
    ) -> Step {
        while left.get() > 0 {
            self.note_check(spare);
            if self.published().has_arrivals() || self.has_taken() {
                self.drain_inbox();
            }
            if self.most_urgent_for(spare).is_none() {
                return Step::Idle;
            }
            let elsewhere = view.most_urgent_elsewhere();
            // Read after that: the view may have called back, and changed what is ready.
            let Some(level) = self.most_urgent_for(spare) else {
                return Step::Idle;
            };
            if elsewhere.is_some_and(|elsewhere| elsewhere.is_more_urgent_than(level)) {
                return Step::Elsewhere;
            }
            let block = self.dequeue_head(level);
            left.set(left.get() - 1);
            self.poll::<true>(spare, block, level);
        }
        Step::Ran
    }

    /// Returns the most urgent ready level, if it is strictly more urgent than the poll of the
    /// worker that this spare one acts for.
    fn most_urgent_for(&self, spare: &WorkerContext) -> Option<Priority> {
        let polled = spare.worker()?.acts_for()?.running.get()?;
        (self.most_urgent.get()).filter(|level| level.is_more_urgent_than(polled))
    }

    fn worker_at(&self, address: usize) -> Option<&WorkerContext> {
        self.worker_contexts()
            .find(|worker_context| NonNull::from(*worker_context).addr().get() == address)
    }

    /// Ends the takeovers in which a worker that leaves takes part. Requires the scheduler lock.
    pub(super) fn end_takeovers(&self, leaves: &WorkerContext) {
        if let Some(notifier) = leaves.worker() {
            notifier.act_for(None);
        }
        for worker in self.worker_contexts().filter_map(WorkerContext::worker) {
            if (worker.acts_for()).is_some_and(|of| core::ptr::eq(of, leaves)) {
                worker.act_for(None);
            }
        }
    }
}
