//! Tests of `corank top --json` beside a process that takes part.

use corank::{Config, Executor, Priority, yield_now};
use corank_domain::{ClassPolicy, Domain};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output};

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
    assert_eq!(
        (&levels[1]["level"], &levels[1]["ready"]),
        (&json!(63), &json!(1))
    );
}

/// On a terminal it draws what a process does, sample after sample.
///
/// In the end the terminal is as it was.
#[test]
fn a_terminal_shows_it_live() {
    let root = private_folder();
    let domain = Domain::named("test")
        .root(root.path())
        .class_policy(ClassPolicy::Silent);
    let participant = domain.process("drawn").join().unwrap();
    let executor = Executor::with(Config::new().publish_to(participant.publish().unwrap()));
    executor.spawn(Priority::LEAST_URGENT, yield_now()).unwrap();

    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let size = Winsize {
        ws_row: 24,
        ws_col: 100,
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
        "strict",
        "63",
        "POLLS/s",
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
