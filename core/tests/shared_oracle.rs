//! Several workers (rules H1 to H10): random scenes against a small oracle.
//!
//! As in `shared.rs`, a worker that steps inside a poll of another one stands for a second thread.

#![cfg(feature = "std")]

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use corank::{CoroutineId, Levels, SharedExecutor, SharedHandle, State, Step};
use proptest::prelude::*;

use crate::common::level;
use crate::common::served::OnOneThread;
use crate::shared::worker;

/// What the contract says of one coroutine of the scene, in plain data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Model {
    state: State,
    level: u8,
    /// The time at which it became ready at its level.
    since: u64,
    woken: bool,
    cancelled: bool,
    id: CoroutineId,
}

/// A scene: random operations, from inside polls that are nested as deep as there are workers.
struct Scene {
    executor: SharedExecutor,
    coroutines: RefCell<Vec<Model>>,
    handles: RefCell<Vec<SharedHandle<()>>>,
    numbers: RefCell<std::vec::IntoIter<(u8, u8, u8)>>,
    clock: Cell<u64>,
    depth: Cell<usize>,
}

const WORKERS: usize = 3;

impl Scene {
    fn tick(&self) -> u64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    /// Returns the next pick by O1 and O2: the most urgent, and of those the one ready for longest.
    fn expected(&self) -> Option<usize> {
        let coroutines = self.coroutines.borrow();
        (0..coroutines.len())
            .filter(|&at| coroutines[at].state == State::Ready)
            .min_by_key(|&at| (coroutines[at].level, coroutines[at].since))
    }

    fn make_ready(&self, at: usize) {
        let since = self.tick();
        let one = &mut self.coroutines.borrow_mut()[at];
        (one.state, one.since, one.woken) = (State::Ready, since, false);
    }

    fn spawn(self: &Rc<Self>, priority: u8) {
        let (scene, me) = (self.clone(), self.coroutines.borrow().len());
        let future = poll_fn(move |_| scene.poll(me));
        let handle = self
            .executor
            .spawn(level(priority), OnOneThread(future))
            .unwrap();
        self.coroutines.borrow_mut().push(Model {
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
        assert_eq!(self.expected(), Some(me), "picked out of order");
        self.coroutines.borrow_mut()[me].state = State::Running;
        self.depth.set(self.depth.get() + 1);
        let finished = self.play();
        self.depth.set(self.depth.get() - 1);
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
            let priority = number % 6;
            match op % 9 {
                0 | 1 => self.spawn(priority),
                2 | 3 if self.depth.get() < WORKERS => {
                    let expected = self.expected();
                    let step = worker(&self.executor).step();
                    assert_eq!(step == Step::Ran, expected.is_some());
                }
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
                8 if self.depth.get() > 0 => return which % 4 == 0,
                _ => {}
            }
            self.check();
        }
    }

    /// Checks every state, every level, and both words.
    fn check(&self) {
        let (mut ready, mut running) = (Levels::NONE, Levels::NONE);
        for one in self.coroutines.borrow().iter() {
            assert_eq!(self.executor.state(one.id), Some(one.state));
            match one.state {
                State::Ready => ready = ready.with(level(one.level)),
                State::Running => running = running.with(level(one.level)),
                _ => {}
            }
        }
        assert_eq!(self.executor.ready(), ready);
        assert_eq!(self.executor.published().running(), running);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 2000 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// Three workers, one inside a poll of the other, agree with the oracle.
    ///
    /// Every pick, state and level is as the contract says.
    #[test]
    fn workers_and_oracle_agree(numbers in proptest::collection::vec(any::<(u8, u8, u8)>(), 0..if cfg!(miri) { 50 } else { 200 })) {
        let scene = Rc::new(Scene {
            executor: SharedExecutor::new(),
            coroutines: RefCell::default(),
            handles: RefCell::default(),
            numbers: RefCell::new(numbers.into_iter()),
            clock: Cell::new(0),
            depth: Cell::new(0),
        });
        scene.play();
        // The coroutines own the scene.
        for handle in scene.handles.take() {
            handle.cancel();
        }
        assert_eq!(scene.executor.live(), 0);
    }
}
