//! Several executors that act as one: a shard for each worker, and workers that go to another shard
//! when that has something more urgent (rules H15 to H18).

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::executor::shared::{SharedExecutor, SharedHandle};
use crate::priority::{Levels, Priority};
use crate::scheduling::config::{Config, SpawnError};
use crate::scheduling::table::block::State;
use crate::scheduling::table::id::CoroutineId;
use crate::scheduling::workers::board::{Board, MOST_SHARDS, Post, shard_of_generation};
use crate::scheduling::workers::context;

/// The coroutines that are spawned in a row on the same shard.
///
/// Coroutines that are spawned together often work together, which costs less within a shard: a
/// wake across shards ends the sleep of another thread if that one has nothing else to do. A shard
/// also keeps so many more than another one before it spawns there.
const RUN: usize = 16;

/// An executor for many workers: a [`SharedExecutor`] for each, which is a *shard*.
///
/// Each worker serves its own shard, under a lock that mostly it alone takes. Within a shard all
/// rules of the contract hold as in a `SharedExecutor`. Among shards, order is bounded rather than
/// exact: before each pick a worker reads one word, the union of what is ready in all shards. If
/// another shard has something strictly more urgent than its own, the worker goes there for one
/// poll. So a worker begins a poll while something more urgent is ready elsewhere only if that
/// became ready after the worker's last check (rule H16).
///
/// A coroutine belongs to one shard for ever; workers come to it. A coroutine that spawns does so
/// sixteen times in a row on one shard: its own, unless that has many more coroutines than another
/// one. Code from elsewhere spawns on each shard in turn ([`spawn_on`](Self::spawn_on) names one).
///
/// Wakers, handles and primitives work across shards. Priorities are inherited within a shard only:
/// a waiter of another shard is woken, counts as [`Priority::DEFAULT`], and donates nothing (rule
/// H18). [`corank::workers`](crate::workers) makes primitives for the shard of the coroutine that
/// makes them.
///
/// Cost: a poll costs what it costs in a `SharedExecutor` of one worker, one load of the union, and
/// a store to a cache line of the shard whenever a level becomes empty or gets its first coroutine.
///
/// ```
/// # #[cfg(not(loom))] {
/// use std::task::Waker;
/// use corank::{Priority, ShardedExecutor};
///
/// let executor = ShardedExecutor::new(2);
/// let sum = executor.spawn(Priority::DEFAULT, async { 1 + 1 })?;
/// std::thread::scope(|scope| {
///     for shard in 0..2 {
///         let executor = &executor;
///         // A worker that sleeps while it is idle gives a waker that ends its sleep.
///         scope.spawn(move || executor.worker(shard, Waker::noop().clone()).run_until_idle());
///     }
/// });
/// assert_eq!(sum.try_join().unwrap().unwrap(), 2);
/// # }
/// # Ok::<(), corank::SpawnError>(())
/// ```
pub struct ShardedExecutor {
    shards: Vec<SharedExecutor>,
    placements: Box<[Placement]>,
    board: Arc<Board>,
    /// Counts what is spawned from elsewhere.
    spawned: AtomicUsize,
}

/// Where the coroutines of one shard spawn next: written by several workers at once, in which case
/// one of them counts.
#[repr(align(128))]
#[derive(Default)]
struct Placement {
    /// A shard, and behind it how many more are spawned there.
    run: AtomicU64,
    /// The other shard that is compared next.
    next: AtomicUsize,
}

impl ShardedExecutor {
    /// The most shards that an executor has.
    pub const MOST_SHARDS: usize = MOST_SHARDS;

    /// Makes an executor of so many shards.
    ///
    /// # Panics
    /// If `shards` is 0 or more than [`MOST_SHARDS`](Self::MOST_SHARDS).
    #[must_use]
    pub fn new(shards: usize) -> Self {
        Self::with(shards, |_| Config::new())
    }

