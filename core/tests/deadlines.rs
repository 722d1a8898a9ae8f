//! What an executor shows of its timers, level by level (rule T9).
//!
//! It is compared with the exact minimum of each level, whatever happens.

#![cfg(all(feature = "alloc", target_has_atomic = "64"))]

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;

use crate::common::{forever, level, spawn};
use corank::sync::{Event, Mutex};
use corank::time::{self, Sleep};
use corank::{Config, Deadlines, Due, Executor, JoinHandle, LEVELS, Levels, State};
use proptest::prelude::*;

/// Returns an executor, and what it shows.
fn platform() -> (Executor, &'static Deadlines) {
    let shown: &Deadlines = forever(Deadlines::new());
    let config = Config::new().publish_deadlines_to(shown);
    (Executor::with(config), shown)
}

/// Spawns a coroutine that sleeps until `deadline`, and lets it begin to.
fn sleeper(executor: &Executor, at: u8, deadline: u64) -> JoinHandle<()> {
    let sleeper = spawn(executor, at, time::sleep_until(deadline));
    executor.run_until_idle();
    sleeper
}

/// Returns all that is shown.
fn shown_by(deadlines: &Deadlines) -> Vec<(u8, u64)> {
    (0..LEVELS as u8)
        .filter_map(|at| Some((at, deadlines.bound(level(at))?)))
        .collect()
}

#[test]
fn each_level_has_its_earliest() {
    let (executor, shown) = platform();
    assert_eq!(shown_by(shown), []);
    let _sleepers = [(40, 30), (5, 90), (40, 10), (40, 20), (5, 80), (63, 50)]
        .map(|(at, deadline)| sleeper(&executor, at, deadline));
    assert_eq!(shown_by(shown), [(5, 80), (40, 10), (63, 50)]);
    executor.advance(10);
    assert_eq!(shown_by(shown), [(5, 80), (40, 20), (63, 50)]);
    executor.advance(80);
    assert_eq!(shown.bound(level(5)), Some(90));
    // What is less urgent than the first timer may be shown to be due with it.
    assert!(shown_by(shown).iter().all(|(_, bound)| *bound == 90));
    executor.advance(90);
    assert_eq!(shown_by(shown), []);
    executor.run_until_idle();
    assert_eq!(executor.live(), 0);
}

#[test]
fn a_check_says_what_is_due_and_what_comes_next() {
    let (executor, shown) = platform();
    let _sleepers =
        [(5, 80), (40, 10), (63, 50)].map(|(at, deadline)| sleeper(&executor, at, deadline));
    let check = |now, passed_over: u64| {
        let Due { levels, next } = shown.check(now, Levels::from_bits(passed_over));
        (levels.bits(), next)
    };
    assert_eq!(check(9, 0), (0, Some(10)));
    assert_eq!(check(10, 0), (1 << 40, Some(50)));
    assert_eq!(check(10, 1 << 40), (0, Some(50)));
    assert_eq!(check(60, 1 << 40 | 1 << 63), (0, Some(80)));
    assert_eq!(check(80, 0), (1 << 5 | 1 << 40 | 1 << 63, None));
    assert_eq!(check(80, !0), (0, None));
}

#[test]
fn a_sleeper_moves_its_deadline_to_its_new_level() {
    let (executor, shown) = platform();
    let sleeper = sleeper(&executor, 40, 10);
    sleeper.reprioritize(level(5));
    assert_eq!(shown.bound(level(5)), Some(10));
    // The bound that it left behind is early. The next read of the clock that finds it so removes
    // it.
    executor.advance(10);
    executor.run_until_idle();
    assert_eq!(shown_by(shown), []);
}

#[test]
fn a_coroutine_without_a_timer_moves_no_deadline() {
    let (executor, shown) = platform();
    let _sleeper = sleeper(&executor, 40, 10);
    let event = Rc::new(Event::new());
    let waits = event.clone();
    let waiter = spawn(&executor, 40, async move { waits.wait().await });
    executor.run_until_idle();
    waiter.reprioritize(level(5));
    assert_eq!(shown_by(shown), [(40, 10)]);
}

/// A waiter for a mutex makes its holder more urgent (I1), even while the holder sleeps.
#[test]
fn a_donated_level_counts_for_the_deadline() {
    let (executor, shown) = platform();
    let mutex = Rc::new(Mutex::new(()));
    for at in [40, 5] {
        let mutex = mutex.clone();
        drop(spawn(&executor, at, async move {
            let _guard = mutex.lock().await;
            time::sleep_until(1000).await;
        }));
        executor.run_until_idle();
    }
    assert_eq!(shown.bound(level(5)), Some(1000));
}

