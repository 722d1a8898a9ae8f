//! A trace in memory. `spec/traces/README.md` describes the text form.

use alloc::string::String;
use alloc::vec::Vec;

use crate::model::State;
use crate::op::{Id, Op, Reply};

/// One scene with what must happen in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Where it was read from, for messages.
    pub file: String,
    /// A short name, unique among the traces.
    pub name: String,
    /// The rules of the contract that it exercises.
    pub rules: Vec<String>,
    /// What holds from the beginning.
    pub settings: Settings,
    /// How coroutines and primitives are called in the text.
    pub names: Names,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// What holds from the beginning of a scene.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Which coroutine is picked.
    pub policy: Policy,
    /// Whether the executor looks beyond itself.
    pub global: Global,
    /// How many coroutines there can be at once; without it, more than any trace spawns.
    pub capacity: Option<usize>,
    /// How many mutexes there are; all are free.
    pub mutexes: usize,
    /// The permits of each semaphore.
    pub semaphores: Vec<u32>,
    /// How many events there are; none is set.
    pub events: usize,
    /// The capacity of each channel, at least 1; all are empty.
    pub channels: Vec<u32>,
}

/// Which coroutine is picked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The most urgent, always (B1).
    #[default]
    Strict,
    /// One pick in so many, at least 1, goes round the levels (B2).
    Bounded(u32),
}

/// Whether the executor looks beyond itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Global {
    /// Before every pick (G1).
    #[default]
    Strict,
    /// Never (G2).
    Relaxed,
}

/// The names in a trace's text; each list is indexed as [`Op`] does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Of coroutines, by [`Id`].
    pub coroutines: Vec<String>,
    /// Of mutexes.
    pub mutexes: Vec<String>,
    /// Of semaphores.
    pub semaphores: Vec<String>,
    /// Of events.
    pub events: Vec<String>,
    /// Of channels.
    pub channels: Vec<String>,
}

/// One step of a scene, as seen from outside the coroutines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The line of the text, counted from 1.
    pub line: usize,
    /// What happens.
    pub kind: StepKind,
}

/// What happens in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// The world outside does this, and this must come of it.
    Do(Op, Reply),
    /// This question must have this answer.
    Ask(Question, Answer),
    /// The next pick must be this coroutine, and during the poll it does all this. The last line is
    /// the one that ends the poll.
    Run(Id, Vec<PollLine>),
    /// The next pick must find nothing ready.
    Idle,
    /// The next pick must give way to the system.
    GiveWay,
}

/// One thing that a coroutine does during a poll, and what must come of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PollLine {
    /// The line of the text, counted from 1.
    pub line: usize,
    /// What it does.
    pub action: Expected,
}

/// An action with what must come of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// This operation, and this reply.
    Do(Op, Reply),
    /// This question, and this answer.
    Ask(Question, Answer),
}

/// What a [`Script`](crate::Script) tells the running coroutine to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Do this, and report with [`Script::reply`](crate::Script::reply).
    Do(Op),
    /// Look, and report with [`Script::answer`](crate::Script::answer).
    Ask(Question),
}

/// Something to be seen from anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// The state of a coroutine.
    State(Id),
    /// The effective level of a coroutine, which has not exited.
    Level(Id),
    /// How often a coroutine has been polled, the present poll included.
    Polls(Id),
    /// The ready bitmap (P3).
    Bitmap,
    /// The published level of the running coroutine (P4).
    Running,
}

/// The answer to a [`Question`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To `State`.
    State(State),
    /// To `Level` and `Running`.
    Level(Option<u8>),
    /// To `Polls`.
    Polls(u32),
    /// To `Bitmap`.
    Bitmap(u64),
}

/// What a platform may lack. A trace that needs it is then skipped, and the report says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    /// Cancelling.
    Cancel,
    /// Handles with results: join, detach, result.
    Handle,
    /// Panics that end the coroutine alone.
    Panic,
    /// A limit on the number of coroutines that the scene chooses.
    Capacity,
    /// The policy with a starvation bound.
    Bounded,
    /// Looking at the rest of the system.
    Global,
    /// Mutexes.
    Mutex,
    /// Semaphores.
    Semaphore,
    /// Events.
    Event,
    /// Channels.
    Channel,
    /// Wake by key.
    Key,
    /// Timers.
    Timer,
}

impl Trace {
    /// What a platform needs in order to replay this trace, each once.
    pub fn features(&self) -> Vec<Feature> {
        let mut found = self.settings.features();
        let mut note = |action: &Expected| {
            if let Expected::Do(op, _) = action {
                found.extend(op.feature());
            }
        };
        for step in &self.steps {
            match &step.kind {
                StepKind::Do(op, reply) => note(&Expected::Do(*op, *reply)),
                StepKind::Run(_, lines) => lines.iter().for_each(|line| note(&line.action)),
                StepKind::Ask(..) | StepKind::Idle | StepKind::GiveWay => {}
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

impl Settings {
    fn features(&self) -> Vec<Feature> {
        let mut found = Vec::new();
        if self.capacity.is_some() {
            found.push(Feature::Capacity);
        }
        if self.policy != Policy::Strict {
            found.push(Feature::Bounded);
        }
        if self.global != Global::Strict {
            found.push(Feature::Global);
        }
        found
    }
}

impl Op {
    /// What a platform needs for this operation, if it is more than spawn, wake and re-prioritise.
    pub fn feature(self) -> Option<Feature> {
        Some(match self {
            Op::Cancel(_) => Feature::Cancel,
            Op::Detach(_) | Op::TakeResult(_) | Op::Join(_) => Feature::Handle,
            Op::Panic => Feature::Panic,
            Op::Elsewhere(_) => Feature::Global,
            Op::Lock(_) | Op::Unlock(_) => Feature::Mutex,
            Op::Acquire(_) | Op::Release(_) => Feature::Semaphore,
            Op::Set(_) | Op::Reset(_) | Op::WaitEvent(_) => Feature::Event,
            Op::Send(..) | Op::Receive(_) => Feature::Channel,
            Op::SignalKey(_) | Op::WaitKey(_) => Feature::Key,
            Op::Advance(_) | Op::Sleep(_) => Feature::Timer,
            _ => return None,
        })
    }
}
