//! Several workers (rules H1 to H10): what is deterministic, and by exact counts what is not.
//!
//! `shared_oracle.rs` has random scenes.
//!
//! A worker that steps inside a poll of another one stands for a second thread. So "while it runs
//! elsewhere" happens when the test says, and in an order that is known.

#![cfg(feature = "std")]

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Wake, Waker};
use std::thread::{self, Thread};

use crate::common::calls::Calls;
use crate::common::served::OnOneThread;
use crate::common::{level, times};
use corank::{
    Config, CoroutineId, JoinError, Levels, SharedExecutor, SharedHandle, SpawnError, State, Step,
    Worker, yield_now,
};

pub(crate) fn worker(executor: &SharedExecutor) -> Worker<'_> {
    executor.worker(Waker::noop().clone())
}

/// Returns an executor that is never dropped.
///
/// Coroutines that are left when a test ends refer to their executor.
fn eternal() -> &'static SharedExecutor {
    crate::common::forever(SharedExecutor::new())
}

fn levels(of: &[u8]) -> Levels {
    of.iter()
        .fold(Levels::NONE, |levels, &one| levels.with(level(one)))
}

async fn named(ask: impl Fn()) {
    ask();
    yield_now().await;
}

/// A watchdog of a worker learns what the worker polls, and only while it polls.
///
/// The level that it learns is the one that counts at this moment.
#[test]
fn a_poll_is_visible_to_a_watchdog() {
    let executor = eternal();
    let (busy, idle) = (worker(executor), worker(executor));
    let (busy_id, idle_id) = (busy.id(), idle.id());
    assert_ne!(busy_id, idle_id);
    let handle = executor.spawn_with(level(9), move || {
        named(move || {
            let ask = || executor.polling(busy_id);
            let seen = thread::scope(|scope| scope.spawn(ask).join()).unwrap();
            let seen = seen.expect("the worker polls this");
            assert_eq!(
                (Some(seen.id), seen.priority),
                (corank::current(), level(9))
            );
            assert!(seen.future.contains("shared::named"), "{}", seen.future);
            assert_eq!(executor.polling(idle_id), None);
            executor.reprioritize(seen.id, level(4));
            assert_eq!(executor.polling(busy_id).unwrap().priority, level(4));
        })
    });
    assert_eq!(executor.polling(busy_id), None);
    busy.run_until_idle();
    assert_eq!(executor.polling(busy_id), None);
    assert!(handle.unwrap().try_join().unwrap().is_ok());
}

