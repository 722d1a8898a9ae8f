//! The budget of a poll: operations that are ready at once end it in time (rule O8).

#![cfg(all(feature = "std", not(loom)))]

use std::cell::{Cell, RefCell};
use std::num::NonZeroU32;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use corank::key::Keys;
use corank::sync::{Channel, Event, Mutex, Semaphore};
use corank::{
    Config, Executor, JoinHandle, Levels, Priority, SharedExecutor, Step, poll_proceed, spawn,
    time, workers, yield_now,
};

const OPERATIONS: u32 = 4;
const ROUNDS: u32 = 20;
const LIMIT: Duration = Duration::from_nanos(1000);

thread_local! {
    static NOW: Cell<u64> = const { Cell::new(1) };
}

fn clock() -> u64 {
    NOW.get()
}

/// Work of so many nanoseconds.
fn work(time: u64) {
    NOW.set(NOW.get() + time);
}

fn config() -> Config {
    Config::new().budget(NonZeroU32::new(OPERATIONS).unwrap(), LIMIT)
}

type Work = Pin<Box<dyn Future<Output = ()>>>;

/// Repeats an operation that never has to wait.
fn repeated(mut operation: impl AsyncFnMut() + 'static) -> Work {
    Box::pin(async move {
        for _ in 0..ROUNDS {
            operation().await;
        }
    })
}

/// Each primitive of one thread, in a loop in which it never has to wait.
fn never_waiting() -> Vec<(&'static str, Work)> {
    let sends = Channel::<u32, { ROUNDS as usize }>::new();
    let receives = Channel::<u32, { ROUNDS as usize }>::new();
    let (mutex, semaphore, event, keys) =
        (Mutex::new(0), Semaphore::new(1), Event::new(), Keys::new());
    for number in 0..ROUNDS {
        receives.try_send(number).unwrap();
    }
    event.set();
    let mut ticker = time::Ticker::new(Duration::from_nanos(1));
    let mut over: Option<Vec<JoinHandle<u32>>> = None;
    vec![
        ("send", repeated(async move || sends.send(1).await.unwrap())),
        (
            "receive",
            repeated(async move || assert!(receives.receive().await.is_some())),
        ),
        ("mutex", repeated(async move || *mutex.lock().await += 1)),
        (
            "semaphore",
            repeated(async move || drop(semaphore.acquire().await)),
        ),
        ("event", repeated(async move || event.wait().await)),
        (
            "key",
            repeated(async move || {
                keys.signal(3).unwrap();
                keys.wait(3).await.unwrap();
            }),
        ),
        (
            "join",
            repeated(async move || {
                if over.is_none() {
                    let spawn =
                        |number| spawn(Priority::MOST_URGENT, async move { number }).unwrap();
                    over = Some((0..ROUNDS).map(spawn).collect());
                    // It is the most urgent one: they run, and then it begins anew.
                    yield_now().await;
                }
                let handle = over.as_mut().and_then(Vec::pop).unwrap();
                handle.await.unwrap();
            }),
        ),
        ("sleep", repeated(async || time::sleep_until(0).await)),
        (
            "ticker",
            repeated(async move || {
                work(10);
                ticker.tick().await;
            }),
        ),
    ]
}

/// A poll makes as many operations as the budget allows, and the next one begins with the
/// operation that was refused.
#[test]
fn each_primitive_lets_others_run_after_its_budget() {
    for (name, work) in never_waiting() {
        let executor = Executor::with(config());
        executor.advance(1_000_000);
        executor.spawn(Priority::DEFAULT, work).unwrap();
        let polls = executor.run_until_idle();
        let own = match name {
            // Those that it awaits, and its yield.
            "join" => u64::from(ROUNDS) + 1,
            // The first tick waits for its time.
            "ticker" => continue,
            _ => 0,
        };
        assert_eq!(polls - own, u64::from(ROUNDS / OPERATIONS), "{name}");
    }
}

/// An overrunning ticker lets others run, too.
#[test]
fn a_ticker_that_overruns_lets_others_run() {
    let executor = Executor::with(config().clock(clock));
    let (_, ticks) = never_waiting().pop().unwrap();
    executor.spawn(Priority::DEFAULT, ticks).unwrap();
    executor.run_until_idle();
    work(1_000_000);
    // The first tick was waited for.
    let polls = u64::from((ROUNDS - 1).div_ceil(OPERATIONS));
    assert_eq!(executor.run_until_idle(), polls);
}

/// Without a budget a coroutine runs until it waits.
#[test]
fn without_a_budget_nothing_ends_a_poll() {
    for (name, work) in never_waiting() {
        if name == "send" || name == "mutex" {
            let executor = Executor::new();
            executor.spawn(Priority::DEFAULT, work).unwrap();
            assert_eq!(executor.run_until_idle(), 1, "{name}");
        }
    }
}

