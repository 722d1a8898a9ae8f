//! Tests of `corank top --json` beside a process that takes part.

use corank::{Config, Executor, Priority, yield_now};
use corank_domain::{ClassPolicy, Domain, RuntimeState};
use corank_linux::Builder;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Bounds the waits of a failing test; long enough for any machine.
const LONG: Duration = Duration::from_secs(60);

fn level(level: u8) -> Priority {
    Priority::new(level).unwrap()
}

fn corank(root: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_corank"))
        .args(["top", "--domain", "test", "--root"])
        .arg(root)
        .args(arguments)
        .output()
        .unwrap()
}

fn private_folder() -> tempfile::TempDir {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    tempfile::Builder::new()
        .permissions(mode)
        .tempdir()
        .unwrap()
}

#[test]
fn json_shows_what_a_process_does() {
    let root = private_folder();
    let domain = Domain::named("test")
        .root(root.path())
        .class_policy(ClassPolicy::Silent);
    let participant = domain.process("counted").join().unwrap();
    let config = Config::new()
        .publish_to(participant.publish().unwrap())
        .observer(participant.observer());
    let executor = Executor::with(config);
    let urgent = Priority::new(3).unwrap();
    executor.spawn(urgent, yield_now()).unwrap();
    executor.run_until_idle();
    executor.spawn(Priority::LEAST_URGENT, yield_now()).unwrap();
    let output = corank(root.path(), &["--json"]);
    assert!(output.status.success(), "{output:?}");
    let snapshot: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(snapshot["domain"], "test");
    let process = &snapshot["processes"][0];
    assert_eq!(process["pid"], std::process::id());
    assert_eq!(process["name"], "counted");
    assert_eq!(process["ready_levels"], json!([63]));
    let levels = &process["coroutines"]["levels"];
    assert_eq!(
        (&levels[0]["level"], &levels[0]["polls"]),
        (&json!(3), &json!(2))
    );
    assert!(levels[0]["wait_p50_ns"].as_u64() <= levels[0]["wait_p99_ns"].as_u64());
    assert_eq!(levels[1]["wait_p99_ns"], Value::Null, "no wait has ended");
    assert_eq!(process["runtime"], Value::Null);
    assert_eq!(
        (&levels[1]["level"], &levels[1]["ready"]),
        (&json!(63), &json!(1))
    );
}

/// Two samples show a runtime with a worker that one poll keeps, and what a spare worker does
/// meanwhile. Another participant of the same process has figures of its own.
#[test]
fn json_shows_a_runtime() {
    let root = private_folder();
    let domain = || {
        let domain = Domain::named("test").root(root.path());
        domain.class_policy(ClassPolicy::Silent)
    };
    let participant = domain().process("other").join().unwrap();
    let other = Executor::with(Config::new().observer(participant.observer()));
    other.spawn(level(3), yield_now()).unwrap();
    other.run_until_idle();
    let runtime = Builder::new().workers(1).domain(domain().process("held"));
    let runtime = runtime.build().unwrap();
    let (run, ran) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let holds = async move {
        let urgent = async move { run.send(()).unwrap() };
        drop(corank_linux::spawn(level(3), urgent).unwrap());
        ended.recv_timeout(LONG).expect("the test ends it");
    };
    let held = runtime.handle().spawn(level(40), holds).unwrap();
    ran.recv_timeout(LONG).expect("a spare worker polls it");
    let began = Instant::now();
    let (first, second) = loop {
        let output = corank(
            root.path(),
            &["--json", "--count", "2", "--interval", "0.05"],
        );
        let text = String::from_utf8(output.stdout).unwrap();
        let [first, second] = [0, 1].map(|at| {
            let sample: Value = serde_json::from_str(text.lines().nth(at).unwrap()).unwrap();
            let processes = sample["processes"].as_array().unwrap();
            let held = processes.iter().find(|process| process["name"] == "held");
            held.unwrap().clone()
        });
        if first["runtime"]["blocked_workers"] == 1 {
            break (first, second);
        }
        assert!(began.elapsed() < LONG, "{first}");
    };
    let state = &first["runtime"];
    assert_eq!(state["workers"], 1);
    assert!(state["takeovers"].as_u64() >= Some(1) && state["spare_workers"].as_u64() >= Some(1));
    // The poll lasts, so the worker was busy for all the time between two samples.
    let busy = |sample: &Value| sample["runtime"]["busy_ns"].as_u64().unwrap();
    assert!(busy(&second) > busy(&first));
    let urgent = &first["coroutines"]["levels"][0];
    assert_eq!((&urgent["level"], &urgent["polls"]), (&json!(3), &json!(1)));
    assert_eq!(urgent["inversions"], 1);
    assert!(urgent["inverted_ns"].as_u64() > Some(0));
    assert!(urgent["wait_p99_ns"].as_u64() > Some(0));
    // No wait ended between the two samples.
    let urgent = &second["coroutines"]["levels"][0];
    assert_eq!(
        (&urgent["polls"], &urgent["wait_p99_ns"]),
        (&json!(1), &Value::Null)
    );
    end.send(()).unwrap();
    runtime.block_on(held).unwrap();
}

