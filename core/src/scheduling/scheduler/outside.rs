//! What other threads do to a scheduler: push blocks on its inbox, and keep it in memory.

use core::ptr::NonNull;

use super::Scheduler;
use crate::atomic::{Ordering, fence};
use crate::priority::Levels;
use crate::scheduling::table::block::{BlockRef, NONE};
use crate::scheduling::table::storage::Storage;
use crate::scheduling::workers::context::Entered;
use crate::scheduling::workers::worker_context::WorkerContext;

/// The most anchors of one table.
///
/// It is half of what the count holds. So threads that race beyond it cannot make the count
/// overflow before the first of them has noticed.
const MAX_ANCHORS: usize = usize::MAX / 2;

impl Scheduler {
    /// Pushes a block after the caller has set its `QUEUED` signal, and notifies the platform if it
    /// may be asleep.
    pub(crate) fn push_inbox(&self, block: BlockRef) {
        let index = block.index();
        let mut last = self.inbox.load(Ordering::Relaxed);
        loop {
            block.inbox_next.store(last, Ordering::Relaxed);
            // Release: the owner sees the link above. What was done before the wake is ordered by
            // the signals.
            match self.inbox.compare_exchange_weak(
                last,
                index,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => last = now,
            }
        }
        // After the push: an announcement that the owner clears is followed by a drain that takes
        // the block in.
        self.published().announce(block.level());
        if block.signals.is_closed() {
            // No drain will collect it. Whichever of this and `close` comes second takes the
            // announcement back.
            self.published().clear_arriving();
        }
        if let Some(notify) = &self.notify {
            notify.wake_by_ref();
        }
        if self.shared {
            self.lock_or_notify();
        }
    }

    /// Collects everything that was pushed, oldest first.
    #[cold]
    pub(crate) fn drain_inbox(&self) {
        self.published().clear_arriving();
        // What was taken before comes first.
        if self.has_taken() {
            self.apply_taken();
        }
        let mut last = self.inbox.swap(NONE, Ordering::Acquire);
        while last != NONE {
            let block = self.block(last);
            let before = block.inbox_next.load(Ordering::Relaxed);
            (block.inbox_next).store(self.taken.replace(last), Ordering::Relaxed);
            last = before;
        }
        // Often nothing was pushed: the platform has announced something that it collects itself.
        if self.has_taken() {
            self.apply_taken();
        }
    }

    /// Applies what was taken, block by block.
    ///
    /// A cancellation runs code of the user's, and what others collect meanwhile comes after this.
    fn apply_taken(&self) {
        while self.taken.get() != NONE {
            let block = self.block(self.taken.get());
            // Before the signals are taken: from then on others may push the block again.
            self.taken.set(block.inbox_next.load(Ordering::Relaxed));
            self.apply_signals(block);
        }
    }

    pub(super) fn apply_signals(&self, block: BlockRef) {
        let taken = block.signals.take();
        if block.vtable.get().is_some() {
            if let Some(priority) = taken.priority {
                self.reprioritize(block, priority);
            }
            if taken.cancel {
                self.cancel(block);
            } else if taken.wake {
                self.wake(block);
            }
        } else if taken.reclaim {
            self.push_free(block);
        }
    }

    /// Adds an anchor, which keeps the table in memory.
    ///
    /// # Panics
    /// Beyond [`MAX_ANCHORS`].
    pub(crate) fn anchor(&self) {
        if self.anchors.fetch_add(1, Ordering::Relaxed) > MAX_ANCHORS {
            self.anchors.fetch_sub(1, Ordering::Relaxed);
            panic!("more than {MAX_ANCHORS} clones of Shared of one executor");
        }
    }

    /// Lets go of one anchor.
    ///
    /// Letting go of the last one frees the table.
    pub(crate) fn unanchor(scheduler: NonNull<Scheduler>) {
        // SAFETY: the caller's anchor has kept the scheduler until now.
        let last = unsafe { scheduler.as_ref() }
            .anchors
            .fetch_sub(1, Ordering::Release)
            == 1;
        if last {
            fence(Ordering::Acquire);
            // SAFETY: nothing else refers to the scheduler or its blocks any more.
            unsafe { Storage::destroy(scheduler) };
        }
    }

    /// Closes the scheduler when its executor is dropped.
    ///
    /// Every future is dropped, and the table goes when nothing refers to it any more.
    pub(crate) fn close(scheduler: NonNull<Scheduler>) {
        // SAFETY: the executor's anchor keeps the scheduler until `unanchor` below.
        let this = unsafe { scheduler.as_ref() };
        let worker_context = if this.shared {
            &WorkerContext::new(scheduler.as_ptr())
        } else {
            &this.worker_context
        };
        let entered = Entered::new(worker_context);
        this.locked(|| this.drop_all());
        drop(entered);
        Self::unanchor(scheduler);
    }

    /// Refuses further spawns, cancels all coroutines, and returns how many slots there are.
    pub(crate) fn cancel_all(&self) -> u32 {
        self.refusing.set(true);
        self.drain_inbox();
        // SAFETY: only the owner uses the storage; it does not grow any more.
        let slots = unsafe { (*self.storage.get()).slots() };
        for index in 0..slots {
            let block = self.block(index);
            if block.vtable.get().is_some() {
                self.cancel(block);
            }
        }
        slots
    }

    fn drop_all(&self) {
        self.closing.set(true);
        // Before any destructor runs: one that drops the last handle lets go of this anchor.
        if self.handles.get() > 0 {
            self.anchor();
        }
        let slots = self.cancel_all();
        for index in 0..slots {
            let block = self.block(index);
            self.end_waiters(block);
            self.anchor();
            if !block.signals.close() {
                // Not the last one: the executor's own comes last.
                self.anchors.fetch_sub(1, Ordering::Relaxed);
            }
        }
        // Last of all that calls code of the user's, which may have set timers as long as this
        // executor ran here.
        self.abandon_timers();
        self.set_ready(Levels::NONE);
        self.published().set_running(Levels::NONE);
        self.published().clear_arriving();
    }
}

#[cfg(all(test, feature = "std", not(loom)))]
mod tests {
    use super::*;
    use crate::executor::shared::SharedExecutor;
    use crate::ownership::Shared;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn anchors_do_not_overflow() {
        let executor = SharedExecutor::new();
        let owner = Shared::from(&executor);
        let anchors = &executor.scheduler().anchors;
        // As if so many clones had been leaked.
        let before = anchors.swap(MAX_ANCHORS, Ordering::Relaxed);
        let last = owner.clone();
        let one_more = || drop(owner.clone());
        assert!(catch_unwind(AssertUnwindSafe(one_more)).is_err());
        assert_eq!(anchors.load(Ordering::Relaxed), MAX_ANCHORS + 1);
        drop(last);
        anchors.store(before, Ordering::Relaxed);
    }
}
