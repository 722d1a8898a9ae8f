//! The primitives that coroutines of a shared executor share (`corank::workers`).
//!
//! Any worker may poll a coroutine that uses them, and what happens in the middle of an operation
//! loses nothing. The rules themselves are replayed from the traces, by `traces.rs`.

#![cfg(feature = "std")]

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::thread;
use std::time::Duration;

use crate::common::asserts::on_purpose;
use crate::common::served::OnOneThread;
use crate::common::{level, times};
use corank::workers::{self, Channel, Event, Keys, Mutex, Semaphore, Shared, sleep_until};
use corank::{
    Config, Executor, JoinError, Priority, SharedExecutor, State, Step, Worker, time, woke_itself,
    yield_now,
};

fn worker(executor: &SharedExecutor) -> Worker<'_> {
    executor.worker(Waker::noop().clone())
}

fn run(executor: &SharedExecutor) {
    worker(executor).run_until_idle();
}

/// A waker that counts wakes.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wakes {
    fn take(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn poll_by<F: Future>(waker: &Waker, future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

thread_local! {
    /// User code that runs when a [`meddler`] is cloned, woken or dropped next.
    static MEDDLE: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

fn meddle() {
    if let Some(meddle) = MEDDLE.take() {
        meddle();
    }
}

/// Returns a waker that runs `act`, once, when it is cloned or woken.
///
/// User code may do anything there, or another worker meanwhile.
fn meddler(act: impl FnOnce() + 'static) -> Waker {
    static VTABLE: RawWakerVTable = RawWakerVTable::new(
        |_| {
            meddle();
            RawWaker::new(std::ptr::null(), &VTABLE)
        },
        |_| meddle(),
        |_| meddle(),
        |_| {},
    );
    MEDDLE.set(Some(Box::new(act)));
    // SAFETY: the functions do nothing with the pointer.
    unsafe { Waker::new(std::ptr::null(), &VTABLE) }
}

#[test]
fn all_are_send_and_sync() {
    fn both<T: Send + Sync>(_: &T) {}
    fn send<T: Send>(_: &T) {}
    let executor = SharedExecutor::new();
    let mutex = Mutex::new_in(&executor, Cell::new(1));
    let (semaphore, event) = (Semaphore::new_in(&executor, 1), Event::new_in(&executor));
    let channel = Channel::<Cell<u8>, 1>::new_in(&executor);
    let keys = Keys::new_in(&executor);
    both(&mutex);
    both(&semaphore);
    both(&event);
    both(&channel);
    both(&keys);
    both(&Shared::from(&executor));
    send(&mutex.lock());
    send(&mutex.try_lock());
    send(&semaphore.acquire());
    send(&semaphore.try_acquire());
    send(&event.wait());
    send(&channel.send(Cell::new(1)));
    send(&channel.receive());
    send(&keys.wait(1));
    send(&workers::sleep(Duration::ZERO));
    send(&workers::timeout(Duration::ZERO, event.wait()));
    send(&workers::ticker(Duration::from_nanos(1)).tick());
}

/// A waiter donates its urgency to a holder across workers.
///
/// One worker polls the waiter, and another one the holder. The donation takes effect at once (I1,
/// H6), and the lock is handed over before the new holder has run (M3).
#[test]
fn a_mutex_donates_across_workers() {
    let executor: &'static SharedExecutor = crate::common::forever(SharedExecutor::new());
    let mutex: &'static Mutex<()> = crate::common::forever(Mutex::new_in(executor, ()));
    let holder = executor
        .spawn(level(40), async move {
            let id = corank::current().unwrap();
            let guard = mutex.lock().await;
            let waiter = executor
                .spawn(level(3), async { drop(mutex.lock().await) })
                .unwrap();
            assert_eq!(worker(executor).step(), Step::Ran);
            assert_eq!(executor.state(waiter.id()), Some(State::Blocked));
            assert_eq!(executor.priority(id), Some(level(3)));
            assert!(executor.published().running().contains(level(3)));
            drop(guard);
            assert_eq!(executor.priority(id), Some(level(40)));
            assert_eq!(executor.state(waiter.id()), Some(State::Ready));
            assert!(mutex.try_lock().is_none());
            waiter.await.unwrap();
            assert!(mutex.try_lock().is_some());
        })
        .unwrap();
    run(executor);
    holder.try_join().unwrap().unwrap();
}

/// Code that is no coroutine of the executor waits by its waker.
///
/// That is a thread, or a coroutine of another executor.
#[test]
fn code_outside_the_executor_waits_by_its_waker() {
    let executor = Arc::new(SharedExecutor::new());
    let mutex = Arc::new(Mutex::new_in(&*executor, 0));
    let guard = mutex.try_lock().unwrap();
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    let mut outside = pin!(mutex.lock());
    assert!(poll_by(&waker, outside.as_mut()).is_pending());
    let other = Executor::new();
    let theirs = mutex.clone();
    let stranger = other.spawn(level(1), async move { *theirs.lock().await += 1 });
    other.run_until_idle();
    assert!(!stranger.as_ref().unwrap().has_exited());
    drop(guard);
    assert_eq!(wakes.take(), 1);
    match poll_by(&waker, outside) {
        Poll::Ready(mut guard) => *guard += 1,
        Poll::Pending => panic!("it was handed over"),
    }
    other.run_until_idle();
    stranger.unwrap().try_join().unwrap().unwrap();
    assert_eq!(*mutex.try_lock().unwrap(), 2);
}

/// A poll sees what it waits for if that comes while the waker is being cloned.
#[test]
fn nothing_is_lost_while_a_waker_is_cloned() {
    let executor: &'static SharedExecutor = crate::common::forever(SharedExecutor::new());
    let mutex: &'static Mutex<()> = crate::common::forever(Mutex::new_in(executor, ()));
    let guard = mutex.try_lock().unwrap();
    let waker = meddler(|| drop(guard));
    assert!(poll_by(&waker, pin!(mutex.lock())).is_ready());
    assert!(!mutex.is_locked());

    let semaphore: &'static Semaphore = crate::common::forever(Semaphore::new_in(executor, 0));
    let waker = meddler(|| semaphore.release());
    assert!(poll_by(&waker, pin!(semaphore.acquire())).is_ready());
    assert_eq!(semaphore.free(), 1);

    let event: &'static Event = crate::common::forever(Event::new_in(executor));
    let waker = meddler(|| {
        event.set();
        event.reset();
    });
    assert!(poll_by(&waker, pin!(event.wait())).is_ready());

    let channel: &'static Channel<u8, 1> = crate::common::forever(Channel::new_in(executor));
    let waker = meddler(|| channel.try_send(1).unwrap());
    assert_eq!(
        poll_by(&waker, pin!(channel.receive())),
        Poll::Ready(Some(1))
    );
    channel.try_send(2).unwrap();
    let waker = meddler(|| assert_eq!(channel.try_receive(), Ok(2)));
    assert_eq!(poll_by(&waker, pin!(channel.send(3))), Poll::Ready(Ok(())));
    let waker = meddler(|| channel.close());
    assert!(poll_by(&waker, pin!(channel.send(4))).is_ready());

    let keys: &'static Keys = crate::common::forever(Keys::new_in(executor));
    let waker = meddler(|| keys.signal(7).unwrap());
    assert_eq!(poll_by(&waker, pin!(keys.wait(7))), Poll::Ready(Ok(())));
    assert!(keys.is_empty());
}

/// A lock is handed over while the waker of the next waiter is cloned.
///
/// The levels of both decide (N1). The one that still waits donates to the holder there is then.
#[test]
fn a_waiter_donates_to_the_holder_of_that_moment() {
    let executor: &'static SharedExecutor = crate::common::forever(SharedExecutor::new());
    let mutex: &'static Mutex<()> = crate::common::forever(Mutex::new_in(executor, ()));
    let first = mutex.try_lock().unwrap();
    let second = executor
        .spawn(level(3), async {
            let guard = mutex.lock().await;
            std::future::pending::<()>().await;
            drop(guard);
        })
        .unwrap();
    run(executor);
    let waker = meddler(|| drop(first));
    let third = executor
        .spawn(level(5), async move {
            let mut lock = pin!(mutex.lock());
            poll_fn(move |_| poll_by(&waker, lock.as_mut()).map(drop)).await;
        })
        .unwrap();
    run(executor);
    assert_eq!(executor.priority(second.id()), Some(level(3)));
    third.reprioritize(level(1));
    assert_eq!(executor.priority(second.id()), Some(level(1)));
    assert!(third.cancel());
    assert_eq!(executor.priority(second.id()), Some(level(3)));
    second.cancel();
}

/// The same holds if the more urgent waiter is the one with the waker that is cloned.
///
/// That waiter gets the lock.
#[test]
fn a_waiter_counts_by_its_level() {
    let executor: &'static SharedExecutor = crate::common::forever(SharedExecutor::new());
    let mutex: &'static Mutex<()> = crate::common::forever(Mutex::new_in(executor, ()));
    let first = mutex.try_lock().unwrap();
    let second = executor
        .spawn(level(5), async { drop(mutex.lock().await) })
        .unwrap();
    run(executor);
    let waker = meddler(|| drop(first));
    let third = executor
        .spawn(level(3), async move {
            let mut lock = pin!(mutex.lock());
            poll_fn(move |_| poll_by(&waker, lock.as_mut()).map(drop)).await;
        })
        .unwrap();
    assert_eq!(worker(executor).step(), Step::Ran);
    assert!(third.has_exited() && !second.has_exited());
    run(executor);
    assert!(second.has_exited());
}

/// Waiters from before the set of an event go through, and those after its reset wait (N7, N8).
///
/// This holds even if both happen while the first waiter is being woken.
#[test]
fn an_event_is_reset_while_it_is_set() {
    let executor: &'static SharedExecutor = crate::common::forever(SharedExecutor::new());
    let event: &'static Event = crate::common::forever(Event::new_in(executor));
    let wakes = Arc::new(Wakes::default());
    let (third, third_waker) = (
        &*crate::common::forever(RefCell::new(Box::pin(event.wait()))),
        {
            let waker = Waker::from(wakes.clone());
            waker.clone()
        },
    );
    let waker = meddler(|| {});
    let mut first = pin!(event.wait());
    assert!(poll_by(&waker, first.as_mut()).is_pending());
    let mut second = pin!(event.wait());
    assert!(poll_by(Waker::noop(), second.as_mut()).is_pending());
    drop(meddler(move || {
        event.reset();
        assert!(poll_by(&third_waker, third.borrow_mut().as_mut()).is_pending());
    }));
    event.set();
    assert!(!event.is_set());
    assert!(poll_by(Waker::noop(), first).is_ready());
    assert!(poll_by(Waker::noop(), second).is_ready());
    assert!(poll_by(Waker::noop(), third.borrow_mut().as_mut()).is_pending());
    assert_eq!(wakes.take(), 0);
}

/// The primitives may outlive their executor.
///
/// They donate to no coroutine any more, and the memory goes with the last of them.
#[test]
fn they_outlive_their_executor() {
    let executor = SharedExecutor::new();
    let mutex = Arc::new(Mutex::new_in(&executor, 5));
    let theirs = mutex.clone();
    let holder = executor.spawn(level(3), async move {
        let guard = theirs.lock().await;
        std::future::pending::<()>().await;
        drop(guard);
    });
    let theirs = mutex.clone();
    drop(executor.spawn(level(3), async move { drop(theirs.lock().await) }));
    run(&executor);
    assert!(mutex.is_locked());
    drop(executor);
    assert!(!mutex.is_locked(), "its coroutines are gone");
    assert_eq!(*mutex.try_lock().unwrap(), 5);
    assert!(matches!(
        holder.unwrap().try_join(),
        Ok(Err(JoinError::Cancelled))
    ));
}

#[test]
fn the_current_executor_is_that_of_the_running_worker() {
    assert!(Shared::here().is_none());
    let alone = Executor::new();
    let none = alone.spawn(level(1), async { Shared::here().is_none() });
    alone.run_until_idle();
    assert!(none.unwrap().try_join().unwrap().unwrap());
    let executor = SharedExecutor::new();
    let made = executor
        .spawn(level(1), async {
            Mutex::new_in(Shared::here().unwrap(), 9)
        })
        .unwrap();
    run(&executor);
    let mutex = made.try_join().unwrap().unwrap();
    assert_eq!(*mutex.try_lock().unwrap(), 9);
}

#[test]
fn a_sleep_of_the_other_kind_is_refused() {
    let alone = Executor::new();
    let wrong = alone.spawn(level(1), sleep_until(5)).unwrap();
    on_purpose(|| alone.run_until_idle());
    assert!(matches!(wrong.try_join(), Ok(Err(JoinError::Panicked(_)))));
    let executor = SharedExecutor::new();
    let wrong = executor
        .spawn(level(1), OnOneThread(time::sleep_until(5)))
        .unwrap();
    on_purpose(|| run(&executor));
    assert!(matches!(wrong.try_join(), Ok(Err(JoinError::Panicked(_)))));
}

/// A timer stays in the heap where it began, and any thread may take it out.
///
/// It does not keep what is gone from going.
#[test]
fn a_sleep_goes_from_thread_to_thread() {
    let executor = SharedExecutor::new();
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    let begun = |deadline| {
        let one = worker(&executor);
        let mut sleep = Box::pin(sleep_until(deadline));
        assert!(one.within(|| poll_by(&waker, sleep.as_mut())).is_pending());
        sleep
    };
    let (first, mut second, mut third) = (begun(1), begun(2), begun(3));
    thread::spawn(move || drop(first)).join().unwrap();
    assert_eq!(executor.next_deadline(), Some(2));
    assert_eq!(executor.advance(2), 1);
    assert_eq!(wakes.take(), 1);
    let moved = thread::spawn(move || poll_by(Waker::noop(), second.as_mut()).is_ready());
    assert!(moved.join().unwrap(), "outside of any executor");
    assert!(poll_by(Waker::noop(), third.as_mut()).is_pending());
    drop(executor);
    // It begins anew where it is polled next.
    let other = SharedExecutor::new();
    let one = worker(&other);
    assert!(one.within(|| poll_by(&waker, third.as_mut())).is_pending());
    assert_eq!(other.next_deadline(), Some(3));
    assert_eq!(other.advance(3), 1);
    assert!(poll_by(&waker, third.as_mut()).is_ready());
    assert!(
        poll_by(&waker, third.as_mut()).is_ready(),
        "as often as asked"
    );
}

/// Time limits elapse, and tickers tick at their times.
#[test]
fn timeouts_and_tickers() {
    let executor: &'static SharedExecutor = crate::common::forever(SharedExecutor::new());
    let event: &'static Event = crate::common::forever(Event::new_in(executor));
    let late = executor
        .spawn(level(1), async {
            workers::timeout(Duration::from_nanos(5), event.wait()).await
        })
        .unwrap();
    let beats = executor
        .spawn(level(1), async {
            let mut ticker = workers::ticker(Duration::from_nanos(4));
            [ticker.tick().await, ticker.tick().await]
        })
        .unwrap();
    run(executor);
    for now in [4, 5, 8] {
        executor.advance(now);
        run(executor);
    }
    assert_eq!(late.try_join().unwrap().unwrap(), Err(time::Elapsed));
    assert_eq!(beats.try_join().unwrap().unwrap(), [4, 8]);
    assert_eq!(executor.next_deadline(), None);
}

/// H10: a worker that sleeps until a deadline is called when an earlier one is set.
///
/// It is not called for a later one.
#[test]
fn an_earlier_deadline_calls_a_sleeping_worker() {
    let executor: &'static SharedExecutor = crate::common::forever(SharedExecutor::new());
    let calls = Arc::new(Wakes::default());
    let sleeper = executor.worker(Waker::from(calls.clone()));
    let busy = worker(executor);
    let calls_for = |deadline| {
        // Collected within: a coroutine that becomes ready calls no worker.
        busy.within(|| drop(executor.spawn(level(3), sleep_until(deadline)).unwrap()));
        assert_eq!(busy.step(), Step::Ran);
        calls.take()
    };
    assert_eq!(calls_for(50), 0, "no worker sleeps yet");
    assert_eq!(sleeper.step(), Step::Idle);
    assert_eq!(calls_for(60), 0, "later");
    assert_eq!(calls_for(50), 0, "not earlier");
    assert_eq!(calls_for(40), 1);
    assert_eq!(calls_for(30), 0, "a call is already pending");
    assert_eq!(sleeper.step(), Step::Idle);
    assert_eq!(executor.next_deadline(), Some(30));
    assert_eq!(calls_for(20), 1);
}

/// Threads share everything.
///
/// Sums are exact, and no coroutine waits for ever.
#[test]
fn threads_share_exactly() {
    const EACH: usize = times(200);
    const THREADS: usize = 4;
    let executor = Arc::new(SharedExecutor::with(Config::new().clock(|| {
        static NOW: AtomicUsize = AtomicUsize::new(0);
        NOW.fetch_add(1, Ordering::Relaxed) as u64
    })));
    let sum = Arc::new(Mutex::new_in(&*executor, 0));
    let channel = Arc::new(Channel::<usize, 3>::new_in(&*executor));
    let gate = Arc::new(Semaphore::new_in(&*executor, 2));
    let keys = Arc::new(Keys::new_in(&*executor));
    let inside = Arc::new(AtomicUsize::new(0));
    let mut handles = Vec::new();
    for n in 0..EACH {
        let at = Priority::new((n % 7) as u8).unwrap();
        let (gate, channel, keys, inside) =
            (gate.clone(), channel.clone(), keys.clone(), inside.clone());
        handles.push(executor.spawn(at, async move {
            workers::sleep(Duration::from_nanos(n as u64 % 13)).await;
            let permit = gate.acquire().await;
            assert!(inside.fetch_add(1, Ordering::SeqCst) < 2);
            yield_now().await;
            inside.fetch_sub(1, Ordering::SeqCst);
            drop(permit);
            channel.send(n).await.unwrap();
            keys.signal(n as u64).unwrap();
        }));
    }
    for n in 0..EACH {
        let at = Priority::new((n % 5) as u8).unwrap();
        let (sum, channel, keys) = (sum.clone(), channel.clone(), keys.clone());
        handles.push(executor.spawn(at, async move {
            keys.wait(n as u64).await.unwrap();
            let got = channel.receive().await.unwrap();
            let mut sum = sum.lock().await;
            let before = *sum;
            yield_now().await;
            *sum = before + got;
        }));
    }
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let one = worker(&executor);
                while executor.live() > 0 {
                    if one.run_until_idle() == 0 {
                        thread::yield_now();
                    }
                }
            });
        }
    });
    for handle in handles {
        handle.unwrap().try_join().unwrap().unwrap();
    }
    assert_eq!(*sum.try_lock().unwrap(), EACH * (EACH - 1) / 2);
    assert!(keys.is_empty() && channel.is_empty());
    assert_eq!(gate.free(), 2);
}

