//! Timers: order of firing, leaving, limits, clocks (rules T1 to T8).

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use crate::common::{Log, executor, executor_with, level, poll_once, spawn, times};
use corank::sync::Event;
use corank::time::{self, Elapsed, POLLS_PER_CLOCK_READ, Sleep, Ticker};
use corank::{Config, Executor, JoinHandle, State, Step, yield_now};

fn sleeper(
    executor: &Executor,
    at: u8,
    deadline: u64,
    name: &'static str,
    log: &Log,
) -> JoinHandle<()> {
    let log = log.clone();
    spawn(executor, at, async move {
        time::sleep_until(deadline).await;
        log.push(name);
    })
}

#[test]
fn timers_fire_by_deadline_and_then_by_creation() {
    let (executor, log) = (executor(), Log::default());
    for (deadline, name) in [
        (30, "e"),
        (10, "a"),
        (20, "c"),
        (10, "b"),
        (20, "d"),
        (40, "f"),
    ] {
        drop(sleeper(&executor, 9, deadline, name, &log));
        executor.run_until_idle();
    }
    assert_eq!(executor.next_deadline(), Some(10));
    assert_eq!(executor.advance(9), 0);
    assert_eq!(executor.run_until_idle(), 0);
    assert_eq!(executor.advance(30), 5);
    assert_eq!(executor.next_deadline(), Some(40));
    assert_eq!(executor.run_until_idle(), 5);
    assert_eq!(log.take(), "a b c d e");
    assert_eq!(executor.advance(40), 1);
    executor.run_until_idle();
    assert_eq!(log.take(), "f");
    assert_eq!(executor.next_deadline(), None);
}

#[test]
fn levels_come_before_deadlines() {
    let (executor, log) = (executor(), Log::default());
    drop(sleeper(&executor, 20, 1, "early", &log));
    let late = sleeper(&executor, 30, 2, "late", &log);
    executor.run_until_idle();
    late.reprioritize(level(10));
    executor.advance(2);
    executor.run_until_idle();
    assert_eq!(log.take(), "late early");
}

#[test]
fn what_is_past_does_not_block_and_time_does_not_go_back() {
    let (executor, log) = (executor(), Log::default());
    assert_eq!(executor.now(), 0);
    drop(sleeper(&executor, 1, 0, "zero", &log));
    executor.advance(100);
    executor.advance(50);
    assert_eq!(executor.now(), 100);
    drop(sleeper(&executor, 1, 100, "hundred", &log));
    drop(spawn(&executor, 1, time::sleep(Duration::ZERO)));
    assert_eq!(executor.run_until_idle(), 3);
    assert_eq!(log.take(), "zero hundred");
    let forever = spawn(&executor, 1, time::sleep(Duration::MAX));
    executor.run_until_idle();
    assert_eq!(executor.next_deadline(), Some(u64::MAX));
    forever.cancel();
    assert_eq!(executor.next_deadline(), None);
}

#[test]
fn a_duration_runs_from_the_first_poll() {
    let executor = executor();
    drop(spawn(&executor, 1, async {
        let sleep = time::sleep(Duration::from_nanos(50));
        time::sleep_until(100).await;
        sleep.await;
        assert_eq!(time::now(), 150);
    }));
    executor.run_until_idle();
    executor.advance(100);
    executor.run_until_idle();
    assert_eq!(executor.next_deadline(), Some(150));
    executor.advance(150);
    executor.run_until_idle();
    assert_eq!(executor.live(), 0);
}

#[test]
fn a_sleeper_that_leaves_takes_its_timer_along() {
    let (executor, log) = (executor(), Log::default());
    let sleepers: Vec<_> = [(10, "a"), (20, "b"), (30, "c"), (40, "d")]
        .map(|(deadline, name)| sleeper(&executor, 9, deadline, name, &log))
        .into();
    executor.run_until_idle();
    sleepers[0].cancel(); // the first one
    assert_eq!(executor.next_deadline(), Some(20));
    sleepers[2].cancel(); // one in the middle
    assert_eq!(executor.advance(40), 2);
    sleepers[1].cancel(); // fired, and not polled since
    executor.run_until_idle();
    assert_eq!(log.take(), "d");
}

#[test]
fn a_wake_without_cause_changes_nothing() {
    let (executor, log) = (executor(), Log::default());
    let first = sleeper(&executor, 9, 10, "a", &log);
    drop(sleeper(&executor, 9, 10, "b", &log));
    executor.run_until_idle();
    executor.wake(first.id());
    assert_eq!(executor.run_until_idle(), 1);
    executor.advance(10);
    executor.run_until_idle();
    assert_eq!(log.take(), "a b");
}

