//! A recording that was cut to a scene is a conformance trace.

mod common;
#[path = "common/recorder.rs"]
mod recorder;

use common::{Script, id};
use corank_conformance::{CorePlatform, Workers};
use corank_model::{Model, StepKind, TRACES, Trace, replay};
use corank_recording::{Kind, Recording, Scene, cut};
use std::ops::Range;

const WHOLE: Range<usize> = 0..usize::MAX;

/// Replays a trace on the core, and returns what was recorded and the failure.
fn record(trace: &Trace) -> (Recording, Option<String>) {
    let (watch, recorders) = recorder::watch();
    let mut platform = CorePlatform::configured(Workers::One, watch);
    let failure = replay(trace, &mut platform).err();
    let recording = recorders.borrow().last().expect("a scene").read();
    (recording, failure.map(|failure| failure.to_string()))
}

/// Parses a scene's text, and replays it on the model and on the core.
#[track_caller]
fn passes(scene: &Scene) -> Trace {
    let trace = Trace::parse("cut.trace", &scene.text);
    let trace = trace.unwrap_or_else(|error| panic!("{error}\n{}", scene.text));
    for failure in [
        replay(&trace, &mut Model::default()).err(),
        replay(&trace, &mut CorePlatform::new(Workers::None)).err(),
        replay(&trace, &mut CorePlatform::new(Workers::One)).err(),
    ] {
        assert_eq!(failure, None, "{}", scene.text);
    }
    trace
}

fn polls(trace: &Trace) -> Vec<&str> {
    let runs = trace.steps.iter().filter_map(|step| match step.kind {
        StepKind::Run(id, _) => Some(trace.names.coroutines[id.0].as_str()),
        _ => None,
    });
    runs.collect()
}

#[test]
fn every_trace_is_one_again_after_it_was_recorded() {
    let mut cut_out = 0;
    for (name, text) in TRACES.iter() {
        let trace = Trace::parse(name, text).expect("the traces are well-formed");
        if trace.settings.demotion.is_some() {
            continue;
        }
        let (recording, failure) = record(&trace);
        assert_eq!(failure, None);
        let scene = cut(&recording, WHOLE, "again").unwrap_or_else(|it| panic!("{name}: {it}"));
        let again = passes(&scene);
        assert_eq!(
            polls(&again).len(),
            polls(&trace).len(),
            "{name}: {}",
            scene.text
        );
        cut_out += 1;
    }
    assert!(cut_out > 100, "{cut_out}");
}

#[test]
fn a_scene_begins_where_no_coroutine_is_polled() {
    let mut script = Script::new(1);
    script.add(Kind::Spawn, 0, 9).add(Kind::Spawn, 1, 9);
    script.add(Kind::Pick, 0, 9).add(Kind::Block, 0, 0);
    script.add(Kind::Pick, 1, 9);
    script.add(Kind::Wake, 0, 0).add(Kind::Ready, 0, 9);
    script.add(Kind::Yield, 1, 9);
    script.add(Kind::Pick, 0, 9).add(Kind::Finish, 0, 0);
    script.add(Kind::Pick, 1, 9).add(Kind::Finish, 1, 0);
    // The wake belongs to a poll that has begun before.
    let scene = cut(&script.read(), 6..8, "late").unwrap();
    assert_eq!(scene.steps, 4..8);
    let trace = passes(&scene);
    assert_eq!(polls(&trace), ["c-0", "c-1"]);
    let end = "run c-1\n  wake c-0\n  yield\nstate c-0 ready\nstate c-1 ready\n";
    assert!(scene.text.ends_with(end), "{}", scene.text);
}

#[test]
fn a_scene_that_breaks_a_rule_ends_with_what_should_have_come() {
    let mut script = Script::new(1);
    script.add(Kind::Spawn, 0, 9).add(Kind::Spawn, 1, 3);
    script.add(Kind::Pick, 0, 9).add(Kind::Finish, 0, 0);
    let scene = cut(&script.read(), WHOLE, "wrong").unwrap();
    assert_eq!((scene.steps.clone(), scene.broken), (0..2, Some("O1")));
    assert_eq!(polls(&passes(&scene)), ["c-1"]);

    let mut script = Script::new(1);
    script.add(Kind::Spawn, 0, 9).add(Kind::Pick, 0, 9);
    script.add(Kind::Wake, 0, 0).add(Kind::Block, 0, 0);
    let scene = cut(&script.read(), WHOLE, "wrong").unwrap();
    assert_eq!(scene.broken, Some("W3"));
    passes(&scene);
    assert!(
        scene
            .text
            .contains("  wake c-0\n  block\nstate c-0 ready\n")
    );
}

#[test]
fn what_a_trace_cannot_show_is_an_error() {
    let mut script = Script::new(2);
    script.add(Kind::Spawn, 0, 9).add(Kind::Spawn, 1, 9);
    script.add(Kind::Pick, 0, 9).on(1, Kind::Pick, id(1), 9);
    let error = cut(&script.read(), WHOLE, "two").unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("step 3: two coroutines are polled"),
        "{error}"
    );
    let mut demotes = common::settings(1, 64);
    demotes.demotes = true;
    let error = cut(&Script::with(&demotes).read(), WHOLE, "two").unwrap_err();
    assert!(error.to_string().contains("demoted"), "{error}");
}
