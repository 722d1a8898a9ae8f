//! Calls of an executor, and calls in the order in which several workers make them, at times that
//! the tests set.

use super::*;
use crate::state::{Coroutines, LevelState};
use corank::{Config, Executor, yield_now};
use std::cell::Cell;
use std::task::Poll;
use std::time::Duration;

thread_local!(static NOW: Cell<u64> = const { Cell::new(0) });

/// Returns the time of a clock that advances by one each time it is read.
fn steps() -> u64 {
    NOW.replace(NOW.get() + 1)
}

fn set_time(now: u64) {
    NOW.set(now);
}

fn leaked() -> &'static Figures {
    Box::leak(Box::new(Figures::new()))
}

fn counted() -> (Executor, &'static Figures) {
    let figures = leaked();
    let counter = Counter::new(figures, steps);
    let executor = Executor::with(Config::new().observer(Box::leak(Box::new(counter))));
    (executor, figures)
}

/// A counter for an executor with so many workers, and a clock that stands until it is set.
fn shared(workers: usize) -> (Counter, &'static Figures) {
    set_time(0);
    let figures = leaked();
    let counter = Counter::new(figures, || NOW.get()).workers(workers, None);
    (counter, figures)
}

fn read(figures: &Figures) -> Coroutines {
    figures.read().expect("something counts")
}

fn state(figures: &Figures, level: Priority) -> LevelState {
    let all = read(figures);
    let mut found = all.levels.into_iter().filter(|state| state.level == level);
    found.next().expect("the level has had coroutines")
}

/// Returns (ready, running, polls) of a level.
fn at(figures: &Figures, level: Priority) -> (u64, u64, u64) {
    let level = figures.level(level);
    let [ready, running, polls] =
        [&level.ready, &level.running, &level.polls].map(|count| count.load(Ordering::Relaxed));
    (ready, running, polls)
}

fn level(level: u8) -> Priority {
    Priority::new(level).unwrap()
}

fn coroutine(slot: u32) -> CoroutineId {
    CoroutineId::from_bits(slot.into())
}

/// Returns (count, time, longest) of the inversions of a level, in nanoseconds.
fn inversions(figures: &Figures, of: Priority) -> (u64, u64, u64) {
    let state = state(figures, of);
    let [time, longest] = [state.inverted, state.longest_inversion].map(|time| time.as_nanos());
    (state.inversions, time as u64, longest as u64)
}

#[test]
fn coroutines_are_counted_where_they_are() {
    let (executor, figures) = counted();
    let blocked = || read(figures).blocked;
    let urgent = Priority::MOST_URGENT;
    let waiting = std::future::poll_fn(|_| Poll::<()>::Pending);
    let handle = executor.spawn(Priority::DEFAULT, waiting).unwrap();
    executor.spawn(urgent, yield_now()).unwrap();
    assert_eq!(at(figures, Priority::DEFAULT), (1, 0, 0));
    assert_eq!(at(figures, urgent), (1, 0, 0));
    executor.step();
    assert_eq!(at(figures, urgent), (1, 0, 1), "it is ready again");
    executor.run_until_idle();
    assert_eq!(at(figures, urgent), (0, 0, 2));
    assert_eq!((at(figures, Priority::DEFAULT), blocked()), ((0, 0, 1), 1));
    executor.wake(handle.id());
    executor.reprioritize(handle.id(), urgent);
    assert_eq!((at(figures, urgent), blocked()), ((1, 0, 2), 0));
    executor.cancel(handle.id());
    assert_eq!((at(figures, urgent), blocked()), ((0, 0, 2), 0));
}

#[test]
fn times_are_those_between_the_transitions() {
    let (executor, figures) = counted();
    // The clock: 0 at the spawn, 1 when the poll starts, 2 when it ends.
    executor.spawn(Priority::DEFAULT, async {}).unwrap();
    executor.run_until_idle();
    let state = state(figures, Priority::DEFAULT);
    let one = Duration::from_nanos(1);
    assert_eq!((state.wait, state.longest_wait, state.run), (one, one, one));
    assert_eq!((state.wait_p50(), state.waits.count()), (Some(one), 1));
}

#[test]
fn a_running_coroutine_is_counted_at_its_level_of_now() {
    let (counter, figures) = shared(1);
    counter.spawned(coroutine(0), level(40));
    counter.poll_started(coroutine(0), level(40));
    counter.reprioritized(coroutine(0), level(40), level(3));
    assert_eq!(
        (at(figures, level(3)), at(figures, level(40))),
        ((0, 1, 0), (0, 0, 1))
    );
    set_time(10);
    counter.poll_ended(coroutine(0));
    assert_eq!(
        (at(figures, level(3)), at(figures, level(40))),
        ((0, 0, 0), (0, 0, 1))
    );
    // Its time is that of the level at which the poll began.
    assert_eq!(state(figures, level(40)).run, Duration::from_nanos(10));
}

#[test]
fn a_coroutine_that_is_held_up_has_an_inversion() {
    let (counter, figures) = shared(2);
    for slot in [0, 1] {
        counter.spawned(coroutine(slot), level(40));
        counter.poll_started(coroutine(slot), level(40));
    }
    set_time(100);
    counter.spawned(coroutine(2), level(3));
    assert_eq!(
        inversions(figures, level(3)),
        (1, 0, 0),
        "it counts at once"
    );
    counter.spawned(coroutine(3), level(40));
    set_time(600);
    counter.poll_started(coroutine(2), level(3));
    assert_eq!(inversions(figures, level(3)), (1, 500, 500));
    // What waits for its equals has none.
    counter.poll_ended(coroutine(0));
    counter.poll_started(coroutine(3), level(40));
    assert_eq!(inversions(figures, level(40)), (0, 0, 0));
}

