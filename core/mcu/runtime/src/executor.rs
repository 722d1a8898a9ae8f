//! Executors: of the main program, and of interrupts.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicBool, Ordering};

use corank::{Levels, Priority, State, Step, SystemView};

use crate::critical;
use crate::policy::Choose;
use crate::scheduler::Scheduler;
use crate::task::CoroutineId;
use crate::token::{SendSpawner, Spawner};

/// The executor of the main program. All zeros is a new one, so that it takes no flash.
///
/// The attribute [`main`](crate::main) makes one and runs it. It may also be run by hand, in the
/// context where it was made:
///
/// - [`run`](Self::run) for ever, asleep while nothing is ready;
/// - [`run_until_idle`](Self::run_until_idle) in a loop that has work of its own, with
///   [`sleep`](Self::sleep);
/// - [`step`](Self::step) under a policy and beside a system that has more urgent work.
#[derive(Debug)]
pub struct Executor {
    scheduler: Scheduler,
    /// Neither `Send` nor `Sync`: the futures of its tasks need not be `Send`.
    _here: PhantomData<*mut ()>,
}

impl Default for Executor {
    fn default() -> Self {
        Self::new()
    }
}

impl Executor {
    /// Creates an executor without tasks.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            scheduler: Scheduler::new(),
            _here: PhantomData,
        }
    }

    /// Returns what spawns tasks here.
    pub fn spawner(&'static self) -> Spawner {
        Spawner::new(&self.scheduler)
    }

    /// Calls `init`, which spawns the first tasks, and then polls for ever. The processor sleeps
    /// while nothing is ready.
    pub fn run(&'static self, init: impl FnOnce(Spawner)) -> ! {
        init(self.spawner());
        loop {
            self.run_until_idle();
            self.sleep();
        }
    }

    /// Polls the most urgent task until none is ready. Inside one of its own polls it does nothing.
    pub fn run_until_idle(&'static self) {
        self.scheduler.run_until_idle();
    }

    /// Sleeps until an interrupt. Returns at once if a task is ready.
    pub fn sleep(&'static self) {
        self.scheduler.sleep();
    }

    /// Picks and polls once by `policy` (rules B1 to B6), unless `view` has something strictly more
    /// urgent (rules G1 to G6).
    pub fn step(&'static self, policy: &mut impl Choose, view: &impl SystemView) -> Step {
        self.scheduler.step(policy, view)
    }

    /// Cancels a task of this executor, at once unless it runs; see [`cancel`](crate::cancel).
    pub fn cancel(&'static self, id: CoroutineId) -> bool {
        self.scheduler.cancel(id, true)
    }

    /// Returns how many tasks have been spawned and have not exited.
    pub fn live(&self) -> usize {
        self.scheduler.live()
    }

    /// Returns the levels that have ready tasks (rule P3).
    pub fn ready(&self) -> Levels {
        self.scheduler.ready()
    }

    /// Returns the level of the running task (rule P4).
    pub fn running(&self) -> Option<Priority> {
        self.scheduler.running()
    }
}

/// Returns the state of a task; `None` if it has exited.
#[must_use]
pub fn state(id: CoroutineId) -> Option<State> {
    critical(|| id.find().map(|task| task.scheduler().state(task)))
}

/// Returns the effective level of a task (rule P5); `None` if it has exited.
#[must_use]
pub fn priority(id: CoroutineId) -> Option<Priority> {
    critical(|| id.find().map(|task| task.priority()))
}

/// An executor that an interrupt handler runs, so that its tasks preempt those of less urgent
/// handlers and of the main program (rule S8, with levels among the tasks of each).
///
/// It may stand in a `static`. The interrupt is one that no device uses; its priority is set before
/// [`start`](Self::start).
///
/// ```ignore
/// static URGENT: InterruptExecutor = InterruptExecutor::new();
///
/// #[interrupt]
/// fn SWI0_EGU0() {
///     URGENT.on_interrupt();
/// }
/// ```
#[derive(Debug)]
pub struct InterruptExecutor {
    scheduler: Scheduler,
    started: AtomicBool,
}

impl Default for InterruptExecutor {
    fn default() -> Self {
        Self::new()
    }
}

impl InterruptExecutor {
    /// Creates an executor without tasks.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            scheduler: Scheduler::new(),
            started: AtomicBool::new(false),
        }
    }

    /// Returns what spawns tasks here, from now on. `pend` is called with `argument` when something
    /// is to be polled, with interrupts masked, and makes the interrupt pending.
    pub fn start_with(&'static self, pend: fn(u16), argument: u16) -> SendSpawner {
        self.scheduler.set_pend(pend, argument);
        self.started.store(true, Ordering::Release);
        SendSpawner::new(&self.scheduler)
    }

    /// Returns what spawns tasks here, from now on, and lets the interrupt come.
    #[cfg(all(target_arch = "arm", feature = "cortex-m"))]
    pub fn start(
        &'static self,
        interrupt: impl cortex_m::interrupt::InterruptNumber,
    ) -> SendSpawner {
        use cortex_m::peripheral::NVIC;
        let spawner = self.start_with(|number| NVIC::pend(Number(number)), interrupt.number());
        // SAFETY: the handler runs this executor, and nothing relies on it being disabled.
        unsafe { NVIC::unmask(interrupt) };
        spawner
    }

    /// Polls the most urgent task until none is ready. The interrupt's handler calls it, and
    /// nothing else does.
    pub fn on_interrupt(&'static self) {
        if self.started.load(Ordering::Acquire) {
            self.scheduler.run_until_idle();
        }
    }
}

/// The number of an interrupt.
#[cfg(all(target_arch = "arm", feature = "cortex-m"))]
#[derive(Clone, Copy)]
struct Number(u16);

// SAFETY: the number is one that `start` was given, and does not change.
#[cfg(all(target_arch = "arm", feature = "cortex-m"))]
unsafe impl cortex_m::interrupt::InterruptNumber for Number {
    fn number(self) -> u16 {
        self.0
    }
}