#[test]
fn a_timeout_ends_the_wait_and_drops_the_future() {
    let executor = executor();
    let dropped = Rc::new(());
    let theirs = dropped.clone();
    let late = spawn(&executor, 1, async move {
        let never = async move {
            let _theirs = theirs;
            std::future::pending::<()>().await;
        };
        time::timeout(Duration::from_nanos(10), never).await
    });
    let gate = Rc::new(Event::new());
    let opened = gate.clone();
    let early = spawn(&executor, 1, async move {
        let wait = async move {
            opened.wait().await;
            7
        };
        time::timeout(Duration::from_nanos(10), wait).await
    });
    executor.run_until_idle();
    gate.set();
    assert_eq!(executor.advance(10), 2);
    assert_eq!(executor.run_until_idle(), 2);
    assert_eq!(late.try_join().unwrap().unwrap(), Err(Elapsed));
    // Both happened before the poll: the output counts.
    assert_eq!(early.try_join().unwrap().unwrap(), Ok(7));
    assert_eq!(Rc::strong_count(&dropped), 1);
    assert_eq!(executor.next_deadline(), None);
}

#[test]
fn a_ticker_does_not_drift_and_catches_up() {
    let (executor, log) = (executor(), Log::default());
    let theirs = log.clone();
    drop(spawn(&executor, 1, async move {
        let mut ticker = Ticker::new(Duration::from_nanos(10));
        {
            let mut tick = Box::pin(ticker.tick());
            assert!(poll_once(&mut tick).await.is_pending());
        } // dropped: the tick at 10 is still to come
        for _ in 0..5 {
            theirs.push(format!("{}@{}", ticker.tick().await, time::now()));
        }
    }));
    for now in [0, 10, 24, 47, 50] {
        executor.advance(now);
        executor.run_until_idle();
    }
    assert_eq!(log.take(), "10@10 20@24 30@47 40@47 50@50");
}

thread_local! {
    static CLOCK: Cell<u64> = const { Cell::new(0) };
    static LOOKS: Cell<u64> = const { Cell::new(0) };
}

fn clock() -> u64 {
    LOOKS.set(LOOKS.get() + 1);
    CLOCK.get()
}

#[test]
fn a_clock_is_read_when_idle() {
    let (executor, log) = (executor_with(Config::new().clock(clock)), Log::default());
    drop(sleeper(&executor, 5, 100, "a", &log));
    let theirs = log.clone();
    drop(spawn(&executor, 9, async move {
        CLOCK.set(100);
        theirs.push("b");
    }));
    assert_eq!(executor.run_until_idle(), 3);
    assert_eq!(log.take(), "b a");
    assert_eq!(executor.now(), 100);
}

#[test]
fn a_clock_is_read_while_others_are_busy_and_only_for_timers() {
    let executor = executor_with(Config::new().clock(clock));
    let done = Rc::new(Cell::new(false));
    let busy = |done: &Rc<Cell<bool>>| {
        let done = done.clone();
        async move {
            let mut polls = 0;
            while !done.get() && polls < 10 * POLLS_PER_CLOCK_READ {
                yield_now().await;
                polls += 1;
            }
            polls
        }
    };
    drop(spawn(&executor, 9, busy(&done)));
    executor.run_until_idle();
    if cfg!(not(feature = "stats")) {
        assert_eq!(LOOKS.get(), 0); // no timers: no reads
    }

    let polls = spawn(&executor, 9, busy(&done));
    let theirs = done.clone();
    drop(spawn(&executor, 5, async move {
        time::sleep_until(100).await;
        theirs.set(true);
    }));
    executor.step();
    CLOCK.set(100);
    LOOKS.set(0);
    executor.run_until_idle();
    assert_eq!(polls.try_join().unwrap().unwrap(), 0); // read before the first poll

    done.set(false);
    CLOCK.set(0);
    let executor = executor_with(Config::new().clock(clock));
    let theirs = done.clone();
    drop(spawn(&executor, 5, async move {
        time::sleep_until(100).await;
        theirs.set(true);
    }));
    drop(spawn(&executor, 6, async { CLOCK.set(100) }));
    let polls = spawn(&executor, 9, busy(&done));
    executor.run_until_idle();
    // Two polls of the others come before; the last one sees that it is done.
    assert_eq!(polls.try_join().unwrap().unwrap(), POLLS_PER_CLOCK_READ - 2);
}

#[test]
fn a_single_step_reads_the_clock() {
    let (executor, log) = (executor_with(Config::new().clock(clock)), Log::default());
    drop(sleeper(&executor, 5, 100, "a", &log));
    assert_eq!(executor.step(), Step::Ran);
    assert_eq!(executor.step(), Step::Idle);
    CLOCK.set(100);
    assert_eq!(executor.step(), Step::Ran);
    assert_eq!(log.take(), "a");
}

