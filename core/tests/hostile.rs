//! Safe code that calls back into the core from everything that the core calls: no such program has undefined behaviour, loses a wake, or
//! lends urgency to a stranger. The list of what the core calls is in `core/src/call.rs`.
//!
//! Many of these tests pass where the core is wrong unless Miri runs them (`cargo xtask test --only miri`).

#![cfg(feature = "std")]
#![forbid(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use crate::common::asserts::on_purpose;
use crate::common::{Counter, executor, executor_with, forever, level, poll_once, spawn};
use corank::key::Keys;
use corank::sync::{Channel, Event, Mutex, Semaphore};
use corank::{
    Config, Executor, JoinHandle, Pool, Priority, SharedExecutor, State, Step, SystemView, Worker,
    time, workers, yield_now,
};

type Wait = Pin<Box<dyn Future<Output = ()>>>;
type Act = Box<dyn FnOnce()>;

/// Polls once, outside of any coroutine unless this is called by one.
fn poll_now(wait: &mut Wait, waker: &Waker) -> Poll<()> {
    wait.as_mut().poll(&mut Context::from_waker(waker))
}

// --- wakers that act -------------------------------------------------------------------------------------------------

thread_local! {
    /// What wakers of this thread do, by number.
    static ON_WAKE: RefCell<HashMap<usize, Act>> = RefCell::default();
    static ON_DROP: RefCell<HashMap<usize, Act>> = RefCell::default();
}

struct Trap(usize);

impl Wake for Trap {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let act = ON_WAKE.with_borrow_mut(|acts| acts.remove(&self.0));
        act.into_iter().for_each(|act| act());
    }
}

impl Drop for Trap {
    fn drop(&mut self) {
        let act = ON_DROP
            .try_with(|acts| acts.borrow_mut().remove(&self.0))
            .ok()
            .flatten();
        act.into_iter().for_each(|act| act());
    }
}

/// A waker that does this when it is woken first, and that when it is dropped last; on this thread.
fn trap(on_wake: impl FnOnce() + 'static, on_drop: impl FnOnce() + 'static) -> Waker {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    ON_WAKE.with_borrow_mut(|acts| acts.insert(number, Box::new(on_wake)));
    ON_DROP.with_borrow_mut(|acts| acts.insert(number, Box::new(on_drop)));
    Arc::new(Trap(number)).into()
}

// --- what belongs to one thread, in an executor with several workers ---------------------------------------------------

/// A wait in something of one thread, and what ends it.
fn waits_of_one_thread() -> Vec<(Wait, Act)> {
    let mutex = Rc::new(Mutex::new(()));
    let held = mutex.clone();
    let mut holder: Wait = Box::pin(async move {
        let _held = held.lock().await;
        pending::<()>().await;
    });
    assert!(poll_now(&mut holder, Waker::noop()).is_pending());
    let lock: Wait = Box::pin(async move { drop(mutex.lock().await) });

    let semaphore = Rc::new(Semaphore::new(0));
    let gives = semaphore.clone();
    let acquire: Wait = Box::pin(async move { semaphore.acquire().await.forget() });

    let event = Rc::new(Event::new());
    let sets = event.clone();
    let happens: Wait = Box::pin(async move { event.wait().await });

    let channel = Rc::new(Channel::<u8, 1>::new());
    let sends = channel.clone();
    let receive: Wait = Box::pin(async move { assert_eq!(channel.receive().await, Some(7)) });

    let keys = Rc::new(Keys::new());
    let signals = keys.clone();
    let key: Wait = Box::pin(async move { keys.wait(3).await.unwrap() });

    vec![
        (lock, Box::new(move || drop(holder))),
        (acquire, Box::new(move || gives.release())),
        (happens, Box::new(move || sets.set())),
        (receive, Box::new(move || sends.try_send(7).unwrap())),
        (key, Box::new(move || signals.signal(3).unwrap())),
    ]
}

