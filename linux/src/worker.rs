//! What a worker's thread does: polls coroutines, looks for events between two batches of polls, sleeps when there is nothing.
//!
//! # When urgent I/O is noticed
//! A busy worker looks for events after at most [`POLLS_PER_LOOK`] polls, and adapts that number so that a batch takes about
//! [`TIME_PER_LOOK`]: where polls are long it looks after each. An idle worker that watches is told at once. Events are taken in all
//! together, and then the most urgent coroutine is next, whatever its event's place was.
//!
//! Looking is shared. A worker whose batch ends within [`TIME_PER_LOOK`] of another's look leaves it at that. While an idle worker watches,
//! the busy ones look only each [`TIME_PER_LOOK_WATCHED`]: an event calls the watcher anyway, and who takes it away meanwhile has
//! called it in vain. They do look, because the machine may have no processor for the watcher. And while a busy worker is *nimble*, idle ones
//! don't begin to watch: with short polls, as in most servers, each event would call one of them for a single poll, and that costs
//! more than the poll.
//!
//! What is found matters at once only if it is more urgent than what is ready. Where nobody has waited for events at such a level, and no worker rests that
//! could begin with something else, the look is *owed*: it comes within [`TIME_PER_LOOK_EQUAL`], and before anything is polled that is less urgent
//! than what may have come. It takes in more events then, and costs little more than with one.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::Duration;

use corank::{Priority, Step, SystemView, Worker};

use crate::idle::{Call, Place};
use crate::outside::Outside;
use crate::reactor::Findings;
use crate::runtime::{Post, Shared};
use crate::time;

/// A busy worker looks for events after at most so many polls.
pub const POLLS_PER_LOOK: u64 = 61;
/// A busy worker takes as many polls between two looks as took this long before; at least one. A look costs about half a microsecond.
pub const TIME_PER_LOOK: Duration = Duration::from_micros(25);

/// While what is ready is at least as urgent as everything that has waited for events so far, and no worker rests, there is a look so often.
pub const TIME_PER_LOOK_EQUAL: Duration = Duration::from_micros(50);

/// While another worker is idle and watches, a busy one looks so often.
pub const TIME_PER_LOOK_WATCHED: Duration = Duration::from_micros(250);

/// A worker is nimble if its last batch took less: then it will look for events soon, and idle workers leave that to it.
const NIMBLE: Duration = Duration::from_micros(100);

/// How the executor calls a worker.
struct Calls {
    shared: Weak<Shared>,
    place: Arc<Place>,
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
    /// So many polls have taken so many nanoseconds.
    fn adapt(&mut self, polls: u64, took: u64) {
        let fits = (nanoseconds(TIME_PER_LOOK).saturating_mul(polls)) / took.max(1);
        // It shrinks at once and grows slowly: one short batch says little about the next.
        self.0 = fits.min(2 * self.0).clamp(1, POLLS_PER_LOOK);
    }
}

pub(crate) const fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// What the worker knows of others; it is asked before each poll, and notes that for the overseer.
struct Noting<'a, V> {
    view: &'a V,
    place: &'a Place,
    /// A look is owed: it comes before anything is polled that is less urgent than this.
    owed: Cell<Option<Priority>>,
}

impl<V: Outside> SystemView for Noting<'_, V> {
    #[inline]
    fn most_urgent_elsewhere(&self) -> Option<Priority> {
        self.place.note_poll();
        let elsewhere = self.view.most_urgent_elsewhere();
        match (self.owed.get(), elsewhere) {
            (Some(owed), Some(elsewhere)) if elsewhere.is_more_urgent_than(owed) => Some(elsewhere),
            (Some(owed), _) => Some(owed),
            (None, elsewhere) => elsewhere,
        }
    }
}

