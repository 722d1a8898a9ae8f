//! The semaphore: which waiter gets a permit, and that none is ever lost (rules N1 to N6).

use std::cell::Cell;
use std::rc::Rc;

use crate::common::{Log, executor, level, poll_once, spawn, times};
use corank::sync::{Event, Semaphore};
use corank::{Executor, JoinHandle, State};

/// Spawns a coroutine that takes a permit, logs its name, and keeps the permit until `gate` is set.
fn user(
    executor: &Executor,
    at: u8,
    name: &'static str,
    semaphore: &Rc<Semaphore>,
    gate: &Rc<Event>,
    log: &Log,
) -> JoinHandle<()> {
    let (semaphore, gate, log) = (semaphore.clone(), gate.clone(), log.clone());
    spawn(executor, at, async move {
        let _permit = semaphore.acquire().await;
        log.push(name);
        gate.wait().await;
    })
}

fn shared(permits: usize) -> (Executor, Rc<Semaphore>, Rc<Event>, Log) {
    (
        executor(),
        Rc::new(Semaphore::new(permits)),
        Rc::new(Event::new()),
        Log::default(),
    )
}

#[test]
fn permits_are_counted() {
    let semaphore = Semaphore::new(2);
    let first = semaphore.try_acquire().unwrap();
    let second = semaphore.try_acquire().unwrap();
    assert!(semaphore.try_acquire().is_none());
    drop(first);
    assert_eq!(semaphore.free(), 1);
    second.forget();
    assert_eq!(semaphore.free(), 1);
    semaphore.release();
    semaphore.release();
    assert_eq!(semaphore.free(), 3);
    let full = Semaphore::new(usize::MAX);
    full.release();
    assert_eq!(full.free(), usize::MAX);
}

#[test]
fn the_most_urgent_is_served_first_and_the_first_among_equals() {
    let (executor, semaphore, gate, log) = shared(0);
    gate.set();
    for (at, name) in [(20, "c"), (10, "a"), (20, "d"), (10, "b"), (40, "e")] {
        drop(user(&executor, at, name, &semaphore, &gate, &log));
        executor.run_until_idle();
    }
    semaphore.release();
    assert_eq!(semaphore.free(), 0); // handed over, never free in between
    assert_eq!(executor.run_until_idle(), 5);
    assert_eq!(log.take(), "a b c d e");
    assert_eq!(semaphore.free(), 1);
}

#[test]
fn live_levels_decide_at_the_moment_of_release() {
    let (executor, semaphore, gate, log) = shared(0);
    gate.set();
    let a = user(&executor, 10, "a", &semaphore, &gate, &log);
    let b = user(&executor, 20, "b", &semaphore, &gate, &log);
    executor.run_until_idle();
    a.reprioritize(level(30));
    semaphore.release();
    // The level changes back, but the permit is handed over.
    a.reprioritize(level(1));
    assert_eq!(executor.state(b.id()), Some(State::Ready));
    assert_eq!(executor.state(a.id()), Some(State::Blocked));
    executor.run_until_idle();
    assert_eq!(log.take(), "b a");
}

#[test]
fn an_inherited_level_counts_in_the_queue() {
    let (executor, semaphore, gate, log) = shared(0);
    gate.set();
    drop(user(&executor, 10, "a", &semaphore, &gate, &log));
    let b = user(&executor, 20, "b", &semaphore, &gate, &log);
    drop(spawn(&executor, 5, async move { b.await.unwrap() }));
    executor.run_until_idle();
    semaphore.release();
    executor.run_until_idle();
    assert_eq!(log.take(), "b a");
}

#[test]
fn nothing_is_donated_to_the_holder_of_a_permit() {
    let (executor, semaphore, gate, log) = shared(1);
    let low = user(&executor, 50, "low", &semaphore, &gate, &log);
    executor.run_until_idle();
    drop(user(&executor, 1, "high", &semaphore, &gate, &log));
    executor.run_until_idle();
    assert_eq!(executor.priority(low.id()), Some(level(50)));
}

