//! The ordered events of all rings, in one order.

use crate::format::{Id, Kind};
use crate::read::{Recording, RingEvents};

/// What a step does: the kinds of ordered events, with the borrower in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// An event about one coroutine.
    Of(Kind),
    /// A donation to another one begins; `None` if its name was lost.
    Lend(Option<Id>),
    /// A donation to another one ends; `None` if its name was lost.
    Unlend(Option<Id>),
}

/// One step of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Where it stands among all; 1 more than that of the step before, or 2 for a donation.
    pub order: u64,
    /// When, in nanoseconds.
    pub time: u64,
    /// The number of the ring, in [`Recording::rings`].
    pub ring: usize,
    /// The coroutine.
    pub id: Id,
    /// Its effective level; the base level of a change of that.
    pub level: u8,
    /// What it does.
    pub kind: StepKind,
}

impl Step {
    /// Returns the coroutines that the step is about.
    pub(crate) fn coroutines(&self) -> impl Iterator<Item = Id> + use<> {
        let other = match self.kind {
            StepKind::Lend(other) | StepKind::Unlend(other) => other,
            StepKind::Of(_) => None,
        };
        [Some(self.id), other].into_iter().flatten()
    }
}

/// All steps of a recording that are left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ordered {
    /// The steps, in their order.
    pub steps: Vec<Step>,
    /// Whether steps were lost before the first one.
    pub lost_before: bool,
}

impl Ordered {
    /// Orders the steps of a recording.
    ///
    /// If a ring has lost old ones, the steps begin where no ring has.
    #[must_use]
    pub fn of(recording: &Recording) -> Self {
        let full = recording.rings.iter().filter(|ring| ring.lost > 0);
        let from = full.map(|ring| first_whole(recording, ring)).max();
        let from = from.unwrap_or(0);
        let mut steps = Vec::new();
        for (number, ring) in recording.rings.iter().enumerate() {
            let mut borrower = None;
            for event in &ring.events {
                let Some(order) = event.order.filter(|&order| order >= from) else {
                    continue;
                };
                let other = borrower.take();
                let kind = match event.kind {
                    Kind::Borrower => {
                        borrower = Some(event.id);
                        continue;
                    }
                    Kind::Lend => StepKind::Lend(other),
                    Kind::Unlend => StepKind::Unlend(other),
                    kind => StepKind::Of(kind),
                };
                steps.push(Step {
                    order,
                    time: event.time,
                    ring: number,
                    id: event.id,
                    level: event.level,
                    kind,
                });
            }
        }
        steps.sort_by_key(|step| step.order);
        Self {
            steps,
            lost_before: from > 0,
        }
    }
}

/// Returns the place in the order from which on a full ring has lost no step.
fn first_whole(recording: &Recording, ring: &RingEvents) -> u64 {
    if let Some(first) = ring.events.iter().find_map(|event| event.order) {
        return first;
    }
    // What is left has no place in the order. The steps that were lost are older than all of it.
    let Some(oldest) = ring.events.first() else {
        return u64::MAX;
    };
    let steps = recording.rings.iter().flat_map(|ring| &ring.events);
    let before = steps.filter(|event| event.time <= oldest.time);
    before
        .filter_map(|event| event.order)
        .max()
        .map_or(0, |order| order + 1)
}
