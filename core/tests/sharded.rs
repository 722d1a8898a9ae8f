//! Several shards (rules H15 to H18): which shard a worker serves, when it is called, and what
//! works across shards.
//!
//! As in `shared.rs`, a worker that steps inside a poll of another one stands for a second thread.

#![cfg(all(feature = "std", target_has_atomic = "64"))]

use std::future::{pending, poll_fn};
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use crate::common::asserts::on_purpose;
use crate::common::{forever, level, times};
use corank::workers::{Channel, Event, Mutex, Shared, sleep_until};
use corank::{
    Config, Demotion, JoinError, Levels, Priority, ShardWorker, ShardedExecutor, SharedExecutor,
    SharedHandle, SpawnError, State, Step, SystemView, yield_now,
};

fn executor(shards: usize) -> &'static ShardedExecutor {
    forever(ShardedExecutor::new(shards))
}

/// Returns the worker of a shard, which is called in vain.
fn worker(executor: &ShardedExecutor, shard: usize) -> ShardWorker<'_> {
    executor.worker(shard, Waker::noop().clone())
}

/// A log of what was polled.
#[derive(Clone, Default)]
struct Log(Arc<std::sync::Mutex<Vec<&'static str>>>);

impl Log {
    fn note(&self, what: &'static str) -> impl Future<Output = ()> + Send + use<> {
        let log = self.clone();
        async move { log.0.lock().unwrap().push(what) }
    }

    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn spawn(
    executor: &ShardedExecutor,
    shard: usize,
    at: u8,
    body: impl Future<Output = ()> + Send + 'static,
) -> SharedHandle<()> {
    executor.spawn_on(shard, level(at), body).unwrap()
}

/// A waker that counts calls.
#[derive(Default)]
struct Calls(AtomicUsize);

impl Calls {
    fn take(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn called(executor: &ShardedExecutor, shard: usize) -> (ShardWorker<'_>, Arc<Calls>) {
    let calls = Arc::new(Calls::default());
    (executor.worker(shard, Waker::from(calls.clone())), calls)
}

/// H16: before each pick a worker goes to the shard that has something strictly more urgent.
///
/// There it takes nothing that is not more urgent than what its own shard has.
#[test]
fn a_worker_goes_where_something_is_more_urgent() {
    let (executor, log) = (executor(3), Log::default());
    let one = worker(executor, 0);
    spawn(executor, 0, 5, log.note("own 5"));
    spawn(executor, 0, 5, log.note("own 5 again"));
    spawn(executor, 1, 9, log.note("other 9"));
    spawn(executor, 1, 3, log.note("other 3"));
    spawn(executor, 2, 1, log.note("third 1"));
    spawn(executor, 2, 5, log.note("third 5"));
    assert_eq!(
        executor.shown(),
        Levels::NONE
            .with(level(1))
            .with(level(3))
            .with(level(5))
            .with(level(9))
    );
    assert_eq!(one.run_until_idle(), 6);
    assert_eq!(
        log.take(),
        [
            "third 1",
            "other 3",
            "own 5",
            "own 5 again",
            "third 5",
            "other 9"
        ]
    );
    assert_eq!(executor.shown(), Levels::NONE);
    assert_eq!(executor.live(), 0);
}

/// H16: at equal urgency a worker stays in its shard.
#[test]
fn a_worker_stays_at_equal_urgency() {
    let (executor, log) = (executor(2), Log::default());
    let (one, two) = (worker(executor, 0), worker(executor, 1));
    spawn(executor, 0, 5, log.note("first"));
    spawn(executor, 1, 5, log.note("second"));
    assert_eq!(two.step(), Step::Ran);
    assert_eq!(log.take(), ["second"]);
    assert_eq!(one.step(), Step::Ran);
    assert_eq!(log.take(), ["first"]);
    assert_eq!((one.step(), two.step()), (Step::Idle, Step::Idle));
}

/// H16: an urgent level that is gone from its shard leaves the union, and costs no pick.
#[test]
fn a_level_that_is_gone_holds_up_nothing() {
    let (executor, log) = (executor(2), Log::default());
    let (one, two) = (worker(executor, 0), worker(executor, 1));
    for _ in 0..3 {
        spawn(executor, 1, 1, log.note("urgent"));
        assert_eq!(two.step(), Step::Ran);
        spawn(executor, 0, 9, log.note("own"));
        assert_eq!(one.step(), Step::Ran);
        assert_eq!(log.take(), ["urgent", "own"]);
    }
}

/// H16: while a worker polls in another shard, that is a poll of the other shard like any other.
#[test]
fn a_poll_in_another_shard_belongs_to_that_shard() {
    let executor = executor(2);
    let one = worker(executor, 0);
    let there = executor.spawn_on(1, level(3), async move {
        let me = corank::current().unwrap();
        assert_eq!(executor.here(), Some(1));
        assert_eq!(executor.state(me), Some(State::Running));
        assert!(
            executor.shards()[1]
                .published()
                .running()
                .contains(level(3))
        );
        assert!(executor.shards()[0].published().running().is_empty());
        assert!(executor.reprioritize(me, level(7)));
        assert!(
            executor.shards()[1]
                .published()
                .running()
                .contains(level(7))
        );
        yield_now().await;
        assert!(executor.cancel(me));
        pending::<()>().await;
    });
    assert_eq!(one.run_until_idle(), 2);
    assert!(matches!(
        there.unwrap().try_join(),
        Ok(Err(JoinError::Cancelled))
    ));
    assert_eq!(executor.here(), None);
}

/// F1: a coroutine that panics in another shard's worker ends alone.
#[test]
fn a_panic_in_another_shard_ends_its_coroutine() {
    let (executor, log) = (executor(2), Log::default());
    let one = worker(executor, 0);
    let bad = executor.spawn_on(1, level(1), async { std::panic::panic_any("on purpose") });
    spawn(executor, 1, 2, log.note("next"));
    spawn(executor, 0, 9, log.note("own"));
    on_purpose(|| assert_eq!(one.run_until_idle(), 3));
    let bad: Result<(), _> = bad.unwrap().try_join().unwrap();
    assert!(matches!(bad, Err(JoinError::Panicked(_))));
    assert_eq!(log.take(), ["next", "own"]);
}

/// A view that panics leaves the worker usable, also while it is in another shard.
#[test]
fn a_view_that_panics_leaves_the_shards_usable() {
    struct Panics(AtomicUsize);
    impl SystemView for Panics {
        fn most_urgent_elsewhere(&self) -> Option<Priority> {
            // The first call is in its own shard, the second one in the other shard.
            assert_ne!(self.0.fetch_add(1, Ordering::Relaxed), 1, "on purpose");
            None
        }
    }
    let (executor, log) = (executor(2), Log::default());
    let one = worker(executor, 0);
    spawn(executor, 1, 1, log.note("other"));
    spawn(executor, 0, 9, log.note("own"));
    let panics = Panics(AtomicUsize::new(0));
    on_purpose(|| {
        let run = std::panic::AssertUnwindSafe(|| one.run_some(&panics, 9));
        assert!(catch_unwind(run).is_err());
    });
    assert_eq!(one.run_until_idle(), 2);
    assert_eq!(log.take(), ["other", "own"]);
}

/// G3: what is more urgent outside of all shards comes first, and between two polls of one call.
#[test]
fn the_system_comes_before_all_shards() {
    struct View(Option<Priority>);
    impl SystemView for View {
        fn most_urgent_elsewhere(&self) -> Option<Priority> {
            self.0
        }
    }
    let (executor, log) = (executor(2), Log::default());
    let one = worker(executor, 0);
    spawn(executor, 1, 3, log.note("other"));
    spawn(executor, 0, 9, log.note("own"));
    let view = |at| View(Some(level(at)));
    assert_eq!(one.run_some(&view(2), 9), (Step::Elsewhere, 0));
    assert_eq!(one.run_some(&view(5), 9), (Step::Elsewhere, 1));
    assert_eq!(log.take(), ["other"]);
    assert_eq!(one.run_some(&view(9), 9), (Step::Idle, 1));
    spawn(executor, 1, 3, log.note("other"));
    assert_eq!(one.run_some(&view(2), 9), (Step::Elsewhere, 0));
    assert_eq!(one.run_some(&view(3), 9), (Step::Idle, 1));
}

/// B2, B7: picks in another shard are strict and not counted, and what was demoted is found there.
#[test]
fn a_worker_from_another_shard_finds_what_was_demoted() {
    let config = |_| Config::new().demotion(Demotion::after_polls(1).levels(10));
    let executor: &ShardedExecutor = forever(ShardedExecutor::with(2, config));
    let log = Log::default();
    let computes = |name| {
        let note = log.note(name);
        async move {
            yield_now().await;
            yield_now().await;
            note.await;
        }
    };
    spawn(executor, 1, 3, computes("one"));
    spawn(executor, 1, 3, computes("two"));
    let own = worker(executor, 0);
    assert_eq!(own.run_until_idle(), 6);
    assert_eq!(log.take(), ["one", "two"]);
    assert_eq!(executor.live(), 0);
}

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

/// C2, C3: an identifier names its shard, for ever.
#[test]
fn an_identifier_names_its_shard() {
    let executor = executor(3);
    let workers = [0, 1, 2].map(|shard| worker(executor, shard));
    let mut seen = Vec::new();
    for _ in 0..3 {
        let handles = [0, 1, 2].map(|shard| {
            let handle = spawn(executor, shard, 5, pending());
            let own: *const SharedExecutor = &executor.shards()[shard];
            assert!(std::ptr::eq(executor.shard_of(handle.id()).unwrap(), own));
            handle
        });
        for (shard, handle) in handles.iter().enumerate() {
            let id = handle.id();
            assert!(!seen.contains(&id));
            seen.push(id);
            for (other, executor) in executor.shards().iter().enumerate() {
                assert_eq!(executor.state(id).is_some(), other == shard);
            }
            assert_eq!(executor.priority(id), Some(level(5)));
            assert!(executor.reprioritize(id, level(6)));
            assert_eq!(executor.base_priority(id), Some(level(6)));
            assert!(executor.cancel(id));
            assert!(!executor.wake(id));
        }
    }
    assert_eq!(workers.map(|worker| worker.run_until_idle()), [0; 3]);
    let nowhere = corank::CoroutineId::from_bits(u64::MAX);
    assert!(executor.shard_of(nowhere).is_none() && !executor.cancel(nowhere));
}

/// What is spawned from elsewhere goes to each shard in turn.
#[test]
fn spawns_from_elsewhere_go_round() {
    let executor = executor(3);
    for _ in 0..6 {
        drop(executor.spawn(level(5), pending::<()>()).unwrap());
    }
    let live: Vec<_> = executor.shards().iter().map(SharedExecutor::live).collect();
    assert_eq!(live, [2, 2, 2]);
}

/// H15: a coroutine spawns on its own shard, until that has many more coroutines than another one.
#[test]
fn a_coroutine_spawns_on_its_shard_until_that_is_fuller() {
    let executor = executor(2);
    let live = || [0, 1].map(|shard| executor.shards()[shard].live());
    spawn(executor, 0, 5, async move {
        for _ in 0..16 {
            drop(executor.spawn(level(6), pending::<()>()).unwrap());
        }
        assert_eq!(live(), [17, 0]);
        for _ in 0..16 {
            drop(executor.spawn(level(6), pending::<()>()).unwrap());
        }
        assert_eq!(live(), [17, 16], "so many in a row");
        for _ in 0..15 {
            drop(executor.spawn(level(6), pending::<()>()).unwrap());
        }
        assert_eq!(live(), [32, 16]);
        drop(executor.spawn(level(6), pending::<()>()).unwrap());
        drop(executor.spawn(level(6), pending::<()>()).unwrap());
        assert_eq!(live(), [33, 17]);
    });
    assert_eq!(worker(executor, 0).step(), Step::Ran);
}

/// C5, C6: a table that is full leaves the coroutine to another shard.
#[test]
fn a_full_table_leaves_a_spawn_to_another_shard() {
    let config = |shard| Config::new().capacity(2 - shard);
    let executor = ShardedExecutor::with(2, config);
    let spawn = || executor.spawn(level(5), pending::<()>());
    for _ in 0..3 {
        drop(spawn().unwrap());
    }
    assert!(matches!(spawn(), Err(SpawnError::TableFull)));
    assert_eq!(executor.live(), 3);
    executor.close();
    assert_eq!(executor.live(), 0);
    assert!(matches!(spawn(), Err(SpawnError::Closed)));
}

#[test]
fn the_number_of_shards_has_limits() {
    for shards in [0, 65] {
        on_purpose(|| assert!(catch_unwind(|| ShardedExecutor::new(shards)).is_err()));
    }
    assert_eq!(ShardedExecutor::new(64).shards().len(), 64);
    let alone = ShardedExecutor::new(1);
    drop(alone.spawn(level(5), async {}).unwrap());
    assert_eq!(worker(&alone, 0).run_until_idle(), 1);
}

/// X5, X7: a handle works across shards; nothing is donated (H18).
#[test]
fn a_join_crosses_shards_without_a_donation() {
    let executor = executor(2);
    let (one, two) = (worker(executor, 0), worker(executor, 1));
    let event: &Event = forever(Event::new_in(&executor.shards()[1]));
    let awaited = executor
        .spawn_on(1, level(40), async { event.wait().await })
        .unwrap();
    let id = awaited.id();
    spawn(executor, 0, 3, async move { awaited.await.unwrap() });
    assert_eq!((one.run_until_idle(), two.run_until_idle()), (2, 0));
    assert_eq!(executor.priority(id), Some(level(40)));
    event.set();
    assert_eq!(two.step(), Step::Ran);
    assert_eq!(executor.live(), 1);
    assert_eq!(one.step(), Step::Ran);
    assert_eq!(executor.live(), 0);
}

/// M2, N9: locks and channels work across shards; a waiter of another shard counts as the default
/// level (H18).
#[test]
fn locks_and_channels_cross_shards() {
    let executor = executor(2);
    let workers = [worker(executor, 0), worker(executor, 1)];
    let mutex: &Mutex<Vec<&str>> = forever(Mutex::new_in(&executor.shards()[0], Vec::new()));
    let guard = mutex.try_lock().unwrap();
    for (shard, at, name) in [(1, 1, "other 1"), (0, 40, "own 40"), (0, 3, "own 3")] {
        spawn(
            executor,
            shard,
            at,
            async move { mutex.lock().await.push(name) },
        );
    }
    assert_eq!(workers[0].run_until_idle(), 3);
    drop(guard);
    workers[0].run_until_idle();
    assert_eq!(*mutex.try_lock().unwrap(), ["own 3", "other 1", "own 40"]);
    let channel: &Channel<u8, 1> = forever(Channel::new_in(&executor.shards()[1]));
    spawn(executor, 0, 5, async {
        for number in 0..9 {
            channel.send(number).await.unwrap();
        }
    });
    let sum = executor.spawn_on(1, level(5), async {
        let mut sum = 0;
        for _ in 0..9 {
            sum += channel.receive().await.unwrap();
        }
        sum
    });
    while executor.live() > 0 {
        assert!(workers.iter().any(|worker| worker.step() == Step::Ran));
    }
    assert_eq!(sum.unwrap().try_join().unwrap().unwrap(), 36);
}

/// O8: operations on what belongs to another shard count in the budget of the poll.
#[test]
fn operations_across_shards_use_the_budget() {
    let operations = std::num::NonZero::new(4).unwrap();
    let config = |_| Config::new().budget(operations, Duration::from_secs(1));
    let executor: &ShardedExecutor = forever(ShardedExecutor::with(2, config));
    let event: &Event = forever(Event::new_in(&executor.shards()[1]));
    event.set();
    spawn(executor, 0, 5, async {
        for _ in 0..9 {
            event.wait().await;
        }
    });
    // Four, four and one.
    assert_eq!(worker(executor, 0).run_until_idle(), 3);
}

/// O8: something more urgent in another shard ends the budget.
#[test]
fn something_urgent_in_another_shard_ends_the_budget() {
    let operations = std::num::NonZero::new(64).unwrap();
    let config = |_| Config::new().budget(operations, Duration::from_secs(1));
    let executor: &ShardedExecutor = forever(ShardedExecutor::with(2, config));
    let event: &Event = forever(Event::new_in(&executor.shards()[0]));
    event.set();
    let log = Log::default();
    let inner = log.clone();
    spawn(executor, 0, 5, async move {
        event.wait().await;
        spawn(executor, 1, 3, inner.note("urgent"));
        event.wait().await;
        inner.note("goes on").await;
    });
    assert_eq!(worker(executor, 0).run_until_idle(), 3);
    assert_eq!(log.take(), ["urgent", "goes on"]);
}

/// X10: handles and wakers of one shard may be held by coroutines of another one when all go.
#[test]
fn shards_go_together() {
    let executor = ShardedExecutor::new(3);
    let event = Arc::new(Event::new_in(&executor.shards()[2]));
    for shard in 0..3 {
        let event = event.clone();
        let inner = executor
            .spawn_on((shard + 1) % 3, level(5), pending::<()>())
            .unwrap();
        let waits = async move {
            let _handle = inner;
            event.wait().await;
        };
        spawn(&executor, shard, 5, waits);
    }
    assert_eq!(worker(&executor, 0).run_until_idle(), 6);
    drop(executor);
    assert_eq!(Arc::strong_count(&event), 1);
    event.set();
}

/// A primitive is made for the shard of the coroutine that makes it.
#[test]
fn shared_here_is_the_shard_of_the_coroutine() {
    let executor = executor(2);
    let made = executor.spawn_on(1, level(3), async {
        Mutex::new_in(Shared::here().unwrap(), 7)
    });
    assert_eq!(worker(executor, 0).run_until_idle(), 1);
    assert_eq!(
        *made
            .unwrap()
            .try_join()
            .unwrap()
            .unwrap()
            .try_lock()
            .unwrap(),
        7
    );
}

/// Everything at once, by a thread for each shard: nothing is lost, and each wait ends.
#[test]
fn threads_serve_all_shards() {
    const SHARDS: usize = 3;
    const EACH: usize = times(2_000);
    let executor: &ShardedExecutor = forever(ShardedExecutor::new(SHARDS));
    let channel: &Channel<usize, 4> = forever(Channel::new_in(&executor.shards()[1]));
    let sum: &Mutex<usize> = forever(Mutex::new_in(&executor.shards()[2], 0));
    for number in 0..EACH {
        let at = level((number % 7) as u8);
        drop(executor.spawn(at, async move {
            let inner = executor.spawn(at, async move {
                yield_now().await;
                number
            });
            channel.send(inner.unwrap().await.unwrap()).await.unwrap();
        }));
        let at = level((number % 5) as u8);
        drop(executor.spawn(at, async move {
            let number = channel.receive().await.unwrap();
            let mut sum = sum.lock().await;
            let before = *sum;
            yield_now().await;
            *sum = before + number;
        }));
    }
    thread::scope(|scope| {
        for shard in 0..SHARDS {
            scope.spawn(move || {
                let one = executor.worker(shard, Waker::from(Arc::new(Unpark(thread::current()))));
                let mut short = false;
                while executor.live() > 0 {
                    one.set_short_polls(short);
                    short = !short;
                    if one.run_some(&corank::Relaxed, 61).0 == Step::Idle && executor.live() > 0 {
                        thread::park();
                    }
                }
                // The others wait for a call, or for this.
                drop(one);
                drop(executor.spawn(level(63), async {}));
                drop(executor.spawn(level(63), async {}));
                drop(executor.spawn(level(63), async {}));
            });
        }
    });
    assert_eq!(*sum.try_lock().unwrap(), EACH * (EACH - 1) / 2);
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls once what is never ready, to see the state in between.
#[test]
fn a_blocked_coroutine_is_in_no_shard_word() {
    let executor = executor(2);
    let one = worker(executor, 0);
    let handle = executor
        .spawn_on(1, level(4), poll_fn(|_| Poll::<()>::Pending))
        .unwrap();
    assert!(executor.shown().contains(level(4)));
    assert_eq!(one.step(), Step::Ran);
    assert_eq!(executor.shown(), Levels::NONE);
    assert!(executor.wake(handle.id()));
    assert!(executor.shown().contains(level(4)));
}
