//! Tests of `cargo xtask os` as a command: its exit codes, its error messages, its input, and what
//! is left of it when a signal ends it.

use super::Context;
use super::machine::DISK_SIZE;
use super::outcome::Outcome;
use crate::os::scratch_disk::ScratchDisk;
use crate::repository;
use anyhow::{Context as _, Result, bail, ensure};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// More bytes than the machine's console keeps.
const LONG: usize = 20_000;

type Test = fn() -> Result<()>;

const TESTS: [(&str, Test); 9] = [
    ("exit codes", exit_codes),
    ("too little memory", too_little_memory),
    ("a wrong path of a program", a_wrong_path_of_a_program),
    ("a program with a taken name", a_program_with_a_taken_name),
    ("ports", ports),
    (
        "all bytes and the end of input",
        all_bytes_and_the_end_of_input,
    ),
    (
        "input longer than the console keeps",
        input_longer_than_the_console_keeps,
    ),
    (
        "a script as the shell's input",
        a_script_as_the_shells_input,
    ),
    ("signals end the machine", signals_end_the_machine),
];

/// Runs all tests.
pub(super) fn test(context: &mut Context) -> Result<Outcome> {
    context.side_by_side(&TESTS, |(name, test), context| {
        context.progress.say(name);
        Ok(match test() {
            Ok(()) => Outcome::passed(),
            Err(error) => {
                context.show(&format!("{name}: {error:#}"));
                Outcome::failed()
            }
        })
    })
}

/// Returns `cargo xtask os` with these arguments, without a disk if none of them names one.
fn os(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("os");
    if !arguments.contains(&"--disk") {
        command.arg("--no-disk");
    }
    command.args(arguments);
    Ok(command)
}

/// Runs the command with this input to its end.
fn run(mut command: Command, input: &[u8]) -> Result<Output> {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let mut keyboard = child.stdin.take().expect("it is piped");
    let input = input.to_vec();
    let typing = thread::spawn(move || keyboard.write_all(&input));
    let output = child.wait_with_output()?;
    // A command that fails does not read its input.
    let _ = typing.join().expect("writing does not panic");
    Ok(output)
}

/// Checks the result of a command: its exit code, and texts in its output and in its error
/// messages.
fn expect(output: &Output, code: i32, printed: &str, error: &str) -> Result<()> {
    let [out, err] = [&output.stdout, &output.stderr]
        .map(|text| String::from_utf8_lossy(text).replace('\r', ""));
    ensure!(
        output.status.code() == Some(code) && out.contains(printed) && err.contains(error),
        "expected the code {code}, `{printed}` and `{error}`, but there was {}, `{out}` and `{err}`",
        output.status
    );
    Ok(())
}

fn exit_codes() -> Result<()> {
    for (arguments, code, failure) in [
        (&["--timeout", "60", "--", "false"][..], 1, ""),
        (&["--", "true"], 0, ""),
        (
            &["--timeout", "3", "--", "sleep", "1000"],
            124,
            "still running",
        ),
    ] {
        expect(&run(os(arguments)?, b"")?, code, "", failure)?;
    }
    Ok(())
}

fn too_little_memory() -> Result<()> {
    let refused = run(os(&["--memory", "32M", "--", "true"])?, b"")?;
    expect(&refused, 1, "", "--memory 32M is too little")?;
    let failure = String::from_utf8_lossy(&refused.stderr);
    let least = failure.trim_end().rsplit(' ').next().unwrap_or_default();
    let arguments = [
        "--smp",
        "8",
        "--timeout",
        "60",
        "--memory",
        least,
        "--",
        "hello",
        "you",
    ];
    expect(&run(os(&arguments)?, b"")?, 0, "hello, you", "")
}

fn a_wrong_path_of_a_program() -> Result<()> {
    let mut command = os(&["--program", "/nowhere/program", "--", "program"])?;
    // Nothing can be built without a search path, so the error about the program comes before the
    // build.
    command.env("PATH", "");
    expect(&run(command, b"")?, 1, "", "can't read /nowhere/program")
}

