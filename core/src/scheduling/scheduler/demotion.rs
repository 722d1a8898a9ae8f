//! Demotion: picks and ends of polls where coroutines that compute for long are demoted, and the
//! second queue of each level (rules B7 to B10, B13).
//!
//! ```text
//!              choose                   the poll ends pending
//!   run loop ─────────▶ pick_watched ──▶ end_watched ─┬─ woken: counts the use, lowers the level,
//!      │                 flag WATCHED                 │         enters the first or second queue
//!      │ no demotion     reads the clock              └─ not woken: forgets the use, restores the
//!      ▼                                                        level
//!   dequeue_head, poll, enqueue: nothing of this file
//! ```

use super::Scheduler;
use super::waiters::inherits;
use crate::priority::Priority;
use crate::scheduling::table::block::{BaseState, BlockRef, Flags, State};
use crate::scheduling::table::link::Link;
use crate::scheduling::workers::worker_context::WorkerContext;

/// The picks of a level that may pass over its second queue in a row.
const PASSES: u8 = 15;

impl Scheduler {
    /// Picks a coroutine whose use is counted.
    ///
    /// `most_urgent` is the most urgent level that is ready.
    #[inline(never)]
    pub(super) fn pick_watched(
        &self,
        worker_context: &WorkerContext,
        most_urgent: Priority,
    ) -> (BlockRef, Priority) {
        let level = self.chooser.choose(&self.ready, most_urgent);
        (self.take_watched(worker_context, level), level)
    }

    /// Takes the coroutine of a level whose turn it is, so that its use is counted.
    pub(super) fn take_watched(&self, worker_context: &WorkerContext, level: Priority) -> BlockRef {
        let block = self.take_from(level);
        block.insert(Flags::WATCHED);
        self.begin_part(worker_context);
        block
    }

    /// Takes the coroutine of a level whose turn it is (rule B10).
    fn take_from(&self, level: Priority) -> BlockRef {
        let queue = self.queue(level);
        let tail = queue.second.get();
        if tail == Link::NONE {
            return self.dequeue_head(level);
        }
        let passes = &self.passes[usize::from(level.level())];
        if !queue.is_first_empty() && passes.get() < PASSES {
            passes.set(passes.get() + 1);
            return self.dequeue_head(level);
        }
        passes.set(0);
        let head = self.follow(self.follow(tail).next.get());
        self.dequeue_second(head);
        head
    }

    /// Begins a part of a poll: all of it, or what follows a preemption.
    pub(super) fn begin_part(&self, worker_context: &WorkerContext) {
        if self.demotion.counts_time() {
            worker_context.part_began.set(self.timers.now());
        }
    }

    /// Counts a part of a poll that ends by a preemption.
    pub(super) fn count_part(&self, worker_context: &WorkerContext, block: BlockRef) {
        if self.demotion.counts_time() {
            self.count_use(worker_context, block);
        }
    }

    fn count_use(&self, worker_context: &WorkerContext, block: BlockRef) {
        let units = if self.demotion.counts_time() {
            let began = worker_context.part_began.get();
            self.demotion.units(self.timers.now().saturating_sub(began))
        } else {
            1
        };
        block.base_state.set(block.base_state.get().using(units));
    }

    /// Ends a poll that is pending, of a coroutine that is cancelled or whose use is counted.
    #[inline(never)]
    pub(super) fn end_watched(
        &self,
        worker_context: &WorkerContext,
        block: BlockRef,
        woke_itself: bool,
    ) {
        block.remove(Flags::WATCHED);
        if block.has(Flags::CANCELLED) {
            self.drop_future(block);
        } else if woke_itself || block.has(Flags::WOKEN) {
            let before = self.demotions(block);
            self.count_use(worker_context, block);
            if self.demotions(block) != before {
                // The coroutine still counts as running, so what a listener does to it is kept.
                self.refresh_level(block);
                if block.has(Flags::CANCELLED) {
                    self.drop_future(block);
                    return;
                }
            }
            block.remove(Flags::WOKEN);
            if self.is_demoted(block) && !inherits(block, self.own_level(block)) {
                self.enqueue_second(block);
            } else {
                self.enqueue(block);
            }
            self.record_woken(block);
        } else {
            block.state.set(State::Blocked);
            self.record_blocked(block);
            let was_demoted = self.is_demoted(block);
            block.base_state.set(BaseState::new(block.base()));
            if was_demoted {
                self.refresh_level(block);
            }
        }
    }

    /// Moves a coroutine that may be in the second queue of its level to the first one.
    pub(super) fn leave_second(&self, block: BlockRef) {
        if block.base_state.get().is_second() {
            self.dequeue_second(block);
            self.enqueue(block);
        }
    }

    /// Returns how often the coroutine is demoted.
    fn demotions(&self, block: BlockRef) -> u8 {
        self.demotion.demotions(block.base_state.get().used())
    }

    pub(super) fn is_demoted(&self, block: BlockRef) -> bool {
        self.demotions(block) > 0
    }

    /// Returns the level that the coroutine has by itself.
    pub(super) fn own_level(&self, block: BlockRef) -> Priority {
        self.demotion.lower(block.base(), self.demotions(block))
    }

    /// Adds a coroutine to the tail of its level's second queue.
    pub(super) fn enqueue_second(&self, block: BlockRef) {
        self.assert_owned();
        let level = block.level();
        let queue = self.queue(level);
        block.state.set(State::Ready);
        block.base_state.set(block.base_state.get().in_second(true));
        queue.forget_head(block);
        let this = Link::to(block);
        let tail = queue.second.replace(this);
        if tail == Link::NONE {
            block.next.set(this);
            block.previous.set(this);
            self.second.set(self.second.get().with(level));
            self.set_ready(self.ready.get().with(level));
        } else {
            let tail = self.follow(tail);
            let head = tail.next.replace(this);
            block.previous.set(Link::to(tail));
            block.next.set(head);
            self.follow(head).previous.set(this);
        }
    }

    /// Takes a coroutine out of its level's second queue, at whatever position.
    pub(super) fn dequeue_second(&self, block: BlockRef) {
        self.assert_owned();
        let level = block.level();
        let queue = self.queue(level);
        block
            .base_state
            .set(block.base_state.get().in_second(false));
        let (this, previous, next) = (Link::to(block), block.previous.get(), block.next.get());
        if next == this {
            queue.second.set(Link::NONE);
            self.second.set(self.second.get().without(level));
            if queue.is_first_empty() {
                self.set_ready(self.ready.get().without(level));
            }
            return;
        }
        self.follow(previous).next.set(next);
        self.follow(next).previous.set(previous);
        if queue.second.get() == this {
            queue.second.set(previous);
        }
    }
}
