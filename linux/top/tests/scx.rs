//! Tests of `corank scx`, which runs another program.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

/// Runs `corank scx` with the search path of one folder.
fn scx(folder: &std::path::Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_corank"))
        .arg("scx")
        .args(arguments)
        .env("PATH", folder)
        .output()
        .unwrap()
}

#[test]
fn the_daemon_gets_the_arguments_and_its_status_counts() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = folder.path().join("corank-scx");
    fs::write(&daemon, "#!/bin/sh\necho \"$@\"\nexit 7\n").unwrap();
    fs::set_permissions(&daemon, Permissions::from_mode(0o755)).unwrap();
    for arguments in [&["run", "--config", "file"][..], &["--help"]] {
        let output = scx(folder.path(), arguments);
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said.trim(), arguments.join(" "));
        assert_eq!(output.status.code(), Some(7));
    }
}

#[test]
fn a_missing_daemon_is_named_with_the_page_that_says_how_to_build_it() {
    let folder = tempfile::tempdir().unwrap();
    let output = scx(folder.path(), &["run"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(said.contains("linux/scx/README.md"), "{said}");
}
