//! Spare workers (rules H11 to H13) and workers of some levels (H14): what is deterministic, by
//! exact counts.
//!
//! As in `shared.rs`, a worker that acts inside a poll of another one stands for a second thread.

#![cfg(feature = "std")]

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};

use crate::common::calls::Calls;
use crate::common::served::OnOneThread;
use crate::common::{forever, level};
use corank::{
    Config, Demotion, Levels, Policy, Priority, Relaxed, SharedExecutor, SharedHandle, SpareWorker,
    Step, SystemView, Worker, yield_now,
};

/// Executor, and the levels of the coroutines that ran, in their order.
#[derive(Clone)]
struct Scene {
    executor: &'static SharedExecutor,
    order: Rc<RefCell<Vec<u8>>>,
}

impl Scene {
    fn new(config: Config) -> Self {
        Self {
            executor: forever(SharedExecutor::with(config)),
            order: Rc::default(),
        }
    }

    fn worker(&self) -> Worker<'static> {
        self.executor.worker(Waker::noop().clone())
    }

    fn spare(&self) -> (SpareWorker<'static>, Arc<Calls>) {
        let calls = Arc::new(Calls::default());
        (self.executor.spare_worker(calls.clone().into()), calls)
    }

    /// Adds a coroutine that notes its level when it runs.
    fn spawn(&self, at: u8) -> SharedHandle<()> {
        self.spawn_around(at, |_| {})
    }

    /// Adds a coroutine whose first poll does this.
    fn spawn_around(&self, at: u8, during: impl FnOnce(&Self) + 'static) -> SharedHandle<()> {
        let (scene, mut during) = (self.clone(), Some(during));
        let future = poll_fn(move |_| {
            scene.order.borrow_mut().push(at);
            if let Some(during) = during.take() {
                during(&scene);
            }
            Poll::Ready(())
        });
        (self.executor.spawn(level(at), OnOneThread(future))).unwrap()
    }

    /// Runs `during` inside a poll of a worker at this level.
    fn during_a_poll(&self, at: u8, during: impl FnOnce(&Self) + 'static) {
        drop(self.spawn_around(at, during));
        assert_eq!(self.worker().step(), Step::Ran);
    }
}

/// H11: only what is strictly more urgent than the poll is taken, in order.
#[test]
fn takes_what_is_strictly_more_urgent() {
    Scene::new(Config::new()).during_a_poll(20, |scene| {
        let (spare, calls) = scene.spare();
        for at in [20, 21, 63] {
            drop(scene.spawn(at));
        }
        assert_eq!(spare.stand_by(), None);
        assert_eq!(calls.take(), 0);
        for at in [19, 3, 19, 0] {
            drop(scene.spawn(at));
        }
        let held_up = spare.held_up().unwrap();
        assert_eq!(spare.run_for(held_up, &Relaxed, 2), (Step::Ran, 2));
        assert_eq!(spare.run_for(held_up, &Relaxed, 64), (Step::Idle, 2));
        assert_eq!(*scene.order.borrow(), [20, 0, 3, 19, 19]);
        assert_eq!(spare.stand_by(), None);
    });
}

/// H12: one that stands by is called once for what is more urgent, and not for anything else.
#[test]
fn is_called_for_what_is_more_urgent_only() {
    Scene::new(Config::new()).during_a_poll(20, |scene| {
        let (spare, calls) = scene.spare();
        drop(scene.spawn(3));
        assert_eq!(calls.take(), 0, "it does not stand by");
        assert!(spare.stand_by().is_some());
        let held_up = spare.held_up().unwrap();
        assert_eq!(spare.run_for(held_up, &Relaxed, 64), (Step::Idle, 1));
        for _ in 0..2 {
            assert_eq!(spare.stand_by(), None);
            drop(scene.spawn(20));
            assert_eq!(calls.take(), 0);
            drop(scene.spawn(19));
            drop(scene.spawn(5));
            assert_eq!(calls.take(), 1, "once until it checks");
            let held_up = spare.held_up().unwrap();
            drop(scene.spawn(5));
            assert_eq!(calls.take(), 0, "it stands by no more");
            assert_eq!(spare.run_for(held_up, &Relaxed, 64), (Step::Idle, 3));
        }
    });
}

