//! The check finds each break of the scheduler, and names the rule that it breaks.
//!
//! Each break of the core holds in its turn, while all conformance traces are replayed and
//! recorded. The replay itself stops at the first pick that goes wrong. What is judged here is what
//! the check says of the recording until then. What is cut out of such a recording is a trace that
//! the whole core passes, and the broken one fails.

extern crate alloc;
extern crate corank_breaks as corank;

#[path = "../../tests/common/mod.rs"]
mod common;
#[path = "../../../../core/conformance/src/held.rs"]
mod held;
#[path = "../../../../core/conformance/src/platform.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "public in the crate whose part it is"
)]
mod platform;
#[path = "../../../../core/conformance/src/primitives.rs"]
mod primitives;
#[path = "../../tests/common/recorder.rs"]
mod recorder;
#[path = "../../../../core/conformance/src/served.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "public in the crate whose part it is"
)]
mod served;

use corank::{BREAKS, broken};
use corank_model::{Expected, Model, StepKind, TRACES, Trace, replay};
use corank_recording::{Recording, check, cut};
use platform::CorePlatform;
use recorder::Recorder;
use served::Workers;
use std::collections::{BTreeMap, BTreeSet};

/// The most scenes of one break that are cut out and replayed.
const SCENES: usize = 3;

/// What the check said of the recordings of all traces.
#[derive(Default)]
struct Said {
    /// The rules that it found broken, and where.
    rules: BTreeMap<&'static str, Vec<String>>,
    /// The first recordings that break a rule.
    recordings: Vec<Recording>,
    /// How often the place of the break was reached.
    reached: usize,
}

/// Replays a trace while a break holds, and returns what was recorded and whether it passed.
fn record(trace: &Trace, workers: Workers, number: Option<usize>) -> (Vec<Recording>, bool) {
    let (watch, recorders) = recorder::watch();
    let mut platform = CorePlatform::configured(workers, watch);
    broken::choose(number);
    let passed = replay(trace, &mut platform).is_ok();
    drop(platform);
    let recorders = recorders.take();
    (recorders.into_iter().map(Recorder::read).collect(), passed)
}

/// Leaves out the questions, so that a replay goes on until something else is picked.
fn without_questions(mut trace: Trace) -> Trace {
    trace.steps.retain_mut(|step| {
        if let StepKind::Run(_, lines) = &mut step.kind {
            lines.retain(|line| !matches!(line.action, Expected::Ask(..)));
        }
        !matches!(step.kind, StepKind::Ask(..))
    });
    trace
}

/// Replays the traces, but those with demotion, whose levels the check does not judge.
fn check_all(workers: Workers, number: Option<usize>) -> Said {
    let mut said = Said::default();
    for (name, text) in TRACES.iter() {
        let trace = Trace::parse(name, text).expect("the traces are well-formed");
        if trace.settings.demotion.is_some() {
            continue;
        }
        let (recordings, _) = record(&without_questions(trace), workers, number);
        said.reached += broken::reached();
        for recording in recordings {
            if let Err(violation) = check(&recording) {
                let traces = said.rules.entry(violation.rule).or_default();
                traces.push(format!("{name}: {violation}"));
                said.recordings.push(recording);
            }
        }
    }
    said
}

/// Cuts out what a broken scheduler has done wrong, and returns how many of the traces it fails.
///
/// The whole scheduler and the model must pass them.
fn count_caught(name: &str, workers: Workers, number: usize, recordings: &[Recording]) -> usize {
    let caught = recordings.iter().take(SCENES).filter(|recording| {
        let scene = cut(recording, 0..usize::MAX, "cut").expect("it has one worker");
        assert!(scene.broken.is_some());
        let trace = Trace::parse("cut.trace", &scene.text);
        let trace = trace.unwrap_or_else(|error| panic!("`{name}`: {error}\n{}", scene.text));
        let on_model = replay(&trace, &mut Model::default());
        assert!(on_model.is_ok(), "`{name}`: {on_model:?}\n{}", scene.text);
        let (_, passed) = record(&trace, workers, None);
        assert!(passed, "`{name}`: the whole core\n{}", scene.text);
        !record(&trace, workers, Some(number)).1
    });
    caught.count()
}

/// One test, because a break holds in the whole process.
#[test]
fn each_break_is_found_by_its_rule_and_caught_by_what_is_cut_out() {
    let workers = Workers::One;
    let whole = check_all(workers, None);
    assert!(whole.rules.is_empty(), "{:#?}", whole.rules);
    let mut wrong = Vec::new();
    for (number, it) in BREAKS.iter().enumerate() {
        let said = check_all(workers, Some(number));
        assert!(said.reached > 0, "`{}`: never reached", it.name);
        let rules: Vec<&str> = said.rules.keys().copied().collect();
        if rules != it.rules {
            wrong.push(format!("`{}`: {:#?}", it.name, said.rules));
        }
        let caught = count_caught(it.name, workers, number, &said.recordings);
        if (caught == 0) != it.leaves_no_trace {
            wrong.push(format!("`{}`: {caught} scenes caught it", it.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let rules: BTreeSet<_> = BREAKS.iter().flat_map(|it| it.rules).collect();
    assert!(BREAKS.len() >= 12 && rules.len() >= 12, "{rules:?}");
}