#[test]
fn a_waiter_that_leaves_loses_no_permit() {
    let (executor, semaphore, gate, log) = shared(0);
    gate.set();
    let [a, b, c] = ["a", "b", "c"].map(|name| {
        let user = user(&executor, 10, name, &semaphore, &gate, &log);
        executor.run_until_idle();
        user
    });
    assert!(b.cancel()); // in the queue
    semaphore.release();
    assert!(a.cancel()); // with a permit that it has not used
    assert_eq!(executor.run_until_idle(), 1);
    assert_eq!(log.take(), "c");
    assert!(c.try_join().unwrap().is_ok());
    assert_eq!(semaphore.free(), 1);

    let theirs = semaphore.clone();
    drop(spawn(&executor, 10, async move {
        let taken = theirs.acquire().await;
        let mut waiting = Box::pin(theirs.acquire());
        assert!(poll_once(&mut waiting).await.is_pending());
        drop(taken);
        assert_eq!(theirs.free(), 0);
        drop(waiting);
        assert_eq!(theirs.free(), 1);
    }));
    assert_eq!(executor.run_until_idle(), 1);
}

#[cfg(feature = "std")]
#[test]
fn a_panic_gives_the_permit_back() {
    let (executor, semaphore, _, _) = shared(1);
    let theirs = semaphore.clone();
    let bad = spawn(&executor, 10, async move {
        let _permit = theirs.acquire().await;
        panic!("on purpose");
    });
    executor.run_until_idle();
    assert!(bad.try_join().unwrap().is_err());
    assert_eq!(semaphore.free(), 1);
}

/// A small generator of numbers (xorshift), so that a failure can be repeated from its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

#[test]
fn random_sequences_lose_no_permit_and_invent_none() {
    for seed in 1..=times(200) as u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let permits = random.below(4) as usize;
        let (executor, semaphore, gate, _) = shared(permits);
        let held = Rc::new(Cell::new(0usize));
        let mut total = permits;
        let mut users: Vec<JoinHandle<()>> = Vec::new();
        for _ in 0..300 {
            match random.below(8) {
                0 | 1 if users.len() < 50 => {
                    let (semaphore, gate, held) = (semaphore.clone(), gate.clone(), held.clone());
                    users.push(spawn(&executor, random.below(64) as u8, async move {
                        struct Held(Rc<Cell<usize>>);
                        impl Drop for Held {
                            fn drop(&mut self) {
                                self.0.set(self.0.get() - 1);
                            }
                        }
                        loop {
                            let _permit = semaphore.acquire().await;
                            held.set(held.get() + 1);
                            let _held = Held(held.clone());
                            gate.wait().await;
                            corank::yield_now().await;
                        }
                    }));
                }
                2 if !users.is_empty() => {
                    let user = users.swap_remove(random.below(users.len() as u64) as usize);
                    user.cancel();
                }
                3 if !users.is_empty() => {
                    let user = &users[random.below(users.len() as u64) as usize];
                    user.reprioritize(level(random.below(64) as u8));
                }
                4 => {
                    semaphore.release();
                    total += 1;
                }
                5 => gate.set(),
                6 => gate.reset(),
                _ => drop(executor.step()),
            }
            assert!(held.get() + semaphore.free() <= total, "seed {seed}");
        }
        gate.reset();
        executor.run_until_idle();
        // Nothing is handed over and unused now: every permit is held or free. It is free only if
        // there is no waiter.
        assert_eq!(held.get() + semaphore.free(), total, "seed {seed}");
        assert_eq!(held.get(), total.min(users.len()), "seed {seed}");
        drop(executor);
        assert_eq!(held.get(), 0, "seed {seed}");
        assert_eq!(semaphore.free(), total, "seed {seed}");
    }
}