/// On a terminal it draws what a process does, sample after sample, also beside one that shows
/// numbers of any size.
///
/// In the end the terminal is as it was.
#[test]
fn a_terminal_shows_it_live() {
    let root = private_folder();
    let domain = Domain::named("test")
        .root(root.path())
        .class_policy(ClassPolicy::Silent);
    let liar = domain.clone().process("liar").join().unwrap();
    let mut state = RuntimeState::default();
    state.busy = Duration::MAX;
    for count in [
        &mut state.workers,
        &mut state.blocked,
        &mut state.spare_workers,
        &mut state.takeovers,
    ] {
        *count = u64::MAX;
    }
    liar.report(&state);
    let runtime = Builder::new().workers(1).domain(domain.process("drawn"));
    let runtime = runtime.build().unwrap();
    runtime.block_on_at(level(17), yield_now());
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let size = Winsize {
        ws_row: 24,
        ws_col: 120,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&terminal, size).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let other_end = File::options()
        .read(true)
        .write(true)
        .open(name.to_str().unwrap());
    let other_end = other_end.unwrap();
    let mut top = Command::new(env!("CARGO_BIN_EXE_corank"));
    top.args([
        "top",
        "--domain",
        "test",
        "--interval",
        "0.05",
        "--count",
        "3",
        "--root",
    ])
    .arg(root.path())
    .env("TERM", "xterm")
    .stdin(other_end.try_clone().unwrap())
    .stdout(other_end.try_clone().unwrap())
    .stderr(other_end);
    let mut child = top.spawn().unwrap();
    // This drops its ends of the terminal.
    drop(top);
    let mut shown = Vec::new();
    // When no process has the other end any more, reading ends with an error.
    let _ = File::from(terminal).read_to_end(&mut shown);
    assert!(child.wait().unwrap().success());
    let shown = String::from_utf8_lossy(&shown);
    // The cursor moves between words. The first text switches to the terminal's other screen, the
    // last switches back.
    for text in [
        "\x1b[?1049h",
        "drawn",
        "liar",
        "strict",
        "TAKEOVERS",
        "17",
        "POLLS/s",
        "P99",
        "\x1b[?1049l",
    ] {
        assert!(shown.contains(text), "{text:?} in {shown:?}");
    }
}

#[test]
fn an_empty_domain_has_no_processes() {
    let root = private_folder();
    let output = corank(
        root.path(),
        &["--json", "--count", "2", "--interval", "0.05"],
    );
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 2);
    for line in text.lines() {
        let snapshot: Value = serde_json::from_str(line).unwrap();
        assert_eq!(snapshot["processes"], json!([]));
    }
}

#[test]
fn bad_arguments_are_explained() {
    let root = private_folder();
    let output = corank(root.path(), &["--interval", "0"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("from 0.05 to 3600"));
    let output = Command::new(env!("CARGO_BIN_EXE_corank"))
        .args(["top", "--json", "--domain", "a/b"])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("no name for a domain"));
}
