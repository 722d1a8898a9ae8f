//! Child processes: as those of [`std::process`], with waiting and their pipes asynchronous.
//!
//! ```
//! use corank_linux::process::Command;
//!
//! # let runtime = corank_linux::Runtime::new()?;
//! let output = runtime.block_on(async { Command::new("echo").arg("hello").output().await })?;
//! assert!(output.status.success());
//! assert_eq!(output.stdout, b"hello\n");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! The kernel tells of a child's end by a descriptor of its own (a pidfd): no signal is handled, and other parts of the program may have
//! children too, as long as they don't wait for those of others and `SIGCHLD` isn't ignored.
//!
//! A child that is [dropped](Child) is left to a thread that waits for it when it ends, so no zombie stays, and without any runtime.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process as std_process;
use std::sync::Arc;

use futures_lite::{AsyncReadExt, future};
use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};

use crate::async_fd::Async;
use crate::pipe::{Receiver, Sender};
use crate::signal::Signal;

mod orphans;

pub use std::process::{ExitStatus, Output, Stdio};

/// A program to be started; as [`std::process::Command`].
#[derive(Debug)]
pub struct Command {
    std: std_process::Command,
    given: Given,
    kill_on_drop: bool,
}

/// Which of the standard streams were chosen: `output` chooses the others.
#[derive(Clone, Copy, Debug, Default)]
struct Given {
    stdin: bool,
    stdout: bool,
    stderr: bool,
}

impl Command {
    /// A program by its path, or by its name to be searched in `PATH`.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        std_process::Command::new(program).into()
    }

    /// One more argument.
    pub fn arg(&mut self, argument: impl AsRef<OsStr>) -> &mut Self {
        self.std.arg(argument);
        self
    }

    /// More arguments.
    pub fn args(&mut self, arguments: impl IntoIterator<Item: AsRef<OsStr>>) -> &mut Self {
        self.std.args(arguments);
        self
    }

    /// Sets a variable of the environment.
    pub fn env(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.std.env(name, value);
        self
    }

    /// Takes a variable out of the environment.
    pub fn env_remove(&mut self, name: impl AsRef<OsStr>) -> &mut Self {
        self.std.env_remove(name);
        self
    }

    /// Takes everything out of the environment.
    pub fn env_clear(&mut self) -> &mut Self {
        self.std.env_clear();
        self
    }

    /// Where the child starts.
    pub fn current_dir(&mut self, folder: impl AsRef<Path>) -> &mut Self {
        self.std.current_dir(folder);
        self
    }

    /// The child's input; otherwise the parent's, and nothing for [`output`](Self::output).
    pub fn stdin(&mut self, input: impl Into<Stdio>) -> &mut Self {
        self.std.stdin(input);
        self.given.stdin = true;
        self
    }

    /// The child's output; otherwise the parent's, and a pipe for [`output`](Self::output).
    pub fn stdout(&mut self, output: impl Into<Stdio>) -> &mut Self {
        self.std.stdout(output);
        self.given.stdout = true;
        self
    }

    /// The child's messages; otherwise the parent's, and a pipe for [`output`](Self::output).
    pub fn stderr(&mut self, output: impl Into<Stdio>) -> &mut Self {
        self.std.stderr(output);
        self.given.stderr = true;
        self
    }

    /// Whether the child is killed when its [`Child`] is dropped, or the future of [`status`](Self::status) or [`output`](Self::output). Otherwise it goes
    /// on alone.
    pub fn kill_on_drop(&mut self, kill: bool) -> &mut Self {
        self.kill_on_drop = kill;
        self
    }

    /// For everything else that can be set.
    pub fn as_std_mut(&mut self) -> &mut std_process::Command {
        &mut self.std
    }

    /// Starts the program, and blocks this thread until that runs: mostly less than a millisecond.
    ///
    /// # Errors
    /// The program cannot be run; too many processes; no descriptors (in rare cases that is found when the child has begun: then it is killed
    /// first); outside a runtime.
    pub fn spawn(&mut self) -> io::Result<Child> {
        orphans::prepare()?;
        let mut std = self.std.spawn()?;
        let (stdin, stdout, stderr) = (std.stdin.take(), std.stdout.take(), std.stderr.take());
        // Nothing is half done: until all is there, an error kills.
        let mut child = Child {
            stdin: None,
            stdout: None,
            stderr: None,
            process: Process::new(std)?,
            kill_on_drop: true,
        };
        child.stdin = stdin.map(Sender::from_fd).transpose()?;
        child.stdout = stdout.map(Receiver::from_fd).transpose()?;
        child.stderr = stderr.map(Receiver::from_fd).transpose()?;
        child.kill_on_drop = self.kill_on_drop;
        Ok(child)
    }

    /// Runs the program to its end.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn) and [`Child::wait`].
    pub async fn status(&mut self) -> io::Result<ExitStatus> {
        self.spawn()?.wait().await
    }

    /// Runs the program to its end, and collects what it writes.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn) and [`Child::wait_with_output`].
    pub async fn output(&mut self) -> io::Result<Output> {
        let Given {
            stdin,
            stdout,
            stderr,
        } = self.given;
        if !stdin {
            self.std.stdin(Stdio::null());
        }
        if !stdout {
            self.std.stdout(Stdio::piped());
        }
        if !stderr {
            self.std.stderr(Stdio::piped());
        }
        let child = self.spawn();
        // As they were, for the next call.
        if !stdin {
            self.std.stdin(Stdio::inherit());
        }
        if !stdout {
            self.std.stdout(Stdio::inherit());
        }
        if !stderr {
            self.std.stderr(Stdio::inherit());
        }
        child?.wait_with_output().await
    }
}