/// What an operation makes ready runs before the next operation, if it is more urgent; the first
/// operation of a poll is always made.
#[test]
fn something_more_urgent_ends_the_budget_early() {
    let executor = Executor::with(config());
    let channel = Rc::new(Channel::<u32, 8>::new());
    let log = Rc::new(RefCell::new(Vec::new()));
    for level in [0, 40, 63] {
        let (channel, log) = (channel.clone(), log.clone());
        let receive = async move {
            while let Some(number) = channel.receive().await {
                log.borrow_mut().push((level, number));
            }
        };
        executor
            .spawn(Priority::new(level).unwrap(), receive)
            .unwrap();
    }
    executor.run_until_idle();
    let (sender, sent) = (channel, log.clone());
    let send = async move {
        for number in 0..3 {
            sent.borrow_mut().push((32, number));
            sender.send(number).await.unwrap();
        }
        sender.close();
    };
    executor.spawn(Priority::DEFAULT, send).unwrap();
    executor.run_until_idle();
    // The receiver at level 0 gets all: it waits again before the next message is sent.
    let order = [(32, 0), (32, 1), (0, 0), (32, 2), (0, 1), (0, 2)];
    assert_eq!(*log.borrow(), order);
}

/// When the time is over, the call that runs coroutines returns, so that its platform checks for
/// events; the timers that were due meanwhile fire before the next pick.
#[test]
fn the_time_of_a_call_ends_the_budget() {
    let executor = Executor::with(config().clock(clock));
    let log = Rc::new(RefCell::new(Vec::new()));
    let note = log.clone();
    let due = clock() + 500;
    executor
        .spawn(Priority::MOST_URGENT, async move {
            time::sleep_until(due).await;
            note.borrow_mut().push(0);
        })
        .unwrap();
    executor.run_until_idle();
    let semaphore = Semaphore::new(1);
    let note = log.clone();
    executor
        .spawn(Priority::LEAST_URGENT, async move {
            for item in 1..6 {
                drop(semaphore.acquire().await);
                note.borrow_mut().push(item);
                work(400);
            }
        })
        .unwrap();
    // After 1200 the fourth operation finds that the time is over.
    assert_eq!(executor.run_some(&corank::Relaxed, 100), (Step::Ran, 1));
    assert_eq!(*log.borrow(), [1, 2, 3]);
    assert_eq!(executor.run_some(&corank::Relaxed, 100), (Step::Idle, 2));
    assert_eq!(*log.borrow(), [1, 2, 3, 0, 4, 5]);
}

/// A loop of its own inside a poll, such as that of another executor's `block_on`, ends.
#[test]
fn a_loop_that_ignores_its_budget_ends() {
    let executor = Executor::with(config());
    executor
        .spawn(Priority::DEFAULT, async {
            let semaphore = Semaphore::new(1);
            for _ in 0..ROUNDS {
                drop(futures::executor::block_on(semaphore.acquire()));
            }
        })
        .unwrap();
    assert_eq!(executor.run_until_idle(), 1);
}

#[test]
fn code_outside_coroutines_has_no_budget() {
    let cx = std::task::Context::from_waker(Waker::noop());
    for _ in 0..10 * OPERATIONS {
        assert!(poll_proceed(&cx).is_ready());
    }
}

/// Workers count as an executor of one thread does.
#[test]
fn a_worker_lets_others_run_after_the_budget() {
    let executor = SharedExecutor::with(config());
    let channel = Arc::new(workers::Channel::<u32, 4>::new_in(&executor));
    let rounds = ROUNDS;
    let pass = async move {
        for number in 0..rounds {
            channel.send(number).await.unwrap();
            assert_eq!(channel.receive().await, Some(number));
        }
    };
    let handle = executor.spawn(Priority::DEFAULT, pass).unwrap();
    let worker = executor.worker(Waker::noop().clone());
    assert_eq!(worker.run_until_idle(), u64::from(2 * ROUNDS / OPERATIONS));
    handle.try_join().unwrap().unwrap();
}

/// The time of a worker of some levels begins anew with each call.
#[test]
fn the_time_of_a_worker_of_some_levels_begins_with_its_call() {
    let executor = SharedExecutor::with(config().clock(clock));
    let semaphore = workers::Semaphore::new_in(&executor, 1);
    let log = Arc::new(std::sync::Mutex::new(Vec::new()));
    let note = log.clone();
    let items = async move {
        for item in 1..=8 {
            drop(semaphore.acquire().await);
            note.lock().unwrap().push(item);
            work(400);
        }
    };
    executor.spawn(Priority::LEAST_URGENT, items).unwrap();
    let worker = executor.worker(Waker::noop().clone());
    worker.set_levels(Levels::from_level(Priority::DEFAULT));
    // Each call ends when the fourth operation finds that the time is over.
    let calls = [(Step::Ran, 3), (Step::Ran, 6), (Step::Idle, 8)];
    for (step, done) in calls {
        assert_eq!(worker.run_some(&corank::Relaxed, 100), (step, 1));
        assert_eq!(log.lock().unwrap().len(), done);
    }
}
