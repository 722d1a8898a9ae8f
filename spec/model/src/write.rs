//! Writes a trace as text, in the form that the parser reads.

use core::fmt::{self, Display, Formatter};

use crate::model::State;
use crate::op::{Id, Op, Reply};
use crate::trace::{Answer, Demotion, Expected, Global, Names, Policy, Question, StepKind, Trace};

impl Display for Trace {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "corank-trace 1\nname {}", self.name)?;
        writeln!(f, "rules {}", self.rules.join(" "))?;
        if let Policy::Bounded(every) = self.settings.policy {
            writeln!(f, "policy bounded {every}")?;
        }
        if let Some(Demotion { quantum, levels }) = self.settings.demotion {
            writeln!(f, "demotion {quantum} {levels}")?;
        }
        if self.settings.global == Global::Relaxed {
            writeln!(f, "global relaxed")?;
        }
        if let Some(capacity) = self.settings.capacity {
            writeln!(f, "capacity {capacity}")?;
        }
        for name in &self.names.mutexes {
            writeln!(f, "mutex {name}")?;
        }
        for (name, permits) in self.names.semaphores.iter().zip(&self.settings.semaphores) {
            writeln!(f, "semaphore {name} {permits}")?;
        }
        for name in &self.names.events {
            writeln!(f, "event {name}")?;
        }
        for (name, capacity) in self.names.channels.iter().zip(&self.settings.channels) {
            writeln!(f, "channel {name} {capacity}")?;
        }
        // Names are assigned in the order of the spawns, so counting the spawns gives each new
        // name.
        let mut spawned = 0;
        for step in &self.steps {
            match &step.kind {
                StepKind::Do(op, reply) => {
                    let action = Expected::Do(*op, *reply);
                    writeln!(f, "{}", self.names.line(&action, &mut spawned))?;
                }
                StepKind::Ask(question, answer) => {
                    let action = Expected::Ask(*question, *answer);
                    writeln!(f, "{}", self.names.line(&action, &mut spawned))?;
                }
                StepKind::Run(id, lines) => {
                    writeln!(f, "run {}", self.names.coroutine(*id))?;
                    for line in lines {
                        writeln!(f, "  {}", self.names.line(&line.action, &mut spawned))?;
                    }
                }
                StepKind::Idle => writeln!(f, "idle")?,
                StepKind::GiveWay => writeln!(f, "give-way")?,
            }
        }
        Ok(())
    }
}

/// One line of a trace, for printing.
pub(crate) struct Line<'a> {
    names: &'a Names,
    action: &'a Expected,
    new: Id,
}

impl Names {
    /// Returns the name of a coroutine.
    pub fn coroutine(&self, id: Id) -> &str {
        name(&self.coroutines, id.0)
    }

    /// Returns the text of an action. `spawned` counts the spawns before it, and this one if it is
    /// one.
    pub(crate) fn line<'a>(&'a self, action: &'a Expected, spawned: &mut usize) -> Line<'a> {
        let new = Id(*spawned);
        if let Expected::Do(Op::Spawn(_), _) = action {
            *spawned += 1;
        }
        Line {
            names: self,
            action,
            new,
        }
    }
}

fn name(names: &[alloc::string::String], index: usize) -> &str {
    names.get(index).map_or("?", |name| name.as_str())
}

impl Display for Line<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self.action {
            Expected::Do(op, reply) => self.write_op(f, op, reply),
            Expected::Ask(question, answer) => self.write_question(f, question, answer),
        }
    }
}

