//! The worker of a shard, which also polls in other shards (rules H15 to H18).

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::cell::Cell;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::task::Waker;

use crate::executor::polling::WorkerId;
use crate::executor::sharded::ShardedExecutor;
use crate::executor::shared::Worker;
use crate::priority::{Levels, Priority};
use crate::scheduling::config::{Relaxed, Step, SystemView};
use crate::scheduling::turn::Held;
use crate::scheduling::workers::board::{Board, Wants};
use crate::scheduling::workers::context::Entered;
use crate::scheduling::workers::worker_context::WorkerContext;

/// The worker of one shard of a [`ShardedExecutor`].
///
/// It polls what is ready in its own shard, and in another one if that has something strictly more
/// urgent, or if its own has nothing. In another shard it makes one poll at a time.
///
/// ```text
///   run: own shard ── union not more urgent ──▶ polls, up to the limit
///            │ ├───── more urgent ────────────▶ reads all shards' words
///            │ │                                  ├─ one has it ─▶ one poll there
///            │ │                                  └─ none, or another worker took it
///            │ │                                       └─▶ one poll in its own shard
///            │ └───── nothing ready ──────────▶ reads all shards' words
///            │                                    ├─ one has anything ─▶ one poll there
///            ▼                                    └─ none: sleeps, and is called
///          again
/// ```
///
/// Mostly it stays on its thread. It may move to another one between two calls of its methods.
pub struct ShardWorker<'e> {
    executor: &'e ShardedExecutor,
    shard: usize,
    worker: ManuallyDrop<Worker<'e>>,
    /// The worker context in other shards. It is in none of their lists between two polls there.
    helper: NonNull<WorkerContext>,
    /// Whether other workers may take it for asleep.
    is_asleep: Cell<bool>,
    has_short_polls: Cell<bool>,
}

// SAFETY: as for `Worker`, of which it consists; the worker context for other shards is in no
// thread's context slot and in no list between two calls of the methods.
unsafe impl Send for ShardWorker<'_> {}

impl ShardedExecutor {
    /// Adds the worker of a shard, for the thread that calls this. Each shard has one at a time.
    ///
    /// `call` is as for [`SharedExecutor::worker`](crate::SharedExecutor::worker). It also comes
    /// for what is ready in another shard.
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn worker(&self, shard: usize, call: Waker) -> ShardWorker<'_> {
        let worker = self.shards()[shard].worker(call.clone());
        drop(self.board().set_call(shard, Some(Arc::new(call))));
        // In other shards no worker calls it: it does not sleep there.
        let helper = WorkerContext::of_worker(WorkerContext::NOWHERE, Waker::noop().clone());
        ShardWorker {
            executor: self,
            shard,
            worker: ManuallyDrop::new(worker),
            helper: NonNull::from(Box::leak(Box::new(helper))),
            is_asleep: Cell::new(false),
            has_short_polls: Cell::new(false),
        }
    }
}

/// How a poll in another shard went.
enum Helped {
    /// It was made, and these are so many polls.
    Yes(u64),
    /// Nothing was left for this worker.
    No,
    /// The system has something more urgent.
    Elsewhere,
}