/// What was set before counts, but standard streams count as not chosen for [`output`](Command::output).
impl From<std_process::Command> for Command {
    fn from(std: std_process::Command) -> Self {
        Self {
            std,
            given: Given::default(),
            kill_on_drop: false,
        }
    }
}

/// A child process. When this is dropped the child goes on alone, unless [`Command::kill_on_drop`] says otherwise; in both cases it is waited
/// for.
#[derive(Debug)]
pub struct Child {
    /// To the child's input, if that is a pipe.
    pub stdin: Option<Sender>,
    /// From the child's output, if that is a pipe.
    pub stdout: Option<Receiver>,
    /// From the child's messages, if that is a pipe.
    pub stderr: Option<Receiver>,
    process: Process,
    kill_on_drop: bool,
}

impl Child {
    /// The process's number. Once the child was waited for, it may be another process's.
    pub fn id(&self) -> u32 {
        self.process.child.id()
    }

    /// Waits until the child has ended, and says how. Closes its input first, or it might wait for more. Dropping the future changes nothing,
    /// and who waits again is told again.
    ///
    /// # Errors
    /// Somebody else has waited for the child, or `SIGCHLD` is ignored (`ECHILD`).
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        self.process.wait().await
    }

    /// How the child has ended, if it has.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.process.child.try_wait()
    }

    /// Waits until the child has ended, and collects what comes through its pipes until their ends: also from those to whom it has passed
    /// them on.
    ///
    /// # Errors
    /// As [`wait`](Self::wait), and those of reading.
    pub async fn wait_with_output(mut self) -> io::Result<Output> {
        drop(self.stdin.take());
        let read = async |stream: Option<Receiver>| {
            let mut bytes = Vec::new();
            if let Some(mut stream) = stream {
                stream.read_to_end(&mut bytes).await?;
            }
            io::Result::Ok(bytes)
        };
        let streams = future::try_zip(read(self.stdout.take()), read(self.stderr.take()));
        let (status, (stdout, stderr)) = future::try_zip(self.process.wait(), streams).await?;
        Ok(Output {
            status,
            stdout,
            stderr,
        })
    }

    /// Kills the child, without waiting for its end. One that has ended is left as it is.
    ///
    /// # Errors
    /// The child belongs to another user now.
    pub fn kill(&mut self) -> io::Result<()> {
        self.process.child.kill()
    }

    /// Sends the child a signal.
    ///
    /// # Errors
    /// The child has ended and was waited for (`ESRCH`); it belongs to another user now.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(pidfd_send_signal(self.as_fd(), signal)?)
    }
}

/// The child's pidfd.
impl AsFd for Child {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.process.pidfd.as_fd()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.kill_on_drop {
            // The only error is that it has another user's rights now: it goes on, as it would if it ignored other signals.
            let _ = self.process.child.kill();
        }
    }
}

/// A child that is waited for, sooner or later.
#[derive(Debug)]
struct Process {
    child: std_process::Child,
    /// Readable when the child has ended. Also names it for a signal: the number of one that was waited for may be another's.
    pidfd: Async<Arc<OwnedFd>>,
}

impl Process {
    /// # Errors
    /// No descriptors. Then the child is killed and gone.
    fn new(mut child: std_process::Child) -> io::Result<Self> {
        // Its number is its own, since nobody has waited for it.
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
        match pidfd
            .map_err(io::Error::from)
            .and_then(|pidfd| Async::of_non_blocking(Arc::new(pidfd)))
        {
            Ok(pidfd) => Ok(Self { child, pidfd }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    async fn wait(&mut self) -> io::Result<ExitStatus> {
        let Self { child, pidfd } = self;
        let ended = |_: &_| {
            let status = child.try_wait()?;
            status.ok_or_else(|| io::ErrorKind::WouldBlock.into())
        };
        pidfd.read_with(ended).await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error says that somebody else has waited for it.
        if let Ok(None) = self.child.try_wait() {
            orphans::adopt(self.pidfd.get_ref().clone());
        }
    }
}
