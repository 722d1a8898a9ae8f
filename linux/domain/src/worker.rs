//! A thread that runs coroutines, as a member of the domain.

use crate::admission_queue::AdmissionQueue;
use crate::agent;
use crate::alone_flag::AloneFlag;
use crate::claim::{Claim, ClaimState, Nanoseconds};
use crate::clock;
use crate::doorbell::Doorbell;
use crate::linux::Slack;
use crate::mode::Mode;
use crate::shared::Shared;
use corank::{Priority, Published, SystemView};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::{PhantomData, PhantomPinned};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::task::{Wake, Waker};
use std::time::Duration;

/// One worker thread of an executor. It is a [`SystemView`]: give it to the executor's `run_under`.
///
/// The executor asks it before each pick. While there is no other participant, that costs one load
/// and one comparison. Otherwise it costs one load of the worker's *doorbell*, which changes only
/// when there is something to decide, and one of the executor's bitmap. When the doorbell was rung,
/// or when the next pick is at another level than the last, the worker shows that to the others and
/// decides anew. That takes some hundred nanoseconds, more with many workers in the domain.
pub struct Worker {
    shared: Arc<Shared>,
    /// The participant leaves when the last worker has gone.
    _guard: Arc<agent::Guard>,
    index: usize,
    published: &'static Published,
    doorbell: &'static Doorbell,
    /// Whether there is nothing to ask, because there is no other participant.
    alone_flag: AloneFlag,
    /// The doorbell's word at the last decision.
    rings_seen: Cell<u32>,
    /// The claim that the others see.
    claim: Cell<Option<Claim>>,
    /// The last decision: the most urgent level for which this worker has to step aside.
    decision: Cell<Option<Priority>>,
    /// Since when it runs without having been aside.
    running_since: Cell<Nanoseconds>,
    queue: RefCell<AdmissionQueue>,
    /// The former slack of the thread's timers, while they are exact.
    slack: Cell<Option<Slack>>,
    /// It belongs to a thread, because it sets that thread's scheduling in Linux.
    _thread: PhantomData<*const ()>,
    /// It must not move, because the agent holds a reference to `alone_flag`.
    _pinned: PhantomPinned,
}

/// The number of rings without a reason that a worker answers within a tick, while it is aside.
///
/// Every process of the domain may ring its doorbell any number of times.
pub(crate) const RINGS: u32 = 64;

/// Counts the rings of a worker that is aside and stays so.
#[derive(Default)]
struct Rings {
    since: Nanoseconds,
    count: u32,
}

impl Rings {
    /// Counts one more, and tests whether to ignore the doorbell until the next tick.
    fn are_too_many(&mut self, now: Nanoseconds, tick: Duration) -> bool {
        if u128::from(now.saturating_sub(self.since)) > tick.as_nanos() {
            *self = Self {
                since: now,
                count: 0,
            };
        }
        self.count += 1;
        self.count > RINGS
    }
}

/// The reason why [`Worker::step_aside`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Back {
    /// There is a processor for it.
    Called,
    /// Its [`caller`](Worker::caller) was woken in this process.
    Interrupted,
    /// It has been aside for as long as it wanted.
    Elapsed,
}

impl Worker {
    pub(crate) fn new(
        shared: Arc<Shared>,
        guard: Arc<agent::Guard>,
        published: &'static Published,
    ) -> Option<Pin<Box<Self>>> {
        let index = shared.take_slot()?;
        shared.scheduling_classes.enter(index);
        let worker = Box::pin(Self {
            doorbell: &shared.doorbells.0[index],
            alone_flag: AloneFlag::default(),
            shared,
            _guard: guard,
            index,
            published,
            rings_seen: Cell::new(0),
            claim: Cell::new(None),
            decision: Cell::new(None),
            running_since: Cell::new(0),
            queue: RefCell::default(),
            slack: Cell::new(None),
            _thread: PhantomData,
            _pinned: PhantomPinned,
        });
        // SAFETY: it is pinned, so it stays in its place until it is dropped. Then it leaves.
        unsafe { worker.shared.alone_flags.enter(index, &worker.alone_flag) };
        Some(worker)
    }