thread_local! {
    /// A future that need not be `Send`, for coroutines that must be.
    static KEPT: RefCell<Option<Wait>> = const { RefCell::new(None) };
}

/// Polls what its thread keeps.
fn polls_kept() -> impl Future<Output = ()> + Send + 'static {
    poll_fn(|cx| KEPT.with_borrow_mut(|kept| kept.as_mut().expect("a wait").as_mut().poll(cx)))
}

/// A coroutine polls a wait in something of one thread, and is cancelled on another thread, while its first one ends that wait. Nothing orders
/// the two, so nothing may be touched by both.
#[test]
fn a_wait_of_one_thread_is_not_known_to_a_shared_executor() {
    for kind in 0..waits_of_one_thread().len() {
        let executor = SharedExecutor::new();
        let coroutine = executor.spawn(level(9), polls_kept()).unwrap();
        let (polled, cancelled) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                let (wait, end) = waits_of_one_thread().swap_remove(kind);
                KEPT.set(Some(wait));
                assert_eq!(executor.worker(Waker::noop().clone()).run_until_idle(), 1);
                polled.store(true, Ordering::Relaxed);
                while !cancelled.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
                drop(KEPT.take());
                end();
            });
            while !polled.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            assert!(coroutine.cancel());
            cancelled.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn a_coroutine_of_several_workers_waits_in_what_belongs_to_one_thread() {
    for (wait, end) in waits_of_one_thread() {
        let executor = SharedExecutor::new();
        let worker = executor.worker(Waker::noop().clone());
        let coroutine = executor.spawn(level(9), polls_kept()).unwrap();
        KEPT.set(Some(wait));
        assert_eq!(worker.run_until_idle(), 1);
        assert_eq!(executor.state(coroutine.id()), Some(State::Blocked));
        end();
        assert_eq!(worker.run_until_idle(), 1);
        assert!(coroutine.has_exited());
        drop(KEPT.take());
    }
}

/// Nor does it inherit through a lock of one thread: its level may be read on another one.
#[test]
fn a_lock_of_one_thread_lends_nothing_to_a_coroutine_of_several_workers() {
    let executor = SharedExecutor::new();
    let worker = executor.worker(Waker::noop().clone());
    let mutex = Rc::new(Mutex::new(()));
    let held = mutex.clone();
    KEPT.set(Some(Box::pin(async move {
        let _held = held.lock().await;
        pending::<()>().await;
    })));
    let holder = executor.spawn(level(40), polls_kept()).unwrap();
    worker.run_until_idle();
    let holds = KEPT.take();
    assert!(mutex.is_locked());
    let waits = mutex.clone();
    KEPT.set(Some(Box::pin(async move { drop(waits.lock().await) })));
    let waiter = executor.spawn(level(3), polls_kept()).unwrap();
    worker.run_until_idle();
    assert_eq!(executor.priority(holder.id()), Some(level(40)));
    drop(holds);
    worker.run_until_idle();
    assert!(waiter.has_exited());
    drop(KEPT.take());
}

// --- a view that acts --------------------------------------------------------------------------------------------------

/// Acts the first time it is asked.
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

/// The view is asked with the scheduler locked, and it stays so after the view has run the worker itself.
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
        worker.set_brief(false);
        assert!(executor.cancel(last.id()));
        drop(executor.spawn(level(2), async {}).unwrap());
    });
    assert_eq!(worker.run_under(&view), (Step::Idle, 1));
    assert_eq!(executor.live(), 0);
}

