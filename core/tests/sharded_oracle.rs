//! Several shards (rules H15 to H17): random scenes against a small oracle.
//!
//! As in `shared_oracle.rs`, a worker that steps inside a poll of another one stands for a second
//! thread. Nothing comes between a worker's check and its pick here, so the order among shards is
//! exact: what another shard has is passed over only if it is not strictly more urgent, or if a
//! worker has nothing and the shard's own worker has short polls.

#![cfg(all(feature = "std", target_has_atomic = "64"))]

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use corank::{CoroutineId, Levels, ShardedExecutor, SharedHandle, State, Step};
use proptest::prelude::*;

use crate::common::level;
use crate::common::served::OnOneThread;

/// What the contract says of one coroutine of the scene, in plain data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Model {
    shard: usize,
    state: State,
    level: u8,
    /// The time at which it became ready at its level.
    since: u64,
    woken: bool,
    cancelled: bool,
    id: CoroutineId,
}

/// A worker of the scene that is in a poll.
#[derive(Clone, Copy)]
struct Busy {
    shard: usize,
    has_short_polls: bool,
    /// Whether it polls in another shard.
    is_away: bool,
}

struct Scene {
    executor: ShardedExecutor,
    coroutines: RefCell<Vec<Model>>,
    handles: RefCell<Vec<SharedHandle<()>>>,
    numbers: RefCell<std::vec::IntoIter<(u8, u8, u8)>>,
    clock: Cell<u64>,
    busy: RefCell<Vec<Busy>>,
    /// The coroutine that the worker which steps now is expected to pick.
    expected: Cell<Option<usize>>,
}

const SHARDS: usize = 3;

impl Scene {
    fn tick(&self) -> u64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    /// Returns what a shard picks by O1 and O2.
    fn head(&self, shard: usize) -> Option<usize> {
        let coroutines = self.coroutines.borrow();
        (0..coroutines.len())
            .filter(|&at| coroutines[at].shard == shard && coroutines[at].state == State::Ready)
            .min_by_key(|&at| (coroutines[at].level, coroutines[at].since))
    }

    /// Returns what the worker of a shard picks by H16 and H17.
    fn pick(&self, own: usize) -> Option<usize> {
        let level = |at: usize| self.coroutines.borrow()[at].level;
        let takes_itself = |shard| {
            let busy = self.busy.borrow();
            (busy.iter()).any(|one| one.shard == shard && one.has_short_polls && !one.is_away)
        };
        let others = || (1..SHARDS).map(|step| (own + step) % SHARDS);
        // The first of the most urgent ones.
        let first = |shards: &mut dyn Iterator<Item = usize>| {
            let heads = shards.filter_map(|shard| self.head(shard));
            heads.min_by_key(|&at| level(at))
        };
        let helped = || first(&mut others().filter(|&shard| !takes_itself(shard)));
        let found = self.head(own).or_else(helped)?;
        let urgent = first(&mut others()).filter(|&at| level(at) < level(found));
        Some(urgent.unwrap_or(found))
    }

    fn make_ready(&self, at: usize) {
        let since = self.tick();
        let one = &mut self.coroutines.borrow_mut()[at];
        (one.state, one.since, one.woken) = (State::Ready, since, false);
    }

    fn spawn(self: &Rc<Self>, shard: usize, priority: u8) {
        let (scene, me) = (self.clone(), self.coroutines.borrow().len());
        let future = OnOneThread(poll_fn(move |_| scene.poll(me)));
        let handle = self
            .executor
            .spawn_on(shard, level(priority), future)
            .unwrap();
        self.coroutines.borrow_mut().push(Model {
            shard,
            state: State::Ready,
            level: priority,
            since: self.tick(),
            woken: false,
            cancelled: false,
            id: handle.id(),
        });
        self.handles.borrow_mut().push(handle);
    }

