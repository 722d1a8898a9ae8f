//! Instrumentation of the scheduler: statistics (feature `stats`) and hooks (feature `hooks`).
//!
//! The scheduler calls one method at each transition of a coroutine. Without the features the
//! methods are empty, and [`Recorder`] and [`TaskStats`] have no size.

#![cfg_attr(
    not(all(feature = "stats", feature = "hooks")),
    allow(
        unused_variables,
        reason = "each method uses its arguments for a feature alone"
    )
)]

use crate::priority::Priority;
use crate::scheduling::config::Config;
use crate::scheduling::scheduler::Scheduler;
use crate::scheduling::table::block::{BlockRef, Flags};

/// The scheduler's part.
pub(crate) struct Recorder {
    #[cfg(feature = "stats")]
    levels: crate::scheduling::instrumentation::stats::ByLevel,
    #[cfg(feature = "hooks")]
    observer: Option<&'static dyn crate::scheduling::instrumentation::hooks::Observer>,
}

/// Each control block's part.
#[derive(Default)]
pub(crate) struct TaskStats {
    #[cfg(feature = "stats")]
    pub(crate) counts: crate::scheduling::instrumentation::stats::BlockStats,
}

#[cfg(not(feature = "stats"))]
const _: () = assert!(size_of::<TaskStats>() == 0);
#[cfg(not(any(feature = "stats", feature = "hooks")))]
const _: () = assert!(size_of::<Recorder>() == 0);

impl Recorder {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            #[cfg(feature = "stats")]
            levels: crate::scheduling::instrumentation::stats::ByLevel::new(),
            #[cfg(feature = "hooks")]
            observer: config.observer.0,
        }
    }

    #[cfg(feature = "stats")]
    pub(crate) fn levels(&self) -> &crate::scheduling::instrumentation::stats::ByLevel {
        &self.levels
    }
}

impl Scheduler {
    /// Runs an observer's method, if there is an observer.
    #[cfg(feature = "hooks")]
    fn tell(&self, method: impl FnOnce(&dyn crate::scheduling::instrumentation::hooks::Observer)) {
        if let Some(observer) = self.recorder.observer {
            method(observer);
        }
    }

    /// Records that a new coroutine is ready.
    #[inline(always)]
    pub(crate) fn record_spawned(&self, block: BlockRef) {
        #[cfg(feature = "stats")]
        block.stats.counts.begin(self.timers.now());
        #[cfg(feature = "hooks")]
        self.tell(|observer| observer.spawned(block.id(), block.level()));
    }

    /// Records that a wake takes effect, whatever the coroutine's state.
    #[inline(always)]
    pub(crate) fn record_wake(&self, block: BlockRef) {
        #[cfg(feature = "hooks")]
        self.tell(|observer| observer.wake_applied(block.id()));
    }

    /// Records that a coroutine has become ready, by a wake now or during the poll that has just
    /// ended.
    #[inline(always)]
    pub(crate) fn record_woken(&self, block: BlockRef) {
        #[cfg(feature = "stats")]
        block.stats.counts.ready(self.timers.now());
        #[cfg(feature = "hooks")]
        self.tell(|observer| observer.woken(block.id(), block.level()));
    }

    #[inline(always)]
    pub(crate) fn record_poll_started(&self, block: BlockRef) {
        #[cfg(feature = "stats")]
        (block.stats.counts).poll_started(self.timers.now(), block.level(), &self.recorder.levels);
        #[cfg(feature = "hooks")]
        self.tell(|observer| observer.poll_started(block.id(), block.level()));
    }

    #[inline(always)]
    pub(crate) fn record_poll_ended(&self, block: BlockRef) {
        #[cfg(feature = "stats")]
        (block.stats.counts).poll_ended(self.timers.now(), &self.recorder.levels);
        #[cfg(feature = "hooks")]
        self.tell(|observer| observer.poll_ended(block.id()));
    }

    /// Records that a coroutine is blocked after its poll.
    #[inline(always)]
    pub(crate) fn record_blocked(&self, block: BlockRef) {
        #[cfg(feature = "hooks")]
        self.tell(|observer| observer.blocked(block.id()));
    }

    /// Records that a poll is interrupted.
    ///
    /// What is more urgent runs in the middle of it.
    #[inline(always)]
    pub(crate) fn record_preempted(&self, block: BlockRef) {
        #[cfg(feature = "stats")]
        (block.stats.counts).poll_ended(self.timers.now(), &self.recorder.levels);
        #[cfg(feature = "hooks")]
        self.tell(|observer| observer.preempted(block.id()));
    }

    /// Records that an interrupted poll goes on.
    #[inline(always)]
    pub(crate) fn record_resumed(&self, block: BlockRef) {
        #[cfg(feature = "stats")]
        (block.stats.counts).poll_resumed(self.timers.now(), &self.recorder.levels);
        #[cfg(feature = "hooks")]
        self.tell(|observer| observer.resumed(block.id(), block.level()));
    }

    /// Records that the effective level has changed, from `from`.
    #[inline(always)]
    pub(crate) fn record_reprioritized(&self, block: BlockRef, from: Priority) {
        #[cfg(feature = "hooks")]
        self.tell(|observer| observer.reprioritized(block.id(), from, block.level()));
    }

    /// Records that the base level is another one now.
    #[inline(always)]
    pub(crate) fn record_base(&self, block: BlockRef, base: Priority) {
        #[cfg(feature = "hooks")]
        self.tell(|observer| observer.base_changed(block.id(), base));
    }

    /// Records that `lender` donates to `borrower`, of the same scheduler.
    #[inline(always)]
    pub(crate) fn record_donation(&self, lender: BlockRef, borrower: BlockRef) {
        #[cfg(feature = "hooks")]
        self.tell(|observer| observer.donation_began(lender.id(), borrower.id()));
    }

    /// Records that one donation of `lender` to `borrower` is over.
    #[inline(always)]
    pub(crate) fn record_donation_end(&self, lender: BlockRef, borrower: BlockRef) {
        #[cfg(feature = "hooks")]
        self.tell(|observer| observer.donation_ended(lender.id(), borrower.id()));
    }

    /// Records that a coroutine has exited; `result` says what there is to take.
    #[inline(always)]
    pub(crate) fn record_exited(&self, block: BlockRef, result: Flags) {
        #[cfg(feature = "hooks")]
        self.tell(|observer| {
            observer.exited(
                block.id(),
                crate::scheduling::instrumentation::hooks::Exit::of(result),
            )
        });
    }
}
