//! Running other programs with a time limit, and keeping what they print.

use crate::packages;
use anyhow::{Context, Result, ensure};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Coreutils' program that ends other programs after a time limit.
const TIMEOUT: &str = "timeout";
/// Its exit status when the limit was reached.
const TIMED_OUT: i32 = 124;
/// Exit status of `timeout` when the program had to be killed.
const KILLED: i32 = 137;

/// How a program ended.
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    /// Standard output and standard error, in the order in which they came.
    pub(crate) output: String,
    pub(crate) timed_out: bool,
}

impl Finished {
    pub(crate) fn success(&self) -> bool {
        self.status.success()
    }

    /// Returns the [`tail`] of the output.
    pub(crate) fn tail(&self, lines: usize) -> String {
        tail(&self.output, lines)
    }
}

/// Returns the end of an output, at most `lines` lines, and what failed before that.
///
/// What failed are the names of tests, and the panics with their messages. Tests that passed are
/// left out.
pub(crate) fn tail(output: &str, lines: usize) -> String {
    let is_passed_test = |line: &&str| line.starts_with("test ") && line.ends_with(" ... ok");
    let all: Vec<&str> = output
        .lines()
        .filter(|line| !is_passed_test(line))
        .collect();
    let (earlier, last) = all.split_at(all.len().saturating_sub(lines));
    let failed = (0..earlier.len()).filter(|&at| {
        let mut message = earlier[at.saturating_sub(PANIC)..=at].iter();
        let line = earlier[at];
        line.starts_with("FAIL")
            || line.ends_with(" ... FAILED")
            || message.any(|line| line.contains("panicked at"))
    });
    let failed = failed.map(|at| earlier[at]);
    failed
        .chain(last.iter().copied())
        .collect::<Vec<_>>()
        .join("\n")
}

/// The number of lines of a message behind the line with the place of a panic.
const PANIC: usize = 3;

/// Finds a program on the search path.
pub(crate) fn find(program: &str) -> Option<std::path::PathBuf> {
    let paths = std::env::var_os("PATH")?;
    // Tools for file systems lie in folders that only root's search path has by default.
    std::env::split_paths(&paths)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
}

/// Whether cargo saves what makes the next build of the same crate faster.
static INCREMENTAL: AtomicBool = AtomicBool::new(true);

/// Lets cargo build without incremental compilation in all commands that begin from now on.
///
/// A crate that is compiled once takes two thirds of the processor time then. Cargo keeps such
/// builds beside incremental ones.
pub(crate) fn without_incremental_builds() {
    INCREMENTAL.store(false, Ordering::Relaxed);
}

/// The command that runs a program which gets SIGTERM when its parent ends, in whatever way.
const TIED: [&str; 3] = ["setpriv", "--pdeathsig", "TERM"];

/// Tests whether this computer's `setpriv` can tie a program to its parent.
///
/// That of util-linux can.
fn can_tie() -> bool {
    static CAN: LazyLock<bool> = LazyLock::new(|| {
        let [program, options @ ..] = TIED;
        answer(program, &[options[0], options[1], "true"]).is_some()
    });
    *CAN
}

/// Returns the same command under coreutils' `timeout`, which ends the whole process group.
///
/// Otherwise cargo's children would outlive cargo. The command also ends when the thread ends that
/// starts it, so also when a signal ends this program. Without util-linux the command outlives this
/// program, at most up to its limit.
///
/// With `foreground`, the command stays in the terminal's foreground group, so that it can read
/// from the terminal and gets Ctrl-C. Then only the command itself is ended.
///
/// # Errors
/// When the program is not on this machine. The message has what to type.
pub(crate) fn limited(command: &Command, limit: Duration, foreground: bool) -> Result<Command> {
    let program = command.get_program().to_string_lossy();
    if !program.contains('/') && find(&program).is_none() {
        return Err(packages::missing(&program));
    }
    let mut wrapped = if can_tie() {
        let [program, options @ ..] = TIED;
        let mut tied = Command::new(program);
        tied.args(options).arg(TIMEOUT);
        tied
    } else {
        Command::new(TIMEOUT)
    };
    if foreground {
        wrapped.arg("--foreground");
    }
    wrapped
        .arg("--kill-after=5")
        .arg(limit.as_secs().max(1).to_string())
        .arg(command.get_program())
        .args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        wrapped.current_dir(folder);
    }
    if !INCREMENTAL.load(Ordering::Relaxed) {
        wrapped.env("CARGO_INCREMENTAL", "0");
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    Ok(wrapped)
}

