//! The parser of the trace format that `spec/traces/README.md` describes.
//!
//! It reads line by line, and keeps only what it needs to tell the author of a trace what is wrong:
//! the names, the open poll, and what each coroutine waits for. [`replay()`](crate::replay()) on
//! the model decides whether the trace is right.

mod words;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Display, Formatter};

use crate::op::{Id, Op, Reply};
use crate::trace::{
    Answer, Demotion, Expected, Global, Names, Policy, PollLine, Question, Settings, Step,
    StepKind, Trace,
};
use words::{Words, index_of};

/// A trace does not follow the format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The file, as the caller of [`Trace::parse`] named it.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

impl Display for ParseError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

impl core::error::Error for ParseError {}

impl Trace {
    /// Reads a trace. `file` is used in messages only.
    ///
    /// # Errors
    ///
    /// Returns the first line that does not follow the format, with what is wrong.
    pub fn parse(file: &str, text: &str) -> Result<Trace, ParseError> {
        let mut parser = Parser::new(file);
        let mut last = 1;
        for (index, line) in text.lines().enumerate() {
            last = index + 1;
            parser.at = last;
            parser.line(line).map_err(|message| parser.error(message))?;
        }
        parser.at = last;
        parser.end().map_err(|message| parser.error(message))?;
        Ok(parser.trace)
    }
}

/// The part of the trace that is being read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Format,
    Name,
    Rules,
    Settings,
    Steps,
}

struct Parser {
    trace: Trace,
    at: usize,
    part: Part,
    /// The poll that has begun: its line, its coroutine, and the lines that were read.
    open: Option<(usize, Id, Vec<PollLine>)>,
    /// The operation that each coroutine waits for.
    waiting: Vec<Option<Op>>,
    /// True if the last step was `advance`.
    advanced: bool,
}

impl Parser {
    fn new(file: &str) -> Parser {
        Parser {
            trace: Trace {
                file: file.to_string(),
                name: String::new(),
                rules: Vec::new(),
                settings: Settings::default(),
                names: Names::default(),
                steps: Vec::new(),
            },
            at: 1,
            part: Part::Format,
            open: None,
            waiting: Vec::new(),
            advanced: false,
        }
    }

    fn error(&self, message: String) -> ParseError {
        ParseError {
            file: self.trace.file.clone(),
            line: self.at,
            message,
        }
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        if let Some(other) = line.chars().find(|c| !c.is_ascii()) {
            return Err(format!(
                "a trace is plain ASCII, and this line has a `{other}`"
            ));
        }
        let mut words = Words::of(line);
        let Some(verb) = words.optional() else {
            return Ok(());
        };
        match self.part {
            Part::Format => {
                words.exactly(verb, "corank-trace")?;
                let version = words.next("the version of the format")?;
                words.exactly(version, "1")?;
                self.part = Part::Name;
            }
            Part::Name => {
                words.exactly(verb, "name")?;
                self.trace.name = words.next("a name")?.to_string();
                self.part = Part::Rules;
            }
            Part::Rules => {
                words.exactly(verb, "rules")?;
                self.trace.rules.push(words.next("a rule")?.to_string());
                while let Some(rule) = words.optional() {
                    self.trace.rules.push(rule.to_string());
                }
                self.part = Part::Settings;
            }
            Part::Settings | Part::Steps => {
                if self.setting(verb, &mut words)? {
                    if self.part == Part::Steps {
                        return Err(format!(
                            "`{verb}` is a setting and must come before the first step"
                        ));
                    }
                } else {
                    self.part = Part::Steps;
                    self.step(verb, &mut words)?;
                }
            }
        }
        words.end()
    }