#[test]
fn an_inversion_ends_when_no_less_urgent_poll_is_left() {
    let (counter, figures) = shared(1);
    counter.spawned(coroutine(0), level(40));
    counter.poll_started(coroutine(0), level(40));
    set_time(100);
    counter.spawned(coroutine(1), level(3));
    counter.spawned(coroutine(2), level(3));
    set_time(300);
    counter.poll_ended(coroutine(0));
    counter.poll_started(coroutine(1), level(3));
    // The second one waits for an equal from here on.
    set_time(900);
    counter.poll_ended(coroutine(1));
    counter.poll_started(coroutine(2), level(3));
    assert_eq!(inversions(figures, level(3)), (2, 400, 200));
    assert_eq!(
        state(figures, level(3)).longest_wait,
        Duration::from_nanos(800)
    );
}

#[test]
fn a_free_worker_means_no_inversion() {
    let (counter, figures) = shared(2);
    counter.spawned(coroutine(0), level(40));
    counter.poll_started(coroutine(0), level(40));
    counter.spawned(coroutine(1), level(3));
    set_time(50);
    counter.poll_started(coroutine(1), level(3));
    assert_eq!(inversions(figures, level(3)), (0, 0, 0));
}

#[test]
fn a_ready_coroutine_that_becomes_more_urgent_may_have_an_inversion() {
    let (counter, figures) = shared(1);
    counter.spawned(coroutine(0), level(20));
    counter.poll_started(coroutine(0), level(20));
    counter.spawned(coroutine(1), level(40));
    set_time(100);
    counter.reprioritized(coroutine(1), level(40), level(3));
    set_time(250);
    counter.poll_ended(coroutine(0));
    counter.poll_started(coroutine(1), level(3));
    assert_eq!(inversions(figures, level(3)), (1, 150, 150));
}

#[test]
fn a_running_coroutine_that_becomes_urgent_holds_up_nothing_less_urgent() {
    let (counter, figures) = shared(1);
    counter.spawned(coroutine(0), level(40));
    counter.poll_started(coroutine(0), level(40));
    counter.reprioritized(coroutine(0), level(40), level(3));
    counter.spawned(coroutine(1), level(5));
    assert_eq!(inversions(figures, level(5)), (0, 0, 0));
}

#[test]
fn a_cancelled_coroutine_ends_its_inversion() {
    let (counter, figures) = shared(1);
    counter.spawned(coroutine(0), level(40));
    counter.poll_started(coroutine(0), level(40));
    set_time(10);
    counter.spawned(coroutine(1), level(3));
    set_time(30);
    counter.exited(coroutine(1), Exit::Cancelled);
    assert_eq!(inversions(figures, level(3)), (1, 20, 20));
    // Its slot is used again, without its past.
    counter.poll_ended(coroutine(0));
    counter.spawned(coroutine(1), level(3));
    counter.poll_started(coroutine(1), level(3));
    assert_eq!(inversions(figures, level(3)), (1, 20, 20));
}

#[test]
fn without_a_number_of_workers_no_inversion_is_counted() {
    let figures = leaked();
    let counter = Counter::new(figures, || NOW.get());
    counter.spawned(coroutine(0), level(40));
    counter.poll_started(coroutine(0), level(40));
    counter.spawned(coroutine(1), level(3));
    assert_eq!(inversions(figures, level(3)), (0, 0, 0));
}

#[test]
fn calls_for_coroutines_that_are_not_counted_change_nothing() {
    let (counter, figures) = shared(1);
    let unknown = coroutine(70_000);
    counter.poll_started(unknown, level(3));
    counter.poll_ended(unknown);
    counter.reprioritized(unknown, level(3), level(4));
    counter.exited(unknown, Exit::Finished);
    assert_eq!(read(figures), Coroutines::default());
}

#[test]
fn two_counters_add_up() {
    let figures = leaked();
    let counters = [(); 2].map(|()| Counter::new(figures, || NOW.get()));
    for counter in &counters {
        counter.spawned(coroutine(0), level(3));
        counter.poll_started(coroutine(0), level(3));
    }
    assert_eq!(at(figures, level(3)), (0, 2, 2));
}

#[test]
fn one_that_is_alone_counts_the_same() {
    let (shared, figures) = shared(1);
    let (alone, same) = self::shared(1);
    for counter in [shared, alone.alone()] {
        set_time(0);
        counter.spawned(coroutine(0), level(40));
        counter.poll_started(coroutine(0), level(40));
        set_time(7);
        counter.spawned(coroutine(1), level(3));
        set_time(9);
        counter.poll_ended(coroutine(0));
        counter.poll_started(coroutine(1), level(3));
        counter.poll_ended(coroutine(1));
        counter.exited(coroutine(1), Exit::Finished);
    }
    assert_eq!(read(figures), read(same));
    assert_eq!(
        (read(same).blocked, inversions(same, level(3))),
        (1, (1, 2, 2))
    );
}
