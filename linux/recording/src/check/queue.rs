//! The ready queues.

use crate::format::Id;
use std::collections::BTreeMap;

/// All ready coroutines, by level and by the order in which they became ready.
pub(super) struct Queues {
    levels: [BTreeMap<u64, Id>; 64],
    /// The levels that are not empty.
    ready: u64,
    stamp: u64,
}

impl Default for Queues {
    fn default() -> Self {
        Self {
            levels: [const { BTreeMap::new() }; 64],
            ready: 0,
            stamp: 0,
        }
    }
}

impl Queues {
    /// Adds a coroutine at the tail of its level, and returns its place.
    pub(super) fn push(&mut self, level: u8, id: Id) -> u64 {
        self.stamp += 1;
        self.levels[usize::from(level & 63)].insert(self.stamp, id);
        self.ready |= 1 << (level & 63);
        self.stamp
    }

    pub(super) fn remove(&mut self, level: u8, stamp: u64) {
        let queue = &mut self.levels[usize::from(level & 63)];
        queue.remove(&stamp);
        if queue.is_empty() {
            self.ready &= !(1 << (level & 63));
        }
    }

    /// Returns the first one of a level.
    pub(super) fn first(&self, level: u8) -> Option<Id> {
        let queue = &self.levels[usize::from(level & 63)];
        queue.first_key_value().map(|(_, &id)| id)
    }

    /// Returns the most urgent of these levels that is ready, and the first one there.
    pub(super) fn most_urgent(&self, levels: u64) -> Option<(u8, Id)> {
        let level = (self.ready & levels).trailing_zeros();
        let level = u8::try_from(level).ok().filter(|&level| level < 64)?;
        Some((level, self.first(level)?))
    }
}
