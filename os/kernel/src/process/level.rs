//! Which level a process runs at: relaxed global priority (seed 003, section 2.3.2.2).
use super::{Process, Slot, table};
use crate::{clock, hart, upcall};
use corank::Priority;
use corank_abi::page::DEFAULT_LEVEL;
use core::sync::atomic::Ordering;

/// The priority of a level. A level that does not exist counts as the least urgent.
pub(crate) fn priority(level: u8) -> Priority {
    Priority::new(level).unwrap_or(Priority::LEAST_URGENT)
}

impl Process {
    /// The levels that the process's coroutines are ready at, as far as it may claim them; `None` if it has no executor.
    fn claimed(&self) -> Option<u64> {
        let page = self.page();
        if page.executors.load(Ordering::Acquire) == 0 {
            return None;
        }
        let said = page.ready.load(Ordering::Acquire)
            | page.running.load(Ordering::Acquire)
            | page.arriving.load(Ordering::Acquire);
        Some(said & self.granted)
    }

    /// Whether an executor runs in the process.
    pub(crate) fn has_executor(&self) -> bool {
        self.page().executors.load(Ordering::Relaxed) != 0
    }

    /// The level at which the process's threads run.
    pub(crate) fn level(&self) -> u8 {
        self.level.load(Ordering::Relaxed)
    }

    /// The most urgent level that the process may claim and that is not more urgent than `level`.
    pub(crate) fn allowed(&self, level: u8) -> u8 {
        let level = u32::from(level.min(63));
        let granted = self.granted >> level << level;
        if granted == 0 {
            63
        } else {
            granted.trailing_zeros() as u8
        }
    }

    /// Reads the process's bitmap, and moves its threads if its most urgent level has changed. A process whose coroutines
    /// all wait keeps the level that it had.
    pub(crate) fn follow_level(&self) {
        let level = match self.claimed() {
            None => self.allowed(DEFAULT_LEVEL),
            Some(0) => return,
            Some(levels) => levels.trailing_zeros() as u8,
        };
        if self.level.swap(level, Ordering::Relaxed) != level {
            self.move_threads();
        }
    }

    fn move_threads(&self) {
        let priority = priority(self.level());
        for slot in &self.state.lock().threads {
            if let Slot::Live(coroutine) = slot {
                coroutine.reprioritize(priority);
            }
        }
    }

    /// Says that something at `level` has arrived for the process, and lets it follow.
    pub(crate) fn arrived(&self, level: u8) {
        self.page().arriving.fetch_or(1 << level, Ordering::AcqRel);
        self.follow_level();
    }
}

/// Forms the system bitmap from what the processes say and the kernel's own coroutines, lets each process follow, and interrupts
/// those that have a timer that is due.
pub(crate) fn publish_levels() {
    let now = clock::now();
    let mut system = hart::executor().published().urgency().bits();
    table::for_each(|process| {
        system |= process.claimed().unwrap_or(0);
        process.follow_level();
        upcall::notify_if_due(process, now);
    });
    clock::system_page().ready.store(system, Ordering::Release);
}
