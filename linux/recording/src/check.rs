//! Compares a recording with the rules of the contract, step by step.
//!
//! It keeps what the contract says about each coroutine: its state, its place in a queue, its base
//! and effective level, and its lenders. Each step must be one that the rules allow now. Where a
//! recording has lost its beginning, what is not known yet allows every step.
//!
//! Several workers need nothing else: by rule H all steps are in one order, and the sequence
//! numbers say in which.

mod levels;
mod queue;
mod scene;
mod task;

pub use scene::{name as full_name, ring as ring_name};

use crate::format::{Id, Kind, Role};
use crate::order::{Ordered, Step, StepKind};
use crate::read::Recording;
use queue::Queues;
use std::collections::HashMap;
use std::fmt;
use task::{State, Task};

/// What was checked of a recording that keeps the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The steps.
    pub steps: usize,
    /// The picks.
    pub picks: usize,
    /// What was not checked, and why.
    pub limits: Vec<&'static str>,
}

/// The first step that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule's number in `spec/contract.md`.
    pub rule: &'static str,
    /// The number of the step.
    pub step: usize,
    /// What is wrong.
    pub message: String,
    /// The steps before and the wrong one, a line each.
    pub scene: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "rule {}: {}", self.rule, self.message)?;
        for line in &self.scene {
            writeln!(f, "  {line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Violation {}

/// What should have been so instead of a step that breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// The coroutine is ready.
    Ready(Id),
    /// It is picked next; `None` if nothing is ready.
    Runs(Option<Id>),
    /// It has this level.
    Level(Id, u8),
}

/// What is known of a coroutine that has not exited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) level: Option<u8>,
    /// Its place in the ready queue of its level, if it is ready.
    pub(crate) stamp: Option<u64>,
    /// Whether its state is known.
    pub(crate) is_known: bool,
}

/// Why the level of a coroutine may not follow from its base and lenders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// It was re-prioritised.
    Base,
    /// What is donated to it has changed, or its level.
    Waits,
}

