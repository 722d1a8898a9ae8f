//! Memory that runs out at every allocation in turn, a million coroutines at once, and identifiers
//! that have gone stale.

#![cfg(feature = "alloc")]

extern crate alloc;

mod common;
#[path = "common/failing.rs"]
mod failing;

use std::future::pending;

use common::{Counter, executor, level, spawn};
use corank::{CoroutineId, Priority, SpawnError, State, yield_now};
use failing::{LIVE, with_memory_for};

/// Spawns into a table of `before` coroutines with memory for `allocations`.
///
/// Returns true if that was enough.
fn spawns(before: usize, allocations: usize) -> bool {
    let at_first = LIVE.get();
    let enough = {
        let executor = executor();
        let (drops, polls) = (Counter::new(), Counter::new());
        let handles: Vec<_> = (0..before)
            .map(|_| spawn(&executor, 5, pending::<()>()))
            .collect();
        executor.run_until_idle();
        let (guard, count) = (drops.guard(), polls.clone());
        let future = async move {
            count.add();
            drop(guard);
        };
        match with_memory_for(allocations, || executor.spawn(level(3), future)) {
            Ok(handle) => {
                executor.run_until_idle();
                handle.try_join().unwrap().unwrap();
                assert_eq!((polls.count(), drops.count()), (1, 1));
                true
            }
            Err(error) => {
                assert_eq!(error, SpawnError::OutOfMemory);
                // The future is gone, and everything else is as it was.
                assert_eq!((polls.count(), drops.count()), (0, 1));
                assert_eq!(executor.live(), before);
                assert!(handles.iter().all(|handle| executor.wake(handle.id())));
                assert_eq!(executor.run_until_idle(), before as u64);
                // With memory again, everything goes on.
                let handle = spawn(&executor, 3, async { 9 });
                executor.run_until_idle();
                assert_eq!(handle.try_join().unwrap().unwrap(), 9);
                false
            }
        }
    };
    assert_eq!(LIVE.get(), at_first);
    enough
}

/// Returns how many allocations a spawn into a table of `before` coroutines makes.
///
/// Each of them fails in turn on the way.
fn allocations(before: usize) -> usize {
    (0..10)
        .find(|&allocations| spawns(before, allocations))
        .expect("a spawn has few allocations")
}

#[test]
fn first_spawn_fails_at_every_allocation() {
    // The directory, the chunk, the future.
    assert_eq!(allocations(0), 3);
}

#[test]
fn spawn_into_a_table_with_room_fails_at_the_future() {
    assert_eq!(allocations(1), 1);
    assert_eq!(allocations(15), 1);
}

/// Regression: coroutines were looked up where the directory had been.
///
/// The directory had moved, and the memory for the chunk could not be had.
#[test]
fn table_that_cannot_grow_still_works() {
    // The directory grows by powers of two, the table by chunks of 16.
    assert_eq!([16, 32, 48, 64].map(allocations), [2, 2, 2, 3]);
    assert_eq!([112, 128, 256].map(allocations), [2, 3, 3]);
}

#[test]
fn dropped_executor_gives_everything_back() {
    let before = LIVE.get();
    {
        let executor = executor();
        let mut kept = Vec::new();
        for i in 0..1000u32 {
            let handle = spawn(&executor, (i % 64) as u8, async move {
                let text = String::from("allocated");
                if i % 3 == 0 {
                    pending::<()>().await;
                }
                text
            });
            if i % 2 == 0 {
                kept.push(handle);
            }
        }
        executor.run_until_idle();
        drop(executor);
        drop(kept);
    }
    assert_eq!(LIVE.get(), before);
}

#[test]
fn trimmed_executor_gives_memory_of_futures_back() {
    let executor = executor();
    for _ in 0..100 {
        drop(spawn(&executor, 5, async {
            let kept = [1u8; 64];
            yield_now().await;
            assert_eq!(kept[63], 1);
        }));
    }
    executor.run_until_idle();
    let before = LIVE.get();
    executor.trim();
    assert!(before - LIVE.get() >= 100 * 64);
    drop(spawn(&executor, 5, async {}));
    assert_eq!(executor.run_until_idle(), 1);
}