/// Makes this thread a worker until the runtime stops.
pub(crate) fn serve(shared: &Arc<Shared>, view: &impl Outside) {
    let place = &Arc::new(Place::here());
    let calls = Arc::new(Calls {
        shared: Arc::downgrade(shared),
        place: place.clone(),
    });
    let worker = shared.executor.worker(Waker::from(calls));
    shared.posts().push(Post {
        place: place.clone(),
        worker: worker.id(),
    });
    let noting = Noting {
        view,
        place,
        owed: Cell::new(None),
    };
    let mut findings = Findings::new();
    let mut batch = Batch(1);
    let mut my_look = 0;
    let mut nimble = false;
    while !shared.stopping.load(Ordering::Acquire) {
        let start = time::clock();
        let (step, polls) = worker.run_some(&noting, batch.0);
        shared.note_progress();
        let now = time::clock();
        if polls > 0 {
            nimble = now - start < nanoseconds(NIMBLE);
        }
        match step {
            Step::Ran => {
                batch.adapt(polls, now - start);
                if nimble {
                    shared.watch.begin_nimble(place);
                } else {
                    shared.watch.end_nimble(place, || shared.hand_on());
                }
                let next = Circumstances::of(shared, my_look, now).next_look();
                noting.owed.set(next.owed());
                if next == NextLook::Now {
                    my_look = now;
                    shared.reactor.look(&mut findings, now);
                }
            }
            Step::Elsewhere => {
                // A look that was owed; whether anything else was in the way is seen behind it.
                if noting.owed.take().is_none() {
                    view.step_aside();
                }
                my_look = time::clock();
                shared.reactor.look(&mut findings, my_look);
            }
            Step::Idle => {
                noting.owed.set(None);
                view.idle();
                rest(shared, place, nimble, &mut findings);
            }
        }
        take_in(&worker, &mut findings);
    }
}

/// When a worker that has something to do looks for events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextLook {
    Now,
    /// Before it polls anything less urgent than this.
    Owed(Priority),
    /// Not before the next batch has ended.
    Later,
}

impl NextLook {
    fn owed(self) -> Option<Priority> {
        match self {
            Self::Owed(level) => Some(level),
            Self::Now | Self::Later => None,
        }
    }
}

/// What the next look depends on.
#[derive(Clone, Copy, Debug)]
struct Circumstances {
    /// Nanoseconds since somebody looked.
    ago: u64,
    /// That was this worker.
    mine: bool,
    /// Another worker watches.
    watched: bool,
    /// Another worker has nothing to do.
    resting: bool,
    /// The most urgent level that is ready.
    ready: Option<Priority>,
    /// The most urgent level that an event can be for.
    waiting: Option<Priority>,
}

impl Circumstances {
    fn of(shared: &Shared, my_look: u64, now: u64) -> Self {
        let last = shared.reactor.last_look();
        Self {
            ago: now.saturating_sub(last),
            mine: last == my_look,
            watched: shared.watch.is_taken(),
            resting: shared.resting.load(Ordering::Relaxed) > 0,
            ready: shared.executor.published().ready().most_urgent(),
            waiting: shared.reactor.most_urgent_waiting(),
        }
    }

    fn next_look(self) -> NextLook {
        let due_after = |time| match self.ago >= nanoseconds(time) {
            true => NextLook::Now,
            false => NextLook::Later,
        };
        if self.watched {
            return due_after(TIME_PER_LOOK_WATCHED);
        }
        let Some(ready) = self.ready else {
            // It is probably going to rest, and then somebody looks; but others may go on making something ready in time.
            return due_after(TIME_PER_LOOK);
        };
        // Who was itself the last one does so after each batch, however short.
        if !self.mine && self.ago < nanoseconds(TIME_PER_LOOK) {
            return NextLook::Later;
        }
        match self.waiting {
            _ if self.resting => NextLook::Now,
            Some(waiting) if waiting.is_more_urgent_than(ready) => NextLook::Now,
            Some(waiting) if self.ago < nanoseconds(TIME_PER_LOOK_EQUAL) => NextLook::Owed(waiting),
            _ => due_after(TIME_PER_LOOK_EQUAL),
        }
    }
}