#[test]
fn a_timer_survives_its_executor_as_a_timer_of_the_next() {
    type Kept = Rc<RefCell<Pin<Box<Sleep>>>>;
    let kept: Kept = Rc::new(RefCell::new(Box::pin(time::sleep_until(10))));
    let wait = |kept: &Kept| {
        let kept = kept.clone();
        std::future::poll_fn(move |cx| kept.borrow_mut().as_mut().poll(cx))
    };
    let first = executor();
    drop(spawn(&first, 1, wait(&kept)));
    first.run_until_idle();
    assert_eq!(first.next_deadline(), Some(10));
    drop(first);
    let second = executor();
    let again = spawn(&second, 1, wait(&kept));
    second.run_until_idle();
    assert_eq!(second.next_deadline(), Some(10));
    second.advance(10);
    second.run_until_idle();
    assert_eq!(second.state(again.id()), Some(State::Exited));
}

#[test]
fn ten_thousand_timers_fire_in_order() {
    use futures::stream::{FuturesUnordered, StreamExt};
    let executor = executor();
    let fired = spawn(&executor, 1, async {
        let mut random = 1u64;
        let sleeps: FuturesUnordered<_> = (0..times(10_000))
            .map(|_| {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
                let deadline = 1 + (random >> 33) % 5_000;
                async move {
                    time::sleep_until(deadline).await;
                    deadline
                }
            })
            .collect();
        sleeps.collect::<Vec<u64>>().await
    });
    executor.run_until_idle();
    // Some at a time, so that the heap is taken apart and rebuilt many times.
    let mut total = 0;
    while let Some(next) = executor.next_deadline() {
        total += executor.advance(next + 7);
        executor.run_until_idle();
    }
    assert_eq!(total, times(10_000));
    let fired = fired.try_join().unwrap().unwrap();
    assert_eq!(fired.len(), times(10_000));
    assert!(fired.is_sorted());
}

#[cfg(feature = "std")]
#[test]
fn coroutine_run_sleeps_until_the_next_deadline() {
    use corank::{Priority, coroutine_run};
    let slept = Rc::new(Cell::new(Duration::ZERO));
    let theirs = slept.clone();
    coroutine_run(
        async move {
            let before = time::now();
            time::sleep(Duration::from_millis(20)).await;
            theirs.set(Duration::from_nanos(time::now() - before));
        },
        Priority::DEFAULT,
    )
    .unwrap();
    // Never early, however slow the machine is.
    assert!(slept.get() >= Duration::from_millis(20));
}

#[test]
#[should_panic(expected = "outside an executor")]
fn there_is_no_time_outside_an_executor() {
    time::now();
}

#[test]
fn random_timers_fire_in_order_while_others_leave() {
    for seed in 1..=times(200) as u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut below = |bound: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % bound
        };
        let (executor, log) = (executor(), Log::default());
        // The sleepers that wait, in order of creation: deadline, number, handle.
        let mut waiting: Vec<(u64, u64, JoinHandle<()>)> = Vec::new();
        for number in 0..if cfg!(miri) { 60 } else { 400 } {
            match below(8) {
                0..4 if waiting.len() < 50 => {
                    let (deadline, log) = (executor.now() + 1 + below(40), log.clone());
                    let sleeper = spawn(&executor, 9, async move {
                        time::sleep_until(deadline).await;
                        log.push(number.to_string());
                    });
                    executor.run_until_idle();
                    waiting.push((deadline, number, sleeper));
                }
                4..7 if !waiting.is_empty() => {
                    let (.., sleeper) = waiting.remove(below(waiting.len() as u64) as usize);
                    sleeper.cancel();
                }
                7 => {
                    let now = executor.now() + below(15);
                    let (mut due, later): (Vec<_>, Vec<_>) = waiting
                        .into_iter()
                        .partition(|(deadline, ..)| *deadline <= now);
                    due.sort_by_key(|(deadline, ..)| *deadline);
                    waiting = later;
                    assert_eq!(executor.advance(now), due.len(), "seed {seed}");
                    executor.run_until_idle();
                    let expected: Vec<_> = due
                        .iter()
                        .map(|(_, number, _)| number.to_string())
                        .collect();
                    assert_eq!(log.take(), expected.join(" "), "seed {seed}");
                }
                _ => {}
            }
            let next = waiting.iter().map(|(deadline, ..)| *deadline).min();
            assert_eq!(executor.next_deadline(), next, "seed {seed}");
        }
    }
}
