//! A view, a clock, a relax hook and a panic hook that call the executor that calls them.

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Waker};
use std::thread;

use super::Act;
use crate::common::asserts::on_purpose;
use crate::common::{Counter, executor, executor_with, forever, level, spawn};
use corank::{
    Config, JoinHandle, Priority, SharedExecutor, State, Step, SystemView, Worker, time, yield_now,
};

/// A view that acts the first time it is asked.
struct View<F>(Cell<Option<F>>);

impl<F> View<F> {
    fn new(act: F) -> Self {
        Self(Cell::new(Some(act)))
    }
}

impl<F: FnOnce()> SystemView for View<F> {
    fn most_urgent_elsewhere(&self) -> Option<Priority> {
        if let Some(act) = self.0.take() {
            act();
        }
        None
    }
}

#[test]
fn a_view_cancels_what_is_about_to_be_picked() {
    let executor = executor();
    let polls = Counter::new();
    let count = polls.clone();
    let only = spawn(&executor, 9, async move { count.add() });
    let view = View::new(|| assert!(only.cancel()));
    assert_eq!(executor.run_under(&view), (Step::Idle, 0));
    assert_eq!(polls.count(), 0);
    assert!(only.has_exited());
}

#[test]
fn a_view_runs_the_executor_that_asks_it() {
    let executor = executor();
    let done: Vec<_> = (0..3).map(|_| spawn(&executor, 9, yield_now())).collect();
    let view = View::new(|| assert_eq!(executor.run_until_idle(), 6));
    assert_eq!(executor.run_under(&view), (Step::Idle, 0));
    assert!(done.iter().all(JoinHandle::has_exited));
}

#[test]
fn a_view_makes_something_more_urgent_ready() {
    let executor = executor();
    let less = spawn(&executor, 9, pending::<()>());
    let more = Cell::new(None);
    let view = View::new(|| more.set(Some(spawn(&executor, 3, async {}))));
    assert_eq!(executor.step_under(&view), Step::Ran);
    assert!(more.take().unwrap().has_exited());
    assert_eq!(executor.state(less.id()), Some(State::Ready));
    let view = View::new(|| assert!(less.reprioritize(level(50))));
    assert_eq!(executor.step_under(&view), Step::Ran);
    assert_eq!(executor.state(less.id()), Some(State::Blocked));
}

/// The view is asked with the scheduler locked.
///
/// It stays locked after the view has run the worker itself.
#[test]
fn a_view_runs_the_worker_that_asks_it() {
    let executor = SharedExecutor::new();
    let worker = executor.worker(Waker::noop().clone());
    let handles: Vec<_> = (0..4)
        .map(|_| executor.spawn(level(9), yield_now()).unwrap())
        .collect();
    let view = View::new(|| assert_eq!(worker.step(), Step::Ran));
    assert_eq!(worker.run_under(&view), (Step::Idle, 7));
    assert!(handles.iter().all(JoinHandle::has_exited));

    let last = executor.spawn(level(9), async {}).unwrap();
    let view = View::new(|| {
        worker.set_short_polls(false);
        assert!(executor.cancel(last.id()));
        drop(executor.spawn(level(2), async {}).unwrap());
    });
    assert_eq!(worker.run_under(&view), (Step::Idle, 1));
    assert_eq!(executor.live(), 0);
}

