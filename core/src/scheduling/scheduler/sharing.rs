//! Several workers: which one is the owner now, and which one is called when there is more to do
//! (rules H1 to H14).

use core::ptr::NonNull;

use super::Scheduler;
use crate::atomic::Ordering;
use crate::priority::{Levels, Priority};
#[cfg(feature = "heap")]
use crate::scheduling::config::{Step, SystemView};
use crate::scheduling::table::block::NONE;
use crate::scheduling::workers::scheduler_lock::SchedulerLock;
use crate::scheduling::workers::worker_context::{Notifier, WorkerContext};

impl Scheduler {
    /// Acquires the scheduler lock, unless it is held from this worker context already.
    #[inline]
    pub(crate) fn lock(&self, worker_context: &WorkerContext) {
        if !worker_context.holds.get() {
            self.lock.lock();
            worker_context.holds.set(true);
        }
    }

    /// Releases the scheduler lock.
    ///
    /// Calls a worker if one should act on what is ready now.
    #[inline]
    pub(crate) fn unlock(&self, worker_context: &WorkerContext) {
        loop {
            let suppresses = worker_context.wake_policy.suppresses();
            let worker = if suppresses {
                None
            } else {
                self.choose_worker()
            };
            let other = self.show(!suppresses, worker.is_some());
            worker_context.holds.set(false);
            let notified = self.lock.unlock();
            if let Some(worker) = worker {
                // SAFETY: it was announced, so its worker context waits for the call to return.
                unsafe { Notifier::call(worker) };
            }
            if let Some(other) = other {
                other.wake_by_ref();
            }
            if !notified || !self.lock.lock_or_notify() {
                return;
            }
            // The lock was notified, and no other thread has searched for a worker since.
            worker_context.holds.set(true);
        }
    }

    /// Releases the scheduler lock as [`unlock`](Self::unlock), and touches the scheduler no more
    /// from then on.
    ///
    /// It is for a caller that has nothing to keep the scheduler once the scheduler lock is free.
    ///
    /// # Safety
    /// The scheduler lock is held from `worker_context`, and the scheduler stays until the lock is
    /// released.
    pub(crate) unsafe fn unlock_for_good(this: NonNull<Self>, worker_context: &WorkerContext) {
        loop {
            // SAFETY: the caller's promise.
            let (worker, other, lock) = unsafe {
                let suppresses = worker_context.wake_policy.suppresses();
                let worker = if suppresses {
                    None
                } else {
                    this.as_ref().choose_worker()
                };
                let other = this.as_ref().show(!suppresses, worker.is_some());
                (worker, other, &raw const (*this.as_ptr()).lock)
            };
            worker_context.holds.set(false);
            if let Some(worker) = worker {
                // The worker that comes also finds what was announced with a notification, and
                // passes the call on if there is more. SAFETY: the caller's promise; the worker was
                // announced, so its worker context waits for the call to return.
                unsafe {
                    SchedulerLock::unlock_for_good(lock);
                    Notifier::call(worker);
                }
                return;
            }
            // SAFETY: the caller's promise.
            let is_unlocked = unsafe { SchedulerLock::try_unlock(lock) };
            if let Some(other) = other {
                other.wake_by_ref();
            }
            if is_unlocked {
                return;
            }
            worker_context.holds.set(true);
        }
    }

    /// Handles an announcement by a caller that is not the owner and must not wait to become it.
    pub(super) fn lock_or_notify(&self) {
        if self.lock.lock_or_notify() {
            let worker_context = WorkerContext::new(self);
            worker_context.holds.set(true);
            self.unlock(&worker_context);
        }
    }

    /// Chooses the worker to call for the most urgent work that waits.
    ///
    /// It is one that is idle. Else it is the one that polls the least urgent coroutine, if that is
    /// strictly less urgent and a call interrupts it. Else it is a spare one that stands by, if
    /// there is a strictly less urgent poll for which no spare worker acts. Last comes an idle one
    /// that takes only something less urgent. One worker is called at a time: it finds what else
    /// there is, and passes the call on when it releases the lock.
    #[inline]
    fn choose_worker(&self) -> Option<NonNull<Notifier>> {
        // Mostly all workers are busy and can only be left alone. Then no other worker's context is
        // read, because its worker writes there.
        if self.may_call() {
            self.search_worker()
        } else {
            None
        }
    }

