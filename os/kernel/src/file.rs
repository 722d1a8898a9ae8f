//! What a file descriptor can stand for.
pub(crate) mod pipe;
mod source;
pub(crate) mod stored;

use crate::console;
use crate::failure::{NOT_ALLOWED, Transferred};
use crate::fs::DiskFile;
use crate::memory::user::{UserBuffer, UserMemory};
use crate::net::Socket;
use crate::pending_read::EndedRead;
use crate::wait::WaitMode;
use alloc::sync::Arc;
use pipe::{ReadEnd, WriteEnd, Writer};
use stored::Stored;

pub(crate) use source::Source;

/// An open file.
///
/// A clone is the same file, which stays open until the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) enum File {
    /// The console, for reading.
    ConsoleInput,
    /// The console, for writing.
    ConsoleOutput,
    /// A file of the archive.
    Stored(Arc<Stored>),
    /// A file on the disk.
    Disk(Arc<DiskFile>),
    /// The end of a pipe that is read.
    PipeRead(ReadEnd),
    /// The end of a pipe that is written.
    PipeWrite(WriteEnd),
    /// A socket.
    Socket(Socket),
}

impl File {
    /// Reads into the program's memory, and waits where there is nothing yet.
    ///
    /// Dropped early, it leaves the buffer as far advanced as bytes have been taken.
    ///
    /// # Errors
    /// [`BadAddress`](crate::memory::user::BadAddress) ends the process; a
    /// [`Failure`](crate::failure::Failure) does not.
    pub(crate) async fn read(
        &self,
        memory: &UserMemory,
        mode: WaitMode,
        buffer: &mut UserBuffer,
    ) -> Transferred {
        match self {
            File::ConsoleInput => console::read(memory, mode, *buffer).await.map(Ok),
            File::Stored(file) => file.read(memory, buffer).await.map(Ok),
            File::Disk(file) => file.clone().read(memory, *buffer).await,
            File::PipeRead(end) => end.read(memory, mode, buffer).await.map(Ok),
            File::Socket(socket) => socket.read(memory, mode, buffer).await,
            File::ConsoleOutput | File::PipeWrite(_) => Ok(Err(NOT_ALLOWED)),
        }
    }

    /// Writes from the program's memory, and waits where there is no room.
    ///
    /// Dropped early, it leaves the buffer as far advanced as bytes have been given.
    ///
    /// # Errors
    /// As [`File::read`].
    pub(crate) async fn write(
        &self,
        memory: &UserMemory,
        mode: WaitMode,
        buffer: &mut UserBuffer,
    ) -> Transferred {
        match self {
            File::ConsoleOutput => console::write(memory, buffer).await.map(Ok),
            File::Disk(file) => file.clone().write(memory, *buffer).await,
            File::PipeWrite(end) => end.write(memory, mode, buffer).await,
            File::Socket(socket) => socket.write(memory, mode, buffer).await,
            File::ConsoleInput | File::Stored(_) | File::PipeRead(_) => Ok(Err(NOT_ALLOWED)),
        }
    }

    /// Reads if that is done without waiting.
    ///
    /// Returns `None` if it would wait, and then nothing has been read.
    pub(crate) fn read_at_once(
        &self,
        memory: &UserMemory,
        buffer: UserBuffer,
    ) -> Option<Transferred> {
        match self {
            File::PipeRead(end) => end
                .read_at_once(memory, buffer)
                .map(|result| result.map(Ok)),
            File::Stored(file) => {
                let read = file.read_at_once(memory, buffer)?;
                Some(read.map(Ok))
            }
            File::Socket(socket) => socket.read_at_once(memory, buffer),
            File::ConsoleInput | File::Disk(_) => None,
            File::ConsoleOutput | File::PipeWrite(_) => Some(Ok(Err(NOT_ALLOWED))),
        }
    }

    /// Writes if that is done without waiting.
    ///
    /// Returns `None` if it would wait, and then nothing has been written.
    pub(crate) fn write_at_once(
        &self,
        memory: &UserMemory,
        buffer: UserBuffer,
    ) -> Option<Transferred> {
        match self {
            File::PipeWrite(end) => {
                let mut ended_read = None;
                let written = end.write_at_once(memory, buffer, Writer::Anyone, &mut ended_read);
                EndedRead::finish(ended_read);
                written
            }
            File::ConsoleOutput => {
                let written = console::write_at_once(memory, buffer)?;
                Some(written.map(Ok))
            }
            File::Socket(socket) => socket.write_at_once(memory, buffer),
            File::Disk(_) => None,
            File::ConsoleInput | File::Stored(_) | File::PipeRead(_) => Some(Ok(Err(NOT_ALLOWED))),
        }
    }
}