/// Spawns a coroutine that runs `during` in its first poll and is ready in its second.
fn spawn_around(
    executor: &'static SharedExecutor,
    at: u8,
    during: impl FnOnce(&SharedExecutor) + 'static,
) -> (SharedHandle<()>, Rc<Cell<u32>>) {
    let (inside, polls) = (executor, Rc::new(Cell::new(0)));
    let (count, mut during) = (polls.clone(), Some(during));
    let future = poll_fn(move |_| {
        count.set(count.get() + 1);
        match during.take() {
            Some(during) => {
                during(inside);
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    });
    let handle = executor.spawn(level(at), OnOneThread(future)).unwrap();
    (handle, polls)
}

/// H2: the second worker gets what is most urgent of the rest.
///
/// H7: both levels are shown, and what is ready is what no worker serves.
#[test]
fn each_worker_picks_the_most_urgent_of_the_rest() {
    let executor = eternal();
    let order = Rc::new(RefCell::new(Vec::new()));
    let (outer, inner, seen) = (order.clone(), order.clone(), executor);
    drop(spawn_around(executor, 3, move |executor| {
        outer.borrow_mut().push(3);
        assert_eq!(worker(executor).step(), Step::Ran);
        outer.borrow_mut().push(33);
        assert_eq!(executor.published().running(), levels(&[3]));
    }));
    drop(spawn_around(executor, 9, |_| unreachable!("polled last")));
    drop(spawn_around(executor, 5, move |_| {
        inner.borrow_mut().push(5);
        assert_eq!(seen.published().running(), levels(&[3, 5]));
        assert_eq!(seen.ready(), levels(&[9]));
    }));
    assert_eq!(worker(executor).step(), Step::Ran);
    assert_eq!(*order.borrow(), [3, 5, 33]);
    assert!(executor.published().running().is_empty());
}

/// H3 with W3: a coroutine woken several times while it runs elsewhere is polled once more.
#[test]
fn a_wake_while_it_runs_elsewhere_is_kept_once() {
    let executor = eternal();
    let (handle, polls) = spawn_around(executor, 3, |executor| {
        assert_eq!(worker(executor).step(), Step::Ran, "the one that wakes");
    });
    let (id, inside) = (handle.id(), executor);
    drop(spawn_around(executor, 9, move |_| {
        assert_eq!(inside.state(id), Some(State::Running));
        assert!(inside.wake(id) && corank::wake(id));
        assert_eq!(worker(inside).step(), Step::Idle, "it is in no queue (O4)");
    }));
    let one = worker(executor);
    assert_eq!(one.step(), Step::Ran);
    assert_eq!((one.step(), polls.get()), (Step::Ran, 2));
    assert_eq!(one.step(), Step::Idle);
    assert!(handle.has_exited());
}

/// H4 with X2 and X3: a coroutine cancelled while it runs elsewhere ends with its poll.
///
/// The worker that runs it ends it.
#[test]
fn a_cancel_while_it_runs_elsewhere_waits_for_the_poll() {
    let executor = eternal();
    let drops = crate::common::Counter::new();
    let guard = drops.guard();
    let counted = drops.clone();
    let (handle, polls) = spawn_around(executor, 3, move |executor| {
        let _dropped_with_this = guard;
        assert_eq!(worker(executor).step(), Step::Ran);
        assert_eq!(counted.count(), 0);
    });
    let (id, inside) = (handle.id(), executor);
    drop(spawn_around(executor, 9, move |_| {
        assert!(inside.cancel(id));
        assert!(!inside.cancel(id), "X4");
        assert_eq!(inside.state(id), Some(State::Running));
    }));
    assert_eq!(worker(executor).step(), Step::Ran);
    assert_eq!((drops.count(), polls.get()), (1, 1));
    assert!(matches!(handle.try_join(), Ok(Err(JoinError::Cancelled))));
}

/// H5: the future of a coroutine that no worker runs is dropped by the caller that cancels.
///
/// For others the coroutine runs until that is done.
#[test]
fn a_cancelled_future_is_dropped_by_its_canceller() {
    struct Inspector(&'static SharedExecutor, Rc<Cell<Option<CoroutineId>>>);
    impl Drop for Inspector {
        fn drop(&mut self) {
            let id = self.1.get().unwrap();
            assert_eq!(self.0.state(id), Some(State::Running));
            assert!(!self.0.cancel(id));
            assert_eq!(worker(self.0).step(), Step::Ran, "others go on meanwhile");
        }
    }
    let executor = eternal();
    let id = Rc::new(Cell::new(None));
    let inspector = Inspector(executor, id.clone());
    let (handle, _) = spawn_around(executor, 3, move |_| drop(inspector));
    let (_other, polls) = spawn_around(executor, 9, |_| {});
    id.set(Some(handle.id()));
    assert!(executor.cancel(handle.id()));
    assert_eq!(polls.get(), 1);
    assert!(handle.has_exited());
}

/// H6 with R4: a coroutine re-prioritised while it runs elsewhere shows its new level at once.
#[test]
fn a_new_level_is_shown_while_it_runs_elsewhere() {
    let executor = eternal();
    let (handle, _) = spawn_around(executor, 3, |executor| {
        assert_eq!(worker(executor).step(), Step::Ran);
        assert_eq!(executor.published().running(), levels(&[7]));
    });
    let (id, inside) = (handle.id(), executor);
    drop(spawn_around(executor, 9, move |_| {
        assert!(inside.reprioritize(id, level(7)));
        assert_eq!(inside.published().running(), levels(&[7, 9]));
    }));
    assert_eq!(worker(executor).step(), Step::Ran);
}

/// H8: an idle worker is called when something is ready for which no worker was called.
///
/// It is called once, until it checks again.
#[test]
fn an_idle_worker_is_called_once() {
    let executor = eternal();
    let calls = [(); 2].map(|()| Arc::new(Calls::default()));
    let workers = [&calls[0], &calls[1]].map(|calls| executor.worker(calls.clone().into()));
    let taken = || [calls[0].take(), calls[1].take()];
    drop(spawn_around(executor, 3, |_| {}));
    assert_eq!(taken(), [0, 0], "no worker is idle");
    assert_eq!(workers[0].run_until_idle(), 1);
    assert_eq!(workers[1].run_until_idle(), 0);
    drop(spawn_around(executor, 3, |_| {}));
    drop(spawn_around(executor, 3, |_| {}));
    let (first, second) = (taken(), taken());
    assert_eq!(
        (first, second),
        ([1, 1], [0, 0]),
        "one for each that is ready"
    );
    drop(spawn_around(executor, 3, |_| {}));
    assert_eq!(taken(), [0, 0], "both know already");
    assert_eq!(workers[0].run_until_idle(), 3);
    assert_eq!(workers[1].step(), Step::Idle);
    drop(workers);
    drop(spawn_around(executor, 3, |_| {}));
    assert_eq!(taken(), [0, 0], "workers that have left are not called");
}

/// H8: a worker that collects events calls no worker for what it finds, because it will poll that.
///
/// It passes the call on when it finds more than it takes.
#[test]
fn a_worker_that_suppresses_wakes_until_it_has_checked() {
    let executor = eternal();
    let calls = Arc::new(Calls::default());
    let (first, second) = (worker(executor), executor.worker(calls.clone().into()));
    let during = |expected: usize| {
        let calls = calls.clone();
        move |_: &SharedExecutor| assert_eq!(calls.take(), expected)
    };
    assert_eq!([first.step(), second.step()], [Step::Idle; 2]);
    first.within(|| drop(spawn_around(executor, 3, during(0))));
    assert_eq!(calls.take(), 0, "a call is already pending");
    assert_eq!(first.run_until_idle(), 1);
    first.within(|| {
        drop(spawn_around(executor, 3, during(1)));
        drop(spawn_around(executor, 4, during(0)));
    });
    assert_eq!(calls.take(), 0, "a call is already pending");
    // The other one is called before the first of the two is polled.
    assert_eq!(first.run_until_idle(), 2);
}

/// H8: a worker with short polls calls no worker for what they make ready, because it will poll
/// that.
///
/// It passes the call on when it leaves something behind for the second poll in a row.
#[test]
fn short_polls_call_when_work_is_left_over_twice() {
    let executor = eternal();
    let calls = Arc::new(Calls::default());
    let (first, second) = (worker(executor), executor.worker(calls.clone().into()));
    assert_eq!([first.step(), second.step()], [Step::Idle; 2]);
    first.set_short_polls(true);
    // Returns how often the other one was called before each of so many was polled.
    let calls_before = |ready: usize| {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (noted, calls) = (seen.clone(), calls.clone());
        let makes = move |_: &SharedExecutor| {
            for at in 0..ready {
                let (noted, calls) = (noted.clone(), calls.clone());
                let note = move |_: &SharedExecutor| noted.lock().unwrap().push(calls.take());
                drop(spawn_around(executor, 10 + at as u8, note));
            }
            assert_eq!(calls.take(), 0, "its poll ends soon");
        };
        first.within(|| drop(spawn_around(executor, 3, makes)));
        assert_eq!(first.run_until_idle(), 1 + ready as u64);
        assert_eq!(second.step(), Step::Idle);
        let seen = seen.lock().unwrap();
        seen.clone()
    };
    assert_eq!(calls_before(1), [0], "it took all that there was");
    assert_eq!(
        calls_before(2),
        [0, 0],
        "a call to the other worker is pending"
    );
    assert_eq!(calls_before(4), [0, 1, 0, 0], "once, until that one checks");
    assert_eq!(calls_before(2), [0, 0], "it begins anew");
}

/// H8: a poll that turns out to last calls others for what it has made ready.
#[test]
fn a_poll_that_is_short_no_longer_calls() {
    let executor = eternal();
    let calls = Arc::new(Calls::default());
    let first: &'static Worker<'static> = crate::common::forever(worker(executor));
    let second = executor.worker(calls.clone().into());
    assert_eq!([first.step(), second.step()], [Step::Idle; 2]);
    first.set_short_polls(true);
    let noted = calls.clone();
    let lasts = move |_: &SharedExecutor| {
        drop(spawn_around(executor, 10, |_| {}));
        assert_eq!(noted.take(), 0);
        first.set_short_polls(false);
        assert_eq!(noted.take(), 1, "this worker goes on");
        // And for what comes from now on, at once. But the other one knows already.
        drop(spawn_around(executor, 11, |_| {}));
        assert_eq!(noted.take(), 0);
        assert_eq!(second.step(), Step::Ran);
        assert_eq!(second.run_until_idle(), 1);
        drop(spawn_around(executor, 12, |_| {}));
        assert_eq!(noted.take(), 1);
        first.set_short_polls(true);
    };
    first.within(|| drop(spawn_around(executor, 3, lasts)));
    assert_eq!(first.run_until_idle(), 2);
}

/// H8: what a worker asks of a coroutine by its [`Remote`](corank::Remote) is done at once.
///
/// It calls no other worker, because this one will poll the coroutine.
#[test]
fn a_remote_where_its_executor_runs_acts_at_once() {
    let executor = eternal();
    let calls = Arc::new(Calls::default());
    let first: &'static Worker<'static> = crate::common::forever(worker(executor));
    let second = executor.worker(calls.clone().into());
    let sleeper = executor.spawn(level(9), std::future::pending::<()>());
    let sleeper = sleeper.unwrap();
    let (id, remote) = (sleeper.id(), sleeper.remote());
    let all_idle = || {
        first.run_until_idle();
        assert_eq!([first.step(), second.step()], [Step::Idle; 2]);
        calls.take();
    };
    all_idle();
    assert!(remote.wake());
    assert_eq!(
        calls.take(),
        1,
        "from outside: the one that sleeps is called"
    );
    all_idle();
    first.within(|| {
        assert!(remote.reprioritize(level(8)) && remote.wake());
        assert_eq!(executor.base_priority(id), Some(level(8)));
        assert_eq!(executor.state(id), Some(State::Ready));
    });
    assert_eq!(calls.take(), 0, "a call is already pending");
    assert_eq!(first.run_until_idle(), 1);
    all_idle();
    first.set_short_polls(true);
    let (noted, sent) = (calls.clone(), remote.clone());
    let lasts = move |_: &SharedExecutor| {
        assert!(sent.wake());
        assert_eq!(noted.take(), 0, "its poll ends soon");
        first.set_short_polls(false);
        assert_eq!(noted.take(), 1, "it does not");
    };
    first.within(|| drop(spawn_around(executor, 3, lasts)));
    assert_eq!(first.run_until_idle(), 2);
    drop(sleeper);
    first.within(|| assert!(remote.cancel()));
    first.run_until_idle();
    first.within(|| assert!(!remote.wake() && !remote.reprioritize(level(7))));
}

/// The last of several requested priorities counts, wherever they come from.
#[test]
fn the_last_priority_counts_wherever_it_comes_from() {
    let executor = eternal();
    let first = worker(executor);
    let sleeper = executor.spawn(level(9), std::future::pending::<()>());
    let sleeper = sleeper.unwrap();
    let (id, remote) = (sleeper.id(), sleeper.remote());
    first.run_until_idle();
    first.within(|| {
        thread::scope(|scope| {
            scope.spawn(|| assert!(remote.reprioritize(level(5))));
        });
        assert!(remote.reprioritize(level(3)));
    });
    first.run_until_idle();
    assert_eq!(executor.base_priority(id), Some(level(3)));
}

/// Callers that spin for long on the scheduler lock run the platform's relax hook.
///
/// They do so as long as a worker has the scheduler and does not go on.
#[test]
fn a_long_spin_calls_the_relax_hook() {
    static RELAXED: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn relax() {
        RELAXED.fetch_add(1, Ordering::Relaxed);
    }
    let executor = SharedExecutor::with(Config::new().relax(relax));
    assert_eq!(executor.live(), 0);
    assert_eq!(RELAXED.load(Ordering::Relaxed), 0, "nothing waited");
    let (holds, is_held) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            // The others wait while this makes a future.
            let spawned = executor.spawn_with(level(0), || {
                holds.send(()).unwrap();
                while RELAXED.load(Ordering::Relaxed) < 3 {
                    thread::yield_now();
                }
                async {}
            });
            drop(spawned.unwrap());
        });
        is_held.recv().unwrap();
        assert_eq!(executor.live(), 1);
    });
}

