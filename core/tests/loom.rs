//! Every interleaving of the real executor with threads that wake, cancel, re-prioritise and let
//! go.
//!
//! Loom explores them. Run it with
//! `RUSTFLAGS="--cfg loom" cargo test --release -p corank --test loom --target-dir target/loom`.
//!
//! Loom itself detects
//!
//! - data races on `UnsafeCell` payloads,
//! - deadlock (a parked executor that is not notified),
//! - a table that is freed never or twice, and
//! - use of the table's atomics after that (see `cfg(loom)` in `core/src`).
//!
//! The tests were seen to fail when the protocol is broken in any of these ways:
//!
//! | what is broken | test that fails |
//! |---|---|
//! | `take` or `send` relaxed; `send` does not write when the block is woken already | `wakes_that_coalesce_carry_memory_both` |
//! | pushed before the signal is set; push or swap of the inbox relaxed, or not one operation | `executor_goes_while_it_is_woken`, `two_blocks_pushed_at_once` |
//! | QUEUED cleared after the signals are taken; a signal lost in `take` | `remote_reprioritize_races_with_wake` |
//! | no notification, or one before the push | `one_wake_is_one_poll_and_carries_memory` |
//! | last reference not anchored, pushed although the block is queued, or released relaxed | `clones_and_drops_race_with_exit`, `late_wake_reaches_no_other_coroutine`, `two_blocks_pushed_at_once` |
//! | slot reclaimed or retired although it is referenced or queued | `late_wake_reaches_no_other_coroutine` |
//! | next block in the inbox read after the signals are taken | `pushed_again_during_the_drain` |
//! | a level of the deadlines shown relaxed | `deadlines_that_are_found_were_shown` |
//! | table not anchored for what outlives the executor, or never let go | `executor_and_last_waker_go_together`, `executor_goes_while_it_is_woken` |
//!
//! Loom keeps one last access of each atomic. So it can miss that a load and a later write of two
//! threads may change places when the writer loads first. `spec/promela/wake.pml` explores the same
//! protocol without that limit.

#![cfg(loom)]

mod explored;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use corank::time::sleep_until;
use corank::{Config, Deadlines, Executor, JoinError, Priority, State, Step, yield_now};
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use explored::{Park, Payload, explore, level};

/// The limit on preemptions of threads that could go on, with which loom explores.
///
/// Most races need two. The models with many threads stop there.
const PREEMPTIONS: usize = 3;

/// Returns the coroutine's slot in the table.
fn index<T>(handle: &corank::JoinHandle<T>) -> u32 {
    handle.id().to_bits() as u32
}

/// An executor, and the threads that its coroutines started.
struct Platform {
    executor: Executor,
    park: Arc<Park>,
    threads: Rc<RefCell<Vec<thread::JoinHandle<()>>>>,
}

impl Platform {
    fn new() -> Self {
        let park = Park::new();
        let config = Config::new().notify(Waker::from(park.clone()));
        Self {
            executor: Executor::with(config),
            park,
            threads: Rc::default(),
        }
    }

    /// Runs as a platform does, asleep while idle, until no coroutine is left.
    ///
    /// Loom reports a deadlock if a notification is missing.
    fn run(&self) {
        self.executor.run_until_idle();
        while self.executor.live() > 0 {
            self.park.wait();
            self.executor.run_until_idle();
        }
    }

    fn join_threads(&self) {
        for thread in self.threads.take() {
            thread.join().unwrap();
        }
    }

