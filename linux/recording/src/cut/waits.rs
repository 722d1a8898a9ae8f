//! Which donations of a scene are joins, and which are for one mutex.
//!
//! A lock that is handed over moves the donations of the other waiters to the new holder. So all
//! waits whose donations follow the holder of one of them are for the same mutex.

use super::CutError;
use super::begin::Beginning;
use crate::format::{Id, Kind};
use crate::order::{Step, StepKind};
use std::collections::{HashMap, HashSet};

/// How a donation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The waiting coroutine gives it up in a poll.
    Abandoned,
    /// The holder unlocks.
    Granted,
    /// The other coroutine has exited.
    Joined,
    /// Nothing ends: the wait goes on for the next holder.
    Moved,
    /// One of the two is cancelled.
    Cancelled(Id),
}

/// What a wait is for, once that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitKind {
    Unknown,
    Join,
    Lock,
}

struct Wait {
    /// The step where it begins.
    begins: usize,
    holder: Id,
    /// The step that has begun the latest poll of the holder.
    holder_pick: Option<usize>,
    kind: WaitKind,
    /// Another wait for the same mutex, or this one.
    same: usize,
}

/// The waits of a scene by which coroutines donate.
#[derive(Default)]
pub(super) struct Waits {
    waits: Vec<Wait>,
    /// The waits by the steps where they begin.
    begins: HashMap<usize, usize>,
    /// The ends of donations, and the waits, by the steps.
    ends: HashMap<usize, (usize, End)>,
    /// The mutexes that a coroutine locks in a poll, by the step that begins the poll; `None` is a
    /// poll before the scene.
    locked: HashMap<(Id, Option<usize>), Vec<usize>>,
}

/// What is known while the steps are gone through.
#[derive(Default)]
struct Now {
    polled: Option<Id>,
    picks: HashMap<Id, usize>,
    exited: HashSet<Id>,
    joined: HashSet<Id>,
    /// The waits that donate, by the coroutines that wait.
    active: HashMap<Id, usize>,
    /// The waits whose donations have ended without a poll of what waits, and the steps.
    granted: HashMap<Id, (usize, usize)>,
}

impl Waits {
    pub(super) fn of(scene: &Beginning<'_>) -> Result<Self, CutError> {
        let mut this = Self::default();
        let mut now = Now::default();
        for (at, step) in scene.steps.iter().enumerate() {
            let wrong = |reason: &str| CutError::at(scene.first + at, reason);
            match step.kind {
                StepKind::Of(Kind::Pick) => {
                    now.polled = Some(step.id);
                    now.picks.insert(step.id, at);
                    now.granted.remove(&step.id);
                }
                StepKind::Of(Kind::Yield | Kind::Block) => now.polled = None,
                StepKind::Of(Kind::Finish | Kind::Panic | Kind::Cancel) => {
                    now.exited.insert(step.id);
                    now.polled = now.polled.filter(|&polled| polled != step.id);
                }
                StepKind::Lend(Some(holder)) => {
                    this.begin(&mut now, at, step.id, holder).map_err(wrong)?;
                }
                StepKind::Unlend(Some(holder)) => {
                    let later = &scene.steps[at..];
                    this.end(&mut now, at, (step.id, holder), later)
                        .map_err(wrong)?;
                }
                StepKind::Lend(None) | StepKind::Unlend(None) => {
                    return Err(wrong("it does not say to which coroutine it donates"));
                }
                StepKind::Of(_) => {}
            }
        }
        this.choose(scene, &mut now)?;
        Ok(this)
    }

    /// Chooses what the waits are for that do not end, or end without a decision.
    fn choose(&mut self, scene: &Beginning<'_>, now: &mut Now) -> Result<(), CutError> {
        for wait in &mut self.waits {
            if wait.kind == WaitKind::Unknown && now.joined.insert(wait.holder) {
                wait.kind = WaitKind::Join;
            }
        }
        let mutexes: Vec<usize> = self.mutexes().collect();
        for mutex in mutexes {
            let wait = &self.waits[mutex];
            let locked = self.locked.entry((wait.holder, wait.holder_pick));
            locked.or_default().push(mutex);
            let is_there = scene.coroutines.iter().any(|other| other.id == wait.holder);
            if wait.holder_pick.is_none() && !is_there {
                let reason = "it waits for a coroutine that has not been polled, twice";
                return Err(CutError::at(scene.first + wait.begins, reason));
            }
        }
        Ok(())
    }

