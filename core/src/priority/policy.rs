//! The choice of the level that the next pick takes from (rules O1, B1 to B3).

use core::cell::Cell;
use core::num::NonZeroU32;

use crate::priority::{LEVELS, Levels, Priority};

/// How an executor chooses among the levels that have ready coroutines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// Always takes the most urgent level. A level that never empties starves those below it.
    #[default]
    Strict,
    /// Works as `Strict`, but each `every`-th pick is reserved.
    ///
    /// A reserved pick takes the next non-empty level in cyclic order.
    ///
    /// The bound: a ready coroutine with `q` others before it on its level is picked after at most
    /// `every × 64 × (q + 1)` picks, however busy the other levels are. With `every = 1` all levels
    /// share alike.
    Bounded {
        /// Distance between reserved picks.
        every: NonZeroU32,
    },
}

impl Policy {
    /// Returns [`Policy::Bounded`] with each `every`-th pick reserved; `Strict` for 0.
    pub const fn bounded(every: u32) -> Self {
        match NonZeroU32::new(every) {
            Some(every) => Self::Bounded { every },
            None => Self::Strict,
        }
    }
}

/// A policy and its memory.
#[derive(Debug)]
pub(crate) struct Chooser {
    policy: Policy,
    /// Picks since the last reserved one.
    picks: Cell<u32>,
    /// The level at which the next reserved pick starts to search.
    cursor: Cell<u8>,
    /// Whether picks are strict for the time being.
    paused: Cell<bool>,
}

impl Chooser {
    pub(crate) const fn new(policy: Policy) -> Self {
        Self {
            policy,
            picks: Cell::new(0),
            cursor: Cell::new(0),
            paused: Cell::new(false),
        }
    }

    /// Makes all picks strict until `paused` is false again.
    ///
    /// Picks in between are not counted.
    pub(crate) fn pause(&self, paused: bool) {
        self.paused.set(paused);
    }

    /// Tests whether picks are strict for the time being.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.get()
    }

    /// Returns the level that the next pick takes from, and counts a pick.
    ///
    /// It is one of `ready`, whose most urgent level is given.
    #[inline]
    pub(crate) fn choose(&self, ready: &Cell<Levels>, most_urgent: Priority) -> Priority {
        let Policy::Bounded { every } = self.policy else {
            return most_urgent;
        };
        if self.paused.get() {
            return most_urgent;
        }
        let picks = self.picks.get() + 1;
        if picks < every.get() {
            self.picks.set(picks);
            return most_urgent;
        }
        self.picks.set(0);
        let cursor = self.cursor.get();
        let distance = ready
            .get()
            .bits()
            .rotate_right(u32::from(cursor))
            .trailing_zeros() as u8;
        let level = (cursor + distance) % LEVELS as u8;
        self.cursor.set((level + 1) % LEVELS as u8);
        Priority::of_valid(level)
    }
}
