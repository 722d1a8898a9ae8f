//! Rules I: which coroutine donates its level to which other one, and the effects.

use alloc::vec;
use alloc::vec::Vec;

use super::{Model, State};
use crate::op::{Id, Op};

impl Model {
    /// Returns the effective level: the most urgent of its own level and all that it inherits (P5).
    pub(super) fn effective(&self, id: Id) -> u8 {
        let own = self.own(id);
        self.inherited(id).map_or(own, |level| level.min(own))
    }

    /// Returns the most urgent own level among all that wait for the coroutine, directly or not
    /// (I1, I2, I7).
    ///
    /// It is computed afresh each time, so that it is always up to date (I4). Each coroutine is
    /// visited once, so the loop ends even in a cycle (I8).
    pub(super) fn inherited(&self, id: Id) -> Option<u8> {
        let mut among = vec![id];
        let mut next = 0;
        while let Some(&lent_to) = among.get(next) {
            next += 1;
            let lenders: Vec<Id> = self
                .ids()
                .filter(|&w| self.donates_to(w) == Some(lent_to) && !among.contains(&w))
                .collect();
            among.extend(lenders);
        }
        among.iter().skip(1).map(|&c| self.own(c)).min()
    }

    /// Returns the coroutine to which this one donates its level (I1, I5).
    ///
    /// A waiter that has been granted what it waited for donates no more (I4).
    pub(super) fn donates_to(&self, id: Id) -> Option<Id> {
        let waiting = self.coroutines[id].waiting.filter(|w| !w.granted)?;
        match waiting.op {
            Op::Lock(mutex) => self.primitives.mutexes.get(mutex)?.holder,
            Op::Join(other) => Some(other).filter(|&c| self.state(c) != State::Exited),
            _ => None,
        }
    }

    /// Updates the levels after a change at `from` (R2, R3, I3).
    ///
    /// Every ready coroutine along the chain whose level has changed moves to the tail of its new
    /// level. One that no longer belongs in the second queue moves to the first one (B10).
    pub(super) fn update_levels(&mut self, from: Id) {
        let mut seen = Vec::new();
        let mut next = Some(from);
        while let Some(id) = next.filter(|id| !seen.contains(id)) {
            seen.push(id);
            let place = self.place(id);
            if let Some(at) = self.ready.iter().position(|&(_, other)| other == id) {
                let was = self.ready[at].0;
                if was.level != place.level || (was.second && !place.second) {
                    self.ready.remove(at);
                    self.ready.push((place, id));
                }
            }
            next = self.donates_to(id);
        }
    }

    /// Tests whether coroutines that wait for each other form a cycle (I8).
    ///
    /// Levels inside a cycle are unspecified, so generators of random scenes avoid them.
    pub fn has_deadlock(&self) -> bool {
        self.ids().any(|start| {
            let mut at = self.donates_to(start);
            // A walk with more steps than there are coroutines has come back to one of them.
            for _ in 0..self.coroutines.0.len() {
                match at {
                    None => return false,
                    Some(id) => at = self.donates_to(id),
                }
            }
            at.is_some()
        })
    }

    /// Returns all coroutines, in the order of creation.
    pub(super) fn ids(&self) -> impl Iterator<Item = Id> + use<> {
        (0..self.coroutines.0.len()).map(Id)
    }
}