    /// Makes an executor of so many shards; `config` returns the configuration of each.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    #[must_use]
    pub fn with(shards: usize, config: impl Fn(usize) -> Config) -> Self {
        assert!(
            (1..=MOST_SHARDS).contains(&shards),
            "a sharded executor has 1 to {MOST_SHARDS} shards"
        );
        let board = Arc::new(Board::new(shards));
        let shard = |number| {
            let mut config = config(number);
            config.post = Some(Post::new(board.clone(), number));
            SharedExecutor::with(config)
        };
        Self {
            shards: (0..shards).map(shard).collect(),
            placements: (0..shards).map(|_| Placement::default()).collect(),
            board,
            spawned: AtomicUsize::new(0),
        }
    }

    pub(crate) fn board(&self) -> &Board {
        &self.board
    }

    /// Returns the shards, by number.
    ///
    /// What is done with one of them concerns its coroutines alone. Its workers come from
    /// [`worker`](Self::worker).
    pub fn shards(&self) -> &[SharedExecutor] {
        &self.shards
    }

    /// Returns the number of the shard that runs here; `None` outside of this executor.
    pub fn here(&self) -> Option<usize> {
        let post = context::here()?.post.as_ref()?;
        core::ptr::eq(&*post.board, &*self.board).then_some(post.shard)
    }

    /// Returns the shard of a coroutine; `None` if the identifier is of no coroutine that this
    /// executor has had.
    pub fn shard_of(&self, id: CoroutineId) -> Option<&SharedExecutor> {
        (self.shards).get(shard_of_generation(id.generation, self.shards.len()))
    }

