//! Coroutines in a process: the core's executor, fed by the rings.
//!
//! The executor's bitmap lies in the process's page, so the kernel sees how urgent this process is (seed 003, section 2.3.2).
//!
//! # When the executor enters the kernel
//! As rarely as it can without making an urgent call wait for less urgent coroutines:
//! - before it would poll a coroutine that is less urgent than one whose call is still in the submission ring,
//! - after [`PATIENCE`] polls in which nothing new was submitted, so that coroutines that yield for ever delay nobody's call,
//! - when the submission ring is full,
//! - and when nothing is ready: then it waits there.
use core::sync::atomic::Ordering;

use corank::{Config, Executor, Levels, Priority, Published, Step, SystemView};

use crate::bell::Bell;
use crate::ring::Ring;
use crate::{local, page, thread, time};

/// How many coroutines are polled at most while a submission waits and no new one joins it.
pub const PATIENCE: u32 = 256;

/// How much the executor cares for what is more urgent elsewhere in the system (seed 003, section 2.3.2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Global {
    /// The kernel chooses the most urgent process at each clock tick; the executor never asks.
    #[default]
    Relaxed,
    /// Before each poll the executor compares with the system's bitmap, and yields if something strictly more urgent is ready
    /// elsewhere.
    Strict,
}

/// Runs `main` as a coroutine of the default priority, and all that it spawns, until `main` has returned; what is left then is
/// dropped. The seeds' `coroutine_run` for a process.
///
/// # Panics
/// If no coroutine can go on: all wait, and nothing is under way that could wake one. If memory is exhausted.
pub fn block_on<T: 'static>(main: impl Future<Output = T> + 'static) -> T {
    run(Priority::DEFAULT, Global::Relaxed, main)
}

/// [`block_on`] with `main` at another priority, and with the choice between relaxed and strict global scheduling.
///
/// # Panics
/// As [`block_on`].
pub fn run<T: 'static>(
    priority: Priority,
    global: Global,
    main: impl Future<Output = T> + 'static,
) -> T {
    let presence = Presence::new();
    Ring::try_here();
    let bell = Bell::new();
    let mut config = Config::new().clock(time::nanoseconds).notify(bell.waker());
    if let Some(published) = presence.published() {
        config = config.publish_to(published);
    }
    let executor = Executor::with(config);
    let main = executor
        .spawn(priority, main)
        .expect("memory for the main coroutine");
    let mut runtime = Runtime {
        executor: &executor,
        bell: &bell,
        global,
        patience: PATIENCE,
        submitted: 0,
    };
    runtime.run_while(&|| !main.has_exited());
    match main.try_join() {
        Ok(Ok(output)) => output,
        _ => panic!("the main coroutine was cancelled"),
    }
}

/// This executor's place among those of the process: the first one shows its bitmap in the process's page, others don't.
struct Presence {
    first: bool,
}

impl Presence {
    fn new() -> Self {
        Self {
            first: page::process().executors.fetch_add(1, Ordering::AcqRel) == 0,
        }
    }

    fn published(&self) -> Option<&'static Published> {
        const { assert!(size_of::<Published>() <= core::mem::offset_of!(page::ProcessPage, executors)) };
        // SAFETY: the process's page starts with the same three words as `Published`, all of them atomic, and stays mapped. Only
        // the process's first executor gets here, so each word has the writers that it may have.
        self.first
            .then(|| unsafe { &*core::ptr::from_ref(page::process()).cast::<Published>() })
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        page::process().executors.fetch_sub(1, Ordering::AcqRel);
    }
}

struct Runtime<'a> {
    executor: &'a Executor,
    bell: &'a Bell,
    global: Global,
    /// Polls that are left until waiting submissions are handed over.
    patience: u32,
    /// Number of the last submission that was seen.
    submitted: u32,
}

impl Runtime<'_> {
    /// One function for whatever the main coroutine returns: it is the program's innermost loop, and lies beside what it calls.
    #[inline(never)]
    fn run_while(&mut self, unfinished: &dyn Fn() -> bool) {
        loop {
            let ring = local::block().ring.get();
            if let Some(ring) = ring.filter(|ring| ring.has_completions()) {
                self.executor.within(|| ring.take_completions());
            }
            let elsewhere = Elsewhere {
                ring,
                global: self.global,
            };
            match self.executor.step_under(&elsewhere) {
                Step::Ran if !unfinished() => return,
                Step::Ran => self.lose_patience(ring),
                Step::Elsewhere => elsewhere.give_way(),
                Step::Idle => self.wait(),
            }
        }
    }

    /// Hands submissions over that have waited for too many polls.
    fn lose_patience(&mut self, ring: Option<&Ring>) {
        let Some(ring) = ring else { return };
        if ring.queued_levels() == 0 || ring.submitted() != self.submitted {
            self.submitted = ring.submitted();
            self.patience = PATIENCE;
        } else if self.patience == 0 {
            let live = self.executor.live();
            page::process().coroutines.store(live, Ordering::Relaxed);
            ring.enter(0, 0);
            self.patience = PATIENCE;
        } else {
            self.patience -= 1;
        }
    }

    /// Nothing is ready: waits in the kernel until a call completes, the next timer is due, or another thread wakes a coroutine.
    fn wait(&self) {
        let live = self.executor.live();
        page::process().coroutines.store(live, Ordering::Relaxed);
        let others = thread::others_started();
        if others && !self.bell.arm() {
            // Rung since the last step: there may be something to run.
            return;
        }
        let deadline = self
            .executor
            .next_deadline()
            .map_or(u64::MAX, time::ticks_at);
        let ring = local::block().ring.get();
        assert!(
            others || deadline != u64::MAX || ring.is_some_and(Ring::busy),
            "every coroutine waits, and nothing is under way that could wake one"
        );
        Ring::here().enter(1, deadline);
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

    /// Lets whatever is more urgent go first.
    fn give_way(&self) {
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
