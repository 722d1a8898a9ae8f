//! What a worker's thread does: polls coroutines, looks for events between two batches of polls, sleeps when there is nothing.
//!
//! # When urgent I/O is noticed
//! A busy worker looks for events after at most [`POLLS_PER_CHECK`] polls, and adapts that number so that a batch takes about
//! [`TIME_PER_CHECK`]: where polls are long it looks after each. An idle worker that watches is told at once. Events are taken in all
//! together, and then the most urgent coroutine is next, wherever its event stood.
//!
//! Looking is shared. A worker whose batch ends within [`TIME_PER_CHECK`] of another's look leaves it at that. While an idle worker watches,
//! the busy ones look only each [`TIME_PER_WATCHED_CHECK`]: an event calls the watcher anyway, and who takes it away meanwhile has
//! called it in vain. They do look, because the machine may have no processor for the watcher. And while a busy worker is *short-polling*, idle ones
//! don't begin to watch: with short polls, as in most servers, each event would call one of them for a single poll, and that costs
//! more than the poll.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::Duration;

use corank::{Priority, Step, SystemView, Worker};

use crate::external_scheduler::ExternalScheduler;
use crate::idle::{Call, Parker};
use crate::reactor::ReadyEvents;
use crate::shared::{Shared, WorkerEntry};
use crate::time::{self, nanoseconds};

/// A busy worker looks for events after at most so many polls.
pub const POLLS_PER_CHECK: u64 = 61;
/// A busy worker takes as many polls between two looks as took this long before; at least one. A look costs about half a microsecond.
pub const TIME_PER_CHECK: Duration = Duration::from_micros(25);

/// While another worker is idle and watches, a busy one looks so often.
pub const TIME_PER_WATCHED_CHECK: Duration = Duration::from_micros(250);

/// A worker is short-polling if its last batch took less: then it will look for events soon, and idle workers leave that to it.
const SHORT_POLLS: Duration = Duration::from_micros(100);

/// How the executor calls a worker.
struct Calls {
    shared: Weak<Shared>,
    parker: Arc<Parker>,
}

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.parker.wake() == Call::Interrupt
            && let Some(shared) = self.shared.upgrade()
        {
            shared.reactor.interrupt();
        }
    }
}

/// How many polls until the next look.
struct Batch(u64);

impl Batch {
    /// So many polls have taken so many nanoseconds.
    fn adapt(&mut self, polls: u64, took: u64) {
        let fits = (nanoseconds(TIME_PER_CHECK).saturating_mul(polls)) / took.max(1);
        // It shrinks at once and grows slowly: one short batch says little about the next.
        self.0 = fits.min(2 * self.0).clamp(1, POLLS_PER_CHECK);
    }
}

/// What the worker knows of others; it is asked before each poll, and notes that for the watchdog.
struct Noting<'a, V> {
    view: &'a V,
    parker: &'a Parker,
}

impl<V: ExternalScheduler> SystemView for Noting<'_, V> {
    #[inline]
    fn most_urgent_elsewhere(&self) -> Option<Priority> {
        self.parker.note_poll();
        self.view.most_urgent_elsewhere()
    }
}

/// Makes this thread a worker until the runtime stops.
pub(crate) fn serve(shared: &Arc<Shared>, view: &impl ExternalScheduler) {
    let parker = &Arc::new(Parker::here());
    let calls = Arc::new(Calls {
        shared: Arc::downgrade(shared),
        parker: parker.clone(),
    });
    let worker = shared.executor.worker(Waker::from(calls));
    shared.entries().push(WorkerEntry {
        parker: parker.clone(),
        worker: worker.id(),
    });
    let noting = Noting { view, parker };
    let mut ready_events = ReadyEvents::new();
    let mut batch = Batch(1);
    let mut own_check = 0;
    let mut short_polling = false;
    while !shared.stopping.load(Ordering::Acquire) {
        let start = time::clock();
        let (step, polls) = worker.run_some(&noting, batch.0);
        shared.note_progress();
        let now = time::clock();
        if polls > 0 {
            short_polling = now - start < nanoseconds(SHORT_POLLS);
        }
        match step {
            Step::Ran => {
                batch.adapt(polls, now - start);
                if short_polling {
                    shared.watch.begin_short_polling(parker);
                } else {
                    shared
                        .watch
                        .end_short_polling(parker, || shared.wake_successor());
                }
                if is_check_due(shared, own_check, now) {
                    own_check = now;
                    shared.reactor.check(&mut ready_events, now);
                }
            }
            Step::Elsewhere => {
                view.step_aside();
                shared.reactor.check(&mut ready_events, time::clock());
            }
            Step::Idle => {
                view.idle();
                park(shared, parker, short_polling, &mut ready_events);
            }
        }
        take_in(&worker, &mut ready_events);
    }
}

/// Whether a worker that has something to do shall look for events, which it did last at `mine`.
fn is_check_due(shared: &Shared, mine: u64, now: u64) -> bool {
    let last = shared.reactor.last_check();
    let ago = now.saturating_sub(last);
    if shared.watch.is_taken() {
        ago >= nanoseconds(TIME_PER_WATCHED_CHECK)
    } else {
        // Who was itself the last one does so after each batch, however short.
        last == mine || ago >= nanoseconds(TIME_PER_CHECK)
    }
}

/// Sleeps until there may be something to do.
fn park(shared: &Shared, parker: &Parker, short_polling: bool, ready_events: &mut ReadyEvents) {
    let deadline = shared.executor.next_deadline();
    if shared.watch.is_taken()
        && let Some(deadline) = deadline
    {
        // Its timers are for whoever watches now.
        shared.reactor.limit_watch(deadline);
    }
    let watch = || {
        shared.reactor.announce_watch(deadline);
        // A timer that was set before the announcement is found here; one that is set after it interrupts.
        let deadline = shared.executor.next_deadline();
        shared.reactor.watch(ready_events, deadline, time::clock);
    };
    (shared.watch).park(parker, short_polling, watch, || shared.wake_successor());
    if let Some(pause) = shared.pause.get() {
        pause.note_awake();
    }
}

/// Wakes those who waited for what has happened.
fn take_in(worker: &Worker<'_>, ready_events: &mut ReadyEvents) {
    if ready_events.is_empty() {
        return;
    }
    worker.within(|| ready_events.wake_all());
}
