//! The steps of a scene, and its coroutines at the beginning.

use super::CutError;
use crate::check::{Checker, Expected, Known};
use crate::format::{Id, Kind};
use crate::order::{Ordered, Step, StepKind};
use crate::read::Recording;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// The level of a coroutine of which the recording shows none.
const DEFAULT_LEVEL: u8 = 32;

/// A scene's steps, and its coroutines before the first one.
pub(super) struct Beginning<'a> {
    /// The number of the first step in the recording.
    pub(super) first: usize,
    pub(super) steps: &'a [Step],
    /// Blocked ones first, and then the ready ones in the order of their queues.
    pub(super) coroutines: Vec<Coroutine>,
    pub(super) broken: Option<Broken>,
}

/// A coroutine at the beginning of a scene.
pub(super) struct Coroutine {
    pub(super) id: Id,
    pub(super) level: u8,
    pub(super) is_ready: bool,
}

/// The rule that the next step after the scene breaks.
pub(super) struct Broken {
    pub(super) rule: &'static str,
    pub(super) message: String,
    /// Whether that step ends a poll, and by which kind.
    pub(super) ends_poll: Option<Kind>,
    /// What should have been so instead, if a trace can say it.
    pub(super) expected: Option<Expected>,
}

impl<'a> Beginning<'a> {
    pub(super) fn find(
        recording: &Recording,
        ordered: &'a Ordered,
        range: &Range<usize>,
    ) -> Result<Self, CutError> {
        let all = &ordered.steps;
        let first = Self::quiet_before(recording, ordered, range.start)?;
        let mut checker = Checker::new(recording, ordered);
        for (number, step) in all[..first].iter().enumerate() {
            let broken = |(rule, message)| {
                let text = format!("it breaks rule {rule} before the scene: {message}");
                CutError::at(number, text)
            };
            checker.step(step).map_err(broken)?;
        }
        let known = |id| checker.known(id);
        let known: HashMap<_, _> = (all[first..].iter().flat_map(Step::coroutines))
            .filter_map(|id| Some((id, known(id)?)))
            .collect();
        let mut end = first;
        let mut broken = None;
        for step in &all[first..] {
            let begins_poll = matches!(step.kind, StepKind::Of(Kind::Pick | Kind::Spawn));
            if end >= range.end && begins_poll && !checker.polls_any() {
                break;
            }
            if let Err((rule, message)) = checker.step(step) {
                let ends_poll = match step.kind {
                    StepKind::Of(kind @ (Kind::Yield | Kind::Block)) => Some(kind),
                    _ => None,
                };
                broken = Some(Broken {
                    rule,
                    message,
                    ends_poll,
                    expected: checker.expected.take(),
                });
                break;
            }
            end += 1;
        }
        let steps = &all[first..end];
        let mut this = Self {
            first,
            steps,
            coroutines: Vec::new(),
            broken,
        };
        this.take_coroutines(&known);
        Ok(this)
    }

    /// Returns the last step up to this one before which no coroutine is polled, and none donates.
    fn quiet_before(
        recording: &Recording,
        ordered: &Ordered,
        wanted: usize,
    ) -> Result<usize, CutError> {
        let mut checker = Checker::new(recording, ordered);
        let mut quiet = None;
        for (number, step) in ordered.steps.iter().enumerate().take(wanted + 1) {
            // Not between a cause and what follows from it.
            let begins = matches!(
                step.kind,
                StepKind::Of(Kind::Pick | Kind::Spawn | Kind::Wake | Kind::Base)
            );
            if begins && checker.is_quiet() {
                quiet = Some(number);
            }
            if checker.step(step).is_err() {
                break;
            }
        }
        // A recording without its beginning may begin in the middle of polls.
        let nothing = "no moment before it is known at which no coroutine is polled";
        quiet.ok_or_else(|| CutError::at(wanted, nothing))
    }

    /// Collects the coroutines that are there already and take part.
    fn take_coroutines(&mut self, known: &HashMap<Id, Known>) {
        let spawns = |step: &&Step| step.kind == StepKind::Of(Kind::Spawn);
        let spawned = self.steps.iter().filter(spawns).map(|step| step.id);
        let spawned: HashSet<Id> = spawned.collect();
        let mut seen = HashSet::new();
        let mut waiting = Vec::new();
        let mut ready = Vec::new();
        let should_run = match self.broken.as_ref().and_then(|broken| broken.expected) {
            Some(Expected::Runs(id)) => id,
            _ => None,
        };
        let taking_part = self.steps.iter().flat_map(Step::coroutines);
        for (number, id) in taking_part.chain(should_run).enumerate() {
            if spawned.contains(&id) || !seen.insert(id) {
                continue;
            }
            let known = known.get(&id).copied();
            let level = known.and_then(|known| known.level);
            let level = level.or_else(|| self.first_level(id));
            let coroutine = |is_ready| Coroutine {
                id,
                level: level.unwrap_or(DEFAULT_LEVEL),
                is_ready,
            };
            match known {
                Some(Known {
                    stamp: Some(stamp), ..
                }) => ready.push((stamp, number, coroutine(true))),
                Some(known) if known.is_known => waiting.push(coroutine(false)),
                // It was ready before all that are known to be.
                _ if self.is_polled_first(id) => ready.push((0, number, coroutine(true))),
                _ => waiting.push(coroutine(false)),
            }
        }
        ready.sort_by_key(|&(stamp, number, _)| (stamp, number));
        self.coroutines = waiting;
        let ready = ready.into_iter().map(|(_, _, coroutine)| coroutine);
        self.coroutines.extend(ready);
    }

    fn first_level(&self, id: Id) -> Option<u8> {
        let shows = |step: &&Step| {
            let kind = step.kind;
            step.id == id && matches!(kind, StepKind::Of(Kind::Ready | Kind::Pick | Kind::Yield))
        };
        Some(self.steps.iter().find(shows)?.level)
    }

    /// Tests whether the first that the scene shows of a coroutine is that it is picked.
    fn is_polled_first(&self, id: Id) -> bool {
        let own = self.steps.iter().find(|step| {
            let decides = !matches!(step.kind, StepKind::Of(Kind::Base | Kind::Level));
            step.id == id && decides
        });
        own.is_some_and(|step| step.kind == StepKind::Of(Kind::Pick))
    }
}