#[test]
fn a_million_coroutines_run_at_once() {
    const MANY: usize = 1_000_000;
    let executor = executor();
    let before = LIVE.get();
    let ended = Counter::new();
    for i in 0..MANY {
        let ended = ended.clone();
        let handle = executor.spawn(level((i % 64) as u8), async move {
            yield_now().await;
            ended.add();
        });
        drop(handle.unwrap());
    }
    assert_eq!(executor.live(), MANY);
    // Two words and a byte of future, in steps of 8, and at most 64 bytes of everything else. With
    // statistics also those, and two words to measure by.
    #[cfg(feature = "stats")]
    const STATS: usize = size_of::<corank::Stats>() + 16;
    #[cfg(not(feature = "stats"))]
    const STATS: usize = 0;
    let each = (LIVE.get() - before) as f64 / MANY as f64;
    let most = (24 + 64 + STATS) as f64;
    assert!(each <= most, "{each} bytes for each coroutine");
    assert_eq!(executor.run_until_idle(), 2 * MANY as u64);
    assert_eq!((ended.count(), executor.live()), (MANY, 0));
}

#[test]
fn stale_identifiers_stay_stale() {
    let executor = executor();
    let mut stale: Vec<CoroutineId> = Vec::new();
    for _ in 0..2000 {
        let handle = spawn(&executor, 5, pending::<()>());
        let id = handle.id();
        assert_eq!(CoroutineId::from_bits(id.to_bits()), id);
        assert!(handle.cancel());
        drop(handle);
        stale.push(id);
    }
    // One slot has served them all, and has never given the same name twice.
    let (index, last) = (stale[0].to_bits() as u32, stale.len());
    assert!(stale.iter().all(|id| id.to_bits() as u32 == index));
    let mut names: Vec<_> = stale.iter().map(|id| id.to_bits()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), last);
    let newest = spawn(&executor, 5, pending::<()>());
    for id in stale {
        assert!(!executor.wake(id) && !executor.cancel(id));
        assert!(!executor.reprioritize(id, Priority::MOST_URGENT));
        assert_eq!(executor.state(id), None);
    }
    assert_eq!(executor.state(newest.id()), Some(State::Ready));
    // Numbers that never were a name.
    for bits in [u64::MAX, u64::from(u32::MAX), 1 << 63, 12_345] {
        assert!(!executor.wake(CoroutineId::from_bits(bits)));
    }
}

/// A future is made when there is a place for it, and not before.
///
/// Otherwise, what it was to be made of is dropped.
#[test]
fn a_future_is_made_where_it_stays() {
    let (made, drops) = (Counter::new(), Counter::new());
    for allocations in 0.. {
        let executor = executor();
        let (count, guard) = (made.clone(), drops.guard());
        let make = move || {
            count.add();
            async move {
                let large = [7_u8; 4096];
                yield_now().await;
                drop(guard);
                large.iter().map(|byte| usize::from(*byte)).sum::<usize>()
            }
        };
        let before = drops.count();
        let spawned = with_memory_for(allocations, || executor.spawn_with(level(9), make));
        match spawned {
            Err(error) => {
                assert_eq!(error, SpawnError::OutOfMemory);
                assert_eq!((made.count(), drops.count()), (0, before + 1));
            }
            Ok(handle) => {
                assert_eq!((made.count(), drops.count()), (1, before));
                executor.run_until_idle();
                assert_eq!(drops.count(), before + 1);
                assert_eq!(handle.try_join().unwrap().unwrap(), 7 * 4096);
                return;
            }
        }
    }
}

/// Memory of futures goes back when no coroutine has used it for a round, and not before; what is
/// used again in a round stays for the next one.
#[cfg(all(feature = "std", not(loom)))]
#[test]
fn memory_goes_back_after_a_round_without_use() {
    const COUNT: usize = 100;
    let executor = corank::SharedExecutor::new();
    let worker = executor.worker(std::task::Waker::noop().clone());
    let run = |count: usize| {
        let handles: Vec<_> = (0..count)
            .map(|_| {
                let room = [1_u8; 200];
                let future = async move {
                    yield_now().await;
                    room.len()
                };
                executor.spawn(level(3), future).unwrap()
            })
            .collect();
        worker.run_until_idle();
        drop(handles);
    };
    run(COUNT);
    assert!(executor.keeps_memory());
    let kept = LIVE.get();
    // The first round ends, and gives nothing back: all of it was used in it.
    assert_eq!(executor.reclaim(1000), 0);
    assert_eq!(LIVE.get(), kept);
    // A tenth is used again. The memory of each future and that of its handle's waiter count.
    run(COUNT / 10);
    assert_eq!(LIVE.get(), kept);
    assert_eq!(executor.reclaim(50), 50);
    assert_eq!(executor.reclaim(1000), 2 * (COUNT - COUNT / 10) - 50);
    let left = LIVE.get();
    assert!(kept - left >= 200 * (COUNT - COUNT / 10) as isize);
    // The next round takes the rest, and then nothing is kept.
    assert_eq!(executor.reclaim(1000), 2 * (COUNT / 10));
    assert!(!executor.keeps_memory());
    assert_eq!(executor.reclaim(1000), 0);
    run(1);
}
