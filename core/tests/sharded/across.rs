//! What works across shards, and what ends at their border (rules C2, C3, H15 and H18).

use super::*;

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

/// H15: sixteen coroutines in a row are spawned on one shard, and no shard gets many more than
/// another one.
#[test]
fn coroutines_that_are_spawned_in_a_row_share_a_shard() {
    for already_there in 0..4 {
        let executor = executor(2);
        for _ in 0..already_there {
            drop(spawn(executor, 0, 6, pending()));
        }
        let live = || [0, 1].map(|shard| executor.shards()[shard].live());
        spawn(executor, 0, 5, async move {
            for _ in 0..10 {
                let before = live();
                for _ in 0..16 {
                    drop(executor.spawn(level(6), pending::<()>()).unwrap());
                }
                let after = live();
                let grown = [0, 1].map(|shard| after[shard] - before[shard]);
                assert!(grown == [16, 0] || grown == [0, 16], "{grown:?}");
                assert!(after[0] - after[1] <= 16 + 1 + already_there, "{after:?}");
            }
        });
        assert_eq!(worker(executor, 0).step(), Step::Ran);
    }
}

/// H15: a coroutine spawns on its own shard unless that has sixteen coroutines more.
#[test]
fn a_coroutine_spawns_on_its_shard_until_that_is_fuller() {
    let executor = executor(2);
    let live = || [0, 1].map(|shard| executor.shards()[shard].live());
    spawn(executor, 0, 5, async move {
        for expected in [[17, 0], [17, 16], [33, 16], [33, 32], [49, 32]] {
            for _ in 0..16 {
                drop(executor.spawn(level(6), pending::<()>()).unwrap());
            }
            assert_eq!(live(), expected);
        }
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
