//! A trace in memory. `spec/traces/README.md` describes the text form.

use alloc::string::String;
use alloc::vec::Vec;

use crate::model::State;
use crate::op::{Id, Op, Reply};

/// One scene, with its expected course.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The file from which it was read, for messages.
    pub file: String,
    /// A short name, unique among the traces.
    pub name: String,
    /// The rules of the contract that it exercises.
    pub rules: Vec<String>,
    /// The state at the beginning.
    pub settings: Settings,
    /// The names of coroutines and primitives in the text.
    pub names: Names,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// The state at the beginning of a scene.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The rule by which a coroutine is picked.
    pub policy: Policy,
    /// Whether coroutines that compute for long are demoted (B7).
    pub demotion: Option<Demotion>,
    /// Whether the executor checks for more urgent work elsewhere.
    pub global: Global,
    /// The largest number of coroutines at one time. Without it, there may be more than any trace
    /// spawns.
    pub capacity: Option<usize>,
    /// The number of mutexes; all are free.
    pub mutexes: usize,
    /// The permits of each semaphore.
    pub semaphores: Vec<u32>,
    /// The number of events; none is set.
    pub events: usize,
    /// The capacity of each channel, at least 1; all are empty.
    pub channels: Vec<u32>,
}

/// The rule by which a coroutine is picked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Always the most urgent one (B1).
    #[default]
    Strict,
    /// One pick in this many, at least 1, goes round the levels (B2).
    Bounded(u32),
}

/// The parameter of demotion (B7, B8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demotion {
    /// The polls of a quantum, 1 to 32.
    pub quantum: u32,
    /// The number of levels, 0 to 63, of each further demotion.
    pub levels: u8,
}

impl Demotion {
    /// The largest quantum.
    pub const LONGEST: u32 = 32;
}

/// Whether the executor checks for more urgent work elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Global {
    /// Before every pick (G1).
    #[default]
    Strict,
    /// Never (G2).
    Relaxed,
}

/// The names in a trace's text. Each list is indexed as [`Op`] does.
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
    /// The action of the step.
    pub kind: StepKind,
}

/// The action of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// The world outside does this, and this must be the reply.
    Do(Op, Reply),
    /// This question must have this answer.
    Ask(Question, Answer),
    /// The next pick must be this coroutine, and its poll has these lines.
    ///
    /// The last line ends the poll.
    Run(Id, Vec<PollLine>),
    /// The next pick must find no ready coroutine.
    Idle,
    /// The next pick must yield to the system.
    GiveWay,
}

/// One action of a coroutine during a poll, with its expected outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PollLine {
    /// The line of the text, counted from 1.
    pub line: usize,
    /// The action.
    pub action: Expected,
}

/// An action with its expected outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// This operation, and this reply.
    Do(Op, Reply),
    /// This question, and this answer.
    Ask(Question, Answer),
}

/// The next action of the running coroutine, as a [`Script`](crate::Script) returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Do this, and report with [`Script::reply`](crate::Script::reply).
    Do(Op),
    /// Answer this, and report with [`Script::answer`](crate::Script::answer).
    Ask(Question),
}

/// A question about the scene, which may be asked anywhere.
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

/// A feature that a platform may lack.
///
/// A trace that needs it is then skipped, and the report says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    /// Cancelling.
    Cancel,
    /// Handles with results: join, detach, result.
    Handle,
    /// Panics that end only their coroutine.
    Panic,
    /// A limit on the number of coroutines that the scene chooses.
    Capacity,
    /// The policy with a starvation bound.
    Bounded,
    /// Demotion of coroutines that compute for long.
    Demotion,
    /// The check for more urgent work elsewhere in the system.
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
    /// Returns the features that a platform needs to replay this trace, each once.
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
        if self.demotion.is_some() {
            found.push(Feature::Demotion);
        }
        if self.global != Global::Strict {
            found.push(Feature::Global);
        }
        found
    }
}

impl Op {
    /// Returns the feature that this operation needs, unless it is spawn, wake or re-prioritise.
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
