//! Time inside the scheduler: its timers, and what it publishes of them.

#[cfg(target_has_atomic = "64")]
pub(crate) mod deadlines;
pub(crate) mod timers;

/// The number of polls in a row after which an executor with both a clock and timers reads the
/// clock, even if coroutines are ready.
///
/// Reading a clock costs about as much as a poll, so at 64 it costs less than 2 %, and a timer is
/// late by no more than 64 polls.
pub const POLLS_PER_CLOCK_READ: u64 = 64;

/// Publishes nothing on targets without 64-bit atomics.
#[cfg(not(target_has_atomic = "64"))]
pub(crate) mod deadlines {
    use crate::priority::Priority;
    use crate::scheduling::config::Config;
    use crate::scheduling::table::block::BlockRef;

    pub(crate) struct Bounds;

    impl Bounds {
        pub(crate) fn new(_: &Config) -> Self {
            Self
        }
        pub(crate) fn started(&self, _: Option<BlockRef>, _: Priority, _: u64) {}
        pub(crate) fn handed_over(&self, _: Option<BlockRef>, _: Priority, _: u64) {}
        pub(crate) fn sleeper_moves(&self, _: BlockRef, _: Priority) {}
        pub(crate) fn ended(&self) {}
        pub(crate) fn emptied(&self) {}
        pub(crate) fn are_stale(&self, _: u64) -> bool {
            false
        }
        pub(crate) fn raise(
            &self,
            _: u64,
            _: Priority,
            _: impl FnOnce(&mut dyn FnMut(Priority, u64)),
        ) {
        }
    }
}