    /// Tests whether there is any worker to call.
    ///
    /// It needs no scheduler lock, for what was made ready from here before. A worker that is idle
    /// since then has checked it.
    #[inline]
    fn may_call(&self) -> bool {
        self.idle.load(Ordering::Relaxed) != 0 || self.interrupts.load(Ordering::Relaxed) != 0
    }

    /// Lets other workers be called for what is ready, because the poll at this worker context
    /// lasts.
    #[cfg(feature = "heap")]
    pub(crate) fn pass_on(&self, worker_context: &WorkerContext) {
        // If the scheduler lock is held from here, the caller releases it, and then a worker is
        // chosen.
        if !worker_context.holds.get() && self.may_call() {
            self.lock(worker_context);
            self.unlock(worker_context);
        }
    }

    #[cold]
    fn search_worker(&self) -> Option<NonNull<Notifier>> {
        let waiting = self.ready.get().union(self.published().arriving());
        let sooner = self.sooner.replace(false);
        let most_urgent = match waiting.most_urgent() {
            // No worker polls anything less urgent, so only one that sleeps is called.
            None if sooner => Priority::LEAST_URGENT,
            level => level?,
        };
        let (mut least, mut chosen) = (most_urgent, None);
        // An idle worker that takes something, but not what is most urgent.
        let mut other = None;
        // A spare worker that stands by, and whether to call it.
        let (mut spare, mut is_held_up, mut comes) = (None, sooner, false);
        for worker_context in self.worker_contexts() {
            let Some(worker) = worker_context.worker() else {
                continue;
            };
            // For an earlier timer any worker is called.
            let takes = worker.takes();
            if waiting.intersection(takes).is_empty() && !sooner {
                continue;
            }
            let called = worker.called.get();
            if worker.idle.get() && worker.is_spare() {
                spare = (!called).then_some(worker).or(spare);
            } else if worker.idle.get() {
                if !takes.contains(most_urgent) {
                    other = (!called).then_some(worker).or(other);
                } else if called {
                    comes = true;
                } else {
                    chosen = Some(worker);
                    break;
                }
            } else if let Some(level) = worker_context.running.get() {
                is_held_up |= takes.contains(most_urgent)
                    && most_urgent.is_more_urgent_than(level)
                    && !worker.has_spare();
                if !called
                    && worker.is_interruptible()
                    && takes.contains(most_urgent)
                    && least.is_more_urgent_than(level)
                {
                    least = level;
                    chosen = Some(worker);
                }
            }
        }
        // What a worker that was called does not take, it passes on.
        let spare = spare.filter(|_| is_held_up && !comes);
        let chosen = chosen.or(spare).or(other)?;
        chosen.announce();
        Some(NonNull::from(chosen))
    }

    /// Records the deadline of a timer that is being set.
    ///
    /// A worker that sleeps asked before for how long (rule H10).
    pub(super) fn note_deadline(&self, deadline: u64) {
        if (self.idle.load(Ordering::Relaxed) > 0 || self.has_sleepers())
            && self.next_deadline().is_none_or(|next| deadline < next)
        {
            self.sooner.set(true);
        }
    }

    /// Shows what is ready, if this is a shard. Requires the scheduler lock.
    ///
    /// Returns the call of a worker of another shard that should come, if one may be called and
    /// none of this one was. An executor that is no shard has no such workers.
    #[cfg(not(all(feature = "std", target_has_atomic = "64")))]
    #[inline(always)]
    fn show(&self, _: bool, _: bool) -> Option<NeverCalled> {
        None
    }

    /// Tests whether a worker of another shard sleeps.
    #[cfg(not(all(feature = "std", target_has_atomic = "64")))]
    #[inline(always)]
    fn has_sleepers(&self) -> bool {
        false
    }

    /// Returns the worker contexts from which coroutines are run.
    pub(crate) fn worker_contexts(&self) -> impl Iterator<Item = &WorkerContext> {
        let mut next = self.worker_contexts.get();
        core::iter::from_fn(move || {
            // SAFETY: a worker context in the list is in its place, and leaves the list before it
            // goes.
            let worker_context = unsafe { next?.as_ref() };
            next = worker_context.next.get();
            Some(worker_context)
        })
    }

