//! The ordered events of all rings, in one order.

use crate::format::{Id, Kind};
use crate::read::Recording;

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
        let mut from = 0;
        for ring in recording.rings.iter().filter(|ring| ring.lost > 0) {
            // A full ring without ordered events hides nothing from the order, or all of it.
            let first = ring.events.iter().find_map(|event| event.order);
            from = from.max(first.unwrap_or(0));
        }
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
