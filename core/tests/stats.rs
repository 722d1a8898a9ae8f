//! Statistics: polls, run time and waiting time, per coroutine and per level.

#![cfg(feature = "stats")]

use std::cell::Cell;
use std::rc::Rc;

use crate::common::{executor, executor_with, level, spawn};
#[cfg(feature = "std")]
use corank::SharedExecutor;
use corank::sync::{Event, Mutex};
use corank::{Config, Executor, Stats, yield_now};
#[cfg(feature = "std")]
use std::task::Waker;

thread_local! {
    static CLOCK: Cell<u64> = const { Cell::new(0) };
}

fn pass(time: u64) {
    CLOCK.set(CLOCK.get() + time);
}

fn timed() -> Executor {
    executor_with(Config::new().clock(|| CLOCK.get()))
}

/// Returns the polls, the run time, the wait time and the longest wait.
fn numbers(stats: Stats) -> [u64; 4] {
    [
        stats.polls,
        stats.run_time,
        stats.wait_time,
        stats.longest_wait,
    ]
}

#[test]
fn each_poll_and_each_wait_is_counted() {
    let executor = timed();
    let first = spawn(&executor, 5, async {
        pass(10);
        yield_now().await;
        pass(20);
    });
    let second = spawn(&executor, 5, async { pass(100) });
    pass(3);
    executor.run_until_idle();
    // Waits: 3 until its first poll, then 100 behind the second one.
    assert_eq!(
        numbers(executor.stats(first.id()).unwrap()),
        [2, 30, 103, 100]
    );
    assert_eq!(
        numbers(executor.stats(second.id()).unwrap()),
        [1, 100, 13, 13]
    );
    assert_eq!(numbers(executor.level_stats(level(5))), [3, 130, 116, 100]);
    assert_eq!(executor.level_stats(level(6)), Stats::default());
}

#[test]
fn a_blocked_coroutine_does_not_count_as_waiting() {
    let executor = timed();
    let event = Rc::new(Event::new());
    let theirs = event.clone();
    let waiter = spawn(&executor, 5, async move { theirs.wait().await });
    executor.run_until_idle();
    pass(1_000);
    event.set();
    pass(7);
    event.set(); // a second wake of a ready coroutine changes nothing
    executor.wake(waiter.id());
    executor.run_until_idle();
    assert_eq!(numbers(executor.stats(waiter.id()).unwrap()), [2, 0, 7, 7]);
}

#[test]
fn a_change_of_level_does_not_end_the_wait() {
    let executor = timed();
    let mover = spawn(&executor, 9, async { pass(5) });
    pass(10);
    mover.reprioritize(level(2));
    pass(20);
    executor.run_until_idle();
    assert_eq!(numbers(executor.stats(mover.id()).unwrap()), [1, 5, 30, 30]);
    assert_eq!(numbers(executor.level_stats(level(2))), [1, 5, 30, 30]);
    assert_eq!(executor.level_stats(level(9)), Stats::default());
}

#[test]
fn inherited_urgency_counts_for_the_level_it_ran_at() {
    let executor = timed();
    let (mutex, event) = (Rc::new(Mutex::new(())), Rc::new(Event::new()));
    let (theirs, opened) = (mutex.clone(), event.clone());
    drop(spawn(&executor, 40, async move {
        let _guard = theirs.lock().await;
        opened.wait().await;
        pass(50);
    }));
    executor.run_until_idle();
    drop(spawn(&executor, 3, async move { drop(mutex.lock().await) }));
    executor.run_until_idle();
    event.set();
    executor.run_until_idle();
    assert_eq!(numbers(executor.level_stats(level(40))), [1, 0, 0, 0]);
    // The waiter's two polls, and one of the holder.
    assert_eq!(numbers(executor.level_stats(level(3))), [3, 50, 0, 0]);
}

#[cfg(feature = "std")]
#[test]
fn a_poll_that_panics_counts() {
    let executor = timed();
    let bad = spawn(&executor, 5, async {
        pass(10);
        panic!("on purpose");
    });
    executor.run_until_idle();
    assert_eq!(numbers(executor.stats(bad.id()).unwrap()), [1, 10, 0, 0]);
}

#[test]
fn statistics_begin_anew_in_a_slot_that_is_used_again() {
    let executor = timed();
    let id = {
        let first = spawn(&executor, 5, async { pass(10) });
        executor.run_until_idle();
        first.id()
    };
    assert_eq!(executor.stats(id), None);
    let second = spawn(&executor, 5, async {});
    assert_eq!(executor.stats(second.id()), Some(Stats::default()));
}

#[test]
fn without_a_clock_polls_are_counted_and_time_is_what_advance_reports() {
    let executor = executor();
    let one = spawn(&executor, 5, async {});
    executor.advance(40);
    executor.run_until_idle();
    assert_eq!(numbers(executor.stats(one.id()).unwrap()), [1, 0, 40, 40]);
}

#[cfg(feature = "std")]
#[test]
fn workers_count_together() {
    let executor = SharedExecutor::with(Config::new().clock(|| CLOCK.get()));
    let work = || async {
        pass(10);
        yield_now().await;
        pass(20);
    };
    let handle = executor.spawn(level(5), work()).unwrap();
    let other = executor.spawn(level(6), work()).unwrap();
    for _ in 0..2 {
        let worker = executor.worker(Waker::noop().clone());
        worker.step();
        worker.step();
    }
    assert_eq!(numbers(executor.stats(handle.id()).unwrap()), [2, 30, 0, 0]);
    assert_eq!(numbers(executor.level_stats(level(5))), [2, 30, 0, 0]);
    assert_eq!(
        numbers(executor.stats(other.id()).unwrap()),
        [2, 30, 30, 30]
    );
}
