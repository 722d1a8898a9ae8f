//! The lines of a trace, from the steps of its scene.

use super::CutError;
use super::begin::{Beginning, Coroutine};
use super::waits::{End, Waits};
use crate::check::Expected;
use crate::format::{Id, Kind};
use crate::order::{Step, StepKind};
use std::collections::{HashMap, HashSet};

/// A line of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Spawn(Id, u8),
    Wake(Id),
    Reprioritize(Id, u8),
    Cancel(Id),
    Lock(usize),
    Unlock(usize),
    /// A mutex, which it does not get.
    LockWaits(usize),
    JoinWaits(Id),
    /// What it has waited for, with the result of a join.
    Got(Option<&'static str>),
    Waits,
    Abandon,
    Yield,
    Block,
    Finish,
    Panic,
    State(Id, &'static str),
    Level(Id, u8),
    Idle,
}

/// A line outside of polls, or a poll.
pub(super) enum Part {
    Line(Line),
    Poll(Id, Vec<Line>),
}

/// What a coroutine waits for at the end of its last poll.
#[derive(Clone, Copy)]
enum Waiting {
    Still,
    /// It has it since, with the result of a join.
    Over(Option<&'static str>),
}

/// The poll that goes on.
struct Poll {
    id: Id,
    ring: usize,
    /// What goes on from the last poll, until it is known how.
    waited: Option<Waiting>,
    abandons: bool,
    lines: Vec<Line>,
    /// The wait that has begun.
    waits: Option<usize>,
    /// A wait that has begun, and was given up since.
    gave_up: Option<usize>,
    woke_itself: bool,
    /// It was woken by another thread, and the line stands in the poll.
    was_woken: bool,
}

struct Builder<'a> {
    scene: &'a Beginning<'a>,
    waits: &'a Waits,
    parts: Vec<Part>,
    poll: Option<Poll>,
    waiting: HashMap<Id, Waiting>,
    /// Coroutines whose next wake follows from a line that is there.
    woken: HashSet<Id>,
    /// Coroutines whose cancellation is there already.
    cancelled: HashSet<Id>,
    results: HashMap<Id, &'static str>,
    /// The states after the scene, in the order in which the coroutines took part first.
    states: Vec<(Id, &'static str)>,
    /// Their places there.
    places: HashMap<Id, usize>,
}

pub(super) fn of(scene: &Beginning<'_>, waits: &Waits) -> Result<Vec<Part>, CutError> {
    let mut builder = Builder {
        scene,
        waits,
        parts: Vec::new(),
        poll: None,
        waiting: HashMap::new(),
        woken: HashSet::new(),
        cancelled: HashSet::new(),
        results: HashMap::new(),
        states: Vec::new(),
        places: HashMap::new(),
    };
    builder.begin();
    for (at, step) in scene.steps.iter().enumerate() {
        builder
            .step(at, step)
            .map_err(|reason| CutError::at(scene.first + at, reason))?;
    }
    builder.end();
    Ok(builder.parts)
}

impl Builder<'_> {
    /// Makes the coroutines that are there at the beginning.
    fn begin(&mut self) {
        let mut ready = Vec::new();
        for &Coroutine {
            id,
            level,
            is_ready,
        } in &self.scene.coroutines
        {
            let locked = self.waits.locked_in(id, None);
            self.set_state(id, if is_ready { "ready" } else { "blocked" });
            if is_ready && locked.is_empty() {
                ready.push(Line::Spawn(id, level));
                continue;
            }
            // Nothing else is ready while it is polled once.
            self.line(Line::Spawn(id, level));
            let locks = locked.iter().copied().map(Line::Lock);
            let lines = locks.chain([Line::Block]).collect();
            self.parts.push(Part::Poll(id, lines));
            ready.extend(is_ready.then_some(Line::Wake(id)));
        }
        ready.into_iter().for_each(|line| self.line(line));
    }

    /// Adds a line to the poll that goes on, or outside of polls.
    fn line(&mut self, line: Line) {
        match &mut self.poll {
            Some(poll) => poll.lines.push(line),
            None => self.parts.push(Part::Line(line)),
        }
    }

    fn set_state(&mut self, id: Id, state: &'static str) {
        let new = self.states.len();
        let place = *self.places.entry(id).or_insert(new);
        match self.states.get_mut(place) {
            Some((_, now)) => *now = state,
            None => self.states.push((id, state)),
        }
    }

    fn polled(&self) -> Option<Id> {
        Some(self.poll.as_ref()?.id)
    }

    /// Tests whether a coroutine is there, or has been.
    fn is_named(&self, id: Id) -> bool {
        self.places.contains_key(&id)
    }

    fn step(&mut self, at: usize, step: &Step) -> Result<(), &'static str> {
        let id = step.id;
        let is_new = step.kind == StepKind::Of(Kind::Spawn);
        if step.coroutines().any(|id| self.is_named(id) == is_new) {
            return Err("it has an identifier for a coroutine and for an earlier one");
        }
        match step.kind {
            StepKind::Of(Kind::Spawn) => {
                self.line(Line::Spawn(id, step.level));
                self.set_state(id, "ready");
            }
            StepKind::Of(Kind::Wake) => self.wake(step),
            StepKind::Of(Kind::Ready) => self.set_state(id, "ready"),
            StepKind::Of(Kind::Base) => self.line(Line::Reprioritize(id, step.level)),
            StepKind::Of(Kind::Pick) => return self.pick(at, step),
            StepKind::Of(Kind::Yield | Kind::Block | Kind::Finish | Kind::Panic) => {
                return self.end_poll(step);
            }
            StepKind::Of(Kind::Cancel) => return self.cancel(step),
            StepKind::Of(Kind::Preempt | Kind::Stall | Kind::Resume) => {
                return Err("a poll is preempted, which a trace cannot show");
            }
            StepKind::Of(_) => {}
            StepKind::Lend(_) => {
                // Not the donation of a waiter that goes on for the next holder.
                if let (Some(number), Some(poll)) = (self.waits.begun_at(at), &mut self.poll) {
                    poll.waits = Some(number);
                }
            }
            StepKind::Unlend(_) => self.end_wait(at, id),
        }
        Ok(())
    }

    fn wake(&mut self, step: &Step) {
        if self.woken.remove(&step.id) {
            return;
        }
        match &mut self.poll {
            Some(poll) if poll.id == step.id && poll.ring == step.ring => poll.woke_itself = true,
            Some(poll) if poll.id == step.id => {
                poll.was_woken = true;
                poll.lines.push(Line::Wake(step.id));
            }
            _ => self.line(Line::Wake(step.id)),
        }
    }

    fn pick(&mut self, at: usize, step: &Step) -> Result<(), &'static str> {
        if self.poll.is_some() {
            return Err("two coroutines are polled at the same time, and a trace knows one worker");
        }
        let locks = self.waits.locked_in(step.id, Some(at));
        self.set_state(step.id, "running");
        let locks = locks.iter().copied().map(Line::Lock).collect();
        self.poll = Some(self.poll_of(step.id, step.ring, locks));
        Ok(())
    }

    /// Returns a poll that begins so.
    fn poll_of(&mut self, id: Id, ring: usize, lines: Vec<Line>) -> Poll {
        Poll {
            id,
            ring,
            waited: self.waiting.remove(&id),
            abandons: false,
            lines,
            waits: None,
            gave_up: None,
            woke_itself: false,
            was_woken: false,
        }
    }

    fn end_poll(&mut self, step: &Step) -> Result<(), &'static str> {
        let StepKind::Of(kind) = step.kind else {
            return Ok(());
        };
        let Some(poll) = self.poll.take().filter(|poll| poll.id == step.id) else {
            return Err("a poll ends that the scene does not have");
        };
        let (state, result) = match kind {
            Kind::Yield => ("ready", None),
            Kind::Block => ("blocked", None),
            Kind::Panic => ("exited", Some("panicked")),
            Kind::Cancel => ("exited", Some("cancelled")),
            _ => ("exited", Some("ok")),
        };
        self.set_state(step.id, state);
        self.results.extend(result.map(|result| (step.id, result)));
        self.close(poll, kind)
    }

    /// Adds a poll that has ended so.
    fn close(&mut self, mut poll: Poll, kind: Kind) -> Result<(), &'static str> {
        let id = poll.id;
        let mut lines = Vec::new();
        match poll.waited {
            Some(Waiting::Over(result)) => lines.push(Line::Got(result)),
            Some(Waiting::Still) if poll.abandons => lines.push(Line::Abandon),
            Some(Waiting::Still) => {
                if kind != Kind::Block || !poll.lines.is_empty() || poll.waits.is_some() {
                    return Err("it does more while it waits than a trace can show");
                }
                self.waiting.insert(id, Waiting::Still);
                self.parts.push(Part::Poll(id, vec![Line::Waits]));
                return Ok(());
            }
            None => {}
        }
        lines.append(&mut poll.lines);
        let gave_up = poll.gave_up.filter(|_| kind == Kind::Cancel);
        let end = match (kind, poll.waits.or(gave_up)) {
            (Kind::Block | Kind::Cancel, Some(wait)) => {
                self.waiting.insert(id, Waiting::Still);
                match self.waits.joined(wait) {
                    Some(joined) => Line::JoinWaits(joined),
                    None => Line::LockWaits(self.waits.mutex(wait).unwrap_or(wait)),
                }
            }
            (Kind::Yield, Some(_)) => return Err("it begins to wait, and yields"),
            (Kind::Yield, None) if !poll.was_woken => Line::Yield,
            (Kind::Finish, _) => Line::Finish,
            (Kind::Panic, _) => Line::Panic,
            _ => Line::Block,
        };
        lines.push(end);
        self.parts.push(Part::Poll(id, lines));
        Ok(())
    }

    fn cancel(&mut self, step: &Step) -> Result<(), &'static str> {
        if self.polled() == Some(step.id) {
            // The scene does not show when, and it takes effect at the end of the poll (X2).
            self.line(Line::Cancel(step.id));
            return self.end_poll(step);
        }
        if !self.cancelled.remove(&step.id) {
            self.line(Line::Cancel(step.id));
        }
        self.waiting.remove(&step.id);
        self.results.insert(step.id, "cancelled");
        self.set_state(step.id, "exited");
        Ok(())
    }

    fn end_wait(&mut self, at: usize, id: Id) {
        let Some((number, end)) = self.waits.ended_at(at) else {
            return;
        };
        match end {
            End::Moved => {}
            End::Abandoned => {
                if let Some(poll) = &mut self.poll {
                    match poll.waits.take() {
                        // A cancellation takes effect when the poll has ended.
                        Some(wait) => poll.gave_up = Some(wait),
                        None => poll.abandons = true,
                    }
                }
            }
            End::Granted => {
                if let Some(mutex) = self.waits.mutex(number) {
                    self.line(Line::Unlock(mutex));
                }
                self.be_over(id, None);
            }
            End::Joined => {
                let joined = self.waits.joined(number);
                let result = joined.and_then(|id| self.results.get(&id).copied());
                self.be_over(id, result);
            }
            End::Cancelled(cancelled) => {
                if self.cancelled.insert(cancelled) {
                    self.line(Line::Cancel(cancelled));
                }
                if cancelled != id {
                    self.be_over(id, None);
                }
            }
        }
    }

    /// Lets a coroutine have what it has waited for.
    fn be_over(&mut self, id: Id, result: Option<&'static str>) {
        self.woken.insert(id);
        self.waiting.insert(id, Waiting::Over(result));
    }

    /// Adds what must be true at the end.
    fn end(&mut self) {
        let Some(broken) = &self.scene.broken else {
            if let Some(poll) = self.poll.take() {
                // How it ends is not in the recording.
                let _ = self.close(poll, Kind::Block);
            }
            let states = std::mem::take(&mut self.states);
            let known = states.into_iter().filter(|&(_, state)| state != "running");
            let lines = known.map(|(id, state)| Part::Line(Line::State(id, state)));
            self.parts.extend(lines);
            return;
        };
        let expected = broken.expected;
        let is_polled = match expected {
            Some(Expected::Ready(id)) => self.polled() == Some(id),
            Some(Expected::Runs(_)) => true,
            _ => broken.ends_poll.is_some(),
        };
        if is_polled && let Some(mut poll) = self.poll.take() {
            if expected == Some(Expected::Ready(poll.id)) && poll.woke_itself {
                poll.lines.push(Line::Wake(poll.id));
            }
            let _ = self.close(poll, broken.ends_poll.unwrap_or(Kind::Block));
        }
        match expected {
            Some(Expected::Ready(id)) => self.line(Line::State(id, "ready")),
            Some(Expected::Level(id, level)) => self.line(Line::Level(id, level)),
            Some(Expected::Runs(Some(id))) => {
                let poll = self.poll_of(id, 0, Vec::new());
                let _ = self.close(poll, Kind::Block);
            }
            Some(Expected::Runs(None)) => self.line(Line::Idle),
            None => {}
        }
        if let Some(poll) = self.poll.take() {
            let _ = self.close(poll, Kind::Block);
        }
    }
}
