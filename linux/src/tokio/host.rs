//! A host: a worker whose loop is a task of tokio.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use corank::{Priority, Step, SystemView};

use super::Hosting;
use crate::block_on::Driving;
use crate::idle::{Parker, Wakeup};
use crate::shared::{Shared, WorkerEntry, WorkerRole};
use crate::time::{self, nanoseconds};
use crate::worker::Batch;

/// A turn of tokio in less time has polled no task to speak of.
const QUIET: Duration = Duration::from_micros(5);
/// So has one in less than so many times the shortest turn, on a machine that is slow.
const QUIET_TURNS: u64 = 3;
/// Limits the turns in a row in which tokio has tasks and less urgent coroutines wait.
const MOST_SKIPPED: u32 = 16;

/// Tells from the time of tokio's turns whether its threads have found tasks.
struct Turns {
    /// In nanoseconds.
    shortest: u64,
    /// Turns in a row that found tasks.
    skipped: u32,
    /// Less urgent coroutines may run: the last turn found no task, or enough turns did.
    quiet: bool,
}

impl Turns {
    /// Measures a few turns before the host has work.
    async fn new() -> Self {
        let mut turns = Self {
            shortest: u64::MAX,
            skipped: 0,
            quiet: false,
        };
        for _ in 0..4 {
            turns.take().await;
        }
        turns
    }

    /// Lets tokio poll other tasks, take events and come back.
    async fn take(&mut self) {
        let before = time::clock();
        ::tokio::task::yield_now().await;
        let took = time::clock() - before;
        self.shortest = self.shortest.min(took);
        let short = nanoseconds(QUIET).max(QUIET_TURNS.saturating_mul(self.shortest));
        self.quiet = took < short || self.skipped == MOST_SKIPPED;
        self.skipped = if self.quiet { 0 } else { self.skipped + 1 };
    }

    /// Notes that the host has slept: tokio may have tasks since.
    fn forget(&mut self) {
        self.quiet = false;
    }
}

/// Limits the polls of a host that was woken, before it knows how long they take.
const FIRST_BATCH: u64 = 2;

thread_local! {
    /// Set while a host polls coroutines on this thread.
    static POLLS_COROUTINES: Cell<bool> = const { Cell::new(false) };
}

/// Makes a host that was woken by a coroutine free for other threads.
///
/// tokio keeps the task that was woken last on a thread for that thread alone, to be polled next.
/// While a host polls coroutines there, that may be a long time. A second task that is woken after
/// it takes this place, and other threads can steal the host. This is such a task.
#[derive(Clone)]
pub(super) struct Kick(Arc<OnceLock<Waker>>);

impl Kick {
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    pub(super) async fn run(self) {
        poll_fn(|cx| {
            self.0.get_or_init(|| cx.waker().clone());
            Poll::<()>::Pending
        })
        .await;
    }

    fn wake(&self) {
        if let Some(waker) = self.0.get() {
            waker.wake_by_ref();
        }
    }
}

/// Wakes a host; the executor holds it.
struct HostWaker {
    parker: Arc<Parker>,
    task: Waker,
    kick: Kick,
    /// Keeps the executor, which keeps this, until the host ends.
    shared: Arc<Shared>,
}

impl Wake for HostWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.parker.wake() != Wakeup::Interrupt {
            return;
        }
        self.task.wake_by_ref();
        if POLLS_COROUTINES.try_with(Cell::get).unwrap_or(false) {
            self.kick.wake();
        }
        // Before the host runs, because it may stand behind tasks of tokio.
        if let Some(pause) = self.shared.pause.get() {
            pause.note_awake();
        }
    }
}

/// What is more urgent than coroutines on this thread.
struct View<'a> {
    parker: &'a Parker,
    /// The level of tokio's tasks if they may be waiting.
    tokio: Option<Priority>,
}

impl SystemView for View<'_> {
    #[inline]
    fn most_urgent_elsewhere(&self) -> Option<Priority> {
        self.parker.note_poll();
        if ::tokio::task::coop::has_budget_remaining() {
            self.tokio
        } else {
            // Resources of tokio refuse to work until the host has a budget again.
            Some(Priority::MOST_URGENT)
        }
    }
}

/// Polls coroutines whenever there are any, until the runtime stops.
///
/// Drops `end` then.
pub(super) async fn run<E: Send>(hosting: Arc<Hosting>, kick: Kick, end: E) {
    let shared = &hosting.shared;
    let parker = &Arc::new(Parker::current());
    let task = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
    let waker = Waker::from(Arc::new(HostWaker {
        parker: parker.clone(),
        task: task.clone(),
        kick,
        shared: shared.clone(),
    }));
    let executor = shared.executor.exact();
    let worker = executor.worker(waker);
    let entry = WorkerEntry {
        parker: parker.clone(),
        worker: worker.id(),
        elsewhere: None,
        number: 0,
        role: WorkerRole::Worker,
        sleeper: Some(task),
    };
    shared.add_entry(entry, corank::Levels::ALL);
    let mut batch = Batch::new();
    // Of the first batch after a sleep, no time is measured: mostly it is one poll.
    let mut measured = false;
    let reclaim = &shared.reclaim[0];
    let mut polls_since_reclaim = 0;
    let mut turns = Turns::new().await;
    while !shared.stopping.load(Ordering::Acquire) {
        let tokio = (!turns.quiet && hosting.has_other_tasks()).then_some(hosting.level);
        let start = time::clock();
        parker.begin_batch(start);
        let limit = if measured { batch.limit() } else { FIRST_BATCH };
        POLLS_COROUTINES.set(true);
        let driving = Driving::begin();
        let (step, polls) = worker.run_some(&View { parker, tokio }, limit);
        drop(driving);
        POLLS_COROUTINES.set(false);
        let now = time::clock();
        parker.count_batch(now);
        polls_since_reclaim += polls;
        shared.note_progress();
        match step {
            Step::Idle => {
                reclaim.check(executor, now, polls_since_reclaim);
                polls_since_reclaim = 0;
                let due = executor.next_deadline();
                (hosting.timer).set(due.into_iter().chain(reclaim.next()).min());
                Sleep(parker).await;
                turns.forget();
                measured = false;
                continue;
            }
            Step::Ran => {
                if measured {
                    batch.adapt(polls, now - start);
                }
                if shared.has_nothing_ready() {
                    // The next call notes that the worker is idle.
                    continue;
                }
            }
            Step::Elsewhere => {}
        }
        measured = true;
        // Other tasks first, then events, then this one.
        turns.take().await;
    }
    drop(worker);
    drop(end);
}

/// Waits until the executor calls the host.
struct Sleep<'a>(&'a Parker);

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        // The second test: it was called before it slept.
        if self.0.end_sleep() || !self.0.begin_sleep() && self.0.end_sleep() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}
