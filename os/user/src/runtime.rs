//! Coroutines in a process: the core's executor, fed by the rings.
//!
//! The executor's bitmap lies in its worker's page, so the kernel sees how urgent that thread is
//! (AsyncOS, section 2.3.2). Each thread of a process may run one, up to [`WORKERS`](page::WORKERS)
//! at a time, on as many harts: each schedules its own coroutines, and the kernel schedules the
//! threads.
//!
//! # Several executors
//! Each thread that runs one is a *worker*, with a page, rings and interrupts of its own.
//! Coroutines stay on their worker. They reach those of others through what is `Sync`, and a wake
//! from there ends the worker's wait or interrupts its computation:
//! ```no_run
//! # use corank_user::{block_on, ring, thread};
//! # use core::time::Duration;
//! # fn example() {
//! let workers = [1, 2].map(|milliseconds| {
//!     thread::spawn(move || block_on(ring::sleep(Duration::from_millis(milliseconds)))).expect("a thread")
//! });
//! for worker in workers {
//!     worker.join().expect("it ends").expect("it slept");
//! }
//! # }
//! ```
//!
//! # When the executor enters the kernel
//! As rarely as it can without making an urgent call wait for less urgent coroutines:
//! - before it would poll a coroutine that is less urgent than one with a call still in the
//!   submission ring,
//! - after [`PATIENCE`] polls in which nothing new was submitted, so that coroutines that yield for
//!   ever delay no call,
//! - when the submission ring is full,
//! - and when nothing is ready: then it waits there.
//!
//! # When it is interrupted
//! While one of its coroutines is inside [`preemptible`](crate::interrupt::preemptible), and while
//! it waits in the kernel, if another thread may wake a coroutine. Both begin by opening the flag
//! of [`corank_abi::upcall`] and checking once more.
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering};

use corank::{
    Config, Deadlines, Demotion, Executor, Interrupted, Levels, Policy, Priority, Published, Step,
    SystemView,
};
use corank_abi::call;

use crate::interrupt::{self, Present};
use crate::ring::Ring;
use crate::{local, page, raw, thread, time};

/// How many coroutines are polled at most while a submission waits and no new one joins it.
pub const PATIENCE: u32 = 256;

/// How the executor responds to what is more urgent elsewhere in the system (AsyncOS, section
/// 2.3.2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Global {
    /// The kernel chooses the most urgent process at each clock tick. The executor never compares,
    /// and nothing interrupts it.
    #[default]
    Relaxed,
    /// Before each poll the executor compares with the system's bitmap, and yields if something
    /// strictly more urgent is ready elsewhere. A poll that lasts is interrupted for it.
    Strict,
}

/// [`Global::Strict`] is in force. One for the process: the kernel treats its harts alike.
static STRICT: AtomicBool = AtomicBool::new(false);

/// Chooses between relaxed and strict global scheduling, for all executors of this process, from
/// their next poll on.
pub fn set_global(global: Global) {
    let mode = match global {
        Global::Relaxed => call::GLOBAL_RELAXED,
        Global::Strict => call::GLOBAL_STRICT,
    };
    let _ = raw::number_call(call::GLOBAL, [mode, 0, 0]);
    STRICT.store(global == Global::Strict, Ordering::Relaxed);
}

/// Returns what [`set_global`] was called with last.
#[inline]
#[must_use]
pub fn global() -> Global {
    if STRICT.load(Ordering::Relaxed) {
        Global::Strict
    } else {
        Global::Relaxed
    }
}

/// Runs `main` as a coroutine of the default priority, and all that it spawns, until `main` has
/// returned.
///
/// Remaining coroutines are then dropped.
///
/// The `coroutine_run` of AsyncOS, section 2.2, for a process.
///
/// # Panics
/// If no coroutine can go on, because all wait and nothing is under way that could wake one. If
/// memory is exhausted. If the thread can't be a worker, because [`WORKERS`](page::WORKERS) others
/// are, as soon as nothing is ready there, because it could not wait.
pub fn block_on<T: 'static>(main: impl Future<Output = T> + 'static) -> T {
    run(Priority::DEFAULT, Global::Relaxed, main)
}

/// Runs `main` as [`block_on`] does, at another priority, and with the choice between relaxed and
/// strict global scheduling.
///
/// The choice holds for the process until [`set_global`] is called.
///
/// # Panics
/// As [`block_on`].
pub fn run<T: 'static>(
    priority: Priority,
    global: Global,
    main: impl Future<Output = T> + 'static,
) -> T {
    run_under(Policy::Strict, priority, global, main)
}

/// How an executor chooses among its ready coroutines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice {
    policy: Policy,
    demotion: Option<Demotion>,
}

