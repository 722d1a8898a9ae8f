//! Pipes within the process, to a child, and named ones that were opened as files.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::pipe::{PipeFlags, pipe_with};

use crate::async_fd::Async;

/// Reads from a pipe. The stream ends when all writing ends are dropped.
#[derive(Debug)]
pub struct Receiver(Async<File>);

/// Writes to a pipe. The stream ends when this is dropped.
#[derive(Debug)]
pub struct Sender(Async<File>);

/// Creates a pipe.
///
/// # Errors
/// Fails without descriptors, and outside of a runtime.
pub fn pipe() -> io::Result<(Sender, Receiver)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    Ok((Sender::from_fd(write)?, Receiver::from_fd(read)?))
}

impl Receiver {
    /// Registers the reading end of an existing pipe: a child's output, or a named pipe.
    ///
    /// # Errors
    /// Fails as [`Async::new`] does.
    pub fn from_fd(end: impl Into<OwnedFd>) -> io::Result<Self> {
        Async::new(File::from(end.into())).map(Self)
    }

    /// Returns the end as a blocking descriptor, for example for a child's input.
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub fn into_blocking(self) -> io::Result<OwnedFd> {
        blocking(self.0)
    }
}

impl Sender {
    /// Registers the writing end of an existing pipe: a child's input, or a named pipe.
    ///
    /// # Errors
    /// Fails as [`Async::new`] does.
    pub fn from_fd(end: impl Into<OwnedFd>) -> io::Result<Self> {
        Async::new(File::from(end.into())).map(Self)
    }

    /// Returns the end as a blocking descriptor, for example for a child's output.
    ///
    /// # Errors
    /// Returns the errors of the system call.
    pub fn into_blocking(self) -> io::Result<OwnedFd> {
        blocking(self.0)
    }
}

fn blocking(end: Async<File>) -> io::Result<OwnedFd> {
    let end = end.into_inner();
    rustix::io::ioctl_fionbio(&end, false)?;
    Ok(end.into())
}

crate::stream::read_by_attempts!(Receiver);
crate::stream::write_by_attempts!(Sender, |_| Ok(()));

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsFd for Sender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
