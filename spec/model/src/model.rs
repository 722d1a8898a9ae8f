//! The contract, executed.
//!
//! Read it beside `spec/contract.md`. This file has the rules of order, states, wake and cancel.
//! `inherit.rs` has the effective level, `demote.rs` demotion, and `wait.rs` everything that a
//! coroutine can wait for.
//! Clarity is the only aim: the ready queues are one list, and every question is answered by a
//! search through all coroutines.

mod demote;
mod inherit;
mod wait;

use alloc::vec::Vec;

use crate::op::{Id, Op, Reply};
use crate::trace::{Global, Policy, Settings};
use demote::Place;
use wait::{Held, Primitives, Waiting};

/// The number of levels (P1).
const LEVELS: u8 = 64;
/// The default level (P2).
const DEFAULT_LEVEL: u8 = 32;

/// The state of a coroutine (S1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// In a ready queue.
    Ready,
    /// Being polled.
    Running,
    /// In no queue, not being polled.
    Blocked,
    /// Exited, or never created because its spawn was refused.
    Exited,
}

/// The way in which a coroutine ended (X5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With its output.
    Finished,
    /// By being cancelled.
    Cancelled,
    /// By a panic.
    Panicked,
}

#[derive(Clone, Debug)]
struct Coroutine {
    base: u8,
    state: State,
    /// A wake came during the present poll (W3).
    woken: bool,
    /// A cancel came during the present poll (X2).
    cancelled: bool,
    polls: u32,
    /// Its polls since it last waited (B7).
    in_use: u32,
    /// The operation that it waits for, and whether that has been granted (N2).
    waiting: Option<Waiting>,
    /// Locks and permits, in the order of acquisition (X9).
    held: Vec<Held>,
    /// Its handle exists and has not returned the result (X8).
    handle: bool,
    outcome: Option<Outcome>,
}

/// A plain executor of the contract.
///
/// [`apply`](Model::apply) is total: it replies to any operation with any number, and never panics.
/// Its cost is proportional to the number of coroutines, or its square.
#[derive(Clone, Debug)]
pub struct Model {
    settings: Settings,
    coroutines: Table,
    /// All ready coroutines with the queue that they are in, in the order in which they were
    /// queued. A queue is the part of this list with its place.
    ready: Vec<(Place, Id)>,
    running: Option<Id>,
    /// The number of picks that ran a coroutine (B2).
    picks: u32,
    /// The level at which the next reserved pick starts (B3).
    cursor: u8,
    /// For each level, the picks from its first queue that have passed over its second one (B10).
    passes: [u8; LEVELS as usize],
    elsewhere: Option<u8>,
    primitives: Primitives,
}

impl Default for Model {
    fn default() -> Self {
        Model::new(&Settings::default())
    }
}

impl Model {
    /// Returns an executor without coroutines.
    pub fn new(settings: &Settings) -> Model {
        Model {
            settings: settings.clone(),
            coroutines: Table(Vec::new()),
            ready: Vec::new(),
            running: None,
            picks: 0,
            cursor: 0,
            passes: [0; LEVELS as usize],
            elsewhere: None,
            primitives: Primitives::new(settings),
        }
    }

    /// Performs one operation and returns the reply.
    ///
    /// [`Reply::Invalid`] means that the operation makes no sense now. Then nothing has changed.
    pub fn apply(&mut self, op: Op) -> Reply {
        // A coroutine that was picked while it waits first polls, or drops, the future in which it
        // waits. No code of its own runs before that.
        let must_resume = self
            .running
            .is_some_and(|c| self.coroutines[c].waiting.is_some());
        let resumes = matches!(op, Op::Resume | Op::Abandon);
        if must_resume != resumes
            || (op.is_inside() && self.running.is_none())
            || (op.is_outside() && self.running.is_some())
        {
            return Reply::Invalid;
        }
        match op {
            Op::Spawn(level) => self.spawn(level.unwrap_or(DEFAULT_LEVEL)),
            Op::Wake(id) => self.for_known(id, Self::wake, Reply::Done),
            Op::Reprioritize(id, level) => self.reprioritize(id, level),
            Op::Cancel(id) => self.cancel(id),
            Op::Pick => self.pick(),
            Op::Elsewhere(level) => {
                self.elsewhere = level;
                Reply::Done
            }
            Op::Yield => {
                self.for_running(Self::wake); // W6
                self.end_pending()
            }
            Op::Block => self.end_pending(),
            Op::Finish => self.end_exited(Outcome::Finished),
            Op::Panic => self.end_exited(Outcome::Panicked),
            _ => self.apply_waiting(op),
        }
    }

