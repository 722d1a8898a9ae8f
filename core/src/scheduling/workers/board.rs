//! The board of a sharded executor: what its shards show each other (rules H15 to H18).
//!
//! Each shard shows the levels of what is ready there. The union of all shards is one word, which
//! each worker reads before a pick. That word changes seldom: a shard adds a level only if the
//! union lacks it, and no shard removes one. The worker that follows the union to a level that no
//! shard shows any more removes it.
//!
//! ```text
//!   a shard shows a level            a worker removes a level     a worker reads the union
//!     writes its own word              writes `removed`             reads the union
//!     fence                            removes the level            reads `removed`
//!     reads the union ─ lacks it?      fence                        reads the union
//!     adds the level                   reads all shards' words ─ one shows it?
//!                                      adds the level again
//!                                      clears `removed`
//! ```
//!
//! Because of the fences, either the shard finds that the union lacks the level, or the worker
//! finds the level in the shard's word. Meanwhile the level stands in `removed`, which counts like
//! the union. So a level that a shard shows is never missing for a worker that reads after that.
//!
//! A worker that goes to sleep sets its bit in `Sleepers::sleeping` and then reads all shards'
//! words. A shard that shows a level then reads that, and calls one worker. The same pair of fences
//! sees to it that one of them finds the other.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::cell::Cell;
use core::task::Waker;
use std::sync::{Mutex, PoisonError};

use crate::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
use crate::priority::{Levels, Priority};

/// The most shards: each worker has a bit in one word.
pub(crate) const MOST_SHARDS: usize = 64;

/// Memory of its own cache lines, also for processors that fetch two at once.
#[repr(align(128))]
#[derive(Debug)]
struct Apart<T>(T);

/// What the shards of one executor show each other.
#[derive(Debug)]
pub(crate) struct Board {
    union: Apart<Union>,
    sleepers: Apart<Sleepers>,
    shards: Box<[Apart<Entry>]>,
}

#[derive(Debug)]
struct Union {
    /// Each level that a shard shows, and others that no worker has removed yet.
    levels: AtomicU64,
    /// Levels that a worker is removing from the union: they count as part of it.
    removed: AtomicU64,
}

#[derive(Debug)]
struct Sleepers {
    /// A bit for each worker that sleeps, or is about to, and was not called.
    sleeping: AtomicU64,
    /// A bit for each worker that was called and has not come.
    ///
    /// While there is one, no other is called: when it comes it reads all shards' words, and calls
    /// another one if it finds anything.
    coming: AtomicU64,
}

/// What one shard shows.
#[derive(Debug)]
struct Entry {
    /// The levels of what is ready there and not served. Written under the shard's scheduler lock.
    ready: AtomicU64,
    /// The coroutines that have not exited. Written as `ready`.
    live: AtomicUsize,
    /// Not 0 while the shard's own worker has short polls, and takes what is ready there itself.
    short_polls: AtomicU8,
    /// Calls the shard's own worker.
    call: Mutex<Option<Arc<Waker>>>,
}

/// The levels for which a worker goes to another shard.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wants {
    /// Something of these levels, which are more urgent than all that its own shard has.
    Urgent(Levels),
    /// Anything, of a shard that has more than its own worker takes at once.
    Any,
}

impl Board {
    /// Makes the board of so many shards, at most [`MOST_SHARDS`].
    pub(crate) fn new(shards: usize) -> Self {
        let entry = |_| {
            Apart(Entry {
                ready: AtomicU64::new(0),
                live: AtomicUsize::new(0),
                short_polls: AtomicU8::new(0),
                call: Mutex::new(None),
            })
        };
        Self {
            union: Apart(Union {
                levels: AtomicU64::new(0),
                removed: AtomicU64::new(0),
            }),
            sleepers: Apart(Sleepers {
                sleeping: AtomicU64::new(0),
                coming: AtomicU64::new(0),
            }),
            shards: (0..shards).map(entry).collect(),
        }
    }

    /// Returns the most urgent level of the union.
    ///
    /// It is at least as urgent as any level that a shard showed before. It may be more urgent than
    /// all that they show now.
    #[inline]
    pub(crate) fn most_urgent(&self) -> Option<Priority> {
        let Union { levels, removed } = &self.union.0;
        // The second reading is for a level that was removed and added again between the two
        // others.
        let bits = levels.load(Ordering::Acquire)
            | removed.load(Ordering::Acquire)
            | levels.load(Ordering::Acquire);
        Levels::from_bits(bits).most_urgent()
    }