/// Runs `command` to its end or until `limit`.
///
/// `each_line` gets every line as it comes. The command cannot read from the terminal.
pub(crate) fn capture(
    command: &Command,
    limit: Duration,
    mut each_line: impl FnMut(&str),
) -> Result<Finished> {
    let start = Instant::now();
    let mut command = limited(command, limit, false)?;
    let name = describe(&command);
    // One pipe for both streams keeps their order.
    let (reader, writer) = std::io::pipe()?;
    command
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let mut child = command
        .spawn()
        .with_context(|| format!("can't start `{name}`"))?;
    drop(command); // closes our copies of the pipe's write end, or reading would never end
    let mut output = String::new();
    let mut reader = BufReader::new(reader);
    let mut bytes = Vec::new();
    while reader.read_until(b'\n', &mut bytes)? > 0 {
        let line = String::from_utf8_lossy(&bytes);
        output.push_str(&line);
        each_line(line.trim_end());
        bytes.clear();
    }
    let status = child.wait()?;
    let timed_out = timed_out(status.code(), start.elapsed(), limit);
    Ok(Finished {
        status,
        output,
        timed_out,
    })
}

/// Runs a command that has to succeed, as [`capture`] does.
///
/// # Errors
/// As [`capture`], and when the command fails. The message has the end of what it printed.
pub(crate) fn succeed(
    command: &Command,
    limit: Duration,
    each_line: impl FnMut(&str),
) -> Result<Finished> {
    let finished = capture(command, limit, each_line)?;
    ensure!(
        finished.success(),
        "`{}` failed:\n{}",
        describe(command),
        finished.tail(20)
    );
    Ok(finished)
}

/// Tests whether an exit status of `timeout` means that the limit was reached.
///
/// Otherwise the program itself chose that status.
pub(crate) fn timed_out(code: Option<i32>, took: Duration, limit: Duration) -> bool {
    matches!(code, Some(TIMED_OUT | KILLED) | None) && took >= limit
}

/// Runs a short command and returns its standard output.
///
/// Returns `None` when it can't be started or fails.
pub(crate) fn answer(program: impl AsRef<OsStr>, args: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// Returns the command as a user would type it, without the `timeout` around it.
pub(crate) fn describe(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let is_wrapped = words[0] == TIMEOUT || words[0] == TIED[0];
    let skip = words
        .iter()
        .position(|word| is_wrapped && word.starts_with("--kill-after"))
        .map_or(0, |at| at + 2);
    words[skip..].join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_streams_are_kept_in_order() {
        let mut lines = Vec::new();
        let finished = capture(
            &shell("echo one; echo two >&2; echo three; exit 3"),
            Duration::from_secs(20),
            |line| {
                lines.push(line.to_string());
            },
        )
        .unwrap();
        assert_eq!(lines, ["one", "two", "three"]);
        assert_eq!(finished.status.code(), Some(3));
        assert!(!finished.timed_out);
        assert_eq!(finished.tail(2), "two\nthree");
    }

    #[test]
    fn the_tail_is_about_what_failed() {
        let script = "echo 'test a ... FAILED'; echo 'test b ... ok'";
        let finished = capture(&shell(script), Duration::from_secs(20), |_| {}).unwrap();
        assert_eq!(finished.tail(5), "test a ... FAILED");
        let output = "panicked at a:\n1\n2\n3\n4\nFAIL b\nok c\nlast";
        assert_eq!(tail(output, 1), "panicked at a:\n1\n2\n3\nFAIL b\nlast");
    }

    #[test]
    fn a_program_that_never_ends_is_ended_with_its_children() {
        // The child of the shell keeps the pipe open: without the process group, reading would
        // never end.
        let finished = capture(
            &shell("sleep 1000 & echo started; wait"),
            Duration::from_secs(1),
            |_| {},
        )
        .unwrap();
        assert!(finished.timed_out);
        assert_eq!(finished.output, "started\n");
    }

    #[test]
    fn a_status_of_124_before_the_limit_is_the_programs_own() {
        let limit = Duration::from_secs(10);
        assert!(!timed_out(Some(124), Duration::from_secs(2), limit));
        assert!(timed_out(Some(124), Duration::from_secs(10), limit));
    }

    #[test]
    fn a_command_that_has_to_succeed_says_what_it_printed_last() {
        let limit = Duration::from_secs(20);
        let error = succeed(&shell("echo why; exit 3"), limit, |_| {}).err();
        let said = error.unwrap().to_string();
        assert_eq!(said, "`sh -c echo why; exit 3` failed:\nwhy");
        assert!(succeed(&shell("echo fine"), limit, |_| {}).is_ok());
    }

    #[test]
    fn a_program_that_is_missing_is_named() {
        let error = capture(
            &Command::new("corank-no-such-program"),
            Duration::from_secs(5),
            |_| {},
        )
        .err()
        .unwrap();
        assert_eq!(
            error.to_string(),
            "`corank-no-such-program` is missing on this machine; type: cargo xtask setup"
        );
    }

    #[test]
    fn a_command_is_described_as_one_would_type_it() {
        let command = limited(&shell("true"), Duration::from_secs(5), true).unwrap();
        assert_eq!(describe(&command), "sh -c true");
    }
}