    // S2 create
    fn spawn(&mut self, level: u8) -> Reply {
        let full = self.settings.capacity.is_some_and(|c| self.alive() >= c);
        let refused = full || level >= LEVELS; // C6, P1
        self.coroutines.0.push(Coroutine {
            base: level,
            state: State::Exited,
            woken: false,
            cancelled: false,
            polls: 0,
            in_use: 0,
            waiting: None,
            held: Vec::new(),
            handle: !refused,
            outcome: None,
        });
        if refused {
            return Reply::Refused;
        }
        self.enter_queue(Id(self.coroutines.0.len() - 1));
        Reply::Done
    }

    /// Returns how many coroutines have not exited (C5).
    fn alive(&self) -> usize {
        let alive = |c: &&Coroutine| c.state != State::Exited;
        self.coroutines.0.iter().filter(alive).count()
    }

    // S6 wake; W1 to W3, W5
    fn wake(&mut self, id: Id) {
        match self.coroutines[id].state {
            State::Blocked => self.enter_queue(id),
            State::Running => self.coroutines[id].woken = true,
            State::Ready | State::Exited => {}
        }
    }

    // O3
    fn enter_queue(&mut self, id: Id) {
        let place = self.place(id);
        self.coroutines[id].state = State::Ready;
        self.ready.push((place, id));
    }

    // R1 to R5
    fn reprioritize(&mut self, id: Id, level: u8) -> Reply {
        if level >= LEVELS || self.state(id) == State::Exited {
            return Reply::Refused;
        }
        self.coroutines[id].base = level;
        self.coroutines[id].in_use = 0; // B7
        self.update_levels(id);
        Reply::Done
    }

    // X1, X2, X4
    fn cancel(&mut self, id: Id) -> Reply {
        match self.state(id) {
            State::Exited => Reply::Refused,
            State::Running if self.coroutines[id].cancelled => Reply::Refused,
            State::Running => {
                self.coroutines[id].cancelled = true;
                Reply::Done
            }
            State::Ready | State::Blocked => {
                self.exit(id, Outcome::Cancelled);
                Reply::Done
            }
        }
    }

    // S3 pick
    fn pick(&mut self) -> Reply {
        let Some(most_urgent) = self.ready.iter().map(|(at, _)| at.level).min() else {
            return Reply::Idle; // O7, G5
        };
        let asks = self.settings.global == Global::Strict;
        if asks && self.elsewhere.is_some_and(|level| level < most_urgent) {
            return Reply::GivesWay; // G1 to G4, G6
        }
        self.picks = self.picks.wrapping_add(1);
        let level = match self.settings.policy {
            Policy::Bounded(every) if self.picks.checked_rem(every) == Some(0) => self.reserved(),
            _ => most_urgent, // O1, B4
        };
        let queue = self.queue_of(level);
        let Some(head) = self.ready.iter().position(|&(at, _)| at == queue) else {
            return Reply::Invalid; // not reached: `level` comes from `ready`
        };
        let (_, id) = self.ready.remove(head); // O2
        self.coroutines[id].state = State::Running;
        self.coroutines[id].woken = false;
        self.coroutines[id].polls += 1;
        self.running = Some(id);
        Reply::Picked(id)
    }

    /// Returns the level of a reserved pick, and moves the cursor (B3).
    fn reserved(&mut self) -> u8 {
        let bitmap = self.bitmap();
        while bitmap & (1 << self.cursor) == 0 {
            self.cursor = (self.cursor + 1) % LEVELS;
        }
        let level = self.cursor;
        self.cursor = (level + 1) % LEVELS;
        level
    }

    // S4 yield, S5 block, X2
    fn end_pending(&mut self) -> Reply {
        if let Some(id) = self.running.take() {
            if self.coroutines[id].cancelled {
                self.exit(id, Outcome::Cancelled);
            } else if self.coroutines[id].woken {
                self.coroutines[id].in_use += 1; // B7
                self.update_levels(id);
                self.enter_queue(id);
            } else {
                self.coroutines[id].state = State::Blocked;
                self.coroutines[id].in_use = 0; // B7
                self.update_levels(id);
            }
        }
        Reply::Done
    }

