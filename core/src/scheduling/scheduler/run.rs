//! Pick, poll, and what follows: yield, block or exit.

use core::cell::Cell;

use super::Scheduler;
use crate::priority::Priority;
use crate::scheduling::config::{Step, SystemView};
use crate::scheduling::table::block::{BlockRef, Flags, State};
use crate::scheduling::table::task::{Panic, contain, isolate, resume};
use crate::scheduling::workers::context::Entered;
use crate::scheduling::workers::worker_context::WorkerContext;

impl Scheduler {
    /// Picks and polls until `polls` reaches `limit`, no coroutine is ready, or something elsewhere
    /// is more urgent.
    ///
    /// `SHARED` is what `self.shared` says, known at compile time because polls are many. If it is
    /// true, the scheduler lock is held by `worker_context`.
    pub(crate) fn run<const SHARED: bool>(
        &self,
        worker_context: &WorkerContext,
        view: &impl SystemView,
        limit: u64,
    ) -> (Step, u64) {
        let _entered = Entered::new(worker_context);
        let outer = worker_context.current.get();
        #[cfg(all(feature = "heap", not(feature = "image")))]
        let outer_left = worker_context.spending.left.get();
        let mut polls = 0;
        let last = loop {
            // Counted down in 32 bits, which is one register everywhere.
            let round = u32::try_from(limit - polls).unwrap_or(u32::MAX);
            #[cfg(not(all(feature = "heap", not(feature = "image"))))]
            let left = &Cell::new(round);
            #[cfg(all(feature = "heap", not(feature = "image")))]
            let left = &worker_context.spending.left;
            left.set(round);
            let last = loop {
                // One net for all polls rather than one for each: a panic is rare, a poll is not.
                match isolate(|| self.run_until_panic::<SHARED>(worker_context, view, left)) {
                    Ok(last) => break last,
                    Err(panic) => {
                        if SHARED {
                            self.lock(worker_context);
                            worker_context.wake_policy.suppress(false);
                        }
                        self.poll_panicked(worker_context, outer, panic);
                    }
                }
            };
            polls += u64::from(round - left.get());
            #[cfg(all(feature = "heap", not(feature = "image")))]
            if worker_context.spending.is_over() {
                polls -= u64::from(worker_context.spending.take_given_up());
                break last;
            }
            if last != Step::Ran || polls == limit {
                break last;
            }
        };
        // A view may run the executor that asks it.
        #[cfg(all(feature = "heap", not(feature = "image")))]
        worker_context.spending.left.set(outer_left);
        self.show_running(worker_context, None);
        (last, polls)
    }

    #[inline]
    pub(super) fn run_until_panic<const SHARED: bool>(
        &self,
        worker_context: &WorkerContext,
        view: &impl SystemView,
        left: &Cell<u32>,
    ) -> Step {
        while left.get() > 0 {
            if SHARED {
                self.note_check(worker_context);
            }
            // Checks the announcement rather than the inbox: whatever is pushed is announced next.
            // What was announced after the drain that took it in must not stay announced while
            // others run.
            if self.published().has_arrivals() || SHARED && self.has_taken() {
                self.drain_inbox();
            }
            if self.most_urgent.get().is_none() {
                return Step::Idle;
            }
            let elsewhere = view.most_urgent_elsewhere();
            // Read after that: the view may have called back, and changed what is ready.
            let Some(most_urgent) = self.most_urgent.get() else {
                continue;
            };
            if elsewhere.is_some_and(|elsewhere| elsewhere.is_more_urgent_than(most_urgent)) {
                return Step::Elsewhere;
            }
            // From here to the poll nothing is called that could take the coroutine's future away:
            // it runs.
            let (block, level) = if self.chooser.is_simple() {
                (self.dequeue_head(most_urgent), most_urgent)
            } else if self.chooser.demotes() {
                self.pick_watched(worker_context, most_urgent)
            } else {
                let level = self.chooser.choose(&self.ready, most_urgent);
                (self.dequeue_head(level), level)
            };
            left.set(left.get() - 1);
            self.poll::<SHARED>(worker_context, block, level);
        }
        Step::Ran
    }