/// The same holds within a poll, where the worker has a coroutine already.
#[test]
fn a_view_asked_within_a_poll_keeps_the_scheduler_locked() {
    let executor: &'static SharedExecutor = forever(SharedExecutor::new());
    thread_local!(static WORKER: RefCell<Option<Rc<Worker<'static>>>> = const { RefCell::new(None) });
    let worker = Rc::new(executor.worker(Waker::noop().clone()));
    WORKER.set(Some(worker.clone()));
    let inner = async {
        let worker = WORKER.with_borrow(|worker| worker.clone().unwrap());
        let view = View::new(|| {
            worker.set_short_polls(false);
            worker.step();
        });
        worker.run_under(&view);
    };
    let outer = executor.spawn(level(9), inner).unwrap();
    let others: Vec<_> = (0..3)
        .map(|_| executor.spawn(level(9), yield_now()).unwrap())
        .collect();
    worker.run_until_idle();
    assert!(outer.has_exited() && others.iter().all(JoinHandle::has_exited));
    drop(WORKER.take());
}

thread_local! {
    static ON_CLOCK: RefCell<Vec<Act>> = const { RefCell::new(Vec::new()) };
}

fn clock() -> u64 {
    let act = ON_CLOCK.with_borrow_mut(Vec::pop);
    act.into_iter().for_each(|act| act());
    10
}

/// A clock may cancel, run and spawn, wherever it is read next.
#[test]
fn a_clock_calls_the_executor_that_reads_it() {
    for reading in 0..if cfg!(miri) { 2 } else { 6 } {
        let executor = Rc::new(executor_with(Config::new().clock(clock)));
        let sleeper = Rc::new(spawn(&executor, 9, time::sleep_until(10)));
        let other = spawn(&executor, 8, time::sleep_until(100));
        executor.run_until_idle();
        let (inner, cancels) = (executor.clone(), sleeper.clone());
        let act: Act = Box::new(move || {
            drop(inner.spawn(level(1), async {}).unwrap());
            cancels.cancel();
            inner.run_until_idle();
            inner.advance(200);
        });
        ON_CLOCK.with_borrow_mut(|acts| {
            acts.push(act);
            acts.extend((0..reading).map(|_| -> Act { Box::new(|| ()) }));
        });
        for _ in 0..6 {
            drop(spawn(&executor, 5, yield_now()));
            executor.run_until_idle();
        }
        ON_CLOCK.take();
        executor.run_until_idle();
        assert!(sleeper.has_exited() && other.has_exited());
        assert_eq!(executor.live(), 0);
    }
}

/// The hook of a thread that spins for the scheduler calls the executor again.
#[test]
fn a_relax_hook_calls_the_executor_that_calls_it() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    static SHARED: std::sync::OnceLock<SharedExecutor> = std::sync::OnceLock::new();
    extern "C" fn relax() {
        if CALLS.fetch_add(1, Ordering::Relaxed) == 0 {
            let executor = SHARED.get().unwrap();
            drop(executor.spawn(level(1), async {}).unwrap());
        }
        thread::yield_now();
    }
    let executor = SHARED.get_or_init(|| SharedExecutor::with(Config::new().relax(relax)));
    let building = &AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(move || {
            let built = executor.spawn_with(level(5), || {
                building.store(true, Ordering::Release);
                while CALLS.load(Ordering::Relaxed) == 0 {
                    thread::yield_now();
                }
                yield_now()
            });
            drop(built.unwrap());
        });
        while !building.load(Ordering::Acquire) {
            thread::yield_now();
        }
        assert!(executor.live() >= 1);
    });
    executor.worker(Waker::noop().clone()).run_until_idle();
    assert_eq!(executor.live(), 0);
}

/// A handle that is polled again panics with the scheduler locked.
///
/// The panic hook may call the executor.
#[test]
fn a_panic_hook_calls_the_executor_that_panics() {
    thread_local!(static IN_HOOK: RefCell<Option<Act>> = const { RefCell::new(None) });
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let act = IN_HOOK
            .try_with(|act| act.borrow_mut().take())
            .ok()
            .flatten();
        act.into_iter().for_each(|act| act());
        before(info);
    }));
    let executor = Rc::new(SharedExecutor::new());
    let done = executor.spawn(level(5), async {}).unwrap();
    let worker = executor.worker(Waker::noop().clone());
    worker.run_until_idle();
    let mut done = Box::pin(done);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(done.as_mut().poll(&mut cx).is_ready());
    let inner = executor.clone();
    IN_HOOK.set(Some(Box::new(move || {
        let cancelled = inner.spawn(level(5), yield_now()).unwrap();
        assert!(cancelled.cancel());
        drop(inner.spawn(level(5), yield_now()).unwrap());
    })));
    on_purpose(|| {
        let panicked = catch_unwind(AssertUnwindSafe(|| drop(done.as_mut().poll(&mut cx))));
        assert!(panicked.is_err());
    });
    worker.run_until_idle();
    assert_eq!(executor.live(), 0);
}
