//! Replays a trace on a platform.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt::{self, Display, Formatter};

use crate::model::Model;
use crate::op::{Id, Op, Reply};
use crate::trace::{
    Action, Answer, Expected, Feature, PollLine, Question, Settings, StepKind, Trace,
};

/// An executor of coroutines, as the replayer sees it.
///
/// Operations of the world outside reach the platform through [`apply`](Platform::apply). A
/// coroutine must itself perform the operations of its poll, so there the control is inverted.
/// [`step`](Platform::step) lets the executor pick. The picked coroutine announces its identifier
/// ([`Script::enter`]), and then asks the script for its operations until its poll has ended.
///
/// A coroutine's body is a loop around [`Script::next`]:
///
/// | the script says | the coroutine |
/// |---|---|
/// | `Do(op)` for an operation that cannot wait | does it and reports the outcome with [`Script::reply`] |
/// | `Do(op)` for one that may wait | polls the future; reports `Waits` if it is pending, and returns pending itself |
/// | `Do(Resume)` | polls the future that it waits in, and reports in the same way |
/// | `Do(Abandon)` | drops that future without polling it, and reports `Done` |
/// | `Do(Yield)`, `Do(Block)`, `Do(Finish)`, `Do(Panic)` | reports `Done`, then ends the poll in this way |
/// | `Ask(question)` | observes, and reports with [`Script::answer`] |
pub trait Platform {
    /// Tests whether the platform has this feature.
    ///
    /// Traces that need a missing feature are skipped.
    fn supports(&self, feature: Feature) -> bool;

    /// Starts afresh: no coroutines, these settings, time 0.
    fn start(&mut self, settings: &Settings);

    /// Performs an operation of the world outside, which is never [`Op::Pick`].
    ///
    /// `Spawn` creates a coroutine that follows the script as above.
    fn apply(&mut self, op: Op) -> Reply;

    /// Lets the executor pick once, and run the picked coroutine until the poll ends.
    fn step(&mut self, script: &Script) -> Stepped;

    /// Returns the answer to a question, or `None` if the platform has none.
    ///
    /// Only `State`, `Level` and `Running` may remain unanswered.
    fn observe(&mut self, question: Question) -> Option<Answer>;
}

/// The outcome of one step of an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stepped {
    /// A coroutine was polled.
    Ran,
    /// No coroutine was ready.
    Idle,
    /// More urgent work waits elsewhere.
    GaveWay,
}

/// The extent of the checks in a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The number of polls.
    pub polls: usize,
    /// The number of questions that the platform could not answer.
    pub unanswered: usize,
    /// The missing feature for which the trace was skipped. Nothing was checked then.
    pub skipped: Option<Feature>,
}

/// A trace and a platform disagree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The file of the trace.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The expectation, and what happened.
    pub message: String,
}

impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

impl core::error::Error for Failure {}

/// Replays a trace and checks a platform against it, up to the first disagreement.
///
/// # Errors
///
/// Returns the first line at which the platform does something else than the trace says.
pub fn replay(trace: &Trace, platform: &mut dyn Platform) -> Result<Report, Failure> {
    let mut report = Report {
        skipped: trace
            .features()
            .into_iter()
            .find(|&f| !platform.supports(f)),
        ..Report::default()
    };
    if report.skipped.is_some() {
        return Ok(report);
    }
    platform.start(&trace.settings);
    for step in &trace.steps {
        let failed = |message| Failure {
            file: trace.file.clone(),
            line: step.line,
            message,
        };
        match &step.kind {
            StepKind::Do(op, expected) => {
                let reply = platform.apply(*op);
                compare(*expected, reply).map_err(failed)?;
            }
            StepKind::Ask(question, expected) => match platform.observe(*question) {
                Some(answer) => compare(*expected, answer).map_err(failed)?,
                None => report.unanswered += 1,
            },
            StepKind::Run(id, lines) => {
                let script = Script::new(trace, step.line, Some(*id), lines);
                let stepped = platform.step(&script);
                report.unanswered += script.end(stepped, Stepped::Ran)?;
                report.polls += 1;
            }
            StepKind::Idle => {
                let script = Script::new(trace, step.line, None, &[]);
                let stepped = platform.step(&script);
                script.end(stepped, Stepped::Idle)?;
            }
            StepKind::GiveWay => {
                let script = Script::new(trace, step.line, None, &[]);
                let stepped = platform.step(&script);
                script.end(stepped, Stepped::GaveWay)?;
            }
        }
    }
    Ok(report)
}

fn compare<T: PartialEq + fmt::Debug>(expected: T, got: T) -> Result<(), String> {
    match expected == got {
        true => Ok(()),
        false => Err(format!("expected {expected:?}, got {got:?}")),
    }
}

/// The operations of the next picked coroutine during its poll, and their replies.
///
/// Clones are handles to the same script. After the first disagreement the script tells every
/// coroutine to block, so that the replay ends soon.
#[derive(Clone, Debug)]
pub struct Script(Rc<RefCell<Progress>>);

#[derive(Debug)]
struct Progress {
    file: String,
    names: Vec<String>,
    expected: Option<Id>,
    line: usize,
    lines: Vec<PollLine>,
    at: usize,
    entered: bool,
    unanswered: usize,
    failure: Option<Failure>,
}