    /// Adds a coroutine, ready at the tail of its level, on the shard of the coroutine that calls
    /// this or on another one.
    ///
    /// # Errors
    /// Exhausted memory, and a full table of each shard, are errors and change nothing.
    pub fn spawn<F>(
        &self,
        priority: Priority,
        future: F,
    ) -> Result<SharedHandle<F::Output>, SpawnError>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.spawn_with(priority, move || future)
    }

    /// Spawns as [`spawn`](Self::spawn), but `make` builds the future where it will stay.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn).
    pub fn spawn_with<F>(
        &self,
        priority: Priority,
        make: impl FnOnce() -> F,
    ) -> Result<SharedHandle<F::Output>, SpawnError>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let first = self.place();
        let mut make = Some(make);
        let mut spawn = |shard: usize| {
            self.shards[shard].spawn_with(priority, || {
                let make = make.take().expect("a refused future was not made");
                make()
            })
        };
        let mut result = spawn(first);
        for step in 1..self.shards.len() {
            if !matches!(result, Err(SpawnError::TableFull)) {
                break;
            }
            result = spawn((first + step) % self.shards.len());
        }
        result
    }

    /// Adds a coroutine on the shard with this number.
    ///
    /// # Errors
    /// As [`SharedExecutor::spawn`].
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn spawn_on<F>(
        &self,
        shard: usize,
        priority: Priority,
        future: F,
    ) -> Result<SharedHandle<F::Output>, SpawnError>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.shards[shard].spawn(priority, future)
    }

    /// Chooses the shard of the next coroutine.
    fn place(&self) -> usize {
        let count = self.shards.len();
        let Some(own) = self.here() else {
            return self.spawned.fetch_add(1, Ordering::Relaxed) % count;
        };
        if count == 1 {
            return own;
        }
        let placement = &self.placements[own];
        let run = placement.run.load(Ordering::Relaxed);
        let (shard, left) = ((run >> 32) as usize, run as u32);
        if left > 0 {
            placement.run.store(run - 1, Ordering::Relaxed);
            return shard;
        }
        // Two are compared, so that the cost does not depend on the number of shards.
        let step = placement.next.load(Ordering::Relaxed) % (count - 1);
        placement.next.store(step + 1, Ordering::Relaxed);
        let other = (own + 1 + step) % count;
        let keeps = self.board.live(own) < self.board.live(other) + RUN;
        let shard = if keeps { own } else { other };
        let run = (shard as u64) << 32 | (RUN as u64 - 1);
        placement.run.store(run, Ordering::Relaxed);
        shard
    }

    /// Acts on the shard of a coroutine; returns `None` for a coroutine of none.
    fn on<R>(
        &self,
        id: CoroutineId,
        act: impl FnOnce(&SharedExecutor, CoroutineId) -> R,
    ) -> Option<R> {
        self.shard_of(id).map(|shard| act(shard, id))
    }

    /// Wakes a coroutine (rules W1 to W3). Returns false if the identifier is stale.
    pub fn wake(&self, id: CoroutineId) -> bool {
        self.on(id, SharedExecutor::wake).unwrap_or(false)
    }

    /// Gives a coroutine another base priority, at once. Returns false if it has exited.
    pub fn reprioritize(&self, id: CoroutineId, priority: Priority) -> bool {
        self.on(id, |shard, id| shard.reprioritize(id, priority))
            .unwrap_or(false)
    }

    /// Cancels a coroutine, as [`SharedExecutor::cancel`]. Returns false if it was too late.
    pub fn cancel(&self, id: CoroutineId) -> bool {
        self.on(id, SharedExecutor::cancel).unwrap_or(false)
    }

    /// Returns a coroutine's state; `None` if the identifier is stale.
    pub fn state(&self, id: CoroutineId) -> Option<State> {
        self.on(id, SharedExecutor::state)?
    }

    /// Returns a coroutine's effective priority.
    pub fn priority(&self, id: CoroutineId) -> Option<Priority> {
        self.on(id, SharedExecutor::priority)?
    }

    /// Returns the priority that a coroutine has by itself.
    pub fn base_priority(&self, id: CoroutineId) -> Option<Priority> {
        self.on(id, SharedExecutor::base_priority)?
    }

    /// Returns the number of coroutines that have not exited.
    ///
    /// It is the number at one moment: the locks of all shards are held at once, in the order of
    /// their numbers.
    pub fn live(&self) -> usize {
        fn live(shards: &[SharedExecutor]) -> usize {
            shards.split_first().map_or(0, |(first, others)| {
                first.own(|scheduler| scheduler.live() + live(others))
            })
        }
        live(&self.shards)
    }

    /// Returns the levels that each shard shows, united: those of what is ready and not served.
    ///
    /// Takes no lock.
    pub fn shown(&self) -> Levels {
        (0..self.shards.len()).fold(Levels::NONE, |all, shard| {
            all.union(self.board.shown(shard))
        })
    }

    /// Advances the time of each shard; see [`Executor::advance`](crate::Executor::advance).
    ///
    /// Returns how many timers have fired.
    pub fn advance(&self, now: u64) -> usize {
        self.shards.iter().map(|shard| shard.advance(now)).sum()
    }

    /// Returns when the next timer of any shard is due, in nanoseconds; `None` if there is none.
    pub fn next_deadline(&self) -> Option<u64> {
        (self.shards.iter().filter_map(SharedExecutor::next_deadline)).min()
    }

    /// Spawns nothing from now on, and cancels every coroutine; see [`SharedExecutor::close`].
    pub fn close(&self) {
        for shard in &self.shards {
            shard.close();
        }
    }

    /// Declares that the own worker of a shard may be inside a poll that lasts, whatever it said of
    /// its polls.
    ///
    /// Another worker is called if something is ready there. It is for a platform that watches its
    /// workers from another thread.
    pub fn note_long_poll(&self, shard: usize) {
        if let Some(call) = self.board.set_short_polls(shard, false) {
            call.wake_by_ref();
        }
    }
}

/// Closes all shards before any of them goes: what one drops may spawn on another one.
impl Drop for ShardedExecutor {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for ShardedExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardedExecutor")
            .field("shards", &self.shards.len())
            .field("live", &self.live())
            .finish_non_exhaustive()
    }
}
