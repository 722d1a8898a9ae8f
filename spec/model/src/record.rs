//! Makes traces out of operations.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use crate::model::Model;
use crate::op::{Id, Op, Reply};
use crate::replay::Platform;
use crate::trace::{Expected, Feature, Names, PollLine, Question, Settings, Step, StepKind, Trace};

/// Performs the operations on the model and records its replies.
///
/// The trace has the bitmap after each operation, and the state of every coroutine at the end.
///
/// Operations that make no sense at their place are omitted, and so are those that would lead to a
/// deadlock (I8). So any sequence gives a trace that a correct platform replays.
pub fn record(name: &str, settings: &Settings, ops: impl IntoIterator<Item = Op>) -> Trace {
    let mut recorder = Recorder::new(settings);
    for op in ops {
        recorder.try_op(op);
    }
    recorder.finish(name, settings)
}

/// Makes a trace from any numbers, by which property tests and fuzzers compare a platform with the
/// model.
///
/// Each triple of numbers becomes one operation. It is the first that makes sense, in the order in
/// which [`Op::from_numbers`] is asked, and that needs only features that `supports` allows. The
/// trace is as in [`record`].
pub fn record_numbers(
    name: &str,
    settings: &Settings,
    supports: impl Fn(Feature) -> bool,
    numbers: impl IntoIterator<Item = (u8, u8, u8)>,
) -> Trace {
    let objects = [
        settings.mutexes,
        settings.semaphores.len(),
        settings.events,
        settings.channels.len(),
    ];
    let objects = objects.into_iter().max().unwrap_or(0);
    let mut recorder = Recorder::new(settings);
    for (kind, a, b) in numbers {
        let spawned = recorder.model.spawned();
        // A step without a common factor with the number of kinds reaches all kinds, and does not
        // prefer the neighbours of kinds that seldom make sense.
        let kinds = (0..Op::KINDS).map(|i| (kind % Op::KINDS + i * 5) % Op::KINDS);
        kinds
            .map(|kind| Op::from_numbers(kind, a, b, spawned, objects))
            .filter(|op| op.feature().is_none_or(&supports))
            .find(|&op| recorder.try_op(op));
    }
    recorder.finish(name, settings)
}

struct Recorder {
    model: Model,
    steps: Vec<Step>,
    /// The poll that has begun.
    poll: Option<(Id, Vec<PollLine>)>,
    /// True if the last operation was an advance.
    advanced: bool,
}

impl Recorder {
    fn new(settings: &Settings) -> Recorder {
        Recorder {
            model: Model::new(settings),
            steps: Vec::new(),
            poll: None,
            advanced: false,
        }
    }

    /// Performs and records the operation, unless it makes no sense here.
    fn try_op(&mut self, op: Op) -> bool {
        // A platform may fire its timers only when it picks (T7), and the format requires a pick
        // after an advance.
        let too_early = self.advanced && !matches!(op, Op::Pick | Op::Advance(_));
        // A trace has names only for coroutines that it has spawned.
        let unknown = op
            .coroutine()
            .is_some_and(|id| id.0 >= self.model.spawned());
        if too_early || unknown {
            return false;
        }
        let mut after = self.model.clone();
        let reply = after.apply(op);
        if reply == Reply::Invalid || after.has_deadlock() {
            return false;
        }
        self.model = after;
        self.advanced = matches!(op, Op::Advance(_));
        self.note(op, reply);
        true
    }

    fn note(&mut self, op: Op, reply: Reply) {
        match (op, reply) {
            (Op::Pick, Reply::Picked(id)) => {
                self.poll = Some((id, Vec::new()));
                return; // The next line may have to be a `got`, so no question comes here.
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
        if !self.advanced {
            self.ask(Question::Bitmap);
        }
    }

    fn ask(&mut self, question: Question) {
        if let Some(answer) = self.model.observe(question) {
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
        // A poll that is still open ends pending, after it has polled the future in which it waits.
        if self.advanced || self.model.running().is_some() {
            for op in [Op::Pick, Op::Resume, Op::Block] {
                self.try_op(op);
            }
        }
        self.ask(Question::Bitmap);
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
    /// Numbers the lines as `Display` prints them, so that a failure names the line of the printed
    /// trace.
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
