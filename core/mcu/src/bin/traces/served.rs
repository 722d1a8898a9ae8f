//! The executor of a scene, behind the names that the core's has.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::num::NonZeroU32;
use core::pin::Pin;

use corank_mcu::time::Clock;
use corank_mcu::{
    Bounded, CoroutineId, Executor, JoinHandle, Levels, Priority, SpawnError, State, Step, Strict,
    SystemView, TaskStorage,
};

pub use corank_mcu::JoinHandle as Handle;

/// The executor has no workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Workers {
    #[default]
    None,
}

#[derive(Clone, Copy, Default)]
pub enum Policy {
    #[default]
    Strict,
    Bounded(u32),
}

impl Policy {
    pub fn bounded(every: u32) -> Self {
        Self::Bounded(every)
    }
}

/// Traces with demotion are skipped.
pub struct Demotion;

impl Demotion {
    pub fn after_polls(_: u8) -> Self {
        Self
    }

    pub fn levels(self, _: u8) -> Self {
        self
    }
}

pub struct Config {
    policy: Policy,
    capacity: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            policy: Policy::Strict,
            capacity: usize::MAX,
        }
    }
}

impl Config {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn policy(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    pub fn demotion(self, _: Demotion) -> Self {
        self
    }

    pub fn capacity(self, capacity: usize) -> Self {
        Self { capacity, ..self }
    }
}

type Body = Pin<Box<dyn Future<Output = ()>>>;
type Storage = &'static TaskStorage<Body>;

/// What outlives a scene: tasks have static memory.
struct Program {
    executor: Executor,
    tasks: RefCell<Vec<Storage>>,
}

// SAFETY: the main program alone refers to it.
unsafe impl Sync for Program {}

static PROGRAM: Program = Program {
    executor: Executor::new(),
    tasks: RefCell::new(Vec::new()),
};

pub(crate) struct Served {
    policy: Chosen,
    capacity: usize,
    pub(crate) clock: &'static Clock,
    spawned: RefCell<Vec<CoroutineId>>,
}

enum Chosen {
    Strict,
    Bounded(Cell<Bounded>),
}

impl Served {
    pub(crate) fn new(config: Config, _: Workers) -> Self {
        assert_eq!(PROGRAM.executor.live(), 0, "the scene before left a task");
        Self {
            policy: match config.policy {
                Policy::Strict => Chosen::Strict,
                Policy::Bounded(every) => {
                    let every = NonZeroU32::new(every).expect("a bound is at least 1");
                    Chosen::Bounded(Cell::new(Bounded::new(every)))
                }
            },
            capacity: config.capacity,
            clock: Box::leak(Box::new(Clock::new())),
            spawned: RefCell::default(),
        }
    }

    pub(crate) fn spawn(
        &self,
        priority: Priority,
        future: impl Future<Output = ()> + 'static,
    ) -> Result<JoinHandle<()>, SpawnError> {
        if PROGRAM.executor.live() >= self.capacity {
            return Err(SpawnError::TableFull);
        }
        let mut body: Option<Body> = Some(Box::pin(future));
        let mut take = || body.take().expect("it is made once");
        let claim = |storage: &Storage| storage.claim(&mut take).ok();
        let token = PROGRAM.tasks.borrow().iter().find_map(claim);
        let token = match token {
            Some(token) => token,
            None => {
                let storage: Storage = Box::leak(Box::new(TaskStorage::new()));
                PROGRAM.tasks.borrow_mut().push(storage);
                storage.claim(take)?
            }
        };
        let handle = PROGRAM.executor.spawner().spawn(token.at(priority));
        self.spawned.borrow_mut().push(handle.id());
        Ok(handle)
    }

    pub(crate) fn step_under(&self, view: &impl SystemView) -> Step {
        let executor = &PROGRAM.executor;
        match &self.policy {
            Chosen::Strict => executor.step(&mut Strict, view),
            Chosen::Bounded(cell) => {
                let mut policy = cell.get();
                let step = executor.step(&mut policy, view);
                cell.set(policy);
                step
            }
        }
    }

    pub(crate) fn wake(&self, id: CoroutineId) -> bool {
        corank_mcu::wake(id)
    }

    pub(crate) fn reprioritize(&self, id: CoroutineId, priority: Priority) -> bool {
        corank_mcu::reprioritize(id, priority)
    }

    pub(crate) fn cancel(&self, id: CoroutineId) -> bool {
        PROGRAM.executor.cancel(id)
    }

    pub(crate) fn state(&self, id: CoroutineId) -> Option<State> {
        corank_mcu::state(id)
    }

    pub(crate) fn priority(&self, id: CoroutineId) -> Option<Priority> {
        corank_mcu::priority(id)
    }

    pub(crate) fn ready(&self) -> Levels {
        PROGRAM.executor.ready()
    }

    pub(crate) fn advance(&self, now: u64) {
        self.clock.advance(now);
    }

    pub(crate) fn published(&self) -> Published {
        Published
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        for &id in self.spawned.get_mut().iter() {
            PROGRAM.executor.cancel(id);
        }
    }
}

/// What others see of the executor.
pub(crate) struct Published;

impl Published {
    pub(crate) fn running(&self) -> Levels {
        let running = PROGRAM.executor.running();
        running.map_or(Levels::NONE, |level| Levels::NONE.with(level))
    }
}