/// The same within a poll, where the worker has a coroutine already.
#[test]
fn a_view_asked_within_a_poll_keeps_the_scheduler_locked() {
    let executor: &'static SharedExecutor = forever(SharedExecutor::new());
    thread_local!(static WORKER: RefCell<Option<Rc<Worker<'static>>>> = const { RefCell::new(None) });
    let worker = Rc::new(executor.worker(Waker::noop().clone()));
    WORKER.set(Some(worker.clone()));
    let inner = async {
        let worker = WORKER.with_borrow(|worker| worker.clone().unwrap());
        let view = View::new(|| {
            worker.set_brief(false);
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

// --- a clock that acts -------------------------------------------------------------------------------------------------

thread_local! {
    static ON_CLOCK: RefCell<Vec<Act>> = const { RefCell::new(Vec::new()) };
}

fn clock() -> u64 {
    let act = ON_CLOCK.with_borrow_mut(Vec::pop);
    act.into_iter().for_each(|act| act());
    10
}

/// Whatever reads the clock next, it may cancel, run and spawn.
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

// --- wakers that act: exit ---------------------------------------------------------------------------------------------

thread_local! {
    static HANDLE: RefCell<Option<JoinHandle<()>>> = const { RefCell::new(None) };
    static EXECUTOR: RefCell<Option<Executor>> = const { RefCell::new(None) };
}

/// A future that several may poll, and that is none of theirs.
type Common = Rc<RefCell<Wait>>;

/// A coroutine that polls `wait` by `waker` in its first poll, and exits in the next.
fn polls_once(executor: &Executor, at: u8, wait: &Common, waker: Waker) -> JoinHandle<()> {
    let wait = wait.clone();
    let mut waker = Some(waker);
    let polls = poll_fn(move |_| match waker.take() {
        None => Poll::Ready(()),
        Some(waker) => {
            assert!(poll_now(&mut wait.borrow_mut(), &waker).is_pending());
            Poll::Pending
        }
    });
    spawn(executor, at, polls)
}

fn lock_of(mutex: &Rc<Mutex<()>>) -> Common {
    let mutex = mutex.clone();
    Rc::new(RefCell::new(Box::pin(async move {
        drop(mutex.lock().await);
    })))
}

/// A coroutine exits while a future that it has polled still waits. The waker that the future has, when it is dropped, drops the handle, and lets
/// another coroutine into the slot, which waits as well.
#[test]
fn the_next_coroutine_in_a_slot_keeps_its_wait() {
    let executor = Rc::new(executor());
    let mutex = Rc::new(Mutex::new(()));
    let guard = mutex.try_lock().unwrap();
    let lock = lock_of(&mutex);
    let event = Rc::new(Event::new());
    let newcomer = Rc::new(RefCell::new(None));
    let move_in = {
        let (executor, newcomer, event) = (executor.clone(), newcomer.clone(), event.clone());
        move || {
            drop(HANDLE.take());
            let waits = spawn(&executor, 5, async move { event.wait().await });
            executor.run_until_idle();
            *newcomer.borrow_mut() = Some(waits);
        }
    };
    let exits = polls_once(&executor, 9, &lock, trap(|| (), move_in));
    executor.run_until_idle();
    let id = exits.id();
    HANDLE.set(Some(exits));
    executor.wake(id);
    executor.run_until_idle();
    drop(guard);
    executor.run_until_idle();
    event.set();
    executor.run_until_idle();
    assert!(newcomer.take().expect("its waker was dropped").has_exited());
}

/// A coroutine exits. Who awaits it drops the handle when it is woken, and another coroutine gets the slot: it has no part in what the first one
/// waited for.
#[test]
fn the_next_coroutine_in_a_slot_lends_nothing() {
    let executor = executor();
    let mutex = Rc::new(Mutex::new(()));
    let theirs = mutex.clone();
    let holder = spawn(&executor, 60, async move {
        let _held = theirs.lock().await;
        pending::<()>().await;
    });
    executor.run_until_idle();
    let lock = lock_of(&mutex);
    let exits = polls_once(&executor, 20, &lock, Waker::noop().clone());
    executor.run_until_idle();
    assert_eq!(executor.priority(holder.id()), Some(level(20)));
    let id = exits.id();
    let mut awaits: Wait = Box::pin(async move { drop(exits.await) });
    let waker = trap(|| drop(KEPT.take()), || ());
    assert!(poll_now(&mut awaits, &waker).is_pending());
    KEPT.set(Some(awaits));
    executor.wake(id);
    executor.run_until_idle();
    let next = spawn(&executor, 30, pending::<()>());
    assert_eq!(next.id().to_bits() as u32, id.to_bits() as u32, "one slot");
    executor.reprioritize(next.id(), level(1));
    assert_eq!(executor.priority(holder.id()), Some(level(60)));
    drop(lock);
}

/// A waker that panics takes no wake from the others.
#[test]
fn a_waker_that_panics_at_exit_loses_no_wake() {
    let executor = executor();
    let mutex = Rc::new(Mutex::new(()));
    let theirs = mutex.clone();
    let ends = spawn(&executor, 9, async move {
        std::mem::forget(theirs.lock().await);
        yield_now().await;
    });
    executor.step();
    // Both wait for the holder; the one that began last is woken first.
    let woken = Counter::new();
    let count = woken.clone();
    let mut awaits: Wait = Box::pin(async move { drop(ends.await) });
    assert!(poll_now(&mut awaits, &trap(move || count.add(), || ())).is_pending());
    let polls = lock_of(&mutex);
    let waiter = polls_once(&executor, 3, &polls, trap(|| panic!("on purpose"), || ()));
    executor.step();
    on_purpose(|| {
        let panicked = catch_unwind(AssertUnwindSafe(|| executor.run_until_idle()));
        assert!(panicked.is_err());
    });
    assert_eq!(woken.count(), 1);
    executor.run_until_idle();
    drop((awaits, polls, waiter));
    assert!(executor.live() <= 1);
}

// --- wakers that act: timers, the notifier, workers --------------------------------------------------------------------

/// While an executor is being dropped it still runs: a timer that is set then is none of its own any more when it is gone.
#[test]
fn a_timer_that_is_set_while_its_executor_goes_outlives_it() {
    let executor = executor();
    let waits = spawn(&executor, 9, pending::<()>());
    executor.run_until_idle();
    let set = || {
        let mut sleep: Wait = Box::pin(time::sleep_until(1_000));
        assert!(poll_now(&mut sleep, Waker::noop()).is_pending());
        KEPT.set(Some(sleep));
    };
    let mut awaits: Wait = Box::pin(async move { drop(waits.await) });
    assert!(poll_now(&mut awaits, &trap(set, || ())).is_pending());
    drop(executor);
    drop(awaits);
    let sleep = KEPT.take();
    if let Some(mut sleep) = sleep {
        // In another executor it begins anew.
        let executor = self::executor();
        let mut polls = 0;
        let sleeps = spawn(
            &executor,
            9,
            poll_fn(move |cx| {
                polls += 1;
                assert!(polls < 3);
                sleep.as_mut().poll(cx)
            }),
        );
        executor.run_until_idle();
        executor.advance(1_000);
        executor.run_until_idle();
        assert!(sleeps.has_exited());
    }
}

/// The waker of a timer, when the executor abandons it, sets the next one.
#[test]
fn a_waker_that_sets_a_timer_while_its_executor_goes() {
    let executor = executor();
    let sleep: Common = Rc::new(RefCell::new(Box::pin(time::sleep_until(7))));
    let set = || {
        let mut sleep: Wait = Box::pin(time::sleep_until(1_000));
        let _pending_or_not = catch_unwind(AssertUnwindSafe(|| {
            assert!(poll_now(&mut sleep, Waker::noop()).is_pending());
        }));
        KEPT.set(Some(sleep));
    };
    let polls = polls_once(&executor, 9, &sleep, trap(|| (), set));
    executor.run_until_idle();
    drop(executor);
    drop((sleep, polls));
    drop(KEPT.take());
}

/// The notifier is called in the middle of a wake from outside.
#[test]
fn a_notifier_drops_the_executor_that_calls_it() {
    let notify = trap(
        || {
            let executor = EXECUTOR.take().unwrap();
            executor.run_until_idle();
            drop(HANDLE.take());
            drop(executor);
        },
        || (),
    );
    let executor = executor_with(Config::new().notify(notify));
    let mut waker = None;
    let coroutine = spawn(&executor, 9, async {
        pending::<()>().await;
    });
    let remote = coroutine.remote();
    let kept = Rc::new(RefCell::new(None));
    let leaves = kept.clone();
    let other = poll_fn(move |cx| {
        *leaves.borrow_mut() = Some(cx.waker().clone());
        Poll::<()>::Pending
    });
    drop(spawn(&executor, 9, other));
    executor.run_until_idle();
    waker.clone_from(&*kept.borrow());
    HANDLE.set(Some(coroutine));
    EXECUTOR.set(Some(executor));
    waker.expect("it was polled").wake();
    assert!(!remote.wake());
    drop(kept.take());
}

/// A worker is called with nothing held.
#[test]
fn a_worker_runs_while_it_is_called() {
    thread_local!(static WORKER: RefCell<Option<Worker<'static>>> = const { RefCell::new(None) });
    let executor: &'static SharedExecutor = forever(SharedExecutor::new());
    let steps = Counter::new();
    let count = steps.clone();
    let call = trap(
        move || {
            WORKER.with_borrow(|worker| worker.as_ref().unwrap().run_until_idle());
            count.add();
        },
        || (),
    );
    let worker = executor.worker(call);
    worker.run_until_idle();
    WORKER.set(Some(worker));
    let done = executor.spawn(level(4), yield_now()).unwrap();
    assert_eq!(steps.count(), 1);
    assert!(done.has_exited());
    drop(WORKER.take());
}

// --- destructors, and the function that builds a future -----------------------------------------------------------------

/// Acts when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn the_destructor_of_a_future_drops_its_executor() {
    let executor = executor();
    let ends = OnDrop(|| drop(EXECUTOR.take()));
    let coroutine = spawn(&executor, 9, async move {
        let _ends = ends;
        pending::<()>().await;
    });
    executor.run_until_idle();
    EXECUTOR.set(Some(executor));
    assert!(coroutine.cancel());
    assert!(coroutine.has_exited());
}

#[test]
fn the_destructor_of_an_output_drops_its_executor() {
    let executor = executor();
    let ends = OnDrop(|| {
        drop(HANDLE.take());
        drop(EXECUTOR.take());
    });
    let coroutine = spawn(&executor, 9, async move { ends });
    HANDLE.set(Some(spawn(&executor, 10, pending::<()>())));
    executor.run_until_idle();
    EXECUTOR.set(Some(executor));
    drop(coroutine);
    assert!(EXECUTOR.take().is_none());
}

#[test]
fn the_destructor_of_a_future_acts_on_its_own_coroutine() {
    let executor = Rc::new(executor());
    let (inner, id) = (executor.clone(), Rc::new(Cell::new(None)));
    let own = id.clone();
    let acts = OnDrop(move || {
        let id = own.get().unwrap();
        assert!(!inner.cancel(id));
        inner.wake(id);
        inner.reprioritize(id, level(1));
        drop(HANDLE.take());
        drop(spawn(&inner, 2, async {}));
        inner.run_until_idle();
    });
    let coroutine = spawn(&executor, 9, async move {
        let _acts = acts;
        pending::<()>().await;
    });
    id.set(Some(coroutine.id()));
    executor.run_until_idle();
    HANDLE.set(Some(coroutine));
    executor.cancel(id.get().unwrap());
    assert_eq!(
        (executor.live(), executor.state(id.get().unwrap())),
        (0, None)
    );
}

#[test]
fn a_function_that_builds_a_future_spawns_cancels_and_panics() {
    let executor = executor();
    let other = spawn(&executor, 9, pending::<()>());
    let built = executor.spawn_with(level(5), || {
        assert!(other.cancel());
        drop(spawn(&executor, 3, yield_now()));
        executor.run_until_idle();
        yield_now()
    });
    on_purpose(|| {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            drop(executor.spawn_with(level(5), || -> YieldsNever { panic!("on purpose") }));
        }));
        assert!(panicked.is_err());
    });
    executor.run_until_idle();
    assert!(built.unwrap().has_exited());
    assert_eq!(executor.live(), 0);

    let executor = SharedExecutor::new();
    let worker = executor.worker(Waker::noop().clone());
    let built = executor.spawn_with(level(5), || {
        drop(executor.spawn(level(3), yield_now()).unwrap());
        assert_eq!(executor.live(), 1);
        yield_now()
    });
    worker.run_until_idle();
    assert!(built.unwrap().has_exited());
}

type YieldsNever = std::future::Pending<()>;

// --- the relax hook and the panic hook -----------------------------------------------------------------------------------

/// What spins for the scheduler calls the executor again.
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
    let executor = SHARED.get_or_init(|| SharedExecutor::with(Config::new().give_way(relax)));
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

/// A handle that is polled again panics with the scheduler locked: the panic hook may call the executor.
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

// --- names that outlive what they name -----------------------------------------------------------------------------------

/// A lock outlives the executor of its holder. A later executor in the same memory has a coroutine of the same name.
#[test]
fn a_later_executor_at_the_same_place_inherits_nothing() {
    let pool: &'static Pool<4, 256> = forever(Pool::new());
    let mutex = Rc::new(Mutex::new(()));
    let held = mutex.clone();
    let holds: Common = Rc::new(RefCell::new(Box::pin(async move {
        let _held = held.lock().await;
        pending::<()>().await;
    })));
    let first = Executor::in_pool(pool, Config::new()).unwrap();
    drop(polls_once(&first, 60, &holds, Waker::noop().clone()));
    first.run_until_idle();
    drop(first);
    let second = Executor::in_pool(pool, Config::new()).unwrap();
    let stranger = spawn(&second, 60, pending::<()>());
    let waits = lock_of(&mutex);
    let waiter = polls_once(&second, 3, &waits, Waker::noop().clone());
    second.run_until_idle();
    assert!(mutex.is_locked());
    assert_eq!(second.priority(stranger.id()), Some(level(60)));
    drop((waits, waiter, holds));
}

// --- long chains ---------------------------------------------------------------------------------------------------------

/// Each awaits the next. A change at one end arrives at the other, on a small stack, in both directions.
#[test]
fn a_long_chain_of_waiting_passes_urgency_on() {
    const LENGTH: usize = if cfg!(miri) { 20 } else { 200_000 };
    let chain = || {
        let executor = executor();
        let mut handle = spawn(&executor, 60, pending::<()>());
        let tail = handle.id();
        for _ in 0..LENGTH {
            let next = handle;
            handle = spawn(&executor, 60, async move { drop(next.await) });
        }
        executor.run_until_idle();
        assert!(handle.reprioritize(level(4)));
        assert_eq!(executor.priority(tail), Some(level(4)));
        assert!(handle.reprioritize(level(50)));
        assert_eq!(executor.priority(tail), Some(level(50)));
        assert!(handle.cancel());
        assert_eq!(executor.priority(tail), Some(level(60)));
        assert!(executor.cancel(tail));
        executor.run_until_idle();
        assert_eq!(executor.live(), 0);
    };
    let small = thread::Builder::new().stack_size(256 * 1024);
    small.spawn(chain).unwrap().join().unwrap();
}

/// The same where each coroutine of the chain waits for two at once.
#[test]
fn a_long_chain_of_pairs_passes_urgency_on() {
    const LENGTH: usize = if cfg!(miri) { 10 } else { 100_000 };
    let chain = || {
        let executor = executor();
        let pair = || [60, 61].map(|at| spawn(&executor, at, pending::<()>()));
        let [mut handle, other] = pair();
        let tails = [handle.id(), other.id()];
        let mut aside = Some(other);
        for _ in 0..LENGTH {
            let (next, beside) = (handle, aside.take());
            handle = spawn(&executor, 62, async move {
                let beside = async {
                    if let Some(beside) = beside {
                        drop(beside.await);
                    }
                };
                futures::join!(beside, async { drop(next.await) });
            });
            aside = Some(spawn(&executor, 63, pending()));
        }
        executor.run_until_idle();
        assert!(handle.reprioritize(level(4)));
        assert_eq!(
            tails.map(|tail| executor.priority(tail)),
            [Some(level(4)); 2]
        );
        assert!(handle.reprioritize(level(63)));
        assert_eq!(
            tails.map(|tail| executor.priority(tail)),
            [Some(level(60)), Some(level(61))]
        );
    };
    let small = thread::Builder::new().stack_size(256 * 1024);
    small.spawn(chain).unwrap().join().unwrap();
}

/// Those that move at once move in the order of the chain (rule I3), each wait of a coroutine before the next one's.
#[test]
fn a_change_moves_the_chain_in_its_order() {
    let executor = executor();
    let log = crate::common::Log::default();
    let ready = |name: &'static str| {
        let log = log.clone();
        spawn(&executor, 40, async move {
            log.push(name);
        })
    };
    let through = |name: &'static str, next: JoinHandle<()>| {
        let log = log.clone();
        let mut next = Box::pin(next);
        spawn(&executor, 40, async move {
            assert!(poll_once(&mut next).await.is_pending());
            yield_now().await;
            log.push(name);
            drop(next.await);
        })
    };
    let (d, e) = (ready("d"), ready("e"));
    let hold = spawn(&executor, 1, {
        let (b, c) = (through("b", d), through("c", e));
        async move {
            let (mut b, mut c) = (Box::pin(b), Box::pin(c));
            assert!(poll_once(&mut c).await.is_pending());
            assert!(poll_once(&mut b).await.is_pending());
            pending::<()>().await;
        }
    });
    let other = ready("other");
    for _ in 0..3 {
        executor.step();
    }
    executor.reprioritize(hold.id(), level(30));
    executor.reprioritize(hold.id(), level(10));
    executor.run_until_idle();
    drop(other);
    assert_eq!(log.take(), "b d c e other");
}