    #[cold]
    pub(super) fn all_running(&self) -> Levels {
        self.worker_contexts()
            .fold(Levels::NONE, |levels, worker_context| {
                levels.union(Levels::of(worker_context.running.get()))
            })
    }

    /// Records that the worker at this worker context checks for work, whether called or not.
    #[inline]
    pub(super) fn note_check(&self, worker_context: &WorkerContext) {
        if let Some(worker) = worker_context.worker() {
            worker.called.set(false);
            if worker.idle.replace(false) {
                self.count_idle(u32::wrapping_sub);
            }
        }
    }

    /// Changes the number of idle workers.
    ///
    /// Requires the scheduler lock, so that nothing else writes.
    pub(super) fn count_idle(&self, change: fn(u32, u32) -> u32) {
        let idle = self.idle.load(Ordering::Relaxed);
        self.idle.store(change(idle, 1), Ordering::Relaxed);
    }

    /// Runs what there is to do, from a worker that holds the scheduler lock.
    #[cfg(feature = "heap")]
    pub(crate) fn run_worker(
        &self,
        worker_context: &WorkerContext,
        view: &impl SystemView,
        limit: u64,
    ) -> (Step, u64) {
        let ran = self.run_levels(worker_context, view, limit);
        if let Some(worker) = worker_context.worker() {
            // Before the scheduler lock is released: code that makes something ready after this
            // calls.
            if ran.0 == Step::Idle {
                worker.idle.set(true);
                self.count_idle(u32::wrapping_add);
            }
        }
        ran
    }

    #[cfg(feature = "heap")]
    #[inline]
    pub(crate) fn run_levels(
        &self,
        worker_context: &WorkerContext,
        view: &impl SystemView,
        limit: u64,
    ) -> (Step, u64) {
        #[cfg(feature = "std")]
        if (worker_context.worker()).is_some_and(|worker| worker.takes() != Levels::ALL) {
            return self.run_some_levels(worker_context, view, limit);
        }
        self.run_by_clock::<true>(worker_context, view, limit)
    }

    /// Adds a worker.
    ///
    /// Its worker context stays where it is until it [leaves](Self::leave).
    #[cfg(feature = "heap")]
    pub(crate) fn enter(&self, worker_context: NonNull<WorkerContext>) {
        // SAFETY: the caller's worker context is in its place.
        let this = unsafe { worker_context.as_ref() };
        if let Some(worker) = this.worker() {
            worker.tell_interruptible_to(&self.interrupts);
        }
        #[cfg(all(feature = "heap", not(feature = "image")))]
        this.spending.allow(self.budget);
        self.locked(|| {
            this.next
                .set(self.worker_contexts.replace(Some(worker_context)))
        });
    }

    /// Removes a worker.
    #[cfg(feature = "heap")]
    pub(crate) fn leave(&self, worker_context: &WorkerContext) {
        self.locked(|| {
            self.note_check(worker_context);
            #[cfg(feature = "std")]
            self.end_takeovers(worker_context);
            self.remove_context(worker_context);
        });
        if let Some(worker) = worker_context.worker() {
            worker.wait_for_calls();
        }
    }

    /// Takes a worker context out of the list. Requires the scheduler lock.
    #[cfg(feature = "heap")]
    pub(super) fn remove_context(&self, worker_context: &WorkerContext) {
        let this = Some(NonNull::from(worker_context));
        match (self.worker_contexts()).find(|other| other.next.get() == this) {
            Some(before) => before.next.set(worker_context.next.get()),
            None => self.worker_contexts.set(worker_context.next.get()),
        }
    }

    /// Tests whether signals were taken from the inbox and not all applied when the scheduler lock
    /// was released.
    #[inline]
    pub(super) fn has_taken(&self) -> bool {
        self.taken.get() != NONE
    }
}

/// The call of another shard's worker where there are no shards.
#[cfg(not(all(feature = "std", target_has_atomic = "64")))]
enum NeverCalled {}

#[cfg(not(all(feature = "std", target_has_atomic = "64")))]
impl NeverCalled {
    fn wake_by_ref(&self) {
        match *self {}
    }
}