fn a_program_with_a_taken_name() -> Result<()> {
    let folder = repository::path("target/command");
    std::fs::create_dir_all(&folder)?;
    let hello = "os/target/riscv64gc-unknown-none-elf/release/hello";
    let outside = folder.join("cat");
    std::fs::copy(repository::path(hello), &outside)
        .context("the system's programs are built by earlier tests")?;
    let outside = outside.display().to_string();
    let arguments = ["--program", &outside, "--timeout", "60", "--", "cat", "you"];
    expect(
        &run(os(&arguments)?, b"")?,
        0,
        "hello, you",
        "note: `cat` is the program from outside",
    )
}

fn ports() -> Result<()> {
    let arguments = ["--forward", "udp:0:53", "--timeout", "60", "--", "true"];
    let output = run(os(&arguments)?, b"")?;
    expect(&output, 0, "", "udp port ")?;
    expect(&output, 0, "", " of this computer leads to 53\n")
}

fn all_bytes_and_the_end_of_input() -> Result<()> {
    let bytes: Vec<u8> = (0..=255).chain(0..=255).collect();
    let output = run(os(&["--timeout", "60", "--", "cat"])?, &bytes)?;
    ensure!(output.stdout == bytes, "cat printed {:?}", output.stdout);
    let output = run(os(&["--timeout", "60", "--", "wc"])?, b"")?;
    expect(&output, 0, "0", "")
}

fn input_longer_than_the_console_keeps() -> Result<()> {
    let input: Vec<u8> = (0..LONG).map(|at| (at % 251) as u8).collect();
    let output = run(os(&["--timeout", "60", "--", "wc"])?, &input)?;
    expect(&output, 0, &LONG.to_string(), "")
}

fn a_script_as_the_shells_input() -> Result<()> {
    // `cat` takes what is left, and the shell also finds the end.
    let script = b"echo first\ncat > /dev/null || cat\nwords for cat\n";
    let output = run(os(&["--timeout", "60", "--", "sh"])?, script)?;
    expect(&output, 0, "first", "")?;
    expect(&output, 0, "words for cat", "")
}

fn signals_end_the_machine() -> Result<()> {
    let disk = ScratchDisk::new("signals", DISK_SIZE)?;
    for signal in ["TERM", "INT", "HUP", "KILL"] {
        let path = disk.path().display().to_string();
        let arguments = ["--disk", &path, "--", "sh", "-c", "echo ready; sleep 1000"];
        let mut command = with_default_signals(&os(&arguments)?);
        let (reader, writer) = std::io::pipe()?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(writer);
        let mut child = command.spawn()?;
        // This drops this program's copy of the pipe. QEMU has another one.
        drop(command);
        until_ready(&mut child)?;
        let pid = child.id().to_string();
        let sent = Command::new("kill")
            .args([&format!("-{signal}"), &pid])
            .status()?;
        ensure!(sent.success(), "no SIG{signal} can be sent");
        child.wait()?;
        ended(reader).with_context(|| format!("after SIG{signal}"))?;
    }
    Ok(())
}

/// Returns the same command, ended by each signal.
///
/// A process that ignores a signal, as under `nohup` or as a job in the background, makes all its
/// children ignore it.
fn with_default_signals(command: &Command) -> Command {
    let mut wrapped = Command::new("env");
    wrapped.arg("--default-signal=HUP,INT,TERM");
    wrapped.arg(command.get_program()).args(command.get_args());
    wrapped
}

/// Waits until the machine's program has printed something.
fn until_ready(child: &mut Child) -> Result<()> {
    let mut printed = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut line = String::new();
    while printed.read_line(&mut line)? > 0 {
        if line.trim_end() == "ready" {
            return Ok(());
        }
        line.clear();
    }
    bail!("the machine did not come up");
}

/// Waits until no process has the other end of the pipe open any more.
fn ended(mut reader: impl Read + Send + 'static) -> Result<()> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(reader.read_to_end(&mut Vec::new())));
    let Ok(read) = receiver.recv_timeout(Duration::from_secs(30)) else {
        bail!("QEMU goes on");
    };
    Ok(read.map(|_| ())?)
}