    /// Gives up the worker's processor, because the worker has nothing to run and its thread is
    /// about to wait for events or to park.
    ///
    /// A worker that stepped aside may have the processor. The next pick claims one again, by
    /// itself.
    pub fn idle(&self) {
        if let Some(claim) = self.claim.take() {
            let now = clock::now();
            self.decision.set(None);
            self.show(
                Claim {
                    state: ClaimState::Released,
                    since: now,
                    ..claim
                },
                now,
            );
            self.decide(now);
        }
    }

    /// Sleeps until there is a processor for this worker, its [`caller`](Self::caller) is woken, or
    /// `limit` is over.
    ///
    /// Call it when the executor reports [`Step::Elsewhere`](corank::Step::Elsewhere). It returns
    /// at once if there is a processor already.
    ///
    /// If others are killed, stopped or hang, they don't count any more within six ticks.
    pub fn step_aside(&self, limit: Duration) -> Back {
        let began = clock::now();
        let Some(claim) = self.claim.get() else {
            return Back::Called;
        };
        if claim.state == ClaimState::Running {
            self.note_inversion(claim.level, began);
        }
        let claim = Claim {
            state: ClaimState::Aside,
            ..claim
        };
        self.show(claim, began);
        let mut now = began;
        let mut rings = Rings::default();
        loop {
            #[cfg(test)]
            self.shared.checks_aside.fetch_add(1, Ordering::Relaxed);
            let seen = self.doorbell.load_acquire();
            if self.decide(now).is_none() {
                self.resume(claim, now, seen);
                return Back::Called;
            }
            if self.shared.called[self.index].swap(false, Ordering::Acquire) {
                return self.stay_aside(seen, Back::Interrupted);
            }
            let elapsed = Duration::from_nanos(now.saturating_sub(began));
            let Some(left) = limit.checked_sub(elapsed).filter(|left| !left.is_zero()) else {
                return self.stay_aside(seen, Back::Elapsed);
            };
            let tick = self.shared.timing.tick;
            if rings.are_too_many(now, tick) {
                std::thread::sleep(left.min(tick));
            } else {
                // It relies on a call of another process for no longer than that.
                self.doorbell.sleep(seen, left.min(5 * tick));
            }
            now = clock::now();
        }
    }

    /// Ends [`step_aside`](Self::step_aside), or else the next one, from any thread of this
    /// process.
    ///
    /// Wake it, besides whatever else notifies the thread, when a coroutine is woken from outside.
    pub fn caller(&self) -> Waker {
        Arc::new(Caller {
            shared: self.shared.clone(),
            index: self.index,
        })
        .into()
    }

    /// Resumes the worker, because there is a processor for it.
    fn resume(&self, claim: Claim, now: Nanoseconds, seen: u32) {
        self.show(
            Claim {
                state: ClaimState::Running,
                ..claim
            },
            now,
        );
        self.running_since.set(now);
        self.rings_seen.set(seen);
        self.decision.set(None);
    }

    /// Leaves the worker aside. It checks for events and then decides again.
    fn stay_aside(&self, seen: u32, back: Back) -> Back {
        self.rings_seen.set(seen);
        back
    }

    #[inline(never)]
    fn ask(&self) -> Option<Priority> {
        let seen = self.doorbell.load();
        let waiting = self.published.ready().union(self.published.arriving());
        let level = waiting.most_urgent()?;
        let claimed = self.claim.get().map(|claim| claim.level);
        if seen == self.rings_seen.get() && claimed == Some(level) {
            return self.decision.get();
        }
        self.claim_and_decide(level)
    }

