//! Which level the threads of a process run at: relaxed global priority (AsyncOS, section 2.3.2.2).
use super::{Process, Slot, Worker};
use crate::executor::{executor, priority};
use corank_abi::page::DEFAULT_LEVEL;
use corank_abi::rights::MACHINE;
use core::sync::atomic::Ordering;

/// How harts that run a process respond to what is more urgent elsewhere (AsyncOS, section
/// 2.3.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Global {
    /// They check at each clock tick.
    Relaxed,
    /// They are interrupted when something strictly more urgent becomes ready.
    Strict,
}

impl Worker {
    /// Returns the most urgent level that its coroutines are ready at, as one bit or none.
    ///
    /// It counts as far as the process may claim it. `None` if the worker has no executor.
    fn claimed(&self, process: &Process) -> Option<u64> {
        let page = self.page();
        if page.executors.load(Ordering::Acquire) == 0 {
            return None;
        }
        let said = page.ready.load(Ordering::Acquire)
            | page.running.load(Ordering::Acquire)
            | page.arriving.load(Ordering::Acquire);
        // What is more urgent than the grant counts as the grant (rule U2).
        Some(match said.trailing_zeros() {
            64 => 0,
            level => 1 << process.allowed(level as u8),
        })
    }

    /// Returns the level at which its threads run.
    pub(crate) fn level(&self) -> u8 {
        self.level.load(Ordering::Relaxed)
    }

    /// Returns the level at which its threads should run; `None` for that which they have.
    fn wanted_level(&self, process: &Process) -> Option<u8> {
        match self.claimed(process) {
            None => Some(process.allowed(DEFAULT_LEVEL)),
            // All its coroutines wait: it keeps the level that it had.
            Some(0) => None,
            Some(levels) => Some(levels.trailing_zeros() as u8),
        }
    }

    /// Reads the worker's bitmap, and moves its threads if its most urgent level has changed.
    ///
    /// A worker whose coroutines all wait keeps the level that it had.
    pub(crate) fn follow_level(&self, process: &Process) {
        if self
            .wanted_level(process)
            .is_some_and(|level| level != self.level())
        {
            self.move_threads(process);
        }
    }

    /// Moves the threads to the level that the worker should have now.
    ///
    /// The level is read under the lock. So if two harts follow at once, the one that comes second
    /// has the last word with what it sees then. A worker's own thread moves at once. Of the
    /// threads that are no workers, some move later (see [`follow`](super::follow)).
    #[cold]
    pub(super) fn move_threads(&self, process: &Process) {
        let mut state = process.state.lock();
        let before = self.level();
        if let Some(level) = self.wanted_level(process) {
            self.level.store(level, Ordering::Relaxed);
        }
        let own = state.workers[self.number];
        if let Some(Slot::Live(coroutine)) = own.and_then(|tid| state.threads.get(tid)) {
            executor().reprioritize(*coroutine, priority(self.level()));
        }
        if self.number == 0 {
            state.move_threads(process.pid, before, self.level());
        }
    }

    /// Records that something at `level` has arrived for the worker.
    ///
    /// [`follow_level`](Self::follow_level) comes next.
    pub(crate) fn note_arrival(&self, level: u8) {
        self.page().arriving.fetch_or(1 << level, Ordering::AcqRel);
    }
}

impl Process {
    /// Returns the levels that the process may claim.
    pub(crate) fn granted(&self) -> u64 {
        self.granted.load(Ordering::Relaxed)
    }

    /// Takes all levels away that are not in `levels`.
    ///
    /// None comes back. Without all levels the process has no right over the machine.
    pub(crate) fn restrict(&self, levels: u64) {
        self.granted.fetch_and(levels, Ordering::Relaxed);
        if self.granted() != u64::MAX {
            self.keep_rights(!MACHINE);
        }
        self.follow_levels();
    }

    /// Returns how the process's harts respond to what is more urgent elsewhere.
    pub(crate) fn global(&self) -> Global {
        if self.is_strict.load(Ordering::Relaxed) {
            Global::Strict
        } else {
            Global::Relaxed
        }
    }

    /// Sets how the process's harts respond from now on.
    ///
    /// Returns how they did before.
    pub(crate) fn set_global(&self, global: Global) -> Global {
        let before = self.global();
        self.is_strict
            .store(global == Global::Strict, Ordering::Relaxed);
        before
    }

    /// Returns the most urgent level that the process may claim and that is not more urgent than
    /// `level`.
    pub(crate) fn allowed(&self, level: u8) -> u8 {
        let level = u32::from(level.min(63));
        let granted = self.granted() >> level << level;
        if granted == 0 {
            63
        } else {
            granted.trailing_zeros() as u8
        }
    }

    /// Lets each worker follow what it says of its coroutines.
    pub(super) fn follow_levels(&self) {
        for worker in self.workers() {
            worker.follow_level(self);
        }
    }
}