impl ShardWorker<'_> {
    /// Returns the number of its own shard.
    #[must_use]
    pub fn shard(&self) -> usize {
        self.shard
    }

    /// Returns the name of this worker in its own shard.
    #[must_use]
    pub fn id(&self) -> WorkerId {
        self.worker.id()
    }

    /// Returns the name of this worker in other shards.
    #[must_use]
    pub fn id_elsewhere(&self) -> WorkerId {
        WorkerId::of(self.helper)
    }

    /// Polls the most urgent coroutine that this worker finds, once.
    pub fn step(&self) -> Step {
        self.run_some(&Relaxed, 1).0
    }

    /// Steps until no coroutine is ready for this worker; returns how many polls that took.
    pub fn run_until_idle(&self) -> u64 {
        self.run_some(&Relaxed, u64::MAX).1
    }

    /// Makes at most `limit` polls, until no coroutine is ready for this worker, or something
    /// outside of the executor is more urgent.
    ///
    /// Returns which of the three, and how many polls it took. After [`Step::Idle`] the worker
    /// counts as asleep until the next call. The view is asked before each pick, under the
    /// scheduler lock of the shard.
    pub fn run_some(&self, view: &impl SystemView, limit: u64) -> (Step, u64) {
        let board = self.executor.board();
        self.end_sleep();
        let mut polls = 0;
        while polls < limit {
            let look = Look::new(view, Some(board));
            let (step, more) = self.worker.run_awake(&look, limit - polls);
            polls += more;
            match step {
                Step::Ran => return (Step::Ran, polls),
                Step::Elsewhere if !look.is_of_board.get() => return (Step::Elsewhere, polls),
                Step::Elsewhere => {
                    let published = self.worker.scheduler().published();
                    let Some(own) = published.ready().most_urgent() else {
                        // Another worker has taken it meanwhile.
                        continue;
                    };
                    let levels = Levels::above(own);
                    match self.help(view, Wants::Urgent(levels), levels) {
                        Helped::Yes(more) => polls += more,
                        Helped::Elsewhere => return (Step::Elsewhere, polls),
                        // What this worker found is served. So it polls in its own shard, and does
                        // not check again before.
                        Helped::No => {
                            let (step, more) = (self.worker).run_awake(&Look::new(view, None), 1);
                            polls += more;
                            if step == Step::Elsewhere {
                                return (Step::Elsewhere, polls);
                            }
                        }
                    }
                }
                Step::Idle => match self.help(view, Wants::Any, Levels::ALL) {
                    Helped::Yes(more) => polls += more,
                    Helped::Elsewhere => return (Step::Elsewhere, polls),
                    Helped::No if self.begin_sleep() => return (Step::Idle, polls),
                    Helped::No => {}
                },
            }
        }
        (Step::Ran, polls)
    }

    /// Makes one poll in another shard that has what this worker wants, of one of these levels.
    fn help(&self, view: &impl SystemView, wants: Wants, mut levels: Levels) -> Helped {
        let board = self.executor.board();
        let Some(mut other) = board.find(self.shard, wants) else {
            return Helped::No;
        };
        let mut checks = true;
        // Ends: with each further shard there are fewer levels, and at last there is no check.
        loop {
            let look = Look::new(view, checks.then_some(board));
            match self.poll_in(other, levels, &look) {
                (Step::Ran, polls) => return Helped::Yes(polls),
                (Step::Idle, _) => return Helped::No,
                (Step::Elsewhere, _) if !look.is_of_board.get() => return Helped::Elsewhere,
                (Step::Elsewhere, _) => {
                    let ready = self.executor.shards()[other].published().ready();
                    let Some(found) = ready.intersection(levels).most_urgent() else {
                        return Helped::No;
                    };
                    let above = Levels::above(found);
                    match board.find(self.shard, Wants::Urgent(above)) {
                        Some(third) => (other, levels) = (third, above),
                        None => checks = false,
                    }
                }
            }
        }
    }

    /// Makes one poll in another shard, of one of these levels.
    fn poll_in(&self, other: usize, levels: Levels, view: &impl SystemView) -> (Step, u64) {
        let scheduler = self.executor.shards()[other].scheduler();
        // SAFETY: made by `ShardedExecutor::worker`, freed by `drop`.
        let helper = unsafe { self.helper.as_ref() };
        helper.set_scheduler(scheduler.pointer().as_ptr());
        if let Some(worker) = helper.worker() {
            // It is in no list, so no other worker reads this.
            worker.take_only(levels);
        }
        let _away = Away::new(self);
        let _entered = Entered::new(helper);
        let _held = Held::new(scheduler, helper);
        // SAFETY: its memory stays until `drop`, and it is in no list.
        unsafe { scheduler.help(self.helper, view, 1) }
    }

    /// Begins to sleep; returns false if there is something to do.
    ///
    /// First the worker counts as asleep for the other shards, then for its own. After each it
    /// checks once more.
    fn begin_sleep(&self) -> bool {
        self.is_asleep.set(true);
        if self.executor.board().begin_sleep(self.shard) || !self.worker.sleep() {
            self.end_sleep();
            return false;
        }
        true
    }

    fn end_sleep(&self) {
        if self.is_asleep.replace(false)
            && let Some(call) = self.executor.board().end_sleep(self.shard)
        {
            call.wake_by_ref();
        }
    }

    /// Sets whether the polls that this worker makes end soon.
    ///
    /// Then it takes what is ready in its shard by itself. Other workers come there only for what
    /// is strictly more urgent than what they have themselves, and none that sleeps is called (rule
    /// H17). At first the polls do not count as short.
    pub fn set_short_polls(&self, are_short: bool) {
        self.has_short_polls.set(are_short);
        self.show_short_polls(are_short);
    }

    fn show_short_polls(&self, are_short: bool) {
        if let Some(call) = (self.executor.board()).set_short_polls(self.shard, are_short) {
            call.wake_by_ref();
        }
    }

    /// Calls `act` as code that runs in this worker's shard; see [`Worker::within`].
    pub fn within<T>(&self, act: impl FnOnce() -> T) -> T {
        self.worker.within(act)
    }
}