    // S7 finish and panic; X3: a cancel during this poll came too late
    fn end_exited(&mut self, outcome: Outcome) -> Reply {
        if let Some(id) = self.running.take() {
            self.exit(id, outcome);
        }
        Reply::Done
    }

    /// Ends a coroutine, in the order that X9 and X6 demand.
    fn exit(&mut self, id: Id, outcome: Outcome) {
        self.ready.retain(|&(_, other)| other != id);
        self.drop_wait(id);
        while let Some(held) = self.coroutines[id].held.pop() {
            self.give_back(held);
        }
        self.coroutines[id].state = State::Exited;
        self.coroutines[id].outcome = Some(outcome);
        if let Some(waiter) = self.joiner(id) {
            self.grant(waiter);
        }
    }

    fn for_running(&mut self, act: fn(&mut Self, Id)) {
        if let Some(id) = self.running {
            act(self, id);
        }
    }

    fn for_known(&mut self, id: Id, act: fn(&mut Self, Id), reply: Reply) -> Reply {
        if id.0 < self.coroutines.0.len() {
            act(self, id);
        }
        reply
    }

    /// Returns the state of a coroutine, or `Exited` for one that was never spawned.
    pub fn state(&self, id: Id) -> State {
        self.coroutines
            .0
            .get(id.0)
            .map_or(State::Exited, |c| c.state)
    }

    /// Returns the effective level of a coroutine (P5), or `None` if it has exited.
    pub fn level(&self, id: Id) -> Option<u8> {
        (self.state(id) != State::Exited).then(|| self.effective(id))
    }

    /// Returns how often a coroutine was picked.
    pub fn polls(&self, id: Id) -> u32 {
        self.coroutines.0.get(id.0).map_or(0, |c| c.polls)
    }

    /// Returns the ready bitmap (P3).
    pub fn bitmap(&self) -> u64 {
        let set = |bits, (at, _): &(Place, Id)| bits | 1u64 << at.level;
        self.ready.iter().fold(0, set)
    }

    /// Returns the running coroutine, if any.
    pub fn running(&self) -> Option<Id> {
        self.running
    }

    /// Returns the published level of the running coroutine (P4).
    pub fn running_level(&self) -> Option<u8> {
        self.running.map(|id| self.effective(id))
    }

    /// Returns the ready coroutines of a level, head first: its first queue, then its second one.
    pub fn queue(&self, level: u8) -> Vec<Id> {
        let mut all = self.first_queue(level);
        all.extend(self.second_queue(level));
        all
    }

    /// Returns the ready coroutines of a level in its first queue, head first (B10).
    pub fn first_queue(&self, level: u8) -> Vec<Id> {
        self.queued(Place::first(level))
    }

    /// Returns the ready coroutines of a level in its second queue, head first (B10).
    pub fn second_queue(&self, level: u8) -> Vec<Id> {
        self.queued(Place::second(level))
    }

    fn queued(&self, place: Place) -> Vec<Id> {
        let here = self.ready.iter().filter(|&&(at, _)| at == place);
        here.map(|&(_, id)| id).collect()
    }

    /// Returns how many coroutines were spawned, including refused ones. It is the number of the
    /// next [`Id`].
    pub fn spawned(&self) -> usize {
        self.coroutines.0.len()
    }

    /// Returns the operation that the coroutine waits for, until its future is polled to the end or
    /// dropped.
    pub fn waits_for(&self, id: Id) -> Option<Op> {
        Some(self.coroutines.0.get(id.0)?.waiting?.op)
    }
}

/// All coroutines by [`Id`].
///
/// They are never removed, so an identifier is never reused (C2). Only identifiers from the model's
/// own lists are used as indices. Other identifiers are checked first.
#[derive(Clone, Debug)]
struct Table(Vec<Coroutine>);

impl core::ops::Index<Id> for Table {
    type Output = Coroutine;

    fn index(&self, id: Id) -> &Coroutine {
        &self.0[id.0]
    }
}

impl core::ops::IndexMut<Id> for Table {
    fn index_mut(&mut self, id: Id) -> &mut Coroutine {
        &mut self.0[id.0]
    }
}