    /// Returns what this shard shows.
    pub(crate) fn shown(&self, shard: usize) -> Levels {
        Levels::from_bits(self.shards[shard].0.ready.load(Ordering::Acquire))
    }

    fn all_shown(&self) -> Levels {
        (0..self.shards.len()).fold(Levels::NONE, |all, shard| all.union(self.shown(shard)))
    }

    /// Returns the number of coroutines that a shard has shown last.
    pub(crate) fn live(&self, shard: usize) -> usize {
        self.shards[shard].0.live.load(Ordering::Relaxed)
    }

    fn has_short_polls(&self, shard: usize) -> bool {
        self.shards[shard].0.short_polls.load(Ordering::Relaxed) != 0
    }

    /// Returns another shard that has what the worker of the shard `own` wants, the most urgent
    /// first.
    ///
    /// If no shard has any of the levels, they are removed from the union.
    pub(crate) fn find(&self, own: usize, wants: Wants) -> Option<usize> {
        let count = self.shards.len();
        let (levels, takes_short) = match wants {
            Wants::Urgent(levels) => (levels, true),
            Wants::Any => (Levels::ALL, false),
        };
        let mut found: Option<(Priority, usize)> = None;
        for shard in (1..count).map(|step| (own + step) % count) {
            let level = self.shown(shard).intersection(levels).most_urgent();
            if let Some(level) = level
                && found.is_none_or(|(most, _)| level.is_more_urgent_than(most))
                && (takes_short || !self.has_short_polls(shard))
            {
                found = Some((level, shard));
            }
        }
        if found.is_none() && takes_short {
            self.remove_from_union(levels);
        }
        found.map(|(_, shard)| shard)
    }