/// A closed executor spawns nothing.
///
/// What blocked or was ready has exited, and what runs exits when its poll ends.
#[test]
fn closing_cancels_everything() {
    let executor = eternal();
    let (blocked, polls) = spawn_around(executor, 3, |_| {});
    assert_eq!(worker(executor).step(), Step::Ran);
    let (running, _) = spawn_around(executor, 5, move |executor| {
        executor.close();
        assert!(blocked.has_exited());
        drop(blocked);
        assert_eq!(executor.live(), 1);
    });
    let (ready, never) = spawn_around(executor, 9, |_| unreachable!("it is cancelled"));
    assert_eq!(worker(executor).run_until_idle(), 1);
    assert_eq!((polls.get(), never.get()), (1, 0));
    assert_eq!(executor.live(), 0);
    for handle in [running, ready] {
        assert!(matches!(handle.try_join(), Ok(Err(JoinError::Cancelled))));
    }
    let refused = executor.spawn(level(3), async {});
    assert_eq!(refused.err(), Some(SpawnError::Closed));
}

/// A coroutine that wakes itself is ready when its poll ends, once.
///
/// That also holds when another coroutine was polled from the same place meanwhile and did the
/// same.
#[test]
fn a_coroutine_that_wakes_itself_is_polled_once_more() {
    let executor = eternal();
    let worker = Rc::new(worker(executor));
    let polls = Rc::new(RefCell::new(Vec::new()));
    // The one polls the other from the same place; the other wakes itself twice.
    let wakes_itself = |name: &'static str, around: Option<Rc<Worker<'static>>>| {
        let (polls, mut first) = (polls.clone(), true);
        OnOneThread(poll_fn(move |cx| {
            polls.borrow_mut().push(name);
            if std::mem::take(&mut first) {
                cx.waker().wake_by_ref();
                match &around {
                    Some(worker) => assert_eq!(worker.step(), Step::Ran),
                    None => cx.waker().wake_by_ref(),
                }
            }
            Poll::<()>::Pending
        }))
    };
    let outer = executor.spawn(level(1), wakes_itself("outer", Some(worker.clone())));
    let inner = executor.spawn(level(2), wakes_itself("inner", None));
    assert_eq!(worker.step(), Step::Ran);
    assert_eq!(*polls.borrow(), ["outer", "inner"]);
    assert_eq!(executor.ready(), levels(&[1, 2]));
    assert_eq!(worker.run_until_idle(), 2);
    assert_eq!(*polls.borrow(), ["outer", "inner", "outer", "inner"]);
    for handle in [outer, inner] {
        // It holds the worker.
        assert!(executor.cancel(handle.unwrap().id()));
    }
}