/// Everybody waits for the next one, in a ring (rule I8): a change goes round once at most.
#[test]
fn a_ring_of_waiting_ends() {
    const LENGTH: usize = if cfg!(miri) { 8 } else { 1_000 };
    let executor = executor();
    let mutexes: Vec<_> = (0..LENGTH).map(|_| Rc::new(Mutex::new(()))).collect();
    let ring: Vec<_> = (0..LENGTH)
        .map(|at| {
            let (own, next) = (mutexes[at].clone(), mutexes[(at + 1) % LENGTH].clone());
            spawn(&executor, 60, async move {
                let _own = own.lock().await;
                yield_now().await;
                drop(next.lock().await);
            })
        })
        .collect();
    executor.run_until_idle();
    for at in [3, 50, 7] {
        ring[5].reprioritize(level(at));
    }
    assert_eq!(executor.live(), LENGTH);
    assert!(ring[5].cancel());
    executor.run_until_idle();
    assert_eq!(executor.live(), 0, "cancelling one undoes the deadlock");
}

/// A sleep of several workers may go to another executor, and outlive the first.
#[test]
fn a_sleep_of_several_workers_outlives_its_executor() {
    let mut sleep = Box::pin(workers::sleep_until(50));
    let first = SharedExecutor::new();
    let worker = first.worker(Waker::noop().clone());
    let mut cx = Context::from_waker(Waker::noop());
    worker.within(|| assert!(sleep.as_mut().poll(&mut cx).is_pending()));
    drop(worker);
    drop(first);
    let second = SharedExecutor::new();
    let handle = second.spawn(level(5), sleep).unwrap();
    let worker = second.worker(Waker::noop().clone());
    worker.run_until_idle();
    second.advance(50);
    worker.run_until_idle();
    assert!(handle.has_exited());
}