impl Choice {
    /// Demotes coroutines that compute for long without waiting (rules B7 to B14).
    #[must_use]
    pub fn demotion(mut self, demotion: Demotion) -> Self {
        self.demotion = Some(demotion);
        self
    }
}

impl From<Policy> for Choice {
    fn from(policy: Policy) -> Self {
        Self {
            policy,
            demotion: None,
        }
    }
}

/// Does what [`run`] does, with another choice among the ready coroutines.
///
/// Under [`Policy::Bounded`] no level starves (rules B2 to B6). With a [`Demotion`] short work goes
/// before long work of the same level:
///
/// ```no_run
/// use core::time::Duration;
/// use corank_user::corank::Demotion;
/// use corank_user::runtime::{self, Choice, Global};
/// use corank_user::{Policy, Priority};
///
/// let choice = Choice::from(Policy::Strict).demotion(Demotion::after(Duration::from_micros(100)));
/// runtime::run_under(choice, Priority::DEFAULT, Global::Relaxed, async {});
/// ```
///
/// # Panics
/// As [`block_on`].
pub fn run_under<T: 'static>(
    choice: impl Into<Choice>,
    priority: Priority,
    global: Global,
    main: impl Future<Output = T> + 'static,
) -> T {
    if self::global() != global {
        set_global(global);
    }
    let presence = Presence::new();
    let ring = Ring::try_here();
    let choice = choice.into();
    let mut config = (Config::new().policy(choice.policy))
        .clock(time::nanoseconds)
        .notify(interrupt::waker());
    if let Some(demotion) = choice.demotion {
        config = config.demotion(demotion);
    }
    if let Some(published) = presence.published() {
        config = config.publish_to(published);
    }
    if let Some(deadlines) = presence.deadlines() {
        config = config.publish_deadlines_to(deadlines);
    }
    let runtime = Runtime {
        executor: Executor::with(config),
        patience: Cell::new(PATIENCE),
        submitted: Cell::new(0),
        ring,
    };
    // SAFETY: the runtime was made before it, so it goes after it.
    let _present = unsafe { Present::new(&runtime) };
    let main = runtime
        .executor
        .spawn(priority, main)
        .expect("memory for the main coroutine");
    runtime.run_while(&|| !main.has_exited());
    match main.try_join() {
        Ok(Ok(output)) => output,
        _ => panic!("the main coroutine was cancelled"),
    }
}

/// This executor's place among those of its thread: the outermost one shows its bitmap in the
/// worker's page, those inside it don't.
struct Presence {
    /// How many it is inside of.
    outer: usize,
    is_worker: bool,
}

impl Presence {
    fn new() -> Self {
        let block = local::block();
        let is_worker = block.become_worker();
        let outer = block.executors.get();
        let presence = Self { outer, is_worker };
        presence.count(outer + 1);
        presence
    }

    fn count(&self, executors: usize) {
        local::block().executors.set(executors);
        if self.is_worker {
            page::here().executors.store(executors, Ordering::Release);
        }
    }

    /// Tests whether it may write to the page.
    fn is_shown(&self) -> bool {
        self.is_worker && self.outer == 0
    }

    fn published(&self) -> Option<&'static Published> {
        const { assert!(size_of::<Published>() <= core::mem::offset_of!(page::ProcessPage, executors)) };
        // SAFETY: the worker's page starts with the same three words as `Published`, all of them
        // atomic, and stays mapped. Only the worker's outermost executor gets here, so each word
        // has the writers that it may have.
        self.is_shown()
            .then(|| unsafe { &*core::ptr::from_ref(page::here()).cast::<Published>() })
    }

    fn deadlines(&self) -> Option<&'static Deadlines> {
        const { assert!(size_of::<Deadlines>() == size_of::<page::Deadlines>()) };
        let place = &raw const page::here().deadlines;
        // SAFETY: both are the same words, all of them atomic, and stay mapped. Only the worker's
        // outermost executor gets here: the one writer.
        self.is_shown()
            .then(|| unsafe { &*place.cast::<Deadlines>() })
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.count(self.outer);
    }
}

/// An executor and how it runs.
#[derive(Debug)]
pub(crate) struct Runtime {
    executor: Executor,
    /// Polls that are left until waiting submissions are handed over.
    patience: Cell<u32>,
    /// Number of the last submission that was seen.
    submitted: Cell<u32>,
    /// The rings, if they could be had.
    ring: Option<&'static Ring>,
}

