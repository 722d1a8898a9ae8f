//! Child processes: their output, their exit status, and that none is left behind, however it is
//! dropped.
//!
//! A child is alive as long as it holds one end of a pipe that only it has.

#![cfg(not(loom))]

#[path = "../../core/tests/common/asserts.rs"]
mod asserts;

use std::future::poll_fn;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::Stdio;
use std::task::Poll;
use std::time::{Duration, Instant};

use corank_linux::pipe::{Receiver, pipe};
use corank_linux::process::{Child, Command};
use corank_linux::signal::{Signal, Signals};
use corank_linux::time::{sleep, timeout};
use corank_linux::{Builder, Priority, Runtime, spawn};
use futures::{AsyncReadExt, AsyncWriteExt};

/// Bounds the waits of a failing test; long enough for any machine.
const LONG: Duration = Duration::from_secs(60);

fn runtime() -> Runtime {
    Builder::new().workers(2).build().unwrap()
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// Starts a child that reads until its input ends; returns the end of a pipe that the child holds
/// as long as it lives.
fn endless(command: &mut Command) -> (Child, Receiver) {
    let (write, held) = pipe().unwrap();
    let child = command
        .stdin(Stdio::piped())
        .stderr(write.into_blocking().unwrap())
        .spawn()
        .unwrap();
    // The command keeps the end that the child inherits.
    command.stderr(Stdio::null());
    (child, held)
}

async fn assert_ends(mut held: Receiver) {
    let end = timeout(LONG, held.read(&mut [0])).await;
    assert_eq!(end.expect("the child ends").unwrap(), 0);
}

/// Waits until this process has no such child any more, not even as a zombie.
async fn assert_gone(id: u32) {
    let began = Instant::now();
    let parent = std::process::id().to_string();
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        // Identifier, name in parentheses, state, parent. Another process may have the identifier
        // by now.
        let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        if rest.split_whitespace().nth(1) != Some(&parent) {
            return;
        }
        assert!(began.elapsed() < LONG, "a child stays: {stat}");
        sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn output_collects_more_than_a_pipe_holds() {
    runtime().block_on(async {
        let script = "head -c 300000 /dev/zero; head -c 200000 /dev/zero >&2; exit 3";
        let mut command = shell(script);
        // The second call behaves as the first.
        for _ in 0..2 {
            let output = command.output().await.unwrap();
            assert_eq!(output.status.code(), Some(3));
            assert_eq!(output.stdout, vec![0; 300_000]);
            assert_eq!(output.stderr, vec![0; 200_000]);
        }
        let output = shell("cat").stdout(Stdio::null()).output().await.unwrap();
        assert!(output.status.success(), "there is no input");
        assert!(output.stdout.is_empty());
    });
}

#[test]
fn pipes_carry_everything_both_ways() {
    runtime().block_on(async {
        let mut first = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let between = first.stdout.take().unwrap().into_blocking().unwrap();
        let mut second = Command::new("cat")
            .stdin(between)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = first.stdin.take().unwrap();
        let write = async move { stdin.write_all(&[7; 500_000]).await };
        let write = spawn(Priority::DEFAULT, write).unwrap();
        let mut all = Vec::new();
        let mut stdout = second.stdout.take().unwrap();
        stdout.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, vec![7; 500_000]);
        write.await.unwrap().unwrap();
        assert!(first.wait().await.unwrap().success());
        assert!(second.wait().await.unwrap().success());
    });
}

#[test]
fn each_wait_returns_the_status() {
    runtime().block_on(async {
        let mut child = shell("read line; exit 7")
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        assert_eq!(child.try_wait().unwrap(), None);
        let mut stdin = child.stdin.take().unwrap();
        assert!(futures::poll!(pin!(child.wait())).is_pending());
        stdin.write_all(b"\n").await.unwrap();
        for _ in 0..2 {
            assert_eq!(child.wait().await.unwrap().code(), Some(7));
        }
        assert_eq!(child.try_wait().unwrap().unwrap().code(), Some(7));
        assert!(
            child.kill().is_ok(),
            "it has ended, and no other process is killed"
        );
        assert!(child.signal(Signal::TERM).is_err());
        // The wait closes the input first.
        let mut child = shell("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(child.wait().await.unwrap().success());
    });
}

/// A child does not inherit the signal handling of its parent.
#[test]
fn signals_end_a_child_of_a_parent_that_listens() {
    runtime().block_on(async {
        let mut signals = Signals::new([Signal::INT, Signal::USR1]).unwrap();
        for signal in [Signal::INT, Signal::USR1, Signal::KILL] {
            let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
            let stdin = child.stdin.take();
            child.signal(signal).unwrap();
            let status = child.wait().await.unwrap();
            assert_eq!(status.signal(), Some(signal.as_raw()));
            drop(stdin);
        }
        assert!(futures::poll!(pin!(signals.recv())).is_pending());
    });
}

#[test]
fn a_child_may_be_killed_when_it_is_dropped() {
    runtime().block_on(async {
        let (mut child, held) = endless(Command::new("cat").kill_on_drop(true));
        let (id, stdin) = (child.id(), child.stdin.take());
        drop(child);
        assert_ends(held).await;
        assert_gone(id).await;
        drop(stdin);
    });
}

#[test]
fn a_child_continues_when_dropped() {
    runtime().block_on(async {
        let (mut child, held) = endless(Command::new("cat").stdout(Stdio::piped()));
        let id = child.id();
        let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        drop(child);
        stdin.write_all(b"still there").await.unwrap();
        let mut text = [0; 11];
        stdout.read_exact(&mut text).await.unwrap();
        assert_eq!(&text, b"still there");
        drop(stdin);
        assert_ends(held).await;
        assert_gone(id).await;
    });
}

#[test]
fn a_detached_child_delays_no_other() {
    runtime().block_on(async {
        let (mut long, held) = endless(&mut Command::new("cat"));
        let (id, stdin) = (long.id(), long.stdin.take());
        drop(long);
        for _ in 0..3 {
            let (mut short, held) = endless(&mut Command::new("cat"));
            let id = short.id();
            drop(short.stdin.take());
            drop(short);
            assert_ends(held).await;
            assert_gone(id).await;
        }
        drop(stdin);
        assert_ends(held).await;
        assert_gone(id).await;
    });
}

/// Many children at once, some dropped after they have ended and some before: no zombie stays.
#[test]
fn no_zombie_stays() {
    let ids = runtime().block_on(async {
        let mut ids = Vec::new();
        for number in 0..100 {
            let mut child = Command::new("true").spawn().unwrap();
            ids.push(child.id());
            if number % 3 == 0 {
                child.wait().await.unwrap();
            }
        }
        ids
    });
    // Also without the runtime that started them.
    let other = runtime();
    other.block_on(async move {
        for id in ids {
            assert_gone(id).await;
        }
    });
}

#[test]
fn a_child_outlives_its_runtime() {
    let (mut child, held) = runtime().block_on(async { endless(&mut Command::new("cat")) });
    let id = child.id();
    drop(held);
    drop(child.stdin.take());
    drop(child);
    runtime().block_on(assert_gone(id));
    assert!(
        Command::new("true").spawn().is_err(),
        "no runtime runs here"
    );
}

#[test]
fn a_missing_program_is_an_error() {
    runtime().block_on(async {
        let error = Command::new("/no/such/program").spawn().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        let error = Command::new("true").current_dir("/no/such").status().await;
        assert_eq!(error.unwrap_err().kind(), std::io::ErrorKind::NotFound);
    });
}

/// `output` is dropped at each of its awaits in turn: the child is killed and waited for. The child
/// stops at each await until its pipe is read.
#[test]
fn output_may_be_cancelled_at_every_await() {
    runtime().block_on(async {
        let script =
            "for i in 1 2 3 4 5; do head -c 70000 /dev/zero; head -c 70000 /dev/zero >&2; done";
        let mut finished = false;
        for polls in 0.. {
            let (write, held) = pipe().unwrap();
            let mut command = shell(script);
            // Its input is one end of a pipe too: it only has to be held.
            command
                .stdin(write.into_blocking().unwrap())
                .kill_on_drop(true);
            let mut output = Box::pin(async move { command.output().await });
            let mut left = polls;
            let result = poll_fn(|cx| match output.as_mut().poll(cx) {
                Poll::Ready(output) => Poll::Ready(Some(output)),
                Poll::Pending if left == 0 => Poll::Ready(None),
                Poll::Pending => {
                    left -= 1;
                    Poll::Pending
                }
            });
            if let Some(output) = timeout(LONG, result).await.unwrap() {
                assert_eq!(output.unwrap().stdout.len(), 350_000);
                finished = true;
                break;
            }
            drop(output);
            assert_ends(held).await;
        }
        assert!(finished);
    });
}