/// Polls `future` once and returns whether the coroutine has woken itself then.
async fn woke_itself_after(future: impl Future<Output = ()>) -> bool {
    let mut future = pin!(future);
    poll_fn(|cx| {
        assert!(!woke_itself(), "a poll begins without a wake");
        let _ = future.as_mut().poll(cx);
        Poll::Ready(woke_itself())
    })
    .await
}

#[test]
fn a_coroutine_of_several_workers_knows_that_it_yields() {
    assert!(!woke_itself());
    let executor = SharedExecutor::new();
    let event = Arc::new(Event::new_in(&executor));
    let handle = executor.spawn(level(5), async move {
        assert!(woke_itself_after(yield_now()).await);
        // It was polled to the end, so that wake is pending.
        yield_now().await;
        assert!(!woke_itself_after(event.wait()).await);
        assert!(!woke_itself_after(async {}).await);
    });
    run(&executor);
    assert!(handle.unwrap().has_exited());
}

#[test]
fn a_coroutine_of_one_thread_knows_that_it_yields() {
    let executor = Executor::new();
    let handle = executor.spawn(level(5), async {
        assert!(woke_itself_after(yield_now()).await);
        yield_now().await;
        assert!(!woke_itself_after(std::future::pending()).await);
    });
    executor.run_until_idle();
    assert!(handle.unwrap().has_exited());
}
