//! The loop of a spare worker: it polls what is urgent while all workers are inside polls that do
//! not end (rules H11 to H13).
//!
//! On duty, a spare worker checks the workers each time that a poll may have lasted for the time
//! that [`Builder::spare_workers`](crate::Builder::spare_workers) sets. If a worker is idle, or has
//! begun a batch of polls since, there is nothing to do. If all workers are held, the spare worker
//! stands by. Then it watches for events in their place, and the executor calls it for whatever is
//! strictly more urgent than one of their polls. So no wake and no event waits for a check.
//!
//! It polls until nothing more urgent is left, or until a worker begins another batch.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::thread;
use std::time::Duration;

use corank::{SpareWorker, Step, WorkerId};

use crate::block_on::Driving;
use crate::class;
use crate::external_scheduler::ExternalScheduler;
use crate::idle::Parker;
use crate::reactor::ReadyEvents;
use crate::shared::{Shared, WorkerEntry, WorkerRole};
use crate::spare_pool::SHORTEST;
use crate::time::{self, nanoseconds};
use crate::worker::{Batch, CountingView, WorkerWaker, is_check_due, park};

/// A spare worker goes to sleep when the workers have not been held for this long.
const CALM: Duration = Duration::from_millis(10);

/// After standing by in vain a spare worker waits for twice as long before the next time, up to two
/// to this power of the time that is set: with the default, 3.2 ms.
const MOST_DOUBLINGS: u32 = 4;

/// What a spare worker has at hand.
struct Spare<'a, V> {
    shared: &'a Shared,
    parker: &'a Parker,
    worker: SpareWorker<'a>,
    view: CountingView<'a, V>,
    ready_events: ReadyEvents,
}

/// Makes this thread a spare worker until the runtime stops.
pub(crate) fn serve(shared: &Arc<Shared>, view: &impl ExternalScheduler, number: usize) {
    let _driving = Driving::begin();
    let after = shared.spare_after;
    class::request_short_slice();
    let parker = &Arc::new(Parker::current());
    let waker = Arc::new(WorkerWaker::new(shared, parker));
    let worker = shared.executor.exact().spare_worker(Waker::from(waker));
    worker.set_levels(shared.urgent_levels());
    let entry = WorkerEntry {
        parker: parker.clone(),
        worker: worker.id(),
        elsewhere: None,
        number,
        role: WorkerRole::Spare,
        sleeper: None,
    };
    shared.add_entry(entry, shared.urgent_levels());
    let mut spare = Spare {
        shared,
        parker,
        worker,
        view: CountingView { view, parker },
        ready_events: ReadyEvents::new(),
    };
    let mut last_held = time::clock();
    // How often it has stood by in vain, one time after the other.
    let mut in_vain = 0_u32;
    while !shared.stopping.load(Ordering::Acquire) {
        // Also calls an idle worker for what this one has made ready.
        let held_up = spare.worker.held_up();
        let now = time::clock();
        let begun = spare.last_batch();
        let is_held = begun.is_some_and(|begun| now.saturating_sub(begun) >= after);
        if is_held {
            last_held = now;
        }
        let is_calm = now - last_held >= nanoseconds(CALM);
        if is_calm || shared.spares.has_another() {
            view.idle();
            shared.spares.sleep(is_calm);
            last_held = time::clock();
        } else if !is_held {
            let wait = begun.map_or(after, |begun| (begun + after).saturating_sub(now));
            // If Linux leaves workers with short polls aside, they look as if they were held.
            let least = if in_vain == 0 || held_up.is_some() {
                nanoseconds(SHORTEST)
            } else {
                after.saturating_mul(1 << in_vain.min(MOST_DOUBLINGS))
            };
            thread::park_timeout(Duration::from_nanos(wait.max(least)));
        } else if let Some(held_up) = held_up {
            in_vain = 0;
            spare.act_for(held_up);
            last_held = time::clock();
        } else {
            in_vain = if spare.stand_by() { 0 } else { in_vain + 1 };
            last_held = time::clock();
        }
    }
}

impl<V: ExternalScheduler> Spare<'_, V> {
    /// Returns when the last batch of polls of any other worker began; `None` if a worker is idle.
    fn last_batch(&self) -> Option<u64> {
        let mut last = 0;
        for entry in self.shared.entries().iter() {
            if entry.worker == self.worker.id() || entry.role == WorkerRole::Bulk {
                continue;
            }
            if entry.role == WorkerRole::Worker && entry.parker.is_parked() {
                return None;
            }
            // Of a spare worker that does not poll it is 0.
            last = last.max(entry.parker.batch_begun());
        }
        Some(last)
    }

    /// Sleeps until there is something for this spare worker to do, and watches for events if no
    /// worker does.
    ///
    /// Returns false if there was no event: it was called, or relieved.
    fn stand_by(&mut self) -> bool {
        for entry in self.shared.entries().iter() {
            // Its poll lasts, so it checks for no events.
            (self.shared.watch).end_short_polling(&entry.parker, || ());
        }
        self.shared.standing_by.fetch_add(1, Ordering::Relaxed);
        if self.worker.stand_by().is_none() {
            self.view.view.idle();
            park(
                self.shared,
                self.parker,
                false,
                None,
                &mut self.ready_events,
            );
        }
        self.shared.standing_by.fetch_sub(1, Ordering::Relaxed);
        let has_events = !self.ready_events.is_empty();
        self.wake_waiters();
        has_events
    }

    /// Polls what is more urgent than the poll of `held_up`, until nothing is left or a worker
    /// comes back.
    fn act_for(&mut self, held_up: WorkerId) {
        let held = self.last_batch();
        let mut batch = Batch::new();
        let mut own_check = 0;
        self.shared.spares.begin_polling();
        while !self.shared.stopping.load(Ordering::Acquire) && self.last_batch() == held {
            let start = time::clock();
            self.parker.begin_batch(start);
            let (step, polls) = (self.worker).run_for(held_up, &self.view, batch.limit());
            self.shared.note_progress();
            let now = time::clock();
            self.parker.count_batch(now);
            match step {
                Step::Ran => {
                    batch.adapt(polls, now - start);
                    if is_check_due(self.shared, own_check, now) {
                        own_check = now;
                        self.shared.reactor.check(&mut self.ready_events, now);
                    }
                }
                Step::Elsewhere => {
                    self.shared.aside(|| self.view.view.step_aside());
                    (self.shared.reactor).check(&mut self.ready_events, time::clock());
                }
                Step::Idle => break,
            }
            self.wake_waiters();
        }
        self.parker.end_batch();
        self.shared.spares.end_polling();
    }

    /// Wakes the coroutines that wait for the ready events.
    fn wake_waiters(&mut self) {
        if !self.ready_events.is_empty() {
            self.worker.within(|| self.ready_events.wake_all());
        }
    }
}