/// Sleeps until there may be something to do.
fn rest(shared: &Shared, place: &Place, nimble: bool, findings: &mut Findings) {
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
    shared.resting.fetch_add(1, Ordering::Relaxed);
    (shared.watch).rest(place, nimble, watch, || shared.hand_on());
    shared.resting.fetch_sub(1, Ordering::Relaxed);
    if let Some(doze) = shared.doze.get() {
        doze.note_awake();
    }
}

/// Wakes those who waited for what has happened.
fn take_in(worker: &Worker<'_>, findings: &mut Findings) {
    if findings.is_empty() {
        return;
    }
    worker.within(|| findings.wake_all());
}

#[cfg(test)]
mod tests {
    use super::*;
    use corank::Executor;

    fn level(level: u8) -> Option<Priority> {
        Priority::new(level)
    }

    #[test]
    fn a_look_is_owed_where_nothing_more_urgent_can_come() {
        let equal = Circumstances {
            ago: 30_000,
            mine: true,
            watched: false,
            resting: false,
            ready: level(10),
            waiting: level(10),
        };
        let owed = NextLook::Owed(Priority::new(10).unwrap());
        let cases = [
            (equal, owed),
            (
                Circumstances {
                    ago: 49_999,
                    ..equal
                },
                owed,
            ),
            (
                Circumstances {
                    ago: 50_000,
                    ..equal
                },
                NextLook::Now,
            ),
            (
                Circumstances {
                    ready: level(9),
                    ..equal
                },
                owed,
            ),
            // Something more urgent can come.
            (
                Circumstances {
                    ready: level(11),
                    ..equal
                },
                NextLook::Now,
            ),
            (
                Circumstances {
                    ready: level(11),
                    ago: 0,
                    ..equal
                },
                NextLook::Now,
            ),
            // Somebody could begin with what has come.
            (
                Circumstances {
                    resting: true,
                    ..equal
                },
                NextLook::Now,
            ),
            // Another one has looked.
            (
                Circumstances {
                    mine: false,
                    ago: 24_999,
                    ready: level(11),
                    ..equal
                },
                NextLook::Later,
            ),
            (
                Circumstances {
                    mine: false,
                    ready: level(11),
                    ..equal
                },
                NextLook::Now,
            ),
            // Another one watches.
            (
                Circumstances {
                    watched: true,
                    ready: level(11),
                    ..equal
                },
                NextLook::Later,
            ),
            (
                Circumstances {
                    watched: true,
                    ago: 250_000,
                    ..equal
                },
                NextLook::Now,
            ),
            // Nobody has ever waited; nothing is ready.
            (
                Circumstances {
                    waiting: None,
                    ..equal
                },
                NextLook::Later,
            ),
            (
                Circumstances {
                    waiting: None,
                    ago: 50_000,
                    ..equal
                },
                NextLook::Now,
            ),
            (
                Circumstances {
                    ready: None,
                    ..equal
                },
                NextLook::Now,
            ),
            (
                Circumstances {
                    ready: None,
                    ago: 24_999,
                    ..equal
                },
                NextLook::Later,
            ),
        ];
        for (circumstances, expected) in cases {
            assert_eq!(circumstances.next_look(), expected, "{circumstances:?}");
        }
    }

    #[test]
    fn nothing_less_urgent_is_polled_before_a_look_that_is_owed() {
        let executor = Executor::new();
        let place = Place::here();
        let noting = Noting {
            view: &corank::Relaxed,
            place: &place,
            owed: Cell::new(level(10)),
        };
        for level in [9, 10, 11] {
            let spawned = executor.spawn(Priority::new(level).unwrap(), async {});
            drop(spawned.unwrap());
        }
        let steps = [(); 3].map(|()| executor.step_under(&noting));
        assert_eq!(steps, [Step::Ran, Step::Ran, Step::Elsewhere]);
        noting.owed.set(None);
        assert_eq!(executor.step_under(&noting), Step::Ran);
    }
}
