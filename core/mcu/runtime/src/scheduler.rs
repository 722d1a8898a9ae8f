//! The scheduler behind an executor: what polls tasks, and what changes them.
//!
//! One context runs it, the main program or one interrupt handler, and any context may wake its
//! tasks. State is touched with interrupts masked; user code runs with interrupts as they were.
//! A switch masks them once.

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use corank::{Levels, Priority, State, Step, SystemView};

use crate::policy::Choose;
use crate::rings::{Notes, Rings};
use crate::task::{CoroutineId, Header, Phase};
use crate::{critical, port, waiter};

/// The state of one executor. All zeros is a new one.
#[repr(C)]
pub(crate) struct Scheduler {
    rings: Rings,
    /// The number of the exception in which it runs; 0 for the main program.
    context: Cell<u16>,
    live: Cell<u16>,
    /// Called when the first task of a level becomes ready, with `pend_argument`.
    pend: Cell<Option<fn(u16)>>,
    pend_argument: Cell<u16>,
}

impl core::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Scheduler").finish_non_exhaustive()
    }
}

// SAFETY: state is touched with interrupts masked. Futures are touched by the context that runs the
// scheduler; what is spawned from elsewhere is `Send`.
unsafe impl Sync for Scheduler {}

/// The scheduler that runs, of the innermost context that runs one.
static RUNNING: AtomicPtr<Scheduler> = AtomicPtr::new(ptr::null_mut());

/// Returns the scheduler that runs in this context, if any.
pub(crate) fn here() -> Option<&'static Scheduler> {
    // SAFETY: schedulers are static.
    let running = unsafe { RUNNING.load(Ordering::Relaxed).as_ref() }?;
    (running.context.get() == port::context()).then_some(running)
}

/// Returns the task that runs in this context, if any.
pub(crate) fn current_task() -> Option<&'static Header> {
    // SAFETY: tasks are static.
    unsafe { here()?.rings.current.get().as_ref() }
}

impl Scheduler {
    pub(crate) const fn new() -> Self {
        Self {
            rings: Rings::new(),
            context: Cell::new(0),
            live: Cell::new(0),
            pend: Cell::new(None),
            pend_argument: Cell::new(0),
        }
    }

    /// Has `pend` called with `argument` when something is to be polled.
    pub(crate) fn set_pend(&self, pend: fn(u16), argument: u16) {
        critical(|| {
            self.pend_argument.set(argument);
            self.pend.set(Some(pend));
        });
    }

    /// Makes a claimed task ready (rule S2).
    #[inline(never)]
    pub(crate) fn start(&'static self, task: &Header) -> CoroutineId {
        critical(|| {
            self.live.set(self.live.get() + 1);
            task.executor.set(self);
            task.level.set(task.base.get());
            task.phase.set(Phase::QUEUED.with(Phase::HELD));
            self.enqueue(task);
            CoroutineId::of(task)
        })
    }

    /// Requires masked interrupts.
    fn enqueue(&self, task: &Header) {
        self.rings.push(task);
        if let Some(pend) = self.pend.get() {
            pend(self.pend_argument.get());
        }
    }

    /// Remembers a wake of `task` if it is the running one (rule W3). Returns false if it is not.
    ///
    /// Without masked interrupts: while a context calls this, no other one changes `current`.
    #[inline]
    pub(crate) fn note_wake_of_running(&self, task: *const Header) -> bool {
        let runs = ptr::eq(self.rings.current.get(), task);
        if runs {
            self.rings.notes.woken.set(1);
        }
        runs
    }

    /// Wakes a task that was spawned here (rules W1 to W5). Requires masked interrupts.
    pub(crate) fn wake(&self, task: &Header) {
        if task.is(Phase::BLOCKED) {
            self.enqueue(task);
        } else if ptr::eq(task, self.rings.current.get()) {
            self.rings.notes.woken.set(1);
        }
    }

    /// Sets the effective level of a task (rules R2, R4). Requires masked interrupts.
    pub(crate) fn set_level(&self, task: &Header, level: u8) {
        let linked = task.is(Phase::QUEUED);
        if linked {
            self.rings.remove(task);
            if ptr::eq(task, self.rings.current.get()) {
                // It is no longer at the head of the ring that turns.
                self.rings.notes.changed.set(1);
            }
        }
        task.level.set(level);
        if linked {
            self.rings.push(task);
        }
    }

    /// Polls the most urgent task until none is ready.
    pub(crate) fn run_until_idle(&'static self) {
        self.enter(|| {
            while let Some(mut task) = self.end_and_pick() {
                // A zero in a register, for a Cortex-M0, which cannot store a constant.
                let none = port::opaque(0);
                // Nothing but yields: the ring turns.
                loop {
                    // SAFETY: it is the running one.
                    unsafe { poll(task) };
                    let turned = critical(|| {
                        let turns = self.rings.notes.word() == Notes::YIELDED;
                        if turns {
                            // SAFETY: the task polled last is linked, at the head of its ring.
                            task = unsafe { (*task).next.get() };
                            self.rings.current.set(task);
                            self.rings.notes.woken.set(none);
                        }
                        turns
                    });
                    if !turned {
                        break;
                    }
                }
            }
        });
    }

