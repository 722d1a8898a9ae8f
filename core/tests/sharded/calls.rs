//! Which sleeping worker is called, and when (rules H17 and H10).

use super::*;

/// Makes a coroutine of shard 0 that has waited once, and that runs when `worker` steps next.
///
/// No worker is called for it.
fn spawn_quietly(
    executor: &ShardedExecutor,
    worker: &ShardWorker<'_>,
    body: impl Future<Output = ()> + Send + 'static,
) -> impl Fn() {
    let mut has_waited = false;
    let handle = executor.spawn_on(0, level(5), async move {
        poll_fn(|_| match std::mem::replace(&mut has_waited, true) {
            false => Poll::Pending,
            true => Poll::Ready(()),
        })
        .await;
        body.await;
    });
    let id = handle.unwrap().id();
    assert_eq!(worker.step(), Step::Ran);
    move || assert!(worker.within(|| executor.wake(id)))
}

/// H17: a worker that sleeps is called for what another shard's worker does not take at once.
///
/// One that comes passes the call on if more is left.
#[test]
fn workers_that_sleep_are_called_one_after_the_other() {
    let executor = executor(3);
    let (one, log) = (worker(executor, 0), Log::default());
    let ((two, second), (three, third)) = (called(executor, 1), called(executor, 2));
    let sleeping = forever(std::sync::Mutex::new(Some((two, three))));
    let workers: &std::sync::Mutex<_> = sleeping;
    let (second, third): (&Calls, &Calls) = (forever(second), forever(third));
    let inner = log.clone();
    let body = async move {
        assert_eq!((second.take(), third.take()), (0, 0));
        spawn(executor, 0, 5, inner.note("a"));
        assert_eq!((second.take(), third.take()), (1, 0));
        spawn(executor, 0, 5, inner.note("b"));
        spawn(executor, 0, 5, inner.note("c"));
        assert_eq!((second.take(), third.take()), (0, 0), "one is coming");
        let (two, three) = workers.lock().unwrap().take().unwrap();
        assert_eq!(two.step(), Step::Ran);
        assert_eq!((second.take(), third.take()), (0, 1), "there is more");
        assert_eq!(three.run_until_idle(), 2);
        assert_eq!((second.take(), third.take()), (0, 0));
        drop((two, three));
    };
    let wake = spawn_quietly(executor, &one, body);
    {
        let workers = workers.lock().unwrap();
        let (two, three) = workers.as_ref().unwrap();
        assert_eq!((two.step(), three.step()), (Step::Idle, Step::Idle));
    }
    let _ = (second.take(), third.take());
    wake();
    assert_eq!(one.step(), Step::Ran);
    assert_eq!(log.take(), ["a", "b", "c"]);
    assert_eq!(executor.live(), 0);
}

/// H17: a worker that is called for more than it takes calls the next one when it begins.
#[test]
fn a_worker_that_comes_passes_the_call_on() {
    let executor = executor(3);
    let one = worker(executor, 0);
    let ((two, second), (three, third)) = (called(executor, 1), called(executor, 2));
    let wakes = [(); 2].map(|()| spawn_quietly(executor, &one, async {}));
    assert_eq!((two.step(), three.step()), (Step::Idle, Step::Idle));
    let _ = (second.take(), third.take());
    for wake in wakes {
        wake();
    }
    assert_eq!((second.take(), third.take()), (0, 0));
    assert_eq!(three.step(), Step::Ran);
    assert_eq!((second.take(), third.take()), (1, 0));
    assert_eq!(two.step(), Step::Ran);
    assert_eq!(executor.live(), 0);
}

/// H17: a worker with short polls takes what is ready in its shard by itself, and calls no other.
///
/// When a poll turns out to last, or the worker goes to another shard, others come.
#[test]
fn a_worker_with_short_polls_calls_no_other() {
    let executor = executor(2);
    let one = worker(executor, 0);
    one.set_short_polls(true);
    let (two, calls) = called(executor, 1);
    let two: &'static std::sync::Mutex<ShardWorker<'_>> = forever(std::sync::Mutex::new(two));
    let calls: &Calls = forever(calls);
    assert_eq!(two.lock().unwrap().step(), Step::Idle);
    let log = Log::default();
    let inner = log.clone();
    spawn(executor, 0, 5, async move {
        spawn(executor, 0, 3, inner.note("short"));
        assert_eq!(calls.take(), 0);
        assert_eq!(
            two.lock().unwrap().step(),
            Step::Idle,
            "it has nothing to do"
        );
        executor.note_long_poll(0);
        assert_eq!(calls.take(), 1);
        assert_eq!(two.lock().unwrap().step(), Step::Ran);
        assert_eq!(inner.take(), ["short"]);
        assert_eq!(two.lock().unwrap().step(), Step::Idle);
    });
    assert_eq!(calls.take(), 0);
    assert_eq!(one.step(), Step::Ran);
}

/// H16, H17: short polls do not keep a worker away that has only something less urgent.
#[test]
fn short_polls_hold_up_no_worker_with_something_less_urgent() {
    let (executor, log) = (executor(2), Log::default());
    let (one, two) = (worker(executor, 0), worker(executor, 1));
    one.set_short_polls(true);
    spawn(executor, 0, 3, log.note("urgent"));
    spawn(executor, 1, 9, log.note("own"));
    assert_eq!(two.run_until_idle(), 2);
    assert_eq!(log.take(), ["urgent", "own"]);
}

/// H8: the worker of a shard is called for its own shard, whatever thread wakes something there.
#[test]
fn the_own_worker_is_called_first() {
    let executor = executor(2);
    let ((one, first), (two, second)) = (called(executor, 0), called(executor, 1));
    assert_eq!((one.step(), two.step()), (Step::Idle, Step::Idle));
    thread::scope(|scope| {
        scope.spawn(|| drop(spawn(executor, 1, 5, async {})));
    });
    assert_eq!((first.take(), second.take()), (0, 1));
    assert_eq!(two.step(), Step::Ran);
}

/// H17: a worker that leaves was perhaps called: another one is called for what is left.
#[test]
fn a_worker_that_leaves_passes_its_call_on() {
    let executor = executor(2);
    let ((one, first), (two, second)) = (called(executor, 0), called(executor, 1));
    assert_eq!((one.step(), two.step()), (Step::Idle, Step::Idle));
    spawn(executor, 1, 5, async {});
    assert_eq!((first.take(), second.take()), (0, 1));
    drop(two);
    assert_eq!(first.take(), 1);
    assert_eq!(one.run_until_idle(), 1);
}

/// H10: a worker that sleeps is called when another shard sets a timer that is due earlier.
#[test]
fn an_earlier_deadline_of_another_shard_calls_a_worker() {
    let executor = executor(2);
    let one = worker(executor, 0);
    let (two, calls) = called(executor, 1);
    for (deadline, called) in [(10, 1), (20, 0), (5, 1)] {
        let wake = spawn_quietly(executor, &one, sleep_until(deadline));
        assert_eq!(two.step(), Step::Idle);
        calls.take();
        wake();
        assert_eq!(one.step(), Step::Ran);
        assert_eq!(calls.take(), called, "{deadline}");
    }
    assert_eq!(executor.next_deadline(), Some(5));
    assert_eq!(executor.advance(10), 2);
    assert_eq!(one.run_until_idle(), 2);
    assert_eq!(executor.next_deadline(), Some(20));
}
