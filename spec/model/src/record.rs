//! Making traces out of operations.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use crate::model::Model;
use crate::op::{Id, Op, Reply};
use crate::replay::Home;
use crate::trace::{Expected, Names, PollLine, Question, Settings, Step, StepKind, Trace};

/// Lets the model do the operations and writes down what it answers, with the bitmap after each and the state of every
/// coroutine in the end.
///
/// Operations that make no sense where they come are left out, and the record stops at a deadlock (I8). So any sequence gives a trace that a correct home replays:
/// this is how property tests compare a home with the model.
pub fn record(name: &str, settings: &Settings, ops: impl IntoIterator<Item = Op>) -> Trace {
    let mut recorder = Recorder {
        model: Model::new(settings),
        steps: Vec::new(),
        poll: None,
    };
    for op in ops {
        let mut after = recorder.model.clone();
        let reply = after.apply(op);
        if reply == Reply::Invalid {
            continue;
        }
        if after.has_deadlock() {
            break;
        }
        recorder.model = after;
        recorder.note(op, reply);
    }
    recorder.finish(name, settings)
}

struct Recorder {
    model: Model,
    steps: Vec<Step>,
    /// The poll that has begun.
    poll: Option<(Id, Vec<PollLine>)>,
}

impl Recorder {
    fn note(&mut self, op: Op, reply: Reply) {
        match (op, reply) {
            (Op::Pick, Reply::Picked(id)) => {
                self.poll = Some((id, Vec::new()));
                return; // The next line may have to be a `got`, so nothing is asked here.
            }
            (Op::Pick, Reply::GivesWay) => self.step(StepKind::GiveWay),
            (Op::Pick, _) => self.step(StepKind::Idle),
            _ => self.line(Expected::Do(op, reply)),
        }
        if self.model.running().is_none()
            && let Some((id, lines)) = self.poll.take()
        {
            self.step(StepKind::Run(id, lines));
        }
        // A home may fire its timers only when it picks (T7): until then its bitmap may lack them.
        if !matches!(op, Op::Advance(_)) {
            self.ask(Question::Bitmap);
        }
    }

    fn ask(&mut self, question: Question) {
        if let Some(answer) = self.model.look(question) {
            self.line(Expected::Ask(question, answer));
        }
    }

    fn line(&mut self, action: Expected) {
        match (&mut self.poll, action) {
            (Some((_, lines)), _) => lines.push(PollLine { line: 0, action }),
            (None, Expected::Do(op, reply)) => self.step(StepKind::Do(op, reply)),
            (None, Expected::Ask(question, answer)) => self.step(StepKind::Ask(question, answer)),
        }
    }

    fn step(&mut self, kind: StepKind) {
        self.steps.push(Step { line: 0, kind });
    }

    fn finish(mut self, name: &str, settings: &Settings) -> Trace {
        // A poll that is still open ends pending, after it has looked at what it waited for.
        if self.model.running().is_some() {
            for op in [Op::Resume, Op::Block] {
                match self.model.apply(op) {
                    Reply::Invalid => {}
                    reply => self.note(op, reply),
                }
            }
        }
        for id in (0..self.model.spawned()).map(Id) {
            self.ask(Question::State(id));
            self.ask(Question::Polls(id));
        }
        let names = |kind: char, n: usize| -> Vec<String> {
            (0..n).map(|i| format!("{kind}{i}")).collect()
        };
        let mut trace = Trace {
            file: name.to_string(),
            name: name.to_string(),
            rules: vec!["O1".to_string()],
            settings: settings.clone(),
            names: Names {
                coroutines: names('C', self.model.spawned()),
                mutexes: names('M', settings.mutexes),
                semaphores: names('S', settings.semaphores.len()),
                events: names('E', settings.events),
                channels: names('Q', settings.channels.len()),
            },
            steps: self.steps,
        };
        trace.number_lines();
        trace
    }
}

impl Trace {
    /// Numbers the lines as `Display` prints them, so that a failure names the line of the printed trace.
    fn number_lines(&mut self) {
        let text = self.to_string();
        let body: usize = self.steps.iter().map(lines_of).sum();
        let mut line = text.lines().count() - body;
        for step in &mut self.steps {
            line += 1;
            step.line = line;
            if let StepKind::Run(_, lines) = &mut step.kind {
                for poll_line in lines {
                    line += 1;
                    poll_line.line = line;
                }
            }
        }
    }
}

fn lines_of(step: &Step) -> usize {
    match &step.kind {
        StepKind::Run(_, lines) => 1 + lines.len(),
        _ => 1,
    }
}