/// The time in which a worker is in another shard, and does not take what is ready in its own.
struct Away<'a, 'e>(&'a ShardWorker<'e>);

impl<'a, 'e> Away<'a, 'e> {
    fn new(worker: &'a ShardWorker<'e>) -> Self {
        if worker.has_short_polls.get() {
            worker.show_short_polls(false);
        }
        Self(worker)
    }
}

impl Drop for Away<'_, '_> {
    fn drop(&mut self) {
        if self.0.has_short_polls.get() {
            self.0.show_short_polls(true);
        }
    }
}

/// What a worker asks before a pick: the system, and the union of the shards.
struct Look<'a, V> {
    view: &'a V,
    board: Option<&'a Board>,
    /// Whether the last answer came from the board.
    is_of_board: Cell<bool>,
}

impl<'a, V> Look<'a, V> {
    fn new(view: &'a V, board: Option<&'a Board>) -> Self {
        Self {
            view,
            board,
            is_of_board: Cell::new(false),
        }
    }
}

impl<V: SystemView> SystemView for Look<'_, V> {
    #[inline]
    fn most_urgent_elsewhere(&self) -> Option<Priority> {
        let system = self.view.most_urgent_elsewhere();
        let Some(shown) = self.board.and_then(Board::most_urgent) else {
            self.is_of_board.set(false);
            return system;
        };
        let is_of_board = system.is_none_or(|system| !system.is_more_urgent_than(shown));
        self.is_of_board.set(is_of_board);
        if is_of_board { Some(shown) } else { system }
    }
}

/// Removes the worker. Not to be done from inside a coroutine that it polls.
impl Drop for ShardWorker<'_> {
    fn drop(&mut self) {
        let board = self.executor.board();
        // SAFETY: it is not used after this.
        unsafe { ManuallyDrop::drop(&mut self.worker) };
        drop(board.set_call(self.shard, None));
        // From now on others serve the shard.
        if let Some(call) = board.leave(self.shard) {
            call.wake_by_ref();
        }
        // SAFETY: `ShardedExecutor::worker` leaked the box; nothing refers to it between two polls.
        drop(unsafe { Box::from_raw(self.helper.as_ptr()) });
    }
}

impl fmt::Debug for ShardWorker<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardWorker")
            .field("shard", &self.shard)
            .finish_non_exhaustive()
    }
}
