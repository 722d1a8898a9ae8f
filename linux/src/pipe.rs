//! Pipes: within the process, to a child, or named ones that were opened as files.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::pipe::{PipeFlags, pipe_with};

use crate::async_fd::Async;

/// The end of a pipe that is read. Reads the end of the stream when all that can be written to is dropped.
#[derive(Debug)]
pub struct Receiver(Async<File>);

/// The end of a pipe that is written to. It ends when it is dropped.
#[derive(Debug)]
pub struct Sender(Async<File>);

/// A new pipe.
///
/// # Errors
/// No descriptors; outside a runtime.
pub fn pipe() -> io::Result<(Sender, Receiver)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    Ok((Sender::from_fd(write)?, Receiver::from_fd(read)?))
}

impl Receiver {
    /// An end from elsewhere: a child's output, a named pipe.
    ///
    /// # Errors
    /// As [`Async::new`].
    pub fn from_fd(end: impl Into<OwnedFd>) -> io::Result<Self> {
        Async::new(File::from(end.into())).map(Self)
    }

    /// The end as a blocking one: for a child's input, say.
    ///
    /// # Errors
    /// Those of the system call.
    pub fn into_blocking(self) -> io::Result<OwnedFd> {
        blocking(self.0)
    }
}

impl Sender {
    /// An end from elsewhere: a child's input, a named pipe.
    ///
    /// # Errors
    /// As [`Async::new`].
    pub fn from_fd(end: impl Into<OwnedFd>) -> io::Result<Self> {
        Async::new(File::from(end.into())).map(Self)
    }

    /// The end as a blocking one: for a child's output, say.
    ///
    /// # Errors
    /// Those of the system call.
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