impl Script {
    fn new(trace: &Trace, line: usize, expected: Option<Id>, lines: &[PollLine]) -> Script {
        Script(Rc::new(RefCell::new(Progress {
            file: trace.file.clone(),
            names: trace.names.coroutines.clone(),
            expected,
            line,
            lines: lines.to_vec(),
            at: 0,
            entered: false,
            unanswered: 0,
            failure: None,
        })))
    }

    /// Announces the beginning of a poll; each poll of a coroutine must call this first.
    ///
    /// Returns `false` if this is not the coroutine that the trace expects, or if another check has
    /// failed before. Then the poll must end pending, at once.
    pub fn enter(&self, id: Id) -> bool {
        let mut progress = self.0.borrow_mut();
        if progress.expected != Some(id) {
            let picked = progress.name(id);
            let wanted = progress
                .expected
                .map_or("nothing".to_string(), |id| progress.name(id));
            progress.fail(format!("expected {wanted} to be picked, got {picked}"));
        } else if progress.entered {
            progress.fail("one step has polled the coroutine twice".to_string());
        }
        progress.entered = true;
        progress.failure.is_none()
    }

    /// Returns the next action of the running coroutine.
    pub fn next(&self) -> Action {
        let mut progress = self.0.borrow_mut();
        if progress.failure.is_some() {
            return Action::Do(Op::Block);
        }
        match progress.lines.get(progress.at).map(|line| line.action) {
            Some(Expected::Do(op, _)) => Action::Do(op),
            Some(Expected::Ask(question, _)) => Action::Ask(question),
            None => {
                progress.fail("the poll goes on after its end".to_string());
                Action::Do(Op::Block)
            }
        }
    }

    /// Reports the reply to the operation that [`next`](Script::next) returned.
    pub fn reply(&self, reply: Reply) {
        self.0.borrow_mut().report(|expected| match expected {
            Expected::Do(_, wanted) => compare(wanted, reply),
            Expected::Ask(..) => Err(format!("expected an answer, got {reply:?}")),
        });
    }

    /// Reports the answer to the question that [`next`](Script::next) returned.
    pub fn answer(&self, answer: Option<Answer>) {
        let mut progress = self.0.borrow_mut();
        progress.unanswered += usize::from(answer.is_none());
        progress.report(|expected| match (expected, answer) {
            (Expected::Ask(_, wanted), Some(answer)) => compare(wanted, answer),
            (Expected::Ask(..), None) => Ok(()),
            (Expected::Do(..), _) => Err(format!("expected a reply, got {answer:?}")),
        });
    }

    /// Checks the step and returns the number of questions that were not answered.
    fn end(&self, stepped: Stepped, wanted: Stepped) -> Result<usize, Failure> {
        let mut progress = self.0.borrow_mut();
        if let Err(message) = compare(wanted, stepped) {
            progress.fail(message);
        } else if progress.entered && progress.at < progress.lines.len() {
            progress.fail("the poll has ended before this".to_string());
        } else if progress.expected.is_some() && !progress.entered {
            progress.fail("a step ran, but no coroutine has entered the script".to_string());
        }
        match progress.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(progress.unanswered),
        }
    }
}

impl Progress {
    fn name(&self, id: Id) -> String {
        self.names
            .get(id.0)
            .cloned()
            .unwrap_or_else(|| format!("{id:?}"))
    }

    /// Checks the present line and continues with the next.
    fn report(&mut self, check: impl FnOnce(Expected) -> Result<(), String>) {
        if self.failure.is_some() {
            return; // the replay has failed
        }
        let result = match self.lines.get(self.at) {
            Some(line) => check(line.action),
            None => Err("a report after the end of the poll".to_string()),
        };
        match result {
            Ok(()) => self.at += 1,
            Err(message) => self.fail(message),
        }
    }

    /// Keeps the first disagreement.
    fn fail(&mut self, message: String) {
        let line = self.lines.get(self.at).map_or(self.line, |line| line.line);
        let line = if self.entered { line } else { self.line };
        let file = self.file.clone();
        self.failure.get_or_insert(Failure {
            file,
            line,
            message,
        });
    }
}

/// The model also replays traces. This is the smallest example of a platform.
impl Platform for Model {
    fn supports(&self, _: Feature) -> bool {
        true
    }

    fn start(&mut self, settings: &Settings) {
        *self = Model::new(settings);
    }

    fn apply(&mut self, op: Op) -> Reply {
        Model::apply(self, op)
    }

    fn step(&mut self, script: &Script) -> Stepped {
        match Model::apply(self, Op::Pick) {
            Reply::Idle => return Stepped::Idle,
            Reply::GivesWay => return Stepped::GaveWay,
            Reply::Picked(id) => script.enter(id),
            _ => return Stepped::Idle,
        };
        while self.running().is_some() {
            match script.next() {
                Action::Ask(question) => script.answer(self.observe(question)),
                Action::Do(op) => match Model::apply(self, op) {
                    // The script disagrees with the model: report that, then leave the poll.
                    Reply::Invalid => {
                        script.reply(Reply::Invalid);
                        Model::apply(self, Op::Abandon);
                        Model::apply(self, Op::Block);
                    }
                    reply => script.reply(reply),
                },
            }
        }
        Stepped::Ran
    }

    fn observe(&mut self, question: Question) -> Option<Answer> {
        Some(match question {
            Question::State(id) => Answer::State(self.state(id)),
            Question::Level(id) => Answer::Level(self.level(id)),
            Question::Polls(id) => Answer::Polls(self.polls(id)),
            Question::Bitmap => Answer::Bitmap(self.bitmap()),
            Question::Running => Answer::Level(self.running_level()),
        })
    }
}