impl Runtime {
    /// Runs coroutines as long as `unfinished` returns true.
    ///
    /// It is one function for any type that the main coroutine returns. It is the program's
    /// innermost loop, and lies beside what it calls.
    #[inline(never)]
    fn run_while(&self, unfinished: &dyn Fn() -> bool) {
        loop {
            let ring = local::block().ring.get();
            if let Some(ring) = ring.filter(|ring| ring.has_completions()) {
                self.executor.within(|| ring.take_completions());
            }
            match self.executor.step_under(&self.elsewhere(ring)) {
                Step::Ran if !unfinished() => return,
                Step::Ran => self.hand_over_after_patience(ring),
                Step::Elsewhere => self.elsewhere(ring).yield_to_system(),
                Step::Idle => self.wait(),
            }
        }
    }

    /// Runs what is more urgent than the interrupted coroutine, hands over what that has submitted,
    /// and opens the flag.
    ///
    /// For the handler of interrupts.
    #[cold]
    pub(crate) fn run_more_urgent(&self, interrupted: Interrupted) {
        let ring = self.ring;
        let run = || {
            self.executor.preempt(interrupted, |preempted| {
                loop {
                    if let Some(ring) = ring.filter(|ring| ring.has_completions()) {
                        self.executor.within(|| ring.take_completions());
                    }
                    match preempted.step_under(&self.elsewhere(ring)) {
                        Step::Ran => self.hand_over_after_patience(ring),
                        Step::Elsewhere => self.elsewhere(ring).yield_to_system(),
                        Step::Idle => match ring {
                            // Nothing else enters the kernel while the interrupted executor
                            // computes.
                            Some(ring) if ring.queued_levels() != 0 => ring.enter(0, 0),
                            _ => break,
                        },
                    }
                }
            });
        };
        page::here()
            .flag
            .open_when_quiet(run, || self.has_arrivals());
    }

    /// Tests whether something has arrived that the executor has not collected.
    fn has_arrivals(&self) -> bool {
        !self.executor.published().arriving().is_empty()
            || self.ring.is_some_and(Ring::has_completions)
    }

    /// Returns the rings of the executor's thread.
    pub(crate) fn ring(&self) -> Option<&'static Ring> {
        self.ring
    }

    fn elsewhere(&self, ring: Option<&'static Ring>) -> Elsewhere {
        Elsewhere {
            ring,
            global: global(),
        }
    }

    /// Hands submissions over that have waited for too many polls.
    fn hand_over_after_patience(&self, ring: Option<&Ring>) {
        let Some(ring) = ring else { return };
        if !ring.wants_entry() || ring.submitted() != self.submitted.get() {
            self.submitted.set(ring.submitted());
            self.patience.set(PATIENCE);
        } else if self.patience.get() == 0 {
            let live = self.executor.live();
            page::here().coroutines.store(live, Ordering::Relaxed);
            ring.enter(0, 0);
            self.patience.set(PATIENCE);
        } else {
            self.patience.set(self.patience.get() - 1);
        }
    }

    /// Waits in the kernel until a call completes, the next timer is due, or another thread wakes a
    /// coroutine.
    ///
    /// Called when nothing is ready.
    fn wait(&self) {
        let live = self.executor.live();
        page::here().coroutines.store(live, Ordering::Relaxed);
        let others = thread::others_started();
        let deadline = self
            .executor
            .next_deadline()
            .map_or(u64::MAX, time::ticks_at);
        let ring = local::block().ring.get();
        assert!(
            others || deadline != u64::MAX || ring.is_some_and(Ring::busy),
            "every coroutine waits, and nothing is under way that could wake one"
        );
        let flag = &page::here().flag;
        if others {
            flag.open();
        }
        // With the flag open, check once more.
        if !(others && self.has_arrivals()) {
            Ring::here().enter(1, deadline);
        }
        if others {
            flag.close();
        }
    }
}

/// What may be more urgent than the next coroutine here.
struct Elsewhere {
    ring: Option<&'static Ring>,
    global: Global,
}

impl Elsewhere {
    /// Calls that our own coroutines have submitted and the kernel hasn't seen.
    #[inline]
    fn queued(&self) -> Levels {
        Levels::from_bits(self.ring.map_or(0, Ring::queued_levels))
    }

    /// Yields to more urgent work elsewhere.
    fn yield_to_system(&self) {
        match self.ring {
            Some(ring) if !self.queued().is_empty() => ring.enter(0, 0),
            _ => thread::yield_now(),
        }
    }
}

impl SystemView for Elsewhere {
    #[inline]
    fn most_urgent_elsewhere(&self) -> Option<Priority> {
        let system = match self.global {
            Global::Relaxed => Levels::NONE,
            Global::Strict => Levels::from_bits(page::system().ready.load(Ordering::Relaxed)),
        };
        self.queued().union(system).most_urgent()
    }
}
