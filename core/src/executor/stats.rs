//! The statistics of executors (feature `stats`).

use crate::executor::Executor;
#[cfg(feature = "alloc")]
use crate::executor::shared::SharedExecutor;
use crate::priority::Priority;
use crate::scheduling::instrumentation::stats::Stats;
use crate::scheduling::table::id::CoroutineId;

impl Executor {
    /// Returns a coroutine's statistics since it was spawned, as long as it or its handle exists.
    ///
    /// `None` if the identifier is stale.
    pub fn stats(&self, id: CoroutineId) -> Option<Stats> {
        self.scheduler().on(id, |block| block.stats.counts.get())
    }

    /// Returns the statistics of all coroutines at a level.
    ///
    /// A poll and the wait before it count for the level at which the poll began.
    pub fn level_stats(&self, priority: Priority) -> Stats {
        self.scheduler().recorder.levels().at(priority).get()
    }
}

#[cfg(feature = "alloc")]
impl SharedExecutor {
    /// Returns a coroutine's statistics; see [`Executor::stats`].
    ///
    /// A poll counts when it has ended.
    pub fn stats(&self, id: CoroutineId) -> Option<Stats> {
        self.own(|scheduler| scheduler.on(id, |block| block.stats.counts.get()))
    }

    /// Returns the statistics of all coroutines at a level; see [`Executor::level_stats`].
    pub fn level_stats(&self, priority: Priority) -> Stats {
        self.own(|scheduler| scheduler.recorder.levels().at(priority).get())
    }
}