/// H12: an idle worker is called before a spare one, and what is ready is its own.
#[test]
fn an_idle_worker_comes_first() {
    Scene::new(Config::new()).during_a_poll(20, |scene| {
        let (spare, calls) = scene.spare();
        assert_eq!(spare.stand_by(), None);
        let woken = Arc::new(Calls::default());
        let idle = scene.executor.worker(woken.clone().into());
        assert_eq!(idle.step(), Step::Idle);
        drop(scene.spawn(3));
        drop(scene.spawn(4));
        assert_eq!((woken.take(), calls.take()), (1, 0));
        assert_eq!(spare.held_up(), None);
        assert_eq!(spare.stand_by(), None);
        assert_eq!(idle.run_until_idle(), 2);
        drop(idle);
        drop(scene.spawn(3));
        assert_eq!(calls.take(), 1, "no worker is idle any more");
    });
}

/// H11: the worker with the least urgent poll is acted for, and each by one spare worker.
///
/// A spare worker inside a poll is acted for, too.
#[test]
fn each_poll_is_taken_over_once() {
    Scene::new(Config::new()).during_a_poll(20, |scene| {
        drop(scene.spawn_around(30, |scene| {
            let (spare, _) = scene.spare();
            let (other, calls) = scene.spare();
            drop(scene.spawn_around(10, move |scene| {
                drop(scene.spawn(25));
                assert_eq!(
                    other.stand_by(),
                    None,
                    "the poll at 30 has its spare worker"
                );
                drop(scene.spawn(20));
                assert_eq!(calls.take(), 0, "as urgent is not more urgent");
                drop(scene.spawn(15));
                assert_eq!(calls.take(), 1);
                let at_20 = other.held_up().unwrap();
                assert_eq!(scene.executor.polling(at_20).unwrap().priority, level(20));
                assert_eq!(other.run_for(at_20, &Relaxed, 64), (Step::Idle, 1));
                drop(scene.spawn_around(5, move |scene| {
                    // The polls at 20 and 30 have their spare workers: that at 10 is next.
                    let (third, _) = scene.spare();
                    drop(scene.spawn(10));
                    drop(scene.spawn(12));
                    assert_eq!(third.stand_by(), None);
                    drop(scene.spawn(9));
                    let at_10 = third.held_up().unwrap();
                    assert_eq!(scene.executor.polling(at_10).unwrap().priority, level(10));
                    assert_eq!(third.run_for(at_20, &Relaxed, 64), (Step::Idle, 0));
                    assert_eq!(third.run_for(at_10, &Relaxed, 64), (Step::Idle, 1));
                }));
                assert_eq!(other.run_for(at_20, &Relaxed, 1), (Step::Ran, 1));
            }));
            let at_30 = spare.held_up().unwrap();
            assert_eq!(scene.executor.polling(at_30).unwrap().priority, level(30));
            assert_eq!(spare.run_for(at_30, &Relaxed, 1), (Step::Ran, 1));
        }));
        assert_eq!(scene.worker().step(), Step::Ran);
        assert_eq!(*scene.order.borrow(), [20, 30, 10, 15, 5, 9]);
    });
}