/// The rule that a step breaks, and how.
pub(crate) type Broken = (&'static str, String);

/// Checks a recording by the contract.
///
/// A step takes time in proportion to the logarithm of the coroutines that are ready. A change of a
/// level takes time in proportion to the coroutines that donate to it.
///
/// # Errors
/// Returns the first step that breaks a rule.
pub fn check(recording: &Recording) -> Result<Checked, Box<Violation>> {
    let ordered = Ordered::of(recording);
    let mut checker = Checker::new(recording, &ordered);
    for (number, step) in ordered.steps.iter().enumerate() {
        checker.step(step).map_err(|(rule, message)| {
            Box::new(Violation {
                rule,
                step: number,
                message,
                scene: scene::before(recording, &ordered, number),
            })
        })?;
    }
    let settings = &recording.header.settings;
    let mut limits = Vec::new();
    if ordered.lost_before {
        limits.push("the beginning was lost: what it decides is taken as it comes");
    }
    if settings.demotes {
        limits.push("coroutines are demoted by their use: order and levels are not checked");
    } else if settings.bounded > 0 {
        limits.push("the policy is bounded: which level a reserved pick takes is not checked");
    }
    Ok(Checked {
        steps: ordered.steps.len(),
        picks: checker.picks,
        limits,
    })
}

pub(crate) struct Checker<'a> {
    recording: &'a Recording,
    lost_before: bool,
    /// The latest coroutine of each slot.
    tasks: HashMap<u32, (u16, Task)>,
    queues: Queues,
    /// The coroutine that each ring's worker polls; `None` inside if none, outside if not known.
    running: Vec<Option<Option<Id>>>,
    /// A blocked coroutine that a wake has reached: it must become ready at once.
    awaits_ready: Option<Id>,
    /// Coroutines whose level may not follow from their base and lenders, until the next pick.
    changed: Vec<(Id, Cause)>,
    picks: usize,
    /// Picks since the last one that was not of the most urgent level.
    since_reserved: Option<u32>,
    last_order: Option<u64>,
    /// The donations that go on.
    donations: usize,
    /// What should have been so instead, once a step has broken a rule.
    pub(crate) expected: Option<Expected>,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(recording: &'a Recording, ordered: &Ordered) -> Self {
        let nothing = if ordered.lost_before {
            None
        } else {
            Some(None)
        };
        Self {
            recording,
            lost_before: ordered.lost_before,
            tasks: HashMap::new(),
            queues: Queues::default(),
            running: vec![nothing; recording.rings.len()],
            awaits_ready: None,
            changed: Vec::new(),
            picks: 0,
            since_reserved: (!ordered.lost_before).then_some(0),
            last_order: None,
            donations: 0,
            expected: None,
        }
    }

    /// Tests whether a worker polls a coroutine, as far as that is known.
    pub(crate) fn polls_any(&self) -> bool {
        self.running
            .iter()
            .any(|running| matches!(running, Some(Some(_))))
    }

    /// Tests whether no coroutine is polled, and none donates, as far as that is known.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.polls_any() && self.donations == 0 && self.awaits_ready.is_none()
    }

    /// Returns what is known of a coroutine; `None` if it is not there.
    pub(crate) fn known(&self, id: Id) -> Option<Known> {
        let task = self.task(id).filter(|task| task.state != State::Exited)?;
        Some(Known {
            level: task.level,
            stamp: task.stamp,
            is_known: task.state != State::Unknown,
        })
    }

    /// Notes that the most urgent coroutine should be picked.
    fn expect_first(&mut self) {
        if self.recording.header.settings.bounded == 0 {
            let first = self.queues.most_urgent(u64::MAX);
            self.expected = Some(Expected::Runs(first.map(|(_, id)| id)));
        }
    }

    fn name(&self, id: Id) -> String {
        scene::name(self.recording, id)
    }

    /// Goes on by one step; the checker is of no use after one that breaks a rule.
    pub(crate) fn step(&mut self, step: &Step) -> Result<(), Broken> {
        self.follows(step)?;
        if let Some(woken) = self.awaits_ready.take()
            && (step.kind, step.id) != (StepKind::Of(Kind::Ready), woken)
        {
            let name = self.name(woken);
            self.expected = Some(Expected::Ready(woken));
            return Err((
                "W1",
                format!("the wake of {name}, which is blocked, was lost"),
            ));
        }
        match step.kind {
            StepKind::Of(Kind::Spawn) => self.spawn(step),
            StepKind::Lend(other) => self.lend(step, other),
            StepKind::Unlend(other) => self.unlend(step, other),
            StepKind::Of(kind) => {
                self.find(step)?;
                match kind {
                    Kind::Wake => self.wake(step),
                    Kind::Ready => self.ready(step)?,
                    Kind::Pick => self.pick(step)?,
                    Kind::Yield | Kind::Block => self.end_poll(step, kind)?,
                    Kind::Finish | Kind::Panic | Kind::Cancel => self.exit(step, kind)?,
                    Kind::Level => self.change_level(step)?,
                    Kind::Base => self.task_mut(step.id).base = Some(step.level),
                    Kind::Preempt | Kind::Stall => self.preempt(step)?,
                    Kind::Resume => self.resume(step)?,
                    _ => {}
                }
                if kind == Kind::Base {
                    self.changed.push((step.id, Cause::Base));
                }
                Ok(())
            }
        }
    }

    /// Checks that no step is missing before this one.
    fn follows(&mut self, step: &Step) -> Result<(), Broken> {
        let steps = match step.kind {
            StepKind::Lend(Some(_)) | StepKind::Unlend(Some(_)) => 2,
            _ => 1,
        };
        let last = self.last_order.replace(step.order);
        if last.is_some_and(|last| last + steps != step.order) {
            let message = "its sequence number does not follow: steps are missing or doubled";
            return Err(("H", message.to_string()));
        }
        Ok(())
    }

    fn spawn(&mut self, step: &Step) -> Result<(), Broken> {
        let Id { slot, generation } = step.id;
        if let Some((former, task)) = self.tasks.get(&slot) {
            let (state, generation) = (task.state, *former);
            let former = self.name(Id { slot, generation });
            let is_gone = state == State::Exited || state == State::Unknown;
            if is_gone && generation == step.id.generation {
                let text =
                    format!("a new coroutine has the identifier of {former}, an earlier one");
                return Err(("C4", text));
            }
            if !is_gone {
                let text = format!("slot {slot} is used again, but {former} has not exited");
                return Err(("C2", text));
            }
        }
        self.tasks.insert(
            slot,
            (generation, Task::new(Some(step.level), Some(step.level))),
        );
        self.enqueue(step.id, step.level);
        Ok(())
    }

    /// Finds the coroutine of a step, and makes it known if the beginning was lost.
    fn find(&mut self, step: &Step) -> Result<(), Broken> {
        let Id { slot, generation } = step.id;
        let known = self.tasks.get(&slot);
        match known {
            Some((same, task)) if *same == generation => {
                if task.state == State::Exited {
                    let name = self.name(step.id);
                    return Err(("S7", format!("{name} has exited, and nothing leads out")));
                }
                Ok(())
            }
            Some((_, task)) if task.state != State::Exited && task.state != State::Unknown => {
                let name = self.name(step.id);
                let text = format!("{name} has exited: its slot is used by another coroutine");
                Err(("C3", text))
            }
            _ if self.lost_before => {
                let mut task = Task::new(None, None);
                task.state = State::Unknown;
                self.tasks.insert(slot, (generation, task));
                Ok(())
            }
            _ => {
                let name = self.name(step.id);
                Err(("C2", format!("{name} was never created, or has exited")))
            }
        }
    }

    fn task(&self, id: Id) -> Option<&Task> {
        let (generation, task) = self.tasks.get(&id.slot)?;
        (*generation == id.generation).then_some(task)
    }

    /// Returns the coroutine, which `find` has found.
    fn task_mut(&mut self, id: Id) -> &mut Task {
        let task = self.tasks.entry(id.slot);
        &mut task
            .or_insert_with(|| (id.generation, Task::new(None, None)))
            .1
    }

    fn enqueue(&mut self, id: Id, level: u8) {
        let stamp = self.queues.push(level, id);
        let task = self.task_mut(id);
        task.state = State::Ready;
        task.stamp = Some(stamp);
        task.level = Some(level);
        task.woken = false;
        task.has_moved = false;
    }

    fn leave_queue(&mut self, id: Id) {
        let task = self.task_mut(id);
        if let (Some(stamp), Some(level)) = (task.stamp.take(), task.level) {
            self.queues.remove(level, stamp);
        }
    }

    fn wake(&mut self, step: &Step) {
        let task = self.task_mut(step.id);
        match task.state {
            State::Blocked => self.awaits_ready = Some(step.id),
            State::Running(_) | State::WithStack => task.woken = true,
            State::Ready | State::Unknown | State::Exited => {}
        }
    }

    fn ready(&mut self, step: &Step) -> Result<(), Broken> {
        let state = self.task_mut(step.id).state;
        match state {
            State::Blocked | State::Unknown => {}
            State::Ready => {
                let name = self.name(step.id);
                return Err(("O4", format!("{name} is in a ready queue already")));
            }
            _ => {
                let name = self.name(step.id);
                return Err((
                    "S6",
                    format!("{name} is {state}, and becomes ready as if blocked"),
                ));
            }
        }
        self.at_level(step)?;
        self.enqueue(step.id, step.level);
        Ok(())
    }

    /// Checks the level that a step shows.
    fn at_level(&mut self, step: &Step) -> Result<(), Broken> {
        let task = self.task_mut(step.id);
        let level = *task.level.get_or_insert(step.level);
        if level != step.level {
            self.expected = Some(Expected::Level(step.id, level));
            let name = self.name(step.id);
            return Err((
                "P5",
                format!(
                    "{name} has level {level}, and the step shows {}",
                    step.level
                ),
            ));
        }
        Ok(())
    }

    fn pick(&mut self, step: &Step) -> Result<(), Broken> {
        self.check_levels()?;
        let state = self.task_mut(step.id).state;
        let name = self.name(step.id);
        match state {
            State::Ready | State::Unknown => {}
            State::Running(ring) => {
                let other = scene::ring(self.recording, ring);
                return Err(("H1", format!("{name} is polled by {other} already")));
            }
            _ => {
                self.expect_first();
                return Err((
                    "S3",
                    format!("{name} is {state}, and only a ready one runs"),
                ));
            }
        }
        if let Some(Some(Some(polled))) = self.running.get(step.ring).copied() {
            let polled = self.name(polled);
            return Err(("S3", format!("its worker polls {polled} already")));
        }
        self.at_level(step)?;
        self.in_order(step, &name)?;
        self.picks += 1;
        self.leave_queue(step.id);
        let task = self.task_mut(step.id);
        task.state = State::Running(step.ring);
        task.woken = false;
        self.set_running(step.ring, Some(step.id));
        Ok(())
    }

    fn set_running(&mut self, ring: usize, id: Option<Id>) {
        if let Some(running) = self.running.get_mut(ring) {
            *running = Some(id);
        }
    }

    /// Checks that a pick takes from the most urgent level, and the first of that.
    fn in_order(&mut self, step: &Step, name: &str) -> Result<(), Broken> {
        let settings = &self.recording.header.settings;
        if settings.demotes {
            return Ok(());
        }
        let ring = self.recording.rings.get(step.ring);
        let takes = ring.map_or(u64::MAX, |ring| ring.takes);
        let is_spare = ring.is_some_and(|ring| ring.role == Role::Spare);
        let urgent = (self.queues.most_urgent(takes)).filter(|&(level, _)| level < step.level);
        if let Some((level, waiting)) = urgent {
            let allowed = settings.bounded > 0
                && !is_spare
                && (self.since_reserved).is_none_or(|picks| picks + 1 >= settings.bounded);
            if !allowed {
                self.expect_first();
                let waiting = self.name(waiting);
                let text = format!(
                    "{name} of level {} is picked while {waiting} is ready at level {level}",
                    step.level
                );
                let rule = if settings.bounded > 0 { "B2" } else { "O1" };
                return Err((rule, text));
            }
            self.since_reserved = Some(0);
        } else if !is_spare && let Some(picks) = &mut self.since_reserved {
            *picks = picks.saturating_add(1);
        }
        let task = self.task_mut(step.id);
        let (is_known, has_moved) = (task.stamp.is_some(), task.has_moved);
        let first = self.queues.first(step.level);
        let Some(first) = first.filter(|&first| is_known && first != step.id) else {
            return Ok(());
        };
        self.expect_first();
        let (first, level) = (self.name(first), step.level);
        Err(if has_moved {
            let text = format!("{name} came to level {level} after {first}, which is ready there");
            ("R2", text)
        } else {
            (
                "O2",
                format!("{first} became ready at level {level} before {name}"),
            )
        })
    }

    fn end_poll(&mut self, step: &Step, kind: Kind) -> Result<(), Broken> {
        self.polled_here(step)?;
        if kind == Kind::Yield {
            self.at_level(step)?;
        }
        let task = self.task_mut(step.id);
        if kind == Kind::Block && task.woken {
            self.expected = Some(Expected::Ready(step.id));
            let name = self.name(step.id);
            return Err((
                "W3",
                format!("{name} was woken during its poll, and blocks: the wake was lost"),
            ));
        }
        self.set_running(step.ring, None);
        if kind == Kind::Yield {
            self.enqueue(step.id, step.level);
        } else {
            let task = self.task_mut(step.id);
            task.state = State::Blocked;
        }
        Ok(())
    }

    /// Checks that the step's worker polls its coroutine.
    fn polled_here(&mut self, step: &Step) -> Result<(), Broken> {
        let state = self.task_mut(step.id).state;
        if state == State::Unknown || state == State::Running(step.ring) {
            return Ok(());
        }
        let (name, here) = (self.name(step.id), scene::ring(self.recording, step.ring));
        Err((
            "S3",
            format!("a poll of {name} ends on {here}, but it is {state}"),
        ))
    }

    fn exit(&mut self, step: &Step, kind: Kind) -> Result<(), Broken> {
        if kind == Kind::Finish {
            self.polled_here(step)?;
        }
        let state = self.task_mut(step.id).state;
        match state {
            State::Ready => self.leave_queue(step.id),
            State::Running(ring) => self.set_running(ring, None),
            State::Unknown => {
                if let Some(running @ None) = self.running.get_mut(step.ring) {
                    *running = (kind == Kind::Finish).then_some(None);
                }
            }
            _ => {}
        }
        let task = self.task_mut(step.id);
        task.state = State::Exited;
        task.stamp = None;
        Ok(())
    }

    fn preempt(&mut self, step: &Step) -> Result<(), Broken> {
        self.polled_here(step)?;
        self.task_mut(step.id).state = State::WithStack;
        self.set_running(step.ring, None);
        Ok(())
    }

    fn resume(&mut self, step: &Step) -> Result<(), Broken> {
        let state = self.task_mut(step.id).state;
        if state != State::WithStack && state != State::Unknown {
            let name = self.name(step.id);
            return Err(("S9", format!("{name} is {state}, and was not preempted")));
        }
        self.task_mut(step.id).state = State::Running(step.ring);
        self.set_running(step.ring, Some(step.id));
        Ok(())
    }
}
