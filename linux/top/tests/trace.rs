//! Tests of `corank trace` with a recording of a runtime, and with broken ones.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use corank_linux::{Builder, Priority, spawn, yield_now};
use corank_recording::{Kind, Recording};
use serde_json::Value;

fn level(level: u8) -> Priority {
    Priority::new(level).unwrap()
}

fn trace(arguments: &[&str], files: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_corank"))
        .arg("trace")
        .args(files)
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Records a runtime in which a coroutine of level 3 is awaited by one of level 40.
fn recorded(folder: &Path, name: &str) -> PathBuf {
    async fn answer() {
        yield_now().await;
    }
    let path = folder.join(name);
    let runtime = Builder::new()
        .workers(1)
        // The poll that spawns ends before what it has spawned runs.
        .spare_workers(None)
        .name(name)
        .record(&path)
        .build()
        .unwrap();
    runtime.block_on_at(level(40), async {
        for _ in 0..10 {
            spawn(level(3), answer()).unwrap().await.unwrap();
        }
    });
    path
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = recorded(folder.path(), "shop");
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let output = Command::new(env!("CARGO_BIN_EXE_corank"))
        .arg("trace")
        .arg(&path)
        .stdout(writer)
        .output()
        .unwrap();
    assert_eq!(
        (output.status.code(), text(&output.stderr)),
        (Some(0), String::new())
    );
}

#[test]
fn the_summary_names_levels_and_coroutines() {
    let folder = tempfile::tempdir().unwrap();
    let path = recorded(folder.path(), "shop");
    let output = trace(&[], &[&path]);
    assert!(output.status.success(), "{output:?}");
    let text = text(&output.stdout);
    assert!(text.contains(": shop, process "), "{text}");
    let answer = text.lines().find(|line| line.ends_with("recorded::answer"));
    let columns: Vec<&str> = answer.unwrap().split_whitespace().collect();
    assert_eq!(columns[0], "20", "polls: {text}");
    assert_eq!(columns[columns.len() - 3..columns.len() - 1], ["3", "10"]);
}

#[test]
fn several_recordings_are_shown_together() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["one", "two"].map(|name| recorded(folder.path(), name));
    let out = folder.path().join("out.json");
    let files = [paths[0].as_path(), paths[1].as_path()];
    let output = trace(&["--perfetto", out.to_str().unwrap()], &files);
    assert!(output.status.success(), "{output:?}");
    let json: Value = serde_json::from_slice(&fs::read(&out).unwrap()).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let of = |phase: &str| {
        let events = events.iter().filter(move |event| event["ph"] == phase);
        events.collect::<Vec<_>>()
    };
    let names = of("M");
    let processes = names.iter().filter(|name| name["name"] == "process_name");
    assert_eq!(
        processes.count(),
        4,
        "workers and levels of each of two runtimes"
    );
    assert!(of("X").len() >= 2 * 2 * 30, "each poll on two tracks");
    // Each arrow has two ends, and none goes back in time.
    let (starts, ends) = (of("s"), of("f"));
    assert_eq!(starts.len(), ends.len());
    assert!(starts.len() >= 2 * 20);
    for (start, end) in starts.iter().zip(&ends) {
        assert_eq!(start["id"], end["id"]);
        assert!(start["ts"].as_f64() <= end["ts"].as_f64());
    }
    let counters = of("C");
    assert!(counters.iter().any(|at| at["args"]["coroutines"] == 1));
    let left = |at: &&&Value| at["args"]["coroutines"].as_i64().unwrap() < 0;
    assert!(!counters.iter().any(|at| left(&at)));
}