/// A future that sleeps goes from one coroutine to another.
#[test]
fn a_timer_counts_for_the_coroutine_that_polls_it() {
    let (executor, shown) = platform();
    let place: Rc<RefCell<Pin<Box<Sleep>>>> =
        Rc::new(RefCell::new(Box::pin(time::sleep_until(10))));
    for at in [40, 5] {
        let place = place.clone();
        drop(spawn(
            &executor,
            at,
            poll_fn(move |cx| place.borrow_mut().as_mut().poll(cx)),
        ));
        executor.run_until_idle();
    }
    assert_eq!(shown.bound(level(5)), Some(10));
    executor.advance(10);
    assert_eq!(shown_by(shown), []);
}

#[test]
fn a_coroutine_that_leaves_leaves_no_bound_behind() {
    let (executor, shown) = platform();
    let sleepers = [(5, 10), (40, 50)].map(|(at, deadline)| sleeper(&executor, at, deadline));
    sleepers[0].cancel();
    executor.advance(9);
    assert_eq!(
        shown_by(shown),
        [(40, 50)],
        "none is before the first timer"
    );
    sleepers[1].cancel();
    assert_eq!(shown_by(shown), []);
    let _sleeper = sleeper(&executor, 7, 60);
    drop(executor);
    assert_eq!(shown_by(shown), []);
}

/// Bulk work sleeps and wakes again and again, beside one urgent sleeper with a time far away.
///
/// That sleeper costs no checks in vain.
#[test]
fn other_timers_bring_no_sleeper_forward() {
    let (executor, shown) = platform();
    const STEP: u64 = if cfg!(miri) { 1_000 } else { 10 };
    for index in 1..=10_000 / STEP {
        drop(spawn(&executor, 40, async move {
            for round in 0.. {
                time::sleep_until(round * 10_000 + index * STEP).await;
            }
        }));
    }
    executor.run_until_idle();
    let _urgent = [100_000, 20_000].map(|deadline| sleeper(&executor, 5, deadline));
    for now in (0..20_000).step_by(STEP as usize) {
        assert_eq!(shown.bound(level(5)), Some(20_000));
        assert_eq!(shown.bound(level(40)), executor.next_deadline());
        executor.advance(now);
        executor.run_until_idle();
    }
    // The first of the two is gone. Until a search has been earned the level counts whenever
    // anything is due.
    let mut in_vain = 0;
    for now in (20_000..100_000).step_by(STEP as usize) {
        executor.advance(now);
        executor.run_until_idle();
        in_vain += u32::from(shown.bound(level(5)) != Some(100_000));
    }
    assert!(in_vain < 70, "{in_vain} checks in vain");
}

/// Urgent work each 100 ms counts as urgent 10 times a second, beside bulk work that sleeps a
/// millisecond at a time.
///
/// Without the search for exact bounds the executor counts as urgent 1,830 times.
#[test]
fn frequent_bulk_timers_do_not_count_as_urgent() {
    const MILLISECOND: u64 = 10;
    let (executor, shown) = platform();
    let bulk = [0, 5].map(|begin| (40, MILLISECOND, begin));
    for (at, period, begin) in [(5, 100 * MILLISECOND, 2)].into_iter().chain(bulk) {
        drop(spawn(&executor, at, async move {
            for round in 1.. {
                time::sleep_until(begin + round * period).await;
            }
        }));
    }
    executor.run_until_idle();
    let mut urgent = 0;
    for now in 0..=1010 * MILLISECOND {
        let due = shown.check(now, Levels::NONE).levels;
        urgent += u32::from(due.contains(level(5)));
        executor.advance(now);
        executor.run_until_idle();
    }
    assert_eq!(urgent, 10);
}

#[derive(Clone, Debug)]
enum Operation {
    Sleep {
        at: u8,
        until: u64,
    },
    Cancel(usize),
    Reprioritize(usize, u8),
    /// A coroutine waits for a sleeper, and donates a level to it.
    Await(usize, u8),
    Advance(u64),
}

fn operation() -> impl Strategy<Value = Operation> {
    // Few levels and times, so that they coincide.
    let at = || prop::sample::select(vec![0_u8, 3, 5, 40, 63]);
    prop_oneof![
        4 => (at(), 1..60_u64).prop_map(|(at, until)| Operation::Sleep { at, until }),
        1 => any::<usize>().prop_map(Operation::Cancel),
        2 => (any::<usize>(), at()).prop_map(|(index, at)| Operation::Reprioritize(index, at)),
        1 => (any::<usize>(), at()).prop_map(|(index, at)| Operation::Await(index, at)),
        2 => (1..10_u64).prop_map(Operation::Advance),
    ]
}