    /// Spawns a coroutine that runs each of `threads` with its own waker on another thread.
    ///
    /// So the wake may come while the coroutine still runs. It is ready when `done` says so, and
    /// its polls are counted.
    fn spawn_waiting(
        &self,
        threads: Vec<Box<dyn FnOnce(Waker) + Send>>,
        mut done: impl FnMut() -> bool + 'static,
    ) -> (corank::JoinHandle<()>, Rc<Cell<usize>>) {
        let polls = Rc::new(Cell::new(0));
        let (started, count) = (self.threads.clone(), polls.clone());
        let mut threads = Some(threads);
        let wait = poll_fn(move |cx| {
            count.set(count.get() + 1);
            for thread in threads.take().into_iter().flatten() {
                let waker = cx.waker().clone();
                started
                    .borrow_mut()
                    .push(thread::spawn(move || thread(waker)));
            }
            if done() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        (self.executor.spawn(Priority::DEFAULT, wait).unwrap(), polls)
    }

    /// Checks that all slots of the table are there, each once, after all threads have ended.
    ///
    /// It does so by filling a table of so many slots.
    fn assert_table_is_whole(&self, slots: u32) {
        self.executor.run_until_idle();
        assert_eq!(self.executor.live(), 0);
        let mut indices: Vec<u32> = (0..slots)
            .map(|_| self.executor.spawn(Priority::DEFAULT, async {}).unwrap())
            .map(|handle| index(&handle))
            .collect();
        indices.sort_unstable();
        assert!(indices.into_iter().eq(0..slots));
    }
}

/// A wake races the poll, the return from it, and the executor that is about to sleep.
///
/// There is exactly one more poll, which sees what was written before the wake.
#[test]
fn one_wake_is_one_poll_and_carries_memory() {
    explore(PREEMPTIONS, || {
        let platform = Platform::new();
        let payload = Arc::new(Payload::new());
        let written = payload.clone();
        let mut polled = false;
        let (_handle, polls) = platform.spawn_waiting(
            vec![Box::new(move |waker| {
                written.write(7);
                waker.wake();
            })],
            move || std::mem::replace(&mut polled, true) && payload.read() == 7,
        );
        platform.run();
        assert_eq!(polls.get(), 2);
        platform.join_threads();
        platform.executor.run_until_idle();
        assert!(platform.executor.published().urgency().is_empty());
    });
}

/// Two wakes may become one poll.
///
/// That poll then sees what was written before either.
#[test]
fn wakes_that_coalesce_carry_memory_both() {
    explore(2, || {
        let platform = Platform::new();
        let flags = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let wakes = [0, 1].map(|which| {
            let flags = flags.clone();
            Box::new(move |waker: Waker| {
                // Relaxed: only the wake orders it.
                flags[which].store(1, Ordering::Relaxed);
                waker.wake();
            }) as Box<dyn FnOnce(Waker) + Send>
        });
        let (handle, polls) = platform.spawn_waiting(wakes.into(), move || {
            flags.iter().all(|flag| flag.load(Ordering::Relaxed) == 1)
        });
        platform.run();
        assert!((1..=3).contains(&polls.get()));
        platform.join_threads();
        drop(handle);
        platform.assert_table_is_whole(2);
    });
}

/// A waker that outlives its coroutine reaches no unrelated one, and the slot comes back.
///
/// It may be used and dropped at any time.
#[test]
fn late_wake_reaches_no_other_coroutine() {
    explore(PREEMPTIONS, || {
        let platform = Platform::new();
        let (handle, _) = platform.spawn_waiting(
            vec![Box::new(|waker| {
                // Cloned first: loom remembers one access of each atomic, and would forget the
                // owner's load for the load with which a wake begins.
                let clone = waker.clone();
                drop(waker);
                clone.wake_by_ref();
                drop(clone);
            })],
            || true,
        );
        drop(handle);
        assert_eq!(platform.executor.step(), Step::Ran);
        // One of these has the slot if the waker is gone already. Both are woken before their first
        // poll, from outside, so that a block that is still in the inbox would be in it twice.
        let strangers = [(); 2].map(|()| platform.spawn_waiting(Vec::new(), || false));
        for (stranger, _) in &strangers {
            assert!(stranger.remote().wake());
        }
        platform.executor.run_until_idle();
        platform.join_threads();
        platform.executor.run_until_idle();
        // The table grew unless the slot was free again.
        let mut slots = 2;
        for (stranger, polls) in strangers {
            assert_eq!(polls.get(), 1);
            if index(&stranger) >= 2 {
                slots = 4;
            }
            assert!(stranger.cancel());
        }
        platform.assert_table_is_whole(slots);
    });
}

/// Clones are made and dropped on two threads while the coroutine exits.
///
/// The slot comes back once, after the last one.
#[test]
fn clones_and_drops_race_with_exit() {
    explore(PREEMPTIONS, || {
        let platform = Platform::new();
        let (handle, _) = platform.spawn_waiting(
            vec![
                Box::new(|waker| drop((waker.clone(), waker))),
                Box::new(|waker| drop(waker)),
            ],
            || true,
        );
        drop(handle);
        platform.executor.run_until_idle();
        platform.join_threads();
        platform.assert_table_is_whole(2);
    });
}

/// The last reference goes on another thread while the executor goes here.
///
/// The table is freed once, by either.
#[test]
fn executor_and_last_waker_go_together() {
    explore(PREEMPTIONS, || {
        for exits in [false, true] {
            let platform = Platform::new();
            let (handle, _) = platform.spawn_waiting(vec![Box::new(drop)], move || exits);
            drop(handle);
            platform.executor.step();
            let threads = platform.threads.take();
            drop(platform);
            for thread in threads {
                thread.join().unwrap();
            }
        }
    });
}

/// Wakers, remotes and handles are used while the executor goes, and after.
#[test]
fn executor_goes_while_it_is_woken() {
    explore(2, || {
        let platform = Platform::new();
        let (handle, polls) = platform.spawn_waiting(vec![Box::new(Waker::wake)], || false);
        let remote = handle.remote();
        platform.executor.step();
        let canceller = thread::spawn(move || {
            remote.cancel();
            remote.wake();
        });
        let threads = platform.threads.take();
        drop(platform);
        assert_eq!(polls.get(), 1);
        let late = handle.remote();
        assert!(!late.wake());
        assert!(matches!(handle.try_join(), Ok(Err(JoinError::Cancelled))));
        drop(late);
        canceller.join().unwrap();
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

/// A coroutine is cancelled from another thread at any point of its life.
///
/// The future is dropped exactly once, and the handle says how it ended.
#[test]
fn remote_cancel_races_with_polls() {
    struct Dropped(Rc<Cell<usize>>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    explore(PREEMPTIONS, || {
        let platform = Platform::new();
        let drops = Rc::new(Cell::new(0));
        let (guard, reached) = (Dropped(drops.clone()), Rc::new(Cell::new(false)));
        let end = reached.clone();
        let handle = platform
            .executor
            .spawn(Priority::DEFAULT, async move {
                yield_now().await;
                end.set(true);
                drop(guard);
            })
            .unwrap();
        let remote = handle.remote();
        let canceller = thread::spawn(move || remote.cancel());
        platform.run();
        assert_eq!(drops.get(), 1);
        match handle.try_join().unwrap() {
            Ok(()) => assert!(reached.get()),
            Err(JoinError::Cancelled) => assert!(!reached.get()),
            Err(other) => panic!("{other:?}"),
        }
        canceller.join().unwrap();
        platform.assert_table_is_whole(2);
    });
}

/// A new priority and a wake are sent by two threads at once to one block.
///
/// Neither is lost.
#[test]
fn remote_reprioritize_races_with_wake() {
    explore(PREEMPTIONS, || {
        let platform = Platform::new();
        let (handle, polls) = platform.spawn_waiting(vec![Box::new(Waker::wake)], || false);
        let remote = handle.remote();
        let changer = thread::spawn(move || assert!(remote.reprioritize(level(3))));
        platform.executor.run_until_idle();
        changer.join().unwrap();
        platform.join_threads();
        platform.executor.run_until_idle();
        assert_eq!(polls.get(), 2);
        assert_eq!(platform.executor.base_priority(handle.id()), Some(level(3)));
        assert_eq!(platform.executor.state(handle.id()), Some(State::Blocked));
    });
}

/// Two threads push two blocks at once.
///
/// Both arrive, and the sleeping executor is notified.
#[test]
fn two_blocks_pushed_at_once() {
    explore(2, || {
        let platform = Platform::new();
        let ends = [(); 2].map(|()| {
            let mut polled = false;
            let (handle, polls) = platform.spawn_waiting(vec![Box::new(Waker::wake)], move || {
                std::mem::replace(&mut polled, true)
            });
            drop(handle);
            polls
        });
        platform.run();
        assert_eq!(ends.map(|polls| polls.get()), [2, 2]);
        platform.join_threads();
        platform.assert_table_is_whole(2);
    });
}

/// Two threads wake one block through remotes while the owner wakes it.
///
/// That is one more poll at least, and three at most.
#[test]
fn owner_and_others_wake_at_once() {
    explore(PREEMPTIONS, || {
        let platform = Platform::new();
        let (handle, polls) = platform.spawn_waiting(Vec::new(), || false);
        platform.executor.run_until_idle();
        let wakers = [(); 2].map(|()| {
            let remote = handle.remote();
            thread::spawn(move || assert!(remote.wake()))
        });
        assert!(platform.executor.wake(handle.id()));
        platform.executor.run_until_idle();
        for waker in wakers {
            waker.join().unwrap();
        }
        platform.executor.run_until_idle();
        assert!((2..=4).contains(&polls.get()));
    });
}

/// A block is pushed again while the owner goes through what it took from the inbox.
///
/// It does not take the rest away.
#[test]
fn pushed_again_during_the_drain() {
    explore(PREEMPTIONS, || {
        let platform = Platform::new();
        let [(first, _), (second, polls)] =
            [(); 2].map(|()| platform.spawn_waiting(Vec::new(), || false));
        platform.executor.run_until_idle();
        let remotes = (first.remote(), second.remote());
        let waker = thread::spawn(move || {
            assert!(remotes.0.wake());
            assert!(remotes.1.wake());
            assert!(remotes.0.wake());
        });
        platform.executor.run_until_idle();
        waker.join().unwrap();
        platform.executor.run_until_idle();
        assert_eq!(polls.get(), 2);
    });
}

/// A thread reads the deadlines (rule T9) while timers are set, leave and fire.
///
/// What it finds at a level was a bound of that level, perhaps raised to the first deadline of all.
/// Once the executor rests, everything is found.
#[test]
fn deadlines_that_are_found_were_shown() {
    explore(PREEMPTIONS, || {
        let shown: &Deadlines = Box::leak(Box::new(Deadlines::new()));
        let executor = Executor::with(Config::new().publish_deadlines_to(shown));
        let reader = thread::spawn(move || {
            for (at, bounds) in [(5, &[10, 20, 30][..]), (40, &[30])] {
                let found = shown.bound(level(at));
                assert!(
                    found.is_none_or(|bound| bounds.contains(&bound)),
                    "{found:?}"
                );
            }
        });
        let sleep = |at, deadline| {
            let handle = executor.spawn(level(at), sleep_until(deadline)).unwrap();
            executor.run_until_idle();
            handle
        };
        sleep(5, 10).cancel();
        let _second = sleep(5, 20);
        let _third = sleep(40, 30);
        executor.advance(20);
        executor.run_until_idle();
        reader.join().unwrap();
        let found = [5, 40].map(|at| shown.bound(level(at)));
        assert_eq!(found, [None, Some(30)]);
    });
}
