//! The loop of a worker: polls coroutines, checks for events between two batches of polls, and
//! parks if there is nothing to do.
//!
//! # When urgent I/O is noticed
//! A busy worker checks for events after at most [`POLLS_PER_CHECK`] polls. It adapts that number
//! so that a batch takes about [`TIME_PER_CHECK`]: if polls are long, it checks after each. An
//! event wakes an idle worker that watches. All pending events are taken together, and then the
//! most urgent ready coroutine is polled, wherever its event stood.
//!
//! Workers share the checks. A worker whose batch ends within [`TIME_PER_CHECK`] of another
//! worker's check skips its own. While an idle worker watches, busy workers check only each
//! [`TIME_PER_WATCHED_CHECK`]: an event wakes the watcher anyway, in vain if a busy worker takes it
//! first. They still check, because the machine may have no processor for the watcher.
//!
//! While a busy worker is *short-polling*, idle workers do not begin to watch. With short polls, as
//! in most servers, each event would wake one of them for a single poll, and that costs more than
//! the poll.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::Duration;

use corank::{Priority, Step, SystemView};

use crate::block_on::Driving;
use crate::executor::AnyWorker;
use crate::external_scheduler::ExternalScheduler;
use crate::idle::{Parker, Wakeup};
use crate::reactor::ReadyEvents;
use crate::shared::{Shared, WorkerEntry, WorkerRole};
use crate::time::{self, nanoseconds};

#[cfg(test)]
mod traces;

/// Limits the polls of a busy worker between two checks for events.
pub const POLLS_PER_CHECK: u64 = 61;
/// Bounds the time of a batch: a busy worker begins as many polls between two checks as took this
/// long before, and at least one.
///
/// A check costs about half a microsecond.
pub const TIME_PER_CHECK: Duration = Duration::from_micros(25);

/// Replaces [`TIME_PER_CHECK`] for busy workers while an idle worker watches.
pub const TIME_PER_WATCHED_CHECK: Duration = Duration::from_micros(250);

/// Bounds the last batch of a short-polling worker: it checks for events soon enough that idle
/// workers need not watch.
const SHORT_POLLS: Duration = Duration::from_micros(100);

/// The time of a poll from which another worker is worth calling for it, where each worker has a
/// shard: a call takes about as long.
const WORTH_A_CALL: Duration = Duration::from_micros(5);

/// After so many batches with short polls a worker relieves spare workers that still stand by.
const SHORT_BATCHES: u32 = 8;

/// Wakes a worker; the executor holds it.
pub(crate) struct WorkerWaker {
    shared: Weak<Shared>,
    parker: Arc<Parker>,
}

impl WorkerWaker {
    pub(crate) fn new(shared: &Arc<Shared>, parker: &Arc<Parker>) -> Self {
        Self {
            shared: Arc::downgrade(shared),
            parker: parker.clone(),
        }
    }
}

impl Wake for WorkerWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.parker.wake() == Wakeup::Interrupt
            && let Some(shared) = self.shared.upgrade()
        {
            shared.reactor.interrupt();
        }
    }
}

/// The polls until the next check for events.
pub(crate) struct Batch(u64);

impl Batch {
    pub(crate) fn new() -> Self {
        Self(1)
    }

    pub(crate) fn limit(&self) -> u64 {
        self.0
    }

    /// Adapts the batch to `polls` that took `took` nanoseconds.
    pub(crate) fn adapt(&mut self, polls: u64, took: u64) {
        let fits = (nanoseconds(TIME_PER_CHECK).saturating_mul(polls)) / took.max(1);
        // Shrinks at once and grows slowly: one short batch says little about the next.
        self.0 = fits.min(2 * self.0).clamp(1, POLLS_PER_CHECK);
    }
}

/// Wraps the view of the system, which the executor reads before each poll, and counts the polls
/// for the watchdog.
pub(crate) struct CountingView<'a, V> {
    pub(crate) view: &'a V,
    pub(crate) parker: &'a Parker,
}

impl<V: ExternalScheduler> SystemView for CountingView<'_, V> {
    #[inline]
    fn most_urgent_elsewhere(&self) -> Option<Priority> {
        self.parker.note_poll();
        self.view.most_urgent_elsewhere()
    }
}

/// Makes this thread the worker with this number until the runtime stops.
pub(crate) fn serve(shared: &Arc<Shared>, view: &impl ExternalScheduler, number: usize) {
    let mut worker = WorkerLoop::begin(shared, view, number);
    while !shared.stopping.load(Ordering::Acquire) {
        worker.turn();
    }
}

/// The loop of the worker on this thread.
struct WorkerLoop<'a, V> {
    shared: &'a Shared,
    view: &'a V,
    parker: Arc<Parker>,
    worker: AnyWorker<'a>,
    /// The number of its shard; 0 where all workers have one set of queues, and share the rest too.
    shard: usize,
    ready_events: ReadyEvents,
    batch: Batch,
    /// When it has checked for events last.
    own_check: u64,
    short_polling: bool,
    /// Batches with short polls in a row.
    short_batches: u32,
    _driving: Driving,
}