    /// Shows what is picked next, and decides whether to step aside.
    #[cold]
    fn claim_and_decide(&self, level: Priority) -> Option<Priority> {
        let seen = self.doorbell.load_acquire();
        let was_rung = seen != self.rings_seen.replace(seen);
        let membership = self.shared.membership.load();
        if membership.is_alone() {
            (self.alone_flag).set_while(|| self.shared.membership.load().is_alone());
            self.decision.set(None);
            if self.claim.take().is_some() {
                self.shared.page.slots[self.index].show(None, clock::now());
            }
            return None;
        }
        let now = clock::now();
        let timing = &self.shared.timing;
        let behind = self.shared.scheduling_classes.raise(level);
        self.make_timers_exact(self.shared.scheduling_classes.is_urgent());
        let mut claim = match self.claim.get() {
            Some(claim) if claim.level == level => Claim {
                state: ClaimState::Running,
                behind,
                ..claim
            },
            _ => {
                self.running_since.set(now);
                Claim {
                    level,
                    state: ClaimState::Running,
                    strict: self.shared.mode == Mode::Strict,
                    behind,
                    since: now,
                }
            }
        };
        self.show(claim, now);
        self.shared.resume_agent();
        let mut queue = self.queue.borrow_mut();
        membership.survey(&mut queue, now, timing);
        if now.saturating_sub(self.running_since.get()) > timing.slice && queue.has_aside_at(level)
        {
            // Its turn is over, so it stands behind its equals from now on.
            claim.since = now;
            self.running_since.set(now);
            self.show(claim, now);
            membership.survey(&mut queue, now, timing);
        }
        let decision = membership.ring(Some(self.index), &mut queue);
        // A relaxed worker stays between two ticks, whatever comes.
        if was_rung || self.shared.mode == Mode::Strict {
            self.decision.set(decision);
        }
        self.decision.get()
    }

    fn show(&self, claim: Claim, now: Nanoseconds) {
        self.claim
            .set((claim.state != ClaimState::Released).then_some(claim));
        let slot = &self.shared.page.slots[self.index];
        slot.runs_on(rustix::thread::sched_getcpu());
        slot.show(Some(claim), now);
    }

    /// Makes this thread's timers exact, or as they were.
    ///
    /// Otherwise Linux may delay a timer by its slack, however urgent the work that waits for it
    /// is.
    fn make_timers_exact(&self, exact: bool) {
        match (exact, self.slack.take()) {
            (true, None) => self.slack.set(Slack::LEAST.set()),
            (false, Some(slack)) => drop(slack.set()),
            (_, slack) => self.slack.set(slack),
        }
    }

    fn decide(&self, now: Nanoseconds) -> Option<Priority> {
        let membership = self.shared.membership.load();
        if membership.is_alone() {
            return None;
        }
        let queue = &mut self.queue.borrow_mut();
        membership.decide(Some(self.index), queue, now, &self.shared.timing)
    }

    /// Records how long the work that it steps aside for has been waiting for that.
    fn note_inversion(&self, level: Priority, now: Nanoseconds) {
        let membership = self.shared.membership.load();
        let queue = &mut self.queue.borrow_mut();
        membership.survey(queue, now, &self.shared.timing);
        let waited = queue
            .more_urgent_since(level)
            .map(|since| now.saturating_sub(since));
        self.shared.page.figures.step_aside(waited);
    }
}

impl SystemView for Worker {
    #[inline]
    fn most_urgent_elsewhere(&self) -> Option<Priority> {
        if self.alone_flag.is_set() {
            return None;
        }
        self.ask()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.alone_flags.leave(self.index);
        self.idle();
        self.make_timers_exact(false);
        self.shared.scheduling_classes.leave(self.index);
        self.shared.give_slot_back(self.index);
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("claim", &self.claim)
            .field("decision", &self.decision)
            .finish_non_exhaustive()
    }
}

struct Caller {
    shared: Arc<Shared>,
    index: usize,
}

impl Wake for Caller {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let shared = &self.shared;
        shared.called[self.index].store(true, Ordering::Release);
        // The worker shows that it is aside, and then checks whether it was called. So one of the
        // two sees the other.
        fence(Ordering::SeqCst);
        let (word, _) = shared.page.slots[self.index].words();
        if matches!(Claim::from_word(word), Ok(Some(claim)) if claim.state == ClaimState::Aside) {
            shared.scheduling_classes.raise_for_arrival();
            shared.doorbells.0[self.index].ring_and_wake();
        }
    }
}