    /// Returns the worker context.
    ///
    /// The compiler knows where it is, unless the scheduler is shared.
    #[inline(always)]
    fn worker_context_here<'a, const SHARED: bool>(
        &'a self,
        worker_context: &'a WorkerContext,
    ) -> &'a WorkerContext {
        if SHARED {
            worker_context
        } else {
            &self.worker_context
        }
    }

    /// Polls a coroutine (*run*), then lets it *yield*, *block* or *exit*.
    #[inline]
    pub(super) fn poll<const SHARED: bool>(
        &self,
        worker_context: &WorkerContext,
        block: BlockRef,
        level: Priority,
    ) {
        let worker_context = self.worker_context_here::<SHARED>(worker_context);
        block.state.set(State::Running);
        self.show_running(worker_context, Some(level));
        let outer = worker_context.current.replace(Some(block));
        #[cfg(all(feature = "heap", not(feature = "image")))]
        worker_context.spending.begin_poll();
        self.record_poll_started(block);
        if SHARED {
            // Keeps leftover work once; wakes a second worker only if work is left over again.
            let leaves_work_over = self.most_urgent.get().is_some();
            worker_context.wake_policy.poll_begins(leaves_work_over);
            self.unlock(worker_context);
            worker_context.wake_policy.poll_runs();
        }
        // SAFETY: a coroutine that has not exited has a vtable, and its memory holds the future,
        // which stays where it is.
        let finished = unsafe {
            let vtable = block.vtable.get().unwrap_unchecked();
            (vtable.poll)(block, SHARED)
        };
        if SHARED {
            self.lock(worker_context);
            worker_context.wake_policy.suppress(false);
        }
        worker_context.current.set(outer);
        self.record_poll_ended(block);
        let woke_itself = SHARED && worker_context.has_woken_itself(block);
        if finished {
            self.exit(block, Flags::OUTPUT);
        } else if woke_itself || block.has(Flags::WOKEN.or(Flags::CANCELLED).or(Flags::WATCHED)) {
            if block.has(Flags::CANCELLED.or(Flags::WATCHED)) {
                self.end_watched(worker_context, block, woke_itself);
            } else {
                block.remove(Flags::WOKEN);
                self.enqueue(block);
                self.record_woken(block);
            }
        } else {
            block.state.set(State::Blocked);
            self.record_blocked(block);
        }
    }

    /// Handles a panic that came out of a poll or of code that is not a coroutine's.
    ///
    /// The latter is the view, or the waker of a joiner.
    #[cold]
    pub(super) fn poll_panicked(
        &self,
        worker_context: &WorkerContext,
        outer: Option<BlockRef>,
        panic: Panic,
    ) {
        match worker_context.current.replace(outer) {
            Some(block) if Some(block) != outer => {
                let _ = worker_context.has_woken_itself(block);
                self.record_poll_ended(block);
                if !block.future_gone.replace(true)
                    && let Some(vtable) = block.vtable.get()
                {
                    self.unlocked(|| {
                        // SAFETY: the mark said that the future is there.
                        contain(|| unsafe { (vtable.drop_future)(block.memory.get()) })
                    });
                }
                self.exit_panicked(block, panic);
            }
            _ => resume(panic),
        }
    }

    /// Drops the future of a coroutine that is in no queue, and lets it exit.
    pub(super) fn drop_future(&self, block: BlockRef) {
        // While the destructor runs, the coroutine counts as running and cancelled. So a wake or a
        // second cancel from there changes nothing, and a handle that the future owned finds
        // nothing to clean up yet.
        block.state.set(State::Running);
        block.insert(Flags::CANCELLED);
        block.future_gone.set(true);
        if let Some(vtable) = block.vtable.get() {
            // SAFETY: the coroutine has not exited, so the future is there, and the mark keeps
            // others from dropping it.
            let dropped =
                self.unlocked(|| isolate(|| unsafe { (vtable.drop_future)(block.memory.get()) }));
            match dropped {
                Ok(()) => {
                    self.free_memory(block);
                    self.exit(block, Flags::default());
                }
                Err(panic) => self.exit_panicked(block, panic),
            }
        }
    }

    /// Ends a coroutine and wakes its joiner (*exit*).
    ///
    /// Without a handle the slot is free at once. `result` says what there is to take.
    pub(super) fn exit(&self, block: BlockRef, result: Flags) {
        self.assert_owned();
        block.state.set(State::Exited);
        block.insert(result.or(Flags::DISCARDABLE));
        self.live.set(self.live.get() - 1);
        self.record_exited(block, result);
        if block.waiters.get().is_some() {
            self.end_waiters(block);
        }
        // Asked after that: a waker that dropped the handle has left the slot to this.
        if !block.has(Flags::HANDLE) {
            self.discard(block);
        }
    }

    pub(super) fn exit_panicked(&self, block: BlockRef, panic: Panic) {
        self.free_memory(block);
        #[cfg(feature = "std")]
        block.memory.set(
            // The payload is a fat pointer; the block has room for a thin one.
            std::boxed::Box::into_raw(std::boxed::Box::new(panic)).cast(),
        );
        #[cfg(not(feature = "std"))]
        match panic {}
        #[cfg(feature = "std")]
        self.exit(block, Flags::PANIC);
    }
}
