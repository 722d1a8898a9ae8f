//! A replay that must fail does fail, at the line where platform and trace disagree.

use corank_model::{
    Action, Answer, Feature, Model, Op, Platform, Question, Reply, Script, Settings, Stepped,
    Trace, replay,
};

fn trace(body: &str) -> Trace {
    let text = format!("corank-trace 1\nname test\nrules O1\n{body}");
    Trace::parse("test.trace", &text).unwrap()
}

#[track_caller]
fn fails(body: &str, line: usize, message: &str) {
    let failure = replay(&trace(body), &mut Model::default()).unwrap_err();
    assert_eq!(failure.to_string(), format!("test.trace:{line}: {message}"));
}

#[test]
fn a_wrong_pick_is_reported() {
    fails(
        "spawn A 5\nspawn B 4\nrun A\nblock",
        6,
        "expected A to be picked, got B",
    );
    fails("spawn A 5\nidle", 5, "expected nothing to be picked, got A");
    fails(
        "spawn A 5\nrun A\nblock\nrun A\nblock",
        7,
        "expected Ran, got Idle",
    );
    fails(
        "spawn A 5\ngive-way",
        5,
        "expected nothing to be picked, got A",
    );
    fails(
        "spawn A 5\nelsewhere 4\nrun A\nblock",
        6,
        "expected Ran, got GaveWay",
    );
}

#[test]
fn a_wrong_outcome_is_reported() {
    fails("spawn A 64", 4, "expected Done, got Refused");
    fails(
        "spawn A 5\ncancel A refused",
        5,
        "expected Refused, got Done",
    );
    fails(
        "mutex M\nspawn A 5\nrun A\nlock M\nlock M\nblock",
        8,
        "expected Done, got Waits",
    );
    fails(
        "mutex M\nspawn A 5\nrun A\nlock M waits",
        7,
        "expected Waits, got Done",
    );
    fails(
        "mutex M\nspawn A 5\nrun A\nunlock M\nblock",
        7,
        "expected Done, got Invalid",
    );
}

#[test]
fn a_wrong_answer_is_reported() {
    fails(
        "spawn A 5\nbitmap 6",
        5,
        "expected Bitmap(64), got Bitmap(32)",
    );
    fails(
        "spawn A 5\nrun A\nrunning 6\nblock",
        6,
        "expected Level(Some(6)), got Level(Some(5))",
    );
    fails(
        "spawn A 5\nstate A blocked",
        5,
        "expected State(Blocked), got State(Ready)",
    );
    fails("spawn A 5\npolls A 1", 5, "expected Polls(1), got Polls(0)");
}

/// The model with one fault.
struct Faulty {
    model: Model,
    fault: Fault,
}

#[derive(PartialEq)]
enum Fault {
    /// Ends each poll before its last line.
    EndsEarly,
    /// Polls without telling the script.
    Silent,
    /// Has no mutexes.
    NoMutex,
    /// Answers no questions.
    Blind,
}

impl Platform for Faulty {
    fn supports(&self, feature: Feature) -> bool {
        self.fault != Fault::NoMutex || feature != Feature::Mutex
    }

    fn start(&mut self, settings: &Settings) {
        self.model.start(settings);
    }

    fn apply(&mut self, op: Op) -> Reply {
        self.model.apply(op)
    }

    fn step(&mut self, script: &Script) -> Stepped {
        let Reply::Picked(id) = self.model.apply(Op::Pick) else {
            return Stepped::Idle;
        };
        if self.fault != Fault::Silent {
            script.enter(id);
        }
        while self.model.running().is_some() {
            match script.next() {
                Action::Do(op) if op.ends_poll() && self.fault == Fault::EndsEarly => {
                    self.model.apply(op);
                }
                Action::Do(op) => script.reply(self.model.apply(op)),
                Action::Ask(question) => script.answer(self.observe(question)),
            }
        }
        Stepped::Ran
    }

    fn observe(&mut self, question: Question) -> Option<Answer> {
        match self.fault {
            Fault::Blind => None,
            _ => self.model.observe(question),
        }
    }
}

fn faulty(fault: Fault) -> Faulty {
    let model = Model::default();
    Faulty { model, fault }
}

const PLAIN: &str = "mutex M\nspawn A 5\nrun A\nlock M\nstate A running\nblock";

#[test]
fn an_early_or_unannounced_end_of_a_poll_is_reported() {
    let failure = replay(&trace(PLAIN), &mut faulty(Fault::EndsEarly)).unwrap_err();
    assert_eq!(
        failure.to_string(),
        "test.trace:9: the poll has ended before this"
    );
    let failure = replay(&trace(PLAIN), &mut faulty(Fault::Silent)).unwrap_err();
    assert_eq!(
        failure.to_string(),
        "test.trace:6: a step ran, but no coroutine has entered the script"
    );
}

#[test]
fn what_is_not_checked_is_reported() {
    let report = replay(&trace(PLAIN), &mut faulty(Fault::NoMutex)).unwrap();
    assert_eq!((report.skipped, report.polls), (Some(Feature::Mutex), 0));
    let report = replay(&trace(PLAIN), &mut faulty(Fault::Blind)).unwrap();
    assert_eq!(
        (report.skipped, report.polls, report.unanswered),
        (None, 1, 1)
    );
}