/// H11: the level of the poll at the moment of each pick counts.
#[test]
fn the_level_of_the_poll_is_live() {
    let scene = Scene::new(Config::new());
    let executor = scene.executor;
    let me = Rc::new(Cell::new(None));
    let named = me.clone();
    let held = scene.spawn_around(20, move |scene| {
        let (spare, calls) = scene.spare();
        drop(scene.spawn(25));
        assert_eq!(spare.stand_by(), None);
        assert!(executor.reprioritize(named.get().unwrap(), level(40)));
        assert_eq!(calls.take(), 1, "the poll has become less urgent than 25");
        let held_up = spare.held_up().unwrap();
        let back = move |_: &Scene| {
            assert!(executor.reprioritize(named.get().unwrap(), level(2)));
        };
        drop(scene.spawn_around(5, back));
        drop(scene.spawn(4));
        drop(scene.spawn(6));
        assert_eq!(spare.run_for(held_up, &Relaxed, 64), (Step::Idle, 2));
        assert_eq!(*scene.order.borrow(), [20, 4, 5]);
    });
    me.set(Some(held.id()));
    assert_eq!(scene.worker().step(), Step::Ran);
}

/// H11: a poll that has ended is not acted for, nor a worker that has left.
#[test]
fn the_end_of_the_poll_ends_the_takeover() {
    let scene = Scene::new(Config::new());
    let (spare, _) = scene.spare();
    let worker = scene.worker();
    let id = worker.id();
    drop(scene.spawn(3));
    assert_eq!(spare.run_for(id, &Relaxed, 64), (Step::Idle, 0));
    assert_eq!(spare.held_up(), None, "no worker is inside a poll");
    assert_eq!(worker.run_until_idle(), 1);
    drop(worker);
    drop(scene.spawn(3));
    assert_eq!(spare.run_for(id, &Relaxed, 64), (Step::Idle, 0));
}

/// S11: picks of a spare worker are strict and not counted, whatever the policy.
#[test]
fn picks_are_strict() {
    let scene = Scene::new(Config::new().policy(Policy::bounded(2)));
    scene.during_a_poll(40, |scene| {
        let (spare, _) = scene.spare();
        for at in [9, 9, 9, 5, 5, 41] {
            drop(scene.spawn(at));
        }
        let held_up = spare.held_up().unwrap();
        assert_eq!(spare.run_for(held_up, &Relaxed, 64), (Step::Idle, 5));
        assert_eq!(*scene.order.borrow(), [40, 5, 5, 9, 9, 9]);
    });
    assert_eq!(scene.worker().run_until_idle(), 1);
}

/// G3: a spare worker yields to what is more urgent elsewhere.
#[test]
fn gives_way_to_the_system() {
    struct Elsewhere(u8);
    impl SystemView for Elsewhere {
        fn most_urgent_elsewhere(&self) -> Option<Priority> {
            Some(level(self.0))
        }
    }
    Scene::new(Config::new()).during_a_poll(40, |scene| {
        let (spare, _) = scene.spare();
        drop(scene.spawn(7));
        drop(scene.spawn(7));
        let held_up = spare.held_up().unwrap();
        let step = spare.run_for(held_up, &Elsewhere(6), 64);
        assert_eq!(step, (Step::Elsewhere, 0));
        assert_eq!(spare.run_for(held_up, &Elsewhere(7), 64), (Step::Idle, 2));
    });
}

/// F1: a panic ends one coroutine, and the spare worker goes on.
#[test]
fn a_panic_ends_alone() {
    Scene::new(Config::new()).during_a_poll(40, |scene| {
        let (spare, _) = scene.spare();
        let panics = |_: &Scene| std::panic::resume_unwind(Box::new("on purpose"));
        let bad = scene.spawn_around(3, panics);
        drop(scene.spawn(4));
        let held_up = spare.held_up().unwrap();
        assert_eq!(spare.run_for(held_up, &Relaxed, 64), (Step::Idle, 2));
        assert!(bad.try_join().unwrap().is_err());
        assert_eq!(spare.stand_by(), None);
    });
}

/// H7: the polls of spare workers are shown as running.
#[test]
fn both_polls_are_shown() {
    Scene::new(Config::new()).during_a_poll(40, |scene| {
        let (spare, _) = scene.spare();
        drop(scene.spawn_around(3, |scene| {
            let running = scene.executor.published().running();
            assert!(running.contains(level(40)) && running.contains(level(3)));
        }));
        let held_up = spare.held_up().unwrap();
        assert_eq!(spare.run_for(held_up, &Relaxed, 64), (Step::Idle, 1));
        let running = scene.executor.published().running();
        assert!(running.contains(level(40)) && !running.contains(level(3)));
    });
}

