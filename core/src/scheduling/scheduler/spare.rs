//! Workers that take only a part of what is ready: spare workers (rules H11 to H13), and workers of
//! some levels (rule H14).

use core::cell::Cell;
use core::ptr::NonNull;

use super::Scheduler;
#[cfg(not(feature = "image"))]
use super::clock::CallBudget;
use crate::priority::{Levels, Priority};
use crate::scheduling::config::{Step, SystemView};
use crate::scheduling::table::task::isolate;
use crate::scheduling::time::POLLS_PER_CLOCK_READ;
use crate::scheduling::workers::context::Entered;
use crate::scheduling::workers::worker_context::{Notifier, WorkerContext};

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
        let takes = spare.worker()?.takes();
        let most_urgent = self.ready.get().intersection(takes).most_urgent()?;
        let (mut least, mut found) = (most_urgent, None);
        for worker_context in self.worker_contexts() {
            let Some(worker) = worker_context.worker() else {
                continue;
            };
            if !worker.takes().contains(most_urgent) {
                continue;
            }
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
        #[cfg(not(feature = "image"))]
        let _budget = CallBudget::begin(spare);
        self.check_clock(spare);
        let ran = self.run_part(spare, view, limit, &|| self.most_urgent_for(spare));
        notifier.act_for(None);
        ran
    }

    /// Runs as [`run`](Self::run), from a worker that takes only some levels.
    ///
    /// The picks are strict and not counted.
    pub(crate) fn run_some_levels(
        &self,
        worker_context: &WorkerContext,
        view: &impl SystemView,
        limit: u64,
    ) -> (Step, u64) {
        let takes = (worker_context.worker()).map_or(Levels::ALL, Notifier::takes);
        let most_urgent = || self.ready.get().intersection(takes).most_urgent();
        let mut polls = 0;
        #[cfg(not(feature = "image"))]
        let _budget = CallBudget::begin(worker_context);
        self.check_clock(worker_context);
        loop {
            let (step, more) = self.run_part(worker_context, view, limit - polls, &most_urgent);
            polls += more;
            #[cfg(not(feature = "image"))]
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

    /// Polls the most urgent level that `most_urgent` returns before each pick, at most until the
    /// clock is to be read again.
    fn run_part(
        &self,
        worker_context: &WorkerContext,
        view: &impl SystemView,
        limit: u64,
        most_urgent: &dyn Fn() -> Option<Priority>,
    ) -> (Step, u64) {
        let _entered = Entered::new(worker_context);
        let outer = worker_context.current.get();
        let most = u32::try_from(limit.min(POLLS_PER_CLOCK_READ)).unwrap_or(u32::MAX);
        let left = Cell::new(most);
        let step = loop {
            match isolate(|| self.run_part_until_panic(worker_context, view, &left, most_urgent)) {
                Ok(step) => break step,
                Err(panic) => {
                    self.lock(worker_context);
                    worker_context.wake_policy.suppress(false);
                    self.poll_panicked(worker_context, outer, panic);
                }
            }
        };
        self.show_running(worker_context, None);
        (step, u64::from(most - left.get()))
    }

    fn run_part_until_panic(
        &self,
        worker_context: &WorkerContext,
        view: &impl SystemView,
        left: &Cell<u32>,
        most_urgent: &dyn Fn() -> Option<Priority>,
    ) -> Step {
        while left.get() > 0 {
            self.note_check(worker_context);
            if self.published().has_arrivals() || self.has_taken() {
                self.drain_inbox();
            }
            if most_urgent().is_none() {
                return Step::Idle;
            }
            let elsewhere = view.most_urgent_elsewhere();
            // Read after that: the view may have called back, and changed what is ready.
            let Some(level) = most_urgent() else {
                return Step::Idle;
            };
            if elsewhere.is_some_and(|elsewhere| elsewhere.is_more_urgent_than(level)) {
                return Step::Elsewhere;
            }
            let block = if self.chooser.demotes() {
                self.take_watched(worker_context, level)
            } else {
                self.dequeue_head(level)
            };
            left.set(left.get() - 1);
            self.poll::<true>(worker_context, block, level);
            #[cfg(not(feature = "image"))]
            if worker_context.spending.is_over() {
                return Step::Ran;
            }
        }
        Step::Ran
    }

    /// Returns the most urgent ready level, if it is strictly more urgent than the poll of the
    /// worker that this spare one acts for.
    fn most_urgent_for(&self, spare: &WorkerContext) -> Option<Priority> {
        let notifier = spare.worker()?;
        let polled = notifier.acts_for()?.running.get()?;
        (self.ready.get().intersection(notifier.takes()))
            .most_urgent()
            .filter(|level| level.is_more_urgent_than(polled))
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
