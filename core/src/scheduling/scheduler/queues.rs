//! The ready queues: one intrusive FIFO per level, one bit per level that is not empty (rules O1 to
//! O4). `demotion.rs` has the second queue of each level.

use core::cell::Cell;
use core::ptr;

use super::Scheduler;
use crate::priority::{LEVELS, Levels, Priority};
use crate::scheduling::table::block::{BlockRef, State};
use crate::scheduling::table::link::Link;
use crate::scheduling::workers::worker_context::WorkerContext;

/// One level's ready queues.
///
/// The first one has a tail if and only if it is not empty. Without a tail the head means nothing.
/// The outer links of the ends mean nothing either, so taking the head or adding a tail touches no
/// third coroutine.
///
/// The second queue is a ring, so that one link is enough for it. On 64-bit targets that link takes
/// no memory: it lies beside the head, before the tail's alignment.
#[repr(C)]
pub(super) struct Queue {
    head: Cell<Link>,
    /// The tail of the second queue, which is followed by its head.
    pub(super) second: Cell<Link>,
    tail: Cell<Option<BlockRef>>,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Queue>() == 16);

impl Queue {
    pub(super) const fn new() -> Self {
        Self {
            head: Cell::new(Link::NONE),
            second: Cell::new(Link::NONE),
            tail: Cell::new(None),
        }
    }
}

impl Queue {
    /// Tests whether `block` is the tail of the first queue.
    ///
    /// Compares addresses, because a comparison of `Option`s tests for `None` first.
    #[inline]
    fn is_tail(&self, block: BlockRef) -> bool {
        let tail = self.tail.get().map_or(ptr::null(), BlockRef::as_data);
        ptr::eq(tail, block.as_data())
    }

    /// Tests whether the first queue is empty.
    pub(super) fn is_first_empty(&self) -> bool {
        self.tail.get().is_none()
    }

    /// Prepares for `block` to enter the second queue: the head of an empty first queue might name
    /// it, and `dequeue` must not find it there.
    pub(super) fn forget_head(&self, block: BlockRef) {
        if self.is_first_empty() && self.head.get() == Link::to(block) {
            self.head.set(Link::NONE);
        }
    }
}

impl Scheduler {
    #[inline]
    pub(super) fn block(&self, index: u32) -> BlockRef {
        // SAFETY: `index` came from one of the scheduler's own lists, and chunks live as long as
        // the scheduler.
        unsafe { BlockRef::new(self.directory.get().block(index)) }
    }

    #[inline]
    pub(super) fn follow(&self, link: Link) -> BlockRef {
        link.follow(|index| self.block(index))
    }

    #[inline]
    pub(super) fn set_ready(&self, ready: Levels) {
        self.ready.set(ready);
        self.most_urgent.set(ready.most_urgent());
        self.published()
            .set_ready(ready.union(self.with_stack.get()));
    }

    /// Publishes the level that runs at `worker_context`, if it is another one than before.
    #[inline]
    pub(super) fn show_running(&self, worker_context: &WorkerContext, level: Option<Priority>) {
        if !worker_context.running.is(level) {
            worker_context.running.set(level);
            let running = if self.shared {
                self.all_running()
            } else {
                Levels::of(level)
            };
            self.published().set_running(running);
        }
    }

    /// Sets that the first queue of `level` is empty.
    #[inline]
    fn set_first_empty(&self, level: Priority) {
        // The second one may have coroutines of the level.
        let second = self.second.get();
        self.set_ready(self.ready.get().without(level).union(second));
    }

    /// Adds a coroutine to the tail of its level's first queue (*make ready*).
    #[inline]
    pub(super) fn enqueue(&self, block: BlockRef) {
        self.assert_owned();
        let level = block.level();
        let queue = self.queue(level);
        block.state.set(State::Ready);
        if let Some(tail) = queue.tail.get() {
            block.previous.set(Link::to(tail));
            tail.next.set(Link::to(block));
        } else {
            queue.head.set(Link::to(block));
            self.set_ready(self.ready.get().with(level));
        }
        queue.tail.set(Some(block));
    }

    /// Takes the head of a level whose first queue is not empty.
    #[inline]
    pub(super) fn dequeue_head(&self, level: Priority) -> BlockRef {
        self.assert_owned();
        let queue = self.queue(level);
        let block = self.follow(queue.head.get());
        if queue.is_tail(block) {
            queue.tail.set(None);
            self.set_first_empty(level);
        } else {
            queue.head.set(block.next.get());
        }
        block
    }

    /// Takes a ready coroutine out of its queue, at whatever position.
    pub(super) fn dequeue(&self, block: BlockRef) {
        self.assert_owned();
        let level = block.level();
        let queue = self.queue(level);
        let is_head = queue.head.get() == Link::to(block);
        let is_tail = queue.is_tail(block);
        match (is_head, is_tail) {
            (true, true) => {
                queue.tail.set(None);
                self.set_first_empty(level);
            }
            (true, false) => queue.head.set(block.next.get()),
            (false, true) => queue.tail.set(Some(self.follow(block.previous.get()))),
            (false, false) if block.base_state.get().is_second() => self.dequeue_second(block),
            (false, false) => {
                let (previous, next) = (block.previous.get(), block.next.get());
                self.follow(previous).next.set(next);
                self.follow(next).previous.set(previous);
            }
        }
    }

    #[inline]
    pub(super) fn queue(&self, level: Priority) -> &Queue {
        &self.queues[usize::from(level.level()) % LEVELS]
    }

    /// Changes the effective level, at once and in whatever state (rules R1 to R3).
    ///
    /// `from` is its level now, and `second` says which queue a ready coroutine enters.
    #[inline(always)]
    pub(crate) fn move_to_level(
        &self,
        block: BlockRef,
        from: Priority,
        level: Priority,
        second: bool,
    ) {
        self.assert_owned();
        self.timers.sleeper_moves(block, level);
        match block.state.get() {
            State::Ready => {
                self.dequeue(block);
                block.set_level(level);
                if second {
                    self.enqueue_second(block);
                } else {
                    self.enqueue(block);
                }
            }
            State::Running => {
                block.set_level(level);
                if let Some(worker_context) = self
                    .worker_contexts()
                    .find(|worker_context| worker_context.current.get() == Some(block))
                {
                    self.show_running(worker_context, Some(level));
                }
            }
            State::ReadyWithStack => {
                block.set_level(level);
                self.show_with_stack();
            }
            State::Blocked | State::BlockedWithStack | State::Exited => block.set_level(level),
        }
        self.record_reprioritized(block, from);
    }
}