impl<'a, V: ExternalScheduler> WorkerLoop<'a, V> {
    fn begin(shared: &'a Arc<Shared>, view: &'a V, number: usize) -> Self {
        let driving = Driving::begin();
        let parker = Arc::new(Parker::current());
        let waker = Arc::new(WorkerWaker::new(shared, &parker));
        let worker = shared.executor.worker(number, Waker::from(waker));
        worker.set_levels(shared.urgent_levels());
        let entry = WorkerEntry {
            parker: parker.clone(),
            worker: worker.id(),
            elsewhere: worker.id_elsewhere(),
            number,
            role: WorkerRole::Worker,
            sleeper: None,
        };
        shared.add_entry(entry, shared.urgent_levels());
        Self {
            shared,
            view,
            parker,
            worker,
            shard: number % shared.reclaim.len(),
            ready_events: ReadyEvents::new(),
            batch: Batch::new(),
            own_check: 0,
            short_polling: false,
            short_batches: 0,
            _driving: driving,
        }
    }

    /// Polls a batch of coroutines, and then checks for events, steps aside or parks.
    ///
    /// Returns how the batch ended.
    fn turn(&mut self) -> Step {
        let (shared, parker) = (self.shared, &*self.parker);
        let (view, ready_events) = (self.view, &mut self.ready_events);
        let (own, reclaim) = (
            &shared.executor.shards()[self.shard],
            &shared.reclaim[self.shard],
        );
        let counting = CountingView { view, parker };
        let start = time::clock();
        parker.begin_batch(start);
        let (step, polls) = self.worker.run_some(&counting, self.batch.limit());
        shared.note_progress();
        let now = time::clock();
        parker.count_batch(now);
        reclaim.check(own, now, polls);
        if polls > 0 {
            let is_short = now - start < nanoseconds(WORTH_A_CALL) * polls;
            self.worker.keep_to_itself(is_short);
            self.short_polling = now - start < nanoseconds(SHORT_POLLS);
            self.short_batches = if self.short_polling {
                self.short_batches + 1
            } else {
                0
            };
            if self.short_batches == SHORT_BATCHES {
                self.short_batches = 0;
                shared.relieve_spares();
            } else if polls == 1 && now - start >= shared.spare_after {
                // Of several polls, one may have lasted because Linux left the thread aside.
                shared.spares.note_long_poll();
            }
        }
        match step {
            Step::Ran => {
                self.batch.adapt(polls, now - start);
                if self.short_polling {
                    shared.watch.begin_short_polling(parker);
                } else {
                    shared
                        .watch
                        .end_short_polling(parker, || shared.wake_successor());
                }
                if is_check_due(shared, self.own_check, now) {
                    self.own_check = now;
                    shared.reactor.check(ready_events, now);
                }
            }
            Step::Elsewhere => {
                shared.aside(|| view.step_aside());
                shared.reactor.check(ready_events, time::clock());
            }
            Step::Idle if shared.executor.fire_due(now) > 0 => {}
            Step::Idle => {
                view.idle();
                let reclaim = reclaim.next();
                park(shared, parker, self.short_polling, reclaim, ready_events);
            }
        }
        wake_waiters(&self.worker, ready_events);
        step
    }
}

/// Tests whether a busy worker is to check for events; its own last check was at `own`.
pub(crate) fn is_check_due(shared: &Shared, own: u64, now: u64) -> bool {
    let last = shared.reactor.last_check();
    let ago = now.saturating_sub(last);
    if shared.watch.is_taken() {
        ago >= nanoseconds(TIME_PER_WATCHED_CHECK)
    } else {
        // The worker that made the last check makes the next one after each batch, however short.
        last == own || ago >= nanoseconds(TIME_PER_CHECK)
    }
}

/// Parks or watches until there may be work, or `reclaim`, when memory is due to be given back.
pub(crate) fn park(
    shared: &Shared,
    parker: &Parker,
    short_polling: bool,
    reclaim: Option<u64>,
    ready_events: &mut ReadyEvents,
) {
    let next_deadline = || {
        let due = shared.executor.next_deadline();
        due.into_iter().chain(reclaim).min()
    };
    let deadline = next_deadline();
    if shared.watch.is_taken()
        && let Some(deadline) = deadline
    {
        // The worker that watches now serves this one's timers.
        shared.reactor.limit_watch(deadline);
    }
    let watch = || {
        shared.reactor.announce_watch(deadline);
        // A timer that was set before the announcement is found here; a later one interrupts the
        // watcher.
        let deadline = next_deadline();
        shared.reactor.watch(ready_events, deadline, time::clock);
    };
    shared.idle(|| {
        (shared.watch).park(parker, short_polling, watch, || shared.wake_successor());
    });
    if let Some(pause) = shared.pause.get() {
        pause.note_awake();
    }
}

/// Wakes the coroutines that wait for the ready events.
fn wake_waiters(worker: &AnyWorker<'_>, ready_events: &mut ReadyEvents) {
    if ready_events.is_empty() {
        return;
    }
    worker.within(|| ready_events.wake_all());
}