/// H14: a worker of some levels picks those, and is called for those.
#[test]
fn a_worker_takes_its_levels() {
    let scene = Scene::new(Config::new());
    let calls = [(); 2].map(|()| Arc::new(Calls::default()));
    let [urgent, bulk] = [0, 1].map(|number| {
        let worker = scene.executor.worker(calls[number].clone().into());
        let from = level(30);
        worker.set_levels([Levels::above(from), Levels::from_level(from)][number]);
        assert_eq!(worker.step(), Step::Idle);
        worker
    });
    let called = || calls.iter().map(|calls| calls.take()).collect::<Vec<_>>();
    drop(scene.spawn(30));
    assert_eq!(called(), [0, 1]);
    drop(scene.spawn(29));
    assert_eq!(called(), [1, 0]);
    drop(scene.spawn(63));
    assert_eq!(urgent.run_until_idle(), 1);
    assert_eq!(bulk.run_until_idle(), 2);
    assert_eq!(*scene.order.borrow(), [29, 30, 63]);
    drop(scene.spawn(29));
    drop(scene.spawn(30));
    assert_eq!(called(), [1, 1], "the most urgent first, then the other");
    assert_eq!(bulk.run_until_idle(), 1);
    assert_eq!(urgent.run_until_idle(), 1);
}

/// H14: a spare worker acts only for workers that take what waits.
#[test]
fn a_spare_worker_takes_its_levels() {
    Scene::new(Config::new()).during_a_poll(40, |scene| {
        let (spare, calls) = scene.spare();
        spare.set_levels(Levels::above(level(30)));
        assert_eq!(spare.stand_by(), None);
        drop(scene.spawn(35));
        assert_eq!(calls.take(), 0, "35 is not its own");
        drop(scene.spawn(20));
        assert_eq!(calls.take(), 1);
        let held_up = spare.held_up().unwrap();
        assert_eq!(spare.run_for(held_up, &Relaxed, 64), (Step::Idle, 1));
    });
    let scene = Scene::new(Config::new());
    let bulk = scene.worker();
    bulk.set_levels(Levels::from_level(level(30)));
    drop(scene.spawn_around(40, |scene| {
        let (spare, calls) = scene.spare();
        assert_eq!(spare.stand_by(), None);
        drop(scene.spawn(20));
        assert_eq!(calls.take(), 0, "the worker would not take 20 itself");
        assert_eq!(spare.held_up(), None);
    }));
    assert_eq!(bulk.step(), Step::Ran);
    assert_eq!(bulk.step(), Step::Idle);
}

/// B10, H11: a spare worker finds a coroutine that was demoted, and its polls count as use.
#[test]
fn a_spare_worker_finds_what_was_demoted() {
    let scene = Scene::new(Config::new().demotion(Demotion::after_polls(1)));
    let polls = Arc::new(AtomicUsize::new(0));
    let counted = polls.clone();
    let computes = async move {
        for _ in 0..4 {
            counted.fetch_add(1, Ordering::Relaxed);
            yield_now().await;
        }
    };
    let worker = scene.worker();
    scene.spawn_around(9, move |scene| {
        drop(scene.executor.spawn(level(3), computes).unwrap());
        assert_eq!(scene.worker().step(), Step::Ran);
        // Now it is alone in the second queue of its level.
        let (spare, _) = scene.spare();
        let held_up = spare.held_up().unwrap();
        assert_eq!(spare.run_for(held_up, &Relaxed, 64), (Step::Idle, 4));
    });
    worker.run_until_idle();
    assert_eq!(polls.load(Ordering::Relaxed), 4);
    assert_eq!(scene.executor.live(), 0);
}