    fn begin(
        &mut self,
        now: &mut Now,
        at: usize,
        lender: Id,
        holder: Id,
    ) -> Result<(), &'static str> {
        if now.polled == Some(lender) {
            let number = self.waits.len();
            if now.active.insert(lender, number).is_some() {
                return Err("it waits in two places at once");
            }
            self.begins.insert(at, number);
            self.waits.push(Wait {
                begins: at,
                holder,
                holder_pick: now.picks.get(&holder).copied(),
                kind: WaitKind::Unknown,
                same: number,
            });
            return Ok(());
        }
        let Some((number, ended)) = now.granted.remove(&lender) else {
            return Err("it donates outside of its polls");
        };
        self.ends.insert(ended, (number, End::Moved));
        now.active.insert(lender, number);
        if let Some(&(next, _)) = now.granted.get(&holder) {
            let (one, other) = (self.first_of(number), self.first_of(next));
            let (earlier, later) = (one.min(other), one.max(other));
            self.waits[later].same = earlier;
        }
        Ok(())
    }

    fn end(
        &mut self,
        now: &mut Now,
        at: usize,
        (lender, holder): (Id, Id),
        later: &[Step],
    ) -> Result<(), &'static str> {
        let Some(number) = now.active.remove(&lender) else {
            return Err("a donation ends that has not begun in the scene");
        };
        let is_cancelled = |step: &&Step| {
            step.kind == StepKind::Of(Kind::Cancel) && (step.id == lender || step.id == holder)
        };
        let end = if now.polled == Some(lender) {
            End::Abandoned
        } else if now.exited.contains(&holder) {
            // A handle is awaited by one coroutine.
            if now.joined.insert(holder) {
                self.waits[number].kind = WaitKind::Join;
            }
            End::Joined
        } else if now.polled == Some(holder) {
            now.granted.insert(lender, (number, at));
            self.waits[number].kind = WaitKind::Lock;
            End::Granted
        } else if let Some(cancelled) = later.iter().find(is_cancelled) {
            if cancelled.id == holder {
                now.granted.insert(lender, (number, at));
                self.waits[number].kind = WaitKind::Lock;
            }
            End::Cancelled(cancelled.id)
        } else {
            return Err("a donation ends outside of polls, and nothing is cancelled");
        };
        self.ends.insert(at, (number, end));
        Ok(())
    }

    fn first_of(&self, mut number: usize) -> usize {
        while self.waits[number].same != number {
            number = self.waits[number].same;
        }
        number
    }

    /// Returns the wait that a step begins.
    pub(super) fn begun_at(&self, at: usize) -> Option<usize> {
        self.begins.get(&at).copied()
    }

    /// Returns the wait whose donation ends with a step, and how.
    pub(super) fn ended_at(&self, at: usize) -> Option<(usize, End)> {
        self.ends.get(&at).copied()
    }

    /// Returns the coroutine whose exit a wait is for, if it is a join.
    pub(super) fn joined(&self, number: usize) -> Option<Id> {
        let wait = &self.waits[number];
        (wait.kind == WaitKind::Join).then_some(wait.holder)
    }

    /// Returns the mutex that a wait is for, if it is one, by the number of its first wait.
    pub(super) fn mutex(&self, number: usize) -> Option<usize> {
        let first = self.first_of(number);
        (self.waits[number].kind != WaitKind::Join).then_some(first)
    }

    /// Returns all mutexes.
    pub(super) fn mutexes(&self) -> impl Iterator<Item = usize> {
        (0..self.waits.len()).filter(|&number| self.mutex(number) == Some(number))
    }

    /// Returns the mutexes that this coroutine locks in the poll that begins with this step; `None`
    /// is a poll before the scene.
    pub(super) fn locked_in(&self, holder: Id, pick: Option<usize>) -> &[usize] {
        self.locked.get(&(holder, pick)).map_or(&[], Vec::as_slice)
    }
}