/// A coroutine that woke itself and then panicked leaves no wake behind.
///
/// The next one in its place waits as usual.
#[test]
fn a_coroutine_that_wakes_itself_and_panics_wakes_nothing() {
    let executor = SharedExecutor::new();
    let worker = worker(&executor);
    let panics = executor.spawn(
        level(1),
        poll_fn(|cx| -> Poll<()> {
            cx.waker().wake_by_ref();
            std::panic::resume_unwind(Box::new("on purpose"));
        }),
    );
    let panics = panics.unwrap();
    let before = panics.id();
    assert_eq!(worker.run_until_idle(), 1);
    assert!(matches!(panics.try_join(), Ok(Err(JoinError::Panicked(_)))));
    let waits = executor.spawn(level(1), poll_fn(|_| Poll::<()>::Pending));
    let waits = waits.unwrap();
    let place = |id: CoroutineId| id.to_bits() as u32;
    assert_eq!(place(waits.id()), place(before), "the slot was used again");
    assert_eq!(worker.run_until_idle(), 1);
    assert_eq!(executor.state(waits.id()), Some(State::Blocked));
}

/// H9: with no idle worker, the worker that polls the least urgent is called if it can be
/// interrupted.
///
/// What waits must be strictly more urgent.
#[test]
fn the_least_urgent_worker_is_interrupted() {
    let executor = eternal();
    let calls: Vec<_> = (0..3).map(|_| Arc::new(Calls::default())).collect();
    let taken = {
        let calls = calls.clone();
        move || calls.iter().map(|calls| calls.take()).collect::<Vec<_>>()
    };
    let (theirs, deeper) = (executor, executor);
    let (inner, innermost) = (calls[1].clone(), calls[2].clone());
    drop(spawn_around(executor, 20, move |_| {
        let second = theirs.worker(inner.into());
        second.set_interruptible(true);
        assert_eq!(second.step(), Step::Ran);
    }));
    drop(spawn_around(executor, 40, move |_| {
        // This one cannot be interrupted.
        let third = deeper.worker(innermost.into());
        let (last, asked) = (deeper, taken);
        drop(spawn_around(deeper, 60, move |_| {
            assert_eq!(asked(), [0, 0, 0]);
            drop(spawn_around(last, 40, |_| {}));
            assert_eq!(asked(), [0, 0, 0], "as urgent is not more urgent");
            drop(spawn_around(last, 39, |_| {}));
            assert_eq!(asked(), [0, 1, 0], "40 is less urgent than 20");
            drop(spawn_around(last, 10, |_| {}));
            assert_eq!(asked(), [1, 0, 0], "the next: it has not checked yet");
        }));
        assert_eq!(third.step(), Step::Ran);
    }));
    let first = executor.worker(calls[0].clone().into());
    first.set_interruptible(true);
    assert_eq!(first.step(), Step::Ran);
}