    fn setting(&mut self, verb: &str, words: &mut Words<'_>) -> Result<bool, String> {
        let settings = &mut self.trace.settings;
        let names = &mut self.trace.names;
        match verb {
            "policy" => {
                settings.policy = match words.next("`strict` or `bounded`")? {
                    "strict" => Policy::Strict,
                    "bounded" => Policy::Bounded(words.at_least(1, "the share")?),
                    other => return Err(format!("no policy is called `{other}`")),
                }
            }
            "demotion" => {
                let quantum = words.at_least(1, "the quantum")?;
                if quantum > Demotion::LONGEST {
                    return Err(format!(
                        "a quantum has at most {} polls, not {quantum}",
                        Demotion::LONGEST
                    ));
                }
                let levels = words.level()?;
                settings.demotion = Some(Demotion { quantum, levels });
            }
            "global" => {
                settings.global = match words.next("`strict` or `relaxed`")? {
                    "strict" => Global::Strict,
                    "relaxed" => Global::Relaxed,
                    other => {
                        return Err(format!(
                            "global scheduling is strict or relaxed, not `{other}`"
                        ));
                    }
                }
            }
            "capacity" => settings.capacity = Some(words.number("the capacity")?),
            "mutex" => {
                words.new_name(&mut names.mutexes)?;
                settings.mutexes += 1;
            }
            "semaphore" => {
                words.new_name(&mut names.semaphores)?;
                settings
                    .semaphores
                    .push(words.number("the number of permits")?);
            }
            "event" => {
                words.new_name(&mut names.events)?;
                settings.events += 1;
            }
            "channel" => {
                words.new_name(&mut names.channels)?;
                settings.channels.push(words.at_least(1, "the capacity")?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn step(&mut self, verb: &str, words: &mut Words<'_>) -> Result<(), String> {
        if !matches!(verb, "run" | "idle" | "give-way" | "advance") && self.advanced {
            return Err(format!(
                "`advance` must be followed by `run`, `idle`, `give-way` or `advance`, not by `{verb}`"
            ));
        }
        self.advanced = verb == "advance";
        match verb {
            "run" => {
                self.must_be_outside(verb)?;
                let id = self.coroutine(words)?;
                self.open = Some((self.at, id, Vec::new()));
                return Ok(());
            }
            "idle" => return self.outside(verb, StepKind::Idle),
            "give-way" => return self.outside(verb, StepKind::GiveWay),
            _ => {}
        }
        if let Some((question, answer)) = self.question(verb, words)? {
            return self.push(Expected::Ask(question, answer));
        }
        let (op, reply) = self.op(verb, words)?;
        self.check_place(verb, op)?;
        self.push(Expected::Do(op, reply))?;
        self.follow(op, reply);
        Ok(())
    }

    fn question(
        &mut self,
        verb: &str,
        words: &mut Words<'_>,
    ) -> Result<Option<(Question, Answer)>, String> {
        Ok(Some(match verb {
            "state" => {
                let id = self.coroutine(words)?;
                (Question::State(id), Answer::State(words.state()?))
            }
            "level" => {
                let id = self.coroutine(words)?;
                (Question::Level(id), Answer::Level(Some(words.level()?)))
            }
            "polls" => {
                let id = self.coroutine(words)?;
                (
                    Question::Polls(id),
                    Answer::Polls(words.number("a number of polls")?),
                )
            }
            "bitmap" => (Question::Bitmap, Answer::Bitmap(words.bitmap()?)),
            "running" => (Question::Running, Answer::Level(words.level_or_none()?)),
            _ => return Ok(None),
        }))
    }

    fn op(&mut self, verb: &str, words: &mut Words<'_>) -> Result<(Op, Reply), String> {
        let names = &self.trace.names;
        let op = match verb {
            "spawn" => {
                words.new_name(&mut self.trace.names.coroutines)?;
                self.waiting.push(None);
                Op::Spawn(words.optional_number()?)
            }
            "wake" => Op::Wake(self.coroutine(words)?),
            "reprioritize" => Op::Reprioritize(self.coroutine(words)?, words.number("a level")?),
            "cancel" => Op::Cancel(self.coroutine(words)?),
            "detach" => Op::Detach(self.coroutine(words)?),
            "set" => Op::Set(words.known(&names.events, "event")?),
            "reset" => Op::Reset(words.known(&names.events, "event")?),
            "signal-key" => Op::SignalKey(words.number("a key")?),
            "release" => Op::Release(words.known(&names.semaphores, "semaphore")?),
            "advance" => Op::Advance(words.number("a time")?),
            "elsewhere" => Op::Elsewhere(words.level_or_none()?),
            "result" => {
                let op = Op::TakeResult(self.coroutine(words)?);
                return match words.optional_word("none") {
                    true => Ok((op, Reply::NotYet)),
                    false => Ok((op, Reply::Joined(words.outcome()?))),
                };
            }
            "lock" => Op::Lock(words.known(&names.mutexes, "mutex")?),
            "unlock" => Op::Unlock(words.known(&names.mutexes, "mutex")?),
            "acquire" => Op::Acquire(words.known(&names.semaphores, "semaphore")?),
            "wait" => Op::WaitEvent(words.known(&names.events, "event")?),
            "send" => {
                let channel = words.known(&names.channels, "channel")?;
                Op::Send(channel, words.number("a message")?)
            }
            "receive" => Op::Receive(words.known(&names.channels, "channel")?),
            "wait-key" => Op::WaitKey(words.number("a key")?),
            "sleep" => Op::Sleep(words.number("a time")?),
            "join" => Op::Join(self.coroutine(words)?),
            "got" => {
                // If no operation is pending, `check_place` refuses the line.
                let waited = self.pending().unwrap_or(Op::Resume);
                return Ok((Op::Resume, self.end_of_wait(waited, words)?));
            }
            "waits" => return Ok((Op::Resume, Reply::Waits)),
            "abandon" => Op::Abandon,
            "yield" => Op::Yield,
            "block" => Op::Block,
            "finish" => Op::Finish,
            "panic" => Op::Panic,
            _ => return Err(format!("`{verb}` is not a step that this format knows")),
        };
        let reply = match op {
            Op::Spawn(_) | Op::Reprioritize(..) | Op::Cancel(_)
                if words.optional_word("refused") =>
            {
                Reply::Refused
            }
            op if op.may_wait() && words.optional_word("waits") => Reply::Waits,
            op => self.end_of_wait(op, words)?,
        };
        Ok((op, reply))
    }

    /// Reads the reply to an operation that does not wait, or no longer waits.
    fn end_of_wait(&self, op: Op, words: &mut Words<'_>) -> Result<Reply, String> {
        Ok(match op {
            Op::Receive(_) => Reply::Received(words.number("the message")?),
            Op::Join(_) => Reply::Joined(words.outcome()?),
            _ => Reply::Done,
        })
    }

    /// Tests whether the operation may stand here.
    fn check_place(&self, verb: &str, op: Op) -> Result<(), String> {
        if op.is_outside() {
            self.must_be_outside(verb)?;
        }
        if op.is_inside() && self.open.is_none() {
            return Err(format!(
                "`{verb}` is done by a coroutine, and must follow a `run`"
            ));
        }
        match (op, self.pending()) {
            (Op::Resume | Op::Abandon, None) => Err(NOTHING_PENDING.to_string()),
            (Op::Resume | Op::Abandon, Some(_)) => Ok(()),
            (_, Some(_)) => Err(format!(
                "this coroutine waits for something: its poll must begin with `got`, `waits` or `abandon`, not with `{verb}`"
            )),
            (_, None) => Ok(()),
        }
    }

    /// Returns the operation that the coroutine of the open poll waits for.
    fn pending(&self) -> Option<Op> {
        let (_, id, _) = self.open.as_ref()?;
        *self.waiting.get(id.0)?
    }

    /// Keeps track of waits, and closes the poll if it has ended.
    fn follow(&mut self, op: Op, reply: Reply) {
        let Some((line, id, lines)) = self.open.take() else {
            return;
        };
        match (op, reply) {
            (Op::Resume, Reply::Waits) => {}
            (Op::Resume | Op::Abandon, _) => self.waiting[id.0] = None,
            (_, Reply::Waits) => self.waiting[id.0] = Some(op),
            _ => {}
        }
        if op.ends_poll() || reply == Reply::Waits {
            let kind = StepKind::Run(id, lines);
            self.trace.steps.push(Step { line, kind });
        } else {
            self.open = Some((line, id, lines));
        }
    }

    fn push(&mut self, action: Expected) -> Result<(), String> {
        let line = self.at;
        match (&mut self.open, action) {
            (Some((_, _, lines)), action) => lines.push(PollLine { line, action }),
            (None, Expected::Do(op, reply)) => {
                let kind = StepKind::Do(op, reply);
                self.trace.steps.push(Step { line, kind });
            }
            (None, Expected::Ask(question, answer)) => {
                let kind = StepKind::Ask(question, answer);
                self.trace.steps.push(Step { line, kind });
            }
        }
        Ok(())
    }

    fn outside(&mut self, verb: &str, kind: StepKind) -> Result<(), String> {
        self.must_be_outside(verb)?;
        self.trace.steps.push(Step {
            line: self.at,
            kind,
        });
        Ok(())
    }

    fn must_be_outside(&self, verb: &str) -> Result<(), String> {
        match &self.open {
            None => Ok(()),
            Some((line, id, _)) => Err(format!(
                "`{verb}` cannot stand here: the poll of {} (line {line}) must first end with `yield`, `block`, `finish`, `panic` or a `waits`",
                self.trace.names.coroutine(*id)
            )),
        }
    }

    fn coroutine(&self, words: &mut Words<'_>) -> Result<Id, String> {
        let name = words.next("a coroutine")?;
        index_of(&self.trace.names.coroutines, name, "coroutine").map(Id)
    }

    fn end(&self) -> Result<(), String> {
        self.must_be_outside("the end of the trace")?;
        if self.advanced {
            return Err("`advance` must be followed by `run`, `idle` or `give-way`".to_string());
        }
        match self.part {
            Part::Steps => Ok(()),
            Part::Format => Err("the first line must be `corank-trace 1`".to_string()),
            Part::Name => Err("a line `name …` is missing".to_string()),
            Part::Rules => Err("a line `rules …` is missing".to_string()),
            Part::Settings => Err("the trace has no steps".to_string()),
        }
    }
}

const NOTHING_PENDING: &str = "this coroutine does not wait for anything";
