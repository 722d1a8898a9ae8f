//! A host: a worker whose loop is a task of tokio.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use corank::{Priority, Step, SystemView, Worker};

use super::Hosting;
use crate::block_on::Driving;
use crate::idle::{Parker, Wakeup};
use crate::shared::{Role, Shared, WorkerEntry};
use crate::time::{self, nanoseconds};
use crate::worker::Batch;

/// A turn of tokio in less time has polled no task to speak of: less urgent coroutines may run.
const QUIET: Duration = Duration::from_micros(5);

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
    shared: std::sync::Weak<Shared>,
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
        if let Some(shared) = self.shared.upgrade()
            && let Some(pause) = shared.pause.get()
        {
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
        shared: Arc::downgrade(shared),
    }));
    let worker = shared.executor.worker(waker);
    shared.entries().push(WorkerEntry {
        parker: parker.clone(),
        worker: worker.id(),
        role: Role::Worker,
        sleeper: Some(task),
    });
    let mut batch = Batch::new();
    let mut quiet = false;
    while !shared.stopping.load(Ordering::Acquire) {
        let tokio = (!quiet && hosting.has_other_tasks()).then_some(hosting.level);
        match poll_batch(shared, &worker, View { parker, tokio }, &mut batch) {
            Step::Idle => {
                let due = shared.executor.next_deadline();
                (hosting.timer).set(due.into_iter().chain(shared.reclaim.next()).min());
                Sleep(parker).await;
                quiet = false;
            }
            // Nothing is left: the next call notes that the worker is idle.
            Step::Ran if shared.has_nothing_ready() => {}
            Step::Ran | Step::Elsewhere => {
                // Other tasks first, then events, then this one.
                let before = time::clock();
                ::tokio::task::yield_now().await;
                quiet = time::clock() - before < nanoseconds(QUIET);
            }
        }
    }
    drop(worker);
    drop(end);
}

fn poll_batch(shared: &Shared, worker: &Worker<'_>, view: View<'_>, batch: &mut Batch) -> Step {
    let start = time::clock();
    POLLS_COROUTINES.set(true);
    let driving = Driving::begin();
    let (step, polls) = worker.run_some(&view, batch.limit());
    drop(driving);
    POLLS_COROUTINES.set(false);
    shared.note_progress();
    let now = time::clock();
    shared.reclaim.check(&shared.executor, now, polls);
    if step == Step::Ran {
        batch.adapt(polls, now - start);
    }
    step
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