#[test]
fn the_page_has_every_poll_and_needs_no_network() {
    let folder = tempfile::tempdir().unwrap();
    let path = recorded(folder.path(), "<script> & <!--");
    let out = folder.path().join("out.html");
    let output = trace(&["--html", out.to_str().unwrap()], &[&path]);
    assert!(output.status.success(), "{output:?}");
    let page = fs::read_to_string(&out).unwrap();
    assert_eq!(page.matches("<script>").count(), 1, "a name is no markup");
    assert!(!page.contains("<!--"));
    assert!(!page.contains("http"), "it loads nothing");
    let data = page
        .lines()
        .find_map(|line| line.strip_prefix("const data = "));
    let data: Value = serde_json::from_str(data.unwrap().trim_end_matches(';')).unwrap();
    let column = |name: &str| STANDARD.decode(data[name].as_str().unwrap()).unwrap();
    let polls = column("level").len();
    assert!(polls >= 30, "{polls}");
    assert_eq!(column("begin").len(), 8 * polls);
    assert_eq!(column("track").len(), 2 * polls);
}

#[test]
fn the_check_passes_a_runtime_and_names_the_rule_that_a_broken_one_breaks() {
    let folder = tempfile::tempdir().unwrap();
    let path = recorded(folder.path(), "shop");
    let output = trace(&["--check"], &[&path]);
    assert!(output.status.success(), "{output:?}");
    assert!(text(&output.stdout).contains("keep the contract"));
    // Turns the first event of a kind and level into one of another kind.
    let recording = fs::read(&path).unwrap();
    let wrong = |from: Kind, level: u8, to: Kind| {
        let mut bytes = recording.clone();
        // Behind the header, the names and the slots.
        let rings = 256 + (128 << 10) + (4 << 16);
        let mut words = bytes[rings..].chunks_exact_mut(16);
        let event = words.find(|event| event[12] == from as u8 && event[13] == level);
        event.unwrap()[12] = to as u8;
        let path = folder.path().join("wrong");
        fs::write(&path, bytes).unwrap();
        let output = trace(&["--check"], &[&path]);
        assert_eq!(output.status.code(), Some(1));
        text(&output.stdout)
    };
    let found = wrong(Kind::Yield, 3, Kind::Block);
    assert!(
        found.contains("rule S3"),
        "a blocked one is picked: {found}"
    );
    assert!(found.contains("> +"), "with its scene: {found}");
    let found = wrong(Kind::Ready, 40, Kind::Level);
    assert!(found.contains("rule W1"), "its wake was lost: {found}");
}

#[test]
fn damaged_files_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = recorded(folder.path(), "shop");
    let bytes = fs::read(&path).unwrap();
    assert!(Recording::read(&bytes).is_ok());
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let output = trace(&[], &[&path]);
    assert_eq!(output.status.code(), Some(1));
    let text = text(&output.stderr);
    assert!(
        text.contains("is not shown") && text.contains("cut off"),
        "{text}"
    );
}

#[test]
fn steps_of_a_recording_become_a_conformance_trace() {
    let folder = tempfile::tempdir().unwrap();
    let path = recorded(folder.path(), "shop");
    let out = folder.path().join("joins-of-a-shop.trace");
    let out_text = out.to_str().unwrap();
    for arguments in [
        &["--trace", out_text][..],
        &["--trace", out_text, "--cut", "12..40"],
    ] {
        let output = trace(arguments, &[&path]);
        assert!(output.status.success(), "{output:?}");
        let text = fs::read_to_string(&out).unwrap();
        let scene = corank_model::Trace::parse(out_text, &text).unwrap();
        assert_eq!(scene.name, "joins-of-a-shop");
        assert!(text.contains("join answer-"), "{text}");
        let on_model = corank_model::replay(&scene, &mut corank_model::Model::default());
        assert!(on_model.is_ok(), "{on_model:?}\n{text}");
        let mut core = corank_conformance::CorePlatform::new(corank_conformance::Workers::One);
        let on_core = corank_model::replay(&scene, &mut core);
        assert!(on_core.is_ok(), "{on_core:?}\n{text}");
    }
    let output = trace(&["--cut", "40..12", "--trace", out_text], &[&path]);
    assert!(text(&output.stderr).contains("120..180"), "{output:?}");
    let output = trace(&["--trace", out_text], &[&path, &path]);
    assert!(text(&output.stderr).contains("one recording"), "{output:?}");
}