    /// Ends the poll of the running task, if there is one, and picks the next one.
    #[inline(never)]
    fn end_and_pick(&self) -> Option<*const Header> {
        self.end_poll();
        self.pick(|rings| Ok(rings.head(rings.most_urgent()?).get()))
            .ok()
    }

    /// Makes the task that `choose` names the running one.
    ///
    /// One that was cancelled from elsewhere exits instead, and `choose` is called again.
    fn pick(
        &self,
        mut choose: impl FnMut(&Rings) -> Result<*const Header, Step>,
    ) -> Result<*const Header, Step> {
        loop {
            let (task, stopped) = critical(|| {
                let task = choose(&self.rings)?;
                // SAFETY: linked tasks are static.
                let this = unsafe { &*task };
                let notes = &self.rings.notes;
                let stopped = notes.stopped.get() > 0 && this.phase.get().has(Phase::STOPPED);
                if stopped {
                    self.leave(this);
                } else {
                    self.rings.current.set(task);
                    notes.begin_poll();
                }
                Ok((task, stopped))
            })?;
            if !stopped {
                return Ok(task);
            }
            // SAFETY: as above.
            self.drop_future(unsafe { &*task });
        }
    }

    /// Ends a poll that ended pending (rules S4, S5, X2). Does nothing after one that finished.
    fn end_poll(&self) {
        // SAFETY: tasks are static.
        let Some(task) = (unsafe { self.rings.current.get().as_ref() }) else {
            return;
        };
        let cancelled = critical(|| {
            let notes = &self.rings.notes;
            let cancelled = notes.cancelled.get() != 0;
            if cancelled {
                self.leave(task);
                self.rings.current.set(ptr::null());
            } else {
                self.rings.remove(task);
                self.rings.current.set(ptr::null());
                if notes.woken.get() != 0 {
                    self.rings.push(task);
                } else {
                    task.go(Phase::BLOCKED);
                }
            }
            cancelled
        });
        if cancelled {
            self.drop_future(task);
        }
    }

    /// Takes a living task out of the rings and marks it as exited. Requires masked interrupts.
    #[inline(never)]
    fn leave(&self, task: &Header) {
        if task.is(Phase::QUEUED) {
            self.rings.remove(task);
        }
        let phase = task.phase.get();
        if phase.has(Phase::STOPPED) {
            task.phase.set(phase.without(Phase::STOPPED));
            let stopped = &self.rings.notes.stopped;
            stopped.set(stopped.get() - 1);
        }
        task.go(Phase::EXITED);
        task.generation.set(task.generation.get().wrapping_add(1));
        self.live.set(self.live.get() - 1);
    }

    /// Ends the running task after its future has finished.
    pub(crate) fn finish(&self, task: &Header) {
        critical(|| {
            self.leave(task);
            self.rings.current.set(ptr::null());
            // The ring does not turn.
            self.rings.notes.changed.set(1);
        });
        self.end(task);
    }

    /// Drops the future of a task that has exited without an output.
    fn drop_future(&self, task: &Header) {
        // SAFETY: it has exited, so it is not polled any more.
        unsafe { (task.operations().drop)(task, false) };
        self.end(task);
    }

    /// Wakes what waits for a task that has exited, and frees its memory if it has no handle.
    #[inline(never)]
    fn end(&self, task: &Header) {
        if waiter::end_all(task) {
            // The handle went while the output was written.
            free_output(task);
        }
    }

    /// Cancels a task of this scheduler. `is_here` says whether its context calls.
    pub(crate) fn cancel(&self, id: CoroutineId, is_here: bool) -> bool {
        let (cancelled, dropped) = critical(|| {
            let Some(task) = id.find() else {
                return (false, None);
            };
            let notes = &self.rings.notes;
            if ptr::eq(task, self.rings.current.get()) {
                return (notes.cancelled.replace(1) == 0, None);
            }
            let phase = task.phase.get();
            if is_here {
                self.leave(task);
                return (!phase.has(Phase::STOPPED), Some(task));
            }
            if phase.has(Phase::STOPPED) || notes.stopped.get() == u8::MAX {
                return (false, None);
            }
            task.phase.set(phase.with(Phase::STOPPED));
            notes.stopped.set(notes.stopped.get() + 1);
            self.wake(task);
            (true, None)
        });
        if let Some(task) = dropped {
            self.drop_future(task);
        }
        cancelled
    }

