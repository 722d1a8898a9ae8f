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
use crate::common::calls::Calls;
use crate::common::{forever, level, times};
use corank::workers::{Channel, Event, Mutex, Shared, sleep_until};
use corank::{
    Config, Demotion, JoinError, Levels, Priority, ShardWorker, ShardedExecutor, SharedExecutor,
    SharedHandle, SpawnError, State, Step, SystemView, yield_now,
};

mod across;
mod calls;

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