/// What one worker took from the inbox is visible to all workers.
///
/// While it drops a cancelled future, others see the rest.
#[test]
fn the_rest_of_the_inbox_does_not_wait() {
    struct Inspector(&'static SharedExecutor, Rc<Cell<bool>>);
    impl Drop for Inspector {
        fn drop(&mut self) {
            assert_eq!(worker(self.0).step(), Step::Ran);
            self.1.set(true);
        }
    }
    let executor = eternal();
    let (looked, (woken, polls)) = (Rc::default(), spawn_around(executor, 9, |_| {}));
    assert_eq!(worker(executor).step(), Step::Ran);
    let inspector = Inspector(executor, Rc::clone(&looked));
    let (cancelled, _) = spawn_around(executor, 3, move |_| drop(inspector));
    assert!(cancelled.remote().cancel() && woken.remote().wake());
    assert_eq!(worker(executor).step(), Step::Idle);
    assert!(looked.get());
    assert_eq!(polls.get(), 2);
}

/// A coroutine that any worker may run spawns nothing without `Send`.
#[test]
fn spawn_requires_send() {
    let executor = SharedExecutor::new();
    let tried = executor
        .spawn(level(3), async { corank::spawn(level(3), async {}).err() })
        .unwrap();
    worker(&executor).run_until_idle();
    assert_eq!(tried.try_join().unwrap().unwrap(), Some(SpawnError::Shared));
}

/// A panic ends one coroutine, whichever worker runs it.
///
/// The scheduler lock is free again.
#[test]
fn a_panic_ends_alone() {
    let executor = SharedExecutor::new();
    let bad = executor
        .spawn(level(3), async {
            std::panic::resume_unwind(Box::new("on purpose"))
        })
        .unwrap();
    let good = executor.spawn(level(9), async { 1 }).unwrap();
    assert_eq!(worker(&executor).run_until_idle(), 2);
    let bad: Result<(), JoinError> = bad.try_join().unwrap();
    assert!(matches!(bad, Err(JoinError::Panicked(_))));
    assert_eq!(good.try_join().unwrap().unwrap(), 1);
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Threads poll every coroutine as often as they must, and every output is joined once.
#[test]
fn threads_poll_everything_exactly() {
    const THREADS: usize = 3;
    const COROUTINES: usize = times(300);
    let executor = Arc::new(SharedExecutor::new());
    let polls = Arc::new(AtomicUsize::new(0));
    let handles: Vec<_> = (0..COROUTINES)
        .map(|number| {
            let (polls, theirs) = (polls.clone(), executor.clone());
            let future = async move {
                for _ in 0..number % 7 {
                    polls.fetch_add(1, Ordering::Relaxed);
                    yield_now().await;
                }
                // Joined across workers, with priority inheritance.
                let at = level((number * 5 % 64) as u8);
                let child = theirs.spawn(at, async move { number }).unwrap();
                child.await.unwrap()
            };
            executor.spawn(level((number % 64) as u8), future).unwrap()
        })
        .collect();
    let asleep = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let thread = thread::current();
                asleep.lock().unwrap().push(thread.clone());
                let worker = executor.worker(Arc::new(Unpark(thread)).into());
                while executor.live() > 0 {
                    if worker.step() == Step::Idle && executor.live() > 0 {
                        thread::park();
                    }
                }
                // No worker is called when nothing is ready: the others may sleep.
                for thread in &*asleep.lock().unwrap() {
                    thread.unpark();
                }
            });
        }
    });
    let sum: usize = handles
        .into_iter()
        .map(|handle| handle.try_join().unwrap().unwrap())
        .sum();
    assert_eq!(sum, COROUTINES * (COROUTINES - 1) / 2);
    let yields: usize = (0..COROUTINES).map(|number| number % 7).sum();
    assert_eq!(polls.load(Ordering::Relaxed), yields);
    assert!(executor.published().urgency().is_empty());
}