impl Line<'_> {
    fn write_op(&self, f: &mut Formatter<'_>, op: Op, reply: Reply) -> fmt::Result {
        let coroutine = |id| self.names.coroutine(id);
        match op {
            Op::Spawn(Some(level)) => write!(f, "spawn {} {level}", coroutine(self.new)),
            Op::Spawn(None) => write!(f, "spawn {}", coroutine(self.new)),
            Op::Wake(id) => write!(f, "wake {}", coroutine(id)),
            Op::Reprioritize(id, level) => write!(f, "reprioritize {} {level}", coroutine(id)),
            Op::Cancel(id) => write!(f, "cancel {}", coroutine(id)),
            Op::Detach(id) => write!(f, "detach {}", coroutine(id)),
            Op::Set(e) => write!(f, "set {}", name(&self.names.events, e)),
            Op::Reset(e) => write!(f, "reset {}", name(&self.names.events, e)),
            Op::SignalKey(key) => write!(f, "signal-key {key}"),
            Op::Release(s) => write!(f, "release {}", name(&self.names.semaphores, s)),
            Op::Advance(now) => write!(f, "advance {now}"),
            Op::Elsewhere(level) => write!(f, "elsewhere {}", OrNone(level)),
            Op::TakeResult(id) => write!(f, "result {}", coroutine(id)),
            Op::Pick => write!(f, "pick"),
            Op::Lock(m) => write!(f, "lock {}", name(&self.names.mutexes, m)),
            Op::Unlock(m) => write!(f, "unlock {}", name(&self.names.mutexes, m)),
            Op::Acquire(s) => write!(f, "acquire {}", name(&self.names.semaphores, s)),
            Op::WaitEvent(e) => write!(f, "wait {}", name(&self.names.events, e)),
            Op::Send(c, message) => {
                write!(f, "send {} {message}", name(&self.names.channels, c))
            }
            Op::Receive(c) => write!(f, "receive {}", name(&self.names.channels, c)),
            Op::WaitKey(key) => write!(f, "wait-key {key}"),
            Op::Sleep(until) => write!(f, "sleep {until}"),
            Op::Join(id) => write!(f, "join {}", coroutine(id)),
            Op::Resume if reply == Reply::Waits => return write!(f, "waits"),
            Op::Resume => write!(f, "got"),
            Op::Abandon => write!(f, "abandon"),
            Op::Yield => write!(f, "yield"),
            Op::Block => write!(f, "block"),
            Op::Finish => write!(f, "finish"),
            Op::Panic => write!(f, "panic"),
        }?;
        match reply {
            Reply::Done => Ok(()),
            Reply::Refused => write!(f, " refused"),
            Reply::Waits => write!(f, " waits"),
            Reply::Received(message) => write!(f, " {message}"),
            Reply::Joined(outcome) => write!(f, " {}", outcome.word()),
            Reply::NotYet => write!(f, " none"),
            Reply::Picked(_) | Reply::Idle | Reply::GivesWay | Reply::Invalid => Ok(()),
        }
    }

    fn write_question(
        &self,
        f: &mut Formatter<'_>,
        question: Question,
        answer: Answer,
    ) -> fmt::Result {
        let coroutine = |id| self.names.coroutine(id);
        match question {
            Question::State(id) => write!(f, "state {}", coroutine(id)),
            Question::Level(id) => write!(f, "level {}", coroutine(id)),
            Question::Polls(id) => write!(f, "polls {}", coroutine(id)),
            Question::Bitmap => write!(f, "bitmap"),
            Question::Running => write!(f, "running"),
        }?;
        write!(f, " {answer}")
    }
}

impl Display for Answer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Answer::State(state) => write!(f, "{}", state.word()),
            Answer::Level(level) => write!(f, "{}", OrNone(level)),
            Answer::Polls(polls) => write!(f, "{polls}"),
            Answer::Bitmap(0) => write!(f, "none"),
            Answer::Bitmap(bits) => {
                let mut between = "";
                for level in (0..64).filter(|level| bits & (1 << level) != 0) {
                    write!(f, "{between}{level}")?;
                    between = " ";
                }
                Ok(())
            }
        }
    }
}

struct OrNone(Option<u8>);

impl Display for OrNone {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(level) => write!(f, "{level}"),
            None => write!(f, "none"),
        }
    }
}

impl State {
    /// Returns its word in a trace.
    pub fn word(self) -> &'static str {
        match self {
            State::Ready => "ready",
            State::Running => "running",
            State::Blocked => "blocked",
            State::Exited => "exited",
        }
    }
}
