//! Rules B7 to B10: demotion, and the two queues of a level.

use super::{LEVELS, Model};
use crate::op::Id;

/// The largest number of demotions (B8).
const MOST: u32 = 3;
/// The picks of a level that may pass over its second queue in a row (B10).
const PASSES: u8 = 15;

/// One of the two queues of a level (B10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) level: u8,
    /// Whether it is the second queue, of demoted coroutines.
    pub(super) second: bool,
}

impl Place {
    pub(super) fn first(level: u8) -> Place {
        Place {
            level,
            second: false,
        }
    }

    pub(super) fn second(level: u8) -> Place {
        Place {
            level,
            second: true,
        }
    }
}

impl Model {
    /// Returns how often the coroutine is demoted now (B8).
    fn demotions(&self, id: Id) -> u32 {
        let quanta = |quantum| self.coroutines[id].in_use.checked_div(quantum);
        let quantum = self.settings.demotion.map(|demotion| demotion.quantum);
        quantum.and_then(quanta).unwrap_or(0).min(MOST)
    }

    /// Returns the level that the coroutine has by itself (B8).
    pub(super) fn own(&self, id: Id) -> u8 {
        let further = self.demotions(id).saturating_sub(1);
        let levels = self.settings.demotion.map_or(0, |demotion| demotion.levels);
        let lowered = u32::from(self.coroutines[id].base) + further * u32::from(levels);
        lowered.min(u32::from(LEVELS) - 1) as u8
    }

    /// Returns the queue in which the coroutine belongs while it is ready (B10).
    pub(super) fn place(&self, id: Id) -> Place {
        let own = self.own(id);
        let inherits = self.inherited(id).is_some_and(|level| level <= own);
        Place {
            level: self.effective(id),
            second: self.demotions(id) > 0 && !inherits,
        }
    }

    /// Returns the queue that a pick from this level takes from, and counts the pick (B10).
    pub(super) fn queue_of(&mut self, level: u8) -> Place {
        let passes = self.passes[usize::from(level)];
        let (first, second) = (self.first_queue(level), self.second_queue(level));
        if second.is_empty() {
            Place::first(level)
        } else if first.is_empty() || passes == PASSES {
            self.passes[usize::from(level)] = 0;
            Place::second(level)
        } else {
            self.passes[usize::from(level)] += 1;
            Place::first(level)
        }
    }
}
