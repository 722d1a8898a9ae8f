//! Child processes as in [`std::process`], with asynchronous waiting and pipes.
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
//! The kernel reports the end of a child by a descriptor of its own (a pidfd): no signal is
//! handled. Other parts of the program may have children too, as long as each part waits only for
//! its own and `SIGCHLD` is not ignored.
//!
//! A thread waits for the end of a child whose [`Child`] was dropped, so no zombie stays. It needs
//! no runtime.

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

/// Starts a program, as [`std::process::Command`] does.
#[derive(Debug)]
pub struct Command {
    std: std_process::Command,
    given: Given,
    kill_on_drop: bool,
}

/// The standard streams that were chosen: `output` chooses the others.
#[derive(Clone, Copy, Debug, Default)]
struct Given {
    stdin: bool,
    stdout: bool,
    stderr: bool,
}

impl Command {
    /// Names a program by its path, or by its name to be searched in `PATH`.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        std_process::Command::new(program).into()
    }

    /// Adds an argument.
    pub fn arg(&mut self, argument: impl AsRef<OsStr>) -> &mut Self {
        self.std.arg(argument);
        self
    }

    /// Adds arguments.
    pub fn args(&mut self, arguments: impl IntoIterator<Item: AsRef<OsStr>>) -> &mut Self {
        self.std.args(arguments);
        self
    }

    /// Sets a variable of the environment.
    pub fn env(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.std.env(name, value);
        self
    }

    /// Removes a variable from the environment.
    pub fn env_remove(&mut self, name: impl AsRef<OsStr>) -> &mut Self {
        self.std.env_remove(name);
        self
    }

    /// Removes all variables from the environment.
    pub fn env_clear(&mut self) -> &mut Self {
        self.std.env_clear();
        self
    }

    /// Sets the child's working directory.
    pub fn current_dir(&mut self, folder: impl AsRef<Path>) -> &mut Self {
        self.std.current_dir(folder);
        self
    }

    /// Sets the child's input.
    ///
    /// By default it is the parent's, and empty for [`output`](Self::output).
    pub fn stdin(&mut self, input: impl Into<Stdio>) -> &mut Self {
        self.std.stdin(input);
        self.given.stdin = true;
        self
    }

    /// Sets the child's output.
    ///
    /// By default it is the parent's, and a pipe for [`output`](Self::output).
    pub fn stdout(&mut self, output: impl Into<Stdio>) -> &mut Self {
        self.std.stdout(output);
        self.given.stdout = true;
        self
    }

    /// Sets the child's error output.
    ///
    /// By default it is the parent's, and a pipe for [`output`](Self::output).
    pub fn stderr(&mut self, output: impl Into<Stdio>) -> &mut Self {
        self.std.stderr(output);
        self.given.stderr = true;
        self
    }

    /// Sets whether the child is killed when its [`Child`], or the future of
    /// [`status`](Self::status) or [`output`](Self::output), is dropped.
    ///
    /// By default it continues.
    pub fn kill_on_drop(&mut self, kill: bool) -> &mut Self {
        self.kill_on_drop = kill;
        self
    }

    /// Returns the command of `std`, for all other settings.
    pub fn as_std_mut(&mut self) -> &mut std_process::Command {
        &mut self.std
    }

    /// Starts the program; blocks this thread until it runs, mostly for less than a millisecond.
    ///
    /// # Errors
    /// Fails if the program cannot be run, without processes or descriptors, and outside of a
    /// runtime. In rare cases a lack of descriptors is found after the child has begun: then the
    /// child is killed.
    pub fn spawn(&mut self) -> io::Result<Child> {
        orphans::prepare()?;
        let mut std = self.std.spawn()?;
        let (stdin, stdout, stderr) = (std.stdin.take(), std.stdout.take(), std.stderr.take());
        // Until everything is set up, an error kills the child.
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
    /// Fails as [`spawn`](Self::spawn) and the wait do.
    pub async fn status(&mut self) -> io::Result<ExitStatus> {
        self.spawn()?.wait().await
    }

    /// Runs the program to its end, and collects its output.
    ///
    /// # Errors
    /// Fails as [`spawn`](Self::spawn) and the wait do.
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
        // Restored for the next call.
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

/// Keeps the settings of the command, but counts its standard streams as not chosen for
/// [`output`](Command::output).
impl From<std_process::Command> for Command {
    fn from(std: std_process::Command) -> Self {
        Self {
            std,
            given: Given::default(),
            kill_on_drop: false,
        }
    }
}

/// Controls a child process.
///
/// If this is dropped, the child continues, unless [`Command::kill_on_drop`] kills it; in both
/// cases a thread waits for its end.
#[derive(Debug)]
pub struct Child {
    /// Writes to the child's input, if that is a pipe.
    pub stdin: Option<Sender>,
    /// Reads the child's output, if that is a pipe.
    pub stdout: Option<Receiver>,
    /// Reads the child's error output, if that is a pipe.
    pub stderr: Option<Receiver>,
    process: Process,
    kill_on_drop: bool,
}

impl Child {
    /// Returns the process identifier. After the child was waited for, another process may have it.
    pub fn id(&self) -> u32 {
        self.process.child.id()
    }

    /// Waits until the child has ended; returns its exit status.
    ///
    /// Closes the child's input first, because the child might wait for more. Dropping the future
    /// changes nothing, and a later wait returns the same status.
    ///
    /// # Errors
    /// Fails if other code has waited for the child, or `SIGCHLD` is ignored (`ECHILD`).
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        self.process.wait().await
    }

    /// Returns the exit status if the child has ended.
    ///
    /// # Errors
    /// Fails as [`wait`](Self::wait) does.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.process.child.try_wait()
    }

    /// Waits until the child has ended, and collects the output of its pipes up to their ends: also
    /// from processes that inherited them.
    ///
    /// # Errors
    /// Fails as [`wait`](Self::wait) and reading do.
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

    /// Kills the child without waiting for its end. Does nothing if it has ended.
    ///
    /// # Errors
    /// Fails if the child belongs to another user now.
    pub fn kill(&mut self) -> io::Result<()> {
        self.process.child.kill()
    }

    /// Sends the child a signal.
    ///
    /// # Errors
    /// Fails if the child has ended and was waited for (`ESRCH`), or belongs to another user now.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(pidfd_send_signal(self.as_fd(), signal)?)
    }
}

/// Returns the child's pidfd.
impl AsFd for Child {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.process.pidfd.as_fd()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.kill_on_drop {
            // The only error is that the child has another user's rights now: it continues, as if
            // it ignored a signal.
            let _ = self.process.child.kill();
        }
    }
}

/// Ensures that a child is waited for, also after this is dropped.
#[derive(Debug)]
struct Process {
    child: std_process::Child,
    /// Readable when the child has ended.
    ///
    /// Also addresses signals: the identifier of a child that was waited for may belong to another
    /// process.
    pidfd: Async<Arc<OwnedFd>>,
}

impl Process {
    /// # Errors
    /// Fails without descriptors; then the child has been killed and waited for.
    fn new(mut child: std_process::Child) -> io::Result<Self> {
        // Its identifier is still its own, because no code has waited for it.
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
        // An error means that other code has waited for it.
        if let Ok(None) = self.child.try_wait() {
            orphans::adopt(self.pidfd.get_ref().clone());
        }
    }
}