/// A coroutine that sleeps, and until when.
struct Sleeping {
    handle: Rc<RefCell<Option<JoinHandle<()>>>>,
    id: corank::CoroutineId,
    until: u64,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 2000 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// No bound is ever later than the first deadline of its level.
    ///
    /// Once the executor has read its clock, no bound is before the first deadline of all.
    #[test]
    fn no_timer_is_later_than_its_levels_bound(operations in prop::collection::vec(operation(), 1..80)) {
        let (executor, shown) = platform();
        let now = Cell::new(0);
        let mut sleeping: Vec<Sleeping> = Vec::new();
        for operation in operations {
            let pick = |index: usize| (!sleeping.is_empty()).then(|| &sleeping[index % sleeping.len()]);
            match operation {
                Operation::Sleep { at, until } => {
                    let until = now.get() + until;
                    let handle = sleeper(&executor, at, until);
                    let id = handle.id();
                    sleeping.push(Sleeping { handle: Rc::new(RefCell::new(Some(handle))), id, until });
                }
                Operation::Cancel(index) => {
                    if let Some(found) = pick(index) {
                        executor.cancel(found.id);
                    }
                }
                Operation::Reprioritize(index, at) => {
                    if let Some(found) = pick(index) {
                        executor.reprioritize(found.id, level(at));
                    }
                }
                Operation::Await(index, at) => {
                    if let Some(handle) = pick(index).and_then(|found| found.handle.take()) {
                        drop(spawn(&executor, at, async move { drop(handle.await) }));
                        executor.run_until_idle();
                    }
                }
                Operation::Advance(by) => {
                    now.set(now.get() + by);
                    executor.advance(now.get());
                    let bounds = shown_by(shown);
                    prop_assert_eq!(bounds.iter().map(|(_, bound)| *bound).min(), executor.next_deadline());
                    executor.run_until_idle();
                }
            }
            sleeping.retain(|one| executor.state(one.id) == Some(State::Blocked));
            for one in &sleeping {
                let at = executor.priority(one.id).unwrap();
                let bound = shown.bound(at);
                prop_assert!(bound.is_some_and(|bound| bound <= one.until), "level {}: {:?} > {}", at, bound, one.until);
            }
            prop_assert_eq!(shown.levels().is_empty(), executor.next_deadline().is_none());
        }
    }

    /// While few timers wait, the executor counts as if all of them were known.
    ///
    /// At each time, that is at the most urgent level that has one due.
    #[test]
    fn few_timers_count_at_their_own_levels(operations in prop::collection::vec(operation(), 1..15)) {
        let (executor, shown) = platform();
        let mut deadlines: Vec<(u8, u64)> = Vec::new();
        let mut now = 0;
        for operation in operations {
            match operation {
                Operation::Sleep { at, until } => {
                    drop(sleeper(&executor, at, now + until));
                    deadlines.push((at, now + until));
                }
                Operation::Advance(by) => {
                    now += by;
                    executor.advance(now);
                    executor.run_until_idle();
                    deadlines.retain(|(_, deadline)| *deadline > now);
                }
                _ => {}
            }
            for time in now..now + 60 {
                let exact = deadlines.iter().filter(|(_, due)| *due <= time).map(|(at, _)| *at).min();
                let counts = shown.check(time, Levels::NONE).levels.most_urgent();
                prop_assert_eq!(counts.map(|at| at.level()), exact, "at {}", time);
            }
        }
    }
}

/// Several workers of an executor show their deadlines in one place, from whichever of them.
#[cfg(feature = "std")]
#[test]
fn several_workers_share_one_set_of_bounds() {
    use corank::{SharedExecutor, workers};
    use std::task::Waker;

    let shown: &Deadlines = forever(Deadlines::new());
    let executor = SharedExecutor::with(Config::new().publish_deadlines_to(shown));
    let [one, other] = [(); 2].map(|()| executor.worker(Waker::noop().clone()));
    let sleeper = executor.spawn(level(40), workers::sleep_until(10)).unwrap();
    one.run_until_idle();
    assert_eq!(shown_by(shown), [(40, 10)]);
    sleeper.reprioritize(level(5));
    let _second = executor.spawn(level(9), workers::sleep_until(20)).unwrap();
    other.run_until_idle();
    assert_eq!(shown.bound(level(5)), Some(10));
    assert_eq!(executor.advance(10), 1);
    one.run_until_idle();
    assert_eq!(shown_by(shown), [(9, 20)]);
    assert_eq!(executor.advance(20), 1);
    other.run_until_idle();
    assert_eq!(shown_by(shown), []);
}