    /// Removes those of the levels that no shard shows from the union.
    fn remove_from_union(&self, levels: Levels) {
        let union = &self.union.0;
        let stale = union.levels.load(Ordering::Relaxed) & levels.bits();
        // One worker at a time: the others need not.
        if stale == 0
            || (union.removed)
                .compare_exchange(0, stale, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
        {
            return;
        }
        // What the worker before this one found in a shard's word, and added again, is found here.
        let stale = stale & !self.all_shown().bits();
        union.levels.fetch_and(!stale, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        let shown = self.all_shown().bits() & stale;
        if shown != 0 {
            union.levels.fetch_or(shown, Ordering::AcqRel);
        }
        union.removed.store(0, Ordering::Release);
    }

    /// Sets how the worker of a shard is called.
    ///
    /// Returns how it was called before, for the caller to drop.
    #[must_use]
    pub(crate) fn set_call(&self, shard: usize, call: Option<Arc<Waker>>) -> Option<Arc<Waker>> {
        let mut place = (self.shards[shard].0.call.lock()).unwrap_or_else(PoisonError::into_inner);
        core::mem::replace(&mut place, call)
    }

    /// Sets whether the own worker of a shard has short polls.
    ///
    /// Returns a worker to call if it has not, and something is ready there.
    #[must_use]
    pub(crate) fn set_short_polls(&self, shard: usize, are_short: bool) -> Option<Arc<Waker>> {
        let flag = &self.shards[shard].0.short_polls;
        let before = flag.load(Ordering::Relaxed) != 0;
        if before == are_short {
            return None;
        }
        flag.store(u8::from(are_short), Ordering::Relaxed);
        if are_short {
            return None;
        }
        // A worker that goes to sleep now finds the shard, or is found here.
        fence(Ordering::SeqCst);
        if self.shown(shard).is_empty() {
            return None;
        }
        self.choose_sleeper()
    }

    /// Records that the worker of a shard is about to sleep, and returns true if there is something
    /// for it in another shard.
    pub(crate) fn begin_sleep(&self, own: usize) -> bool {
        (self.sleepers.0.sleeping).fetch_or(1 << own, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        self.find(own, Wants::Any).is_some()
    }

    /// Records that the worker of a shard does not sleep.
    ///
    /// Returns another worker to call: this one was perhaps called for something in another shard,
    /// and turns to its own first.
    #[must_use]
    pub(crate) fn end_sleep(&self, own: usize) -> Option<Arc<Waker>> {
        self.come(own);
        if !self.has_sleepers() || self.find(own, Wants::Any).is_none() {
            return None;
        }
        self.choose_sleeper()
    }

    /// Records that the worker of a shard has gone.
    ///
    /// Returns another worker to call for what it may have been called for.
    #[must_use]
    pub(crate) fn leave(&self, own: usize) -> Option<Arc<Waker>> {
        (self.shards[own].0.short_polls).store(0, Ordering::Relaxed);
        self.come(own);
        if self.all_shown().is_empty() {
            return None;
        }
        self.choose_sleeper()
    }

    /// Records that a worker neither sleeps nor was called.
    fn come(&self, own: usize) {
        let Sleepers { sleeping, coming } = &self.sleepers.0;
        // In this order: see `call_sleeper`.
        sleeping.fetch_and(!(1 << own), Ordering::AcqRel);
        coming.fetch_and(!(1 << own), Ordering::AcqRel);
        // What counted on this worker is found by it.
        fence(Ordering::SeqCst);
    }

    /// Records that a worker is called, and returns true if it sleeps and was not called before.
    pub(crate) fn call_sleeper(&self, worker: usize) -> bool {
        let Sleepers { sleeping, coming } = &self.sleepers.0;
        // In this order: a worker that was taken here clears its bit in `coming` after this.
        coming.fetch_or(1 << worker, Ordering::AcqRel);
        let slept = sleeping.fetch_and(!(1 << worker), Ordering::AcqRel) & 1 << worker != 0;
        if !slept {
            coming.fetch_and(!(1 << worker), Ordering::AcqRel);
        }
        slept
    }

    /// Tests whether any worker sleeps.
    #[inline]
    pub(crate) fn has_sleepers(&self) -> bool {
        self.sleepers.0.sleeping.load(Ordering::Relaxed) != 0
    }

    /// Takes one worker that sleeps, to be called; no other caller takes it before it sleeps again.
    #[inline]
    pub(crate) fn choose_sleeper(&self) -> Option<Arc<Waker>> {
        if self.has_sleepers() && self.sleepers.0.coming.load(Ordering::Relaxed) == 0 {
            self.take_sleeper()
        } else {
            None
        }
    }

    #[cold]
    fn take_sleeper(&self) -> Option<Arc<Waker>> {
        loop {
            let sleeping = self.sleepers.0.sleeping.load(Ordering::Relaxed);
            if sleeping == 0 {
                return None;
            }
            let first = sleeping.trailing_zeros() as usize;
            if self.call_sleeper(first) {
                let call = self.shards[first].0.call.lock();
                let call = call.unwrap_or_else(PoisonError::into_inner).clone();
                if call.is_some() {
                    return call;
                }
                // Its worker has gone.
                self.come(first);
            }
        }
    }
}

/// The place of one shard on the board. It belongs to the holder of the shard's scheduler lock.
#[derive(Debug)]
pub(crate) struct Post {
    pub(crate) board: Arc<Board>,
    pub(crate) shard: usize,
    ready: Cell<Levels>,
    live: Cell<usize>,
}

impl Post {
    pub(crate) fn new(board: Arc<Board>, shard: usize) -> Self {
        Self {
            board,
            shard,
            ready: Cell::new(Levels::NONE),
            live: Cell::new(0),
        }
    }

    /// Shows what is ready in the shard, and how many coroutines it has.
    #[inline]
    pub(crate) fn show(&self, ready: Levels, live: usize) {
        if self.live.get() != live {
            self.live.set(live);
            let entry = &self.board.shards[self.shard].0;
            entry.live.store(live, Ordering::Relaxed);
        }
        let before = self.ready.get();
        if before != ready {
            self.ready.set(ready);
            self.show_ready(before, ready);
        }
    }

    fn show_ready(&self, before: Levels, ready: Levels) {
        let Board { union, shards, .. } = &*self.board;
        shards[self.shard]
            .0
            .ready
            .store(ready.bits(), Ordering::Release);
        let added = ready.bits() & !before.bits();
        if added == 0 {
            return;
        }
        fence(Ordering::SeqCst);
        if added & !union.0.levels.load(Ordering::Relaxed) != 0 {
            union.0.levels.fetch_or(added, Ordering::AcqRel);
        }
    }

    /// Returns a worker of another shard to call for what is ready in this one.
    ///
    /// Returns `None` if its own worker, which does not sleep, takes that soon.
    #[inline]
    pub(crate) fn choose_sleeper(&self) -> Option<Arc<Waker>> {
        if self.board.has_short_polls(self.shard) {
            return None;
        }
        self.board.choose_sleeper()
    }

    /// Returns the first and the last generation of the shard's slots.
    ///
    /// Each shard has its own, so an identifier names its shard.
    pub(crate) fn generations(&self) -> (u32, u32) {
        let shift = generation_shift(self.board.shards.len());
        let first = (self.shard as u64) << shift;
        (first as u32, (first | ((1 << shift) - 1)) as u32)
    }
}

/// Returns the number of bits of a generation behind those that name its shard.
const fn generation_shift(shards: usize) -> u32 {
    u32::BITS - shards.next_power_of_two().trailing_zeros()
}

/// Returns the shard that a generation names, which need not be one of so many.
pub(crate) const fn shard_of_generation(generation: u32, shards: usize) -> usize {
    (generation as u64 >> generation_shift(shards)) as usize
}

#[cfg(all(test, loom))]
mod tests {
    use super::*;
    use loom::sync::atomic::AtomicBool;
    use loom::thread;

    const LEVEL: Levels = Levels::from_bits(1 << 5);

    fn explore(model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound.get_or_insert(3);
        builder.check(model);
    }

    /// Shows the level as ready, or not.
    fn show(post: &Post, is_ready: bool) {
        post.show(if is_ready { LEVEL } else { Levels::NONE }, 0);
    }

    /// H16: a level that a shard shows is in the union for what reads after that, while another
    /// worker removes what was shown before.
    #[test]
    fn a_level_that_is_shown_is_never_missing() {
        explore(|| {
            let board = Arc::new(Board::new(3));
            let post = Post::new(board.clone(), 0);
            show(&post, true);
            show(&post, false);
            let is_shown = Arc::new(AtomicBool::new(false));
            let removes = {
                let board = board.clone();
                thread::spawn(move || board.find(1, Wants::Urgent(LEVEL)).is_some())
            };
            let reads = {
                let (board, is_shown) = (board.clone(), is_shown.clone());
                thread::spawn(move || {
                    if is_shown.load(Ordering::Acquire) {
                        assert_eq!(board.most_urgent(), LEVEL.most_urgent());
                    }
                })
            };
            show(&post, true);
            is_shown.store(true, Ordering::Release);
            reads.join().unwrap();
            removes.join().unwrap();
            assert_eq!(board.most_urgent(), LEVEL.most_urgent());
        });
    }

    /// H16: the same with two workers that remove it, one after the other or at once.
    #[test]
    fn two_workers_remove_a_level_at_once() {
        explore(|| {
            let board = Arc::new(Board::new(3));
            let post = Post::new(board.clone(), 0);
            show(&post, true);
            show(&post, false);
            let remove = |own| {
                let board = board.clone();
                thread::spawn(move || board.find(own, Wants::Urgent(LEVEL)).is_some())
            };
            let both = [remove(1), remove(2)];
            show(&post, true);
            assert_eq!(board.most_urgent(), LEVEL.most_urgent());
            for other in both {
                other.join().unwrap();
            }
            assert_eq!(board.most_urgent(), LEVEL.most_urgent());
            show(&post, false);
            assert_eq!(board.find(1, Wants::Urgent(LEVEL)), None);
            assert_eq!(board.most_urgent(), None);
        });
    }

    /// H17: a worker that goes to sleep finds what a shard shows, or the shard finds the worker.
    #[test]
    fn a_worker_goes_to_sleep_while_a_level_is_shown() {
        explore(|| {
            let board = Arc::new(Board::new(2));
            let call = Arc::new(Waker::noop().clone());
            assert!(board.set_call(1, Some(call)).is_none());
            let theirs = board.clone();
            let sleeps = thread::spawn(move || theirs.begin_sleep(1));
            let post = Post::new(board, 0);
            show(&post, true);
            let is_called = post.choose_sleeper().is_some();
            assert!(sleeps.join().unwrap() || is_called);
        });
    }

    /// H17: the same where the shard's worker stops being one with short polls.
    #[test]
    fn a_worker_goes_to_sleep_while_polls_turn_out_to_last() {
        explore(|| {
            let board = Arc::new(Board::new(2));
            let call = Arc::new(Waker::noop().clone());
            assert!(board.set_call(1, Some(call)).is_none());
            assert!(board.set_short_polls(0, true).is_none());
            let post = Post::new(board.clone(), 0);
            show(&post, true);
            assert!(post.choose_sleeper().is_none());
            let theirs = board.clone();
            let sleeps = thread::spawn(move || theirs.begin_sleep(1));
            let is_called = board.set_short_polls(0, false).is_some();
            assert!(sleeps.join().unwrap() || is_called);
        });
    }
}