    /// Picks and polls once by `policy` (rules B1 to B6), unless `view` has something more urgent
    /// (rules G1 to G6).
    pub(crate) fn step(&'static self, policy: &mut impl Choose, view: &impl SystemView) -> Step {
        self.enter(|| {
            let picked = self.pick(|rings| {
                let ready = rings.linked();
                let most_urgent = ready.most_urgent().ok_or(Step::Idle)?;
                let elsewhere = view.most_urgent_elsewhere();
                if elsewhere.is_some_and(|level| level.is_more_urgent_than(most_urgent)) {
                    return Err(Step::Elsewhere);
                }
                Ok(rings.head(policy.choose(ready, most_urgent).level()).get())
            });
            match picked {
                Err(step) => step,
                Ok(task) => {
                    // SAFETY: it was picked.
                    unsafe { poll(task) };
                    self.end_poll();
                    Step::Ran
                }
            }
        })
        .unwrap_or(Step::Idle)
    }

    /// Makes this the scheduler that runs here, for `run`. `None` inside one of its own polls.
    fn enter<R>(&'static self, run: impl FnOnce() -> R) -> Option<R> {
        if !self.rings.current.get().is_null() {
            return None;
        }
        self.context.set(port::context());
        let outer = RUNNING.load(Ordering::Relaxed);
        RUNNING.store(ptr::from_ref(self).cast_mut(), Ordering::Relaxed);
        let result = run();
        RUNNING.store(outer, Ordering::Relaxed);
        Some(result)
    }

    /// Sleeps until an interrupt, unless a task is ready. A wake before the sleep is not lost: an
    /// interrupt that is pending while interrupts are masked ends the sleep.
    pub(crate) fn sleep(&self) {
        critical(|| {
            if self.rings.most_urgent().is_err() {
                port::wait();
            }
        });
    }

    pub(crate) fn live(&self) -> usize {
        self.live.get().into()
    }

    /// Returns the levels with a ready task (rule P3).
    pub(crate) fn ready(&self) -> Levels {
        critical(|| {
            let linked = self.rings.linked();
            match self.running() {
                // SAFETY: tasks are static.
                Some(level) if unsafe { self.rings.is_alone(&*self.rings.current.get()) } => {
                    linked.without(level)
                }
                _ => linked,
            }
        })
    }

    /// Returns the level of the running task (rule P4).
    pub(crate) fn running(&self) -> Option<Priority> {
        // SAFETY: tasks are static.
        unsafe { self.rings.current.get().as_ref() }.map(Header::priority)
    }

    /// Returns the state of a living task. Requires masked interrupts.
    pub(crate) fn state(&self, task: &Header) -> State {
        if ptr::eq(task, self.rings.current.get()) {
            State::Running
        } else if task.is(Phase::QUEUED) {
            State::Ready
        } else {
            State::Blocked
        }
    }
}

/// Polls the running task.
///
/// # Safety
/// It is the running one.
#[inline(always)]
unsafe fn poll(task: *const Header) {
    // SAFETY: tasks are static, and a living one has its future.
    unsafe { ((*task).operations().poll)(task) }
}

/// Drops the output of a task that has exited and has no handle any more, and frees its memory.
pub(crate) fn free_output(task: &Header) {
    // SAFETY: the output is there, and neither the executor nor a handle refers to it.
    unsafe { (task.operations().drop)(task, true) };
    critical(|| task.phase.set(Phase::FREE));
}

/// Returns the identifier of the task that runs here, and `None` elsewhere (rule C7).
#[must_use]
pub fn current() -> Option<CoroutineId> {
    current_task().map(CoroutineId::of)
}

/// Makes a blocked task ready; a wake of a running one is remembered (rules W1 to W5).
///
/// From any context. Returns false if the task has exited.
pub fn wake(id: CoroutineId) -> bool {
    critical(|| id.find().map(|task| task.scheduler().wake(task))).is_some()
}

/// Sets the base level of a task, at once (rules R1 to R5).
///
/// From any context. Returns false if the task has exited.
pub fn reprioritize(id: CoroutineId, level: Priority) -> bool {
    critical(|| {
        let Some(task) = id.find() else {
            return false;
        };
        task.base.set(level.level());
        waiter::refresh_level(task);
        true
    })
}

/// Cancels a task (rules X1 to X4): at once if it is ready or blocked, at the end of its poll if it
/// runs. Returns false if it has exited or is cancelled already.
///
/// From another context than that of its executor, the future is dropped by that executor, when it
/// would poll the task next.
pub fn cancel(id: CoroutineId) -> bool {
    // The task may exit in between, and then its executor refuses the identifier.
    match critical(|| id.find().map(|task| task.executor.get())) {
        // SAFETY: executors are static.
        Some(executor) => unsafe {
            let is_here = here().is_some_and(|here| ptr::eq(here, executor));
            (*executor).cancel(id, is_here)
        },
        None => false,
    }
}
