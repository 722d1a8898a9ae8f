//! Which level a pick takes from (rules B1 to B6).

use core::num::NonZeroU32;

use corank::{Levels, Priority};

/// A policy of picks. What a program does not use is not linked.
pub trait Choose {
    /// Returns the level of the next pick, which is one of `ready`.
    ///
    /// It is called once for each pick, with interrupts masked.
    fn choose(&mut self, ready: Levels, most_urgent: Priority) -> Priority;
}

/// The most urgent level, always (rule B1).
#[derive(Clone, Copy, Debug, Default)]
pub struct Strict;

impl Choose for Strict {
    #[inline]
    fn choose(&mut self, _: Levels, most_urgent: Priority) -> Priority {
        most_urgent
    }
}

/// Every k-th pick goes to the levels in turn (rules B2 to B6).
#[derive(Clone, Copy, Debug)]
pub struct Bounded {
    every: NonZeroU32,
    picks: u32,
    cursor: u8,
}

impl Bounded {
    /// Creates the policy *bounded(k)*.
    #[must_use]
    pub const fn new(every: NonZeroU32) -> Self {
        Self {
            every,
            picks: 0,
            cursor: 0,
        }
    }
}

impl Choose for Bounded {
    fn choose(&mut self, ready: Levels, most_urgent: Priority) -> Priority {
        self.picks += 1;
        if self.picks < self.every.get() {
            return most_urgent;
        }
        self.picks = 0;
        let behind = Levels::from_bits(ready.bits() & u64::MAX << self.cursor);
        let level = behind.most_urgent().unwrap_or(most_urgent);
        self.cursor = (level.level() + 1) % 64;
        level
    }
}