    fn poll(self: &Rc<Self>, me: usize) -> Poll<()> {
        assert_eq!(self.expected.take(), Some(me), "picked out of order");
        let shard = self.coroutines.borrow()[me].shard;
        assert_eq!(self.executor.here(), Some(shard));
        self.coroutines.borrow_mut()[me].state = State::Running;
        let finished = self.play();
        // What the executor does when this returns; nothing comes in between on one thread.
        let one = self.coroutines.borrow()[me];
        if finished || one.cancelled {
            self.coroutines.borrow_mut()[me].state = State::Exited;
        } else if one.woken {
            self.make_ready(me);
        } else {
            self.coroutines.borrow_mut()[me].state = State::Blocked;
        }
        if finished {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// Lets the worker of a shard step, if it is in no poll.
    fn step(&self, shard: usize, has_short_polls: bool) {
        if self.busy.borrow().iter().any(|one| one.shard == shard) {
            return;
        }
        let pick = self.pick(shard);
        let is_away = pick.is_some_and(|at| self.coroutines.borrow()[at].shard != shard);
        self.busy.borrow_mut().push(Busy {
            shard,
            has_short_polls,
            is_away,
        });
        self.expected.set(pick);
        let worker = self.executor.worker(shard, Waker::noop().clone());
        worker.set_short_polls(has_short_polls);
        assert_eq!(worker.step() == Step::Ran, pick.is_some());
        assert_eq!(self.expected.take(), None);
        self.busy.borrow_mut().pop();
    }

    /// Performs operations until the poll ends, or the scene.
    ///
    /// Returns whether the poll ends with the output.
    fn play(self: &Rc<Self>) -> bool {
        loop {
            let next = self.numbers.borrow_mut().next();
            let Some((op, which, number)) = next else {
                return true;
            };
            let count = self.coroutines.borrow().len();
            let at = usize::from(which) % count.max(1);
            let shard = usize::from(which) % SHARDS;
            let priority = number % 6;
            match op % 9 {
                0 | 1 => self.spawn(shard, priority),
                2 | 3 => self.step(shard, number % 2 == 0),
                4 | 5 if count > 0 => {
                    let one = self.coroutines.borrow()[at];
                    assert_eq!(self.executor.wake(one.id), one.state != State::Exited);
                    match one.state {
                        State::Blocked => self.make_ready(at),
                        State::Running => self.coroutines.borrow_mut()[at].woken = true,
                        _ => {}
                    }
                }
                6 if count > 0 => {
                    let one = self.coroutines.borrow()[at];
                    let done = self.executor.reprioritize(one.id, level(priority));
                    assert_eq!(done, one.state != State::Exited);
                    if done && one.level != priority {
                        self.coroutines.borrow_mut()[at].level = priority;
                        if one.state == State::Ready {
                            self.make_ready(at);
                        }
                    }
                }
                7 if count > 0 => {
                    let one = self.coroutines.borrow()[at];
                    let done = self.executor.cancel(one.id);
                    assert_eq!(done, one.state != State::Exited && !one.cancelled);
                    let one = &mut self.coroutines.borrow_mut()[at];
                    one.cancelled |= done;
                    if done && one.state != State::Running {
                        one.state = State::Exited;
                    }
                }
                8 if !self.busy.borrow().is_empty() => return which % 4 == 0,
                _ => {}
            }
            self.check();
        }
    }

    /// Checks every state, every level, and what each shard publishes and shows.
    fn check(&self) {
        let mut all = Levels::NONE;
        for (number, shard) in self.executor.shards().iter().enumerate() {
            let (mut ready, mut running) = (Levels::NONE, Levels::NONE);
            for one in self
                .coroutines
                .borrow()
                .iter()
                .filter(|one| one.shard == number)
            {
                assert_eq!(self.executor.state(one.id), Some(one.state));
                match one.state {
                    State::Ready => ready = ready.with(level(one.level)),
                    State::Running => running = running.with(level(one.level)),
                    _ => {}
                }
            }
            assert_eq!(shard.ready(), ready);
            assert_eq!(shard.published().running(), running);
            all = all.union(ready);
        }
        assert_eq!(self.executor.shown(), all);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 2000 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// Workers of three shards, one inside a poll of the other, agree with the oracle.
    #[test]
    fn shards_and_oracle_agree(numbers in proptest::collection::vec(any::<(u8, u8, u8)>(), 0..if cfg!(miri) { 50 } else { 200 })) {
        let scene = Rc::new(Scene {
            executor: ShardedExecutor::new(SHARDS),
            coroutines: RefCell::default(),
            handles: RefCell::default(),
            numbers: RefCell::new(numbers.into_iter()),
            clock: Cell::new(0),
            busy: RefCell::default(),
            expected: Cell::new(None),
        });
        scene.play();
        // The coroutines own the scene.
        for handle in scene.handles.take() {
            handle.cancel();
        }
        assert_eq!(scene.executor.live(), 0);
    }
}
