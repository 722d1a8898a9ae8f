//! Preemption: the scheduler's part of [`crate::executor::preempt`] (rules S8 to S10).

use super::Scheduler;
use crate::priority::Levels;
use crate::scheduling::config::Interrupted;
use crate::scheduling::table::block::{BlockRef, Flags, State};
use crate::scheduling::table::link::Link;

impl Scheduler {
    /// Preempts the coroutine that is being polled, which keeps its stack (*preempt*).
    ///
    /// Returns whether picks were strict already, for [`take_back`](Self::take_back).
    pub(crate) fn set_aside(&self, block: BlockRef, interrupted: Interrupted) -> bool {
        let paused = self.chooser.is_paused();
        if block.has(Flags::WATCHED) {
            self.count_part(&self.worker_context, block);
        }
        block.state.set(match interrupted {
            Interrupted::Ready => State::ReadyWithStack,
            Interrupted::Blocked => State::BlockedWithStack,
        });
        // While it runs a block is in no queue, so the link is free.
        block.next.set(self.preempted.replace(Link::to(block)));
        self.worker_context.current.set(None);
        self.chooser.pause(true);
        self.show_with_stack();
        self.show_running(&self.worker_context, None);
        self.record_preempted(block);
        paused
    }

    /// Resumes a preempted coroutine (*resume*).
    pub(crate) fn take_back(&self, block: BlockRef, paused: bool) {
        self.chooser.pause(paused);
        if block.has(Flags::WATCHED) {
            self.begin_part(&self.worker_context);
        }
        self.preempted.set(block.next.get());
        block.state.set(State::Running);
        self.worker_context.current.set(Some(block));
        self.show_running(&self.worker_context, Some(block.level()));
        self.show_with_stack();
        self.record_resumed(block);
    }

    /// Publishes the levels of the coroutines that are ready with stack (rule S10).
    ///
    /// Takes as many steps as there are preempted coroutines.
    pub(super) fn show_with_stack(&self) {
        let mut levels = Levels::NONE;
        let mut link = self.preempted.get();
        while link != Link::NONE {
            let block = self.follow(link);
            if block.state.get() == State::ReadyWithStack {
                levels = levels.with(block.level());
            }
            link = block.next.get();
        }
        self.with_stack.set(levels);
        self.set_ready(self.ready.get());
    }
}
