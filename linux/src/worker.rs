//! What a worker's thread does: polls coroutines, looks for events between two batches of polls, sleeps when there is nothing.
//!
//! # When urgent I/O is noticed
//! A busy worker looks for events after at most [`POLLS_PER_LOOK`] polls, and adapts that number so that a batch takes about
//! [`TIME_PER_LOOK`]: where polls are long it looks after each. An idle worker that watches is told at once. Events are taken in all
//! together, and then the most urgent coroutine is next, whatever its event's place was.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use corank::{Step, Worker};

use crate::idle::{Call, Place};
use crate::outside::Outside;
use crate::reactor::Findings;
use crate::runtime::Shared;
use crate::time;

/// A busy worker looks for events after at most so many polls.
pub const POLLS_PER_LOOK: u64 = 61;
/// A busy worker takes as many polls between two looks as took this long before; at least one. A look costs about half a microsecond.
pub const TIME_PER_LOOK: Duration = Duration::from_micros(25);

/// How the executor calls a worker.
pub(crate) struct Calls {
    pub(crate) shared: std::sync::Weak<Shared>,
    pub(crate) place: Arc<Place>,
}

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.place.wake() == Call::Interrupt
            && let Some(shared) = self.shared.upgrade()
        {
            shared.reactor.interrupt();
        }
    }
}

/// How many polls until the next look.
struct Batch(u64);

impl Batch {
    /// So many polls have taken so long.
    fn adapt(&mut self, polls: u64, took: Duration) {
        let took = took.as_nanos().max(1);
        let fits = TIME_PER_LOOK.as_nanos() * u128::from(polls) / took;
        let fits = u64::try_from(fits).unwrap_or(u64::MAX);
        // It shrinks at once and grows slowly: one short batch says little about the next.
        self.0 = fits.min(2 * self.0).clamp(1, POLLS_PER_LOOK);
    }
}

/// Runs the worker at `place` until the runtime stops.
pub(crate) fn serve(shared: &Arc<Shared>, place: &Arc<Place>, view: &impl Outside) {
    let calls = Arc::new(Calls {
        shared: Arc::downgrade(shared),
        place: place.clone(),
    });
    let worker = shared.executor.worker(Waker::from(calls));
    let mut findings = Findings::new();
    let mut batch = Batch(1);
    while !shared.stopping.load(Ordering::Acquire) {
        let start = Instant::now();
        let (step, polls) = worker.run_some(view, batch.0);
        shared.note_progress();
        match step {
            Step::Ran => {
                batch.adapt(polls, start.elapsed());
                shared.reactor.look(&mut findings);
            }
            Step::Elsewhere => {
                view.step_aside();
                shared.reactor.look(&mut findings);
            }
            Step::Idle => {
                view.idle();
                rest(shared, place, &mut findings);
            }
        }
        take_in(&worker, &mut findings);
    }
}

/// Sleeps until there may be something to do.
fn rest(shared: &Shared, place: &Place, findings: &mut Findings) {
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
        shared.reactor.watch(findings, deadline, time::clock);
    };
    let hand_on = || {
        let _ = shared.places().iter().any(|other| other.wake_sleeper());
    };
    shared.watch.rest(place, watch, hand_on);
}

/// Wakes those who waited for what has happened.
fn take_in(worker: &Worker<'_>, findings: &mut Findings) {
    if findings.is_empty() {
        return;
    }
    worker.within(|| {
        for waker in findings.drain() {
            // Whose waker it is, is not known: one that panics shall not end the worker. The hook has told of it.
            let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
    });
}
