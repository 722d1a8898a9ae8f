//! Open files on the disk.
use super::{Opening, Operation, Reply};
use crate::failure::{Failure, NOT_ALLOWED, Result, Transferred};
use crate::lock::Mutex;
use crate::memory::account::{self, Charge};
use crate::memory::bulk;
use crate::memory::user::{UserBuffer, UserMemory};
use crate::pace::{self, checkpoint};
use alloc::sync::Arc;
use alloc::vec::Vec;
use corank_abi::error::{BAD_DESCRIPTOR, INVALID, NO_MEMORY};
use corank_abi::file::{FROM_END, FROM_HERE, FROM_START, FileStatus};
use hadris_fs::NodeId;

/// The most bytes of one operation.
///
/// What is read or written passes through the kernel's heap.
pub(crate) const LARGEST: usize = 128 << 10;

/// What an open file costs, with what the file system's driver keeps of it.
pub(crate) const OPEN_FILE: usize = account::of::<DiskFile>() + 512;

/// Returns the lengths of the operations that make up a read or write of this length.
fn chunks(length: usize) -> impl Iterator<Item = usize> {
    (0..length)
        .step_by(LARGEST)
        .map(move |start| LARGEST.min(length - start))
}

/// Returns the number of bytes that were moved, if any were.
fn if_any(count: usize) -> Option<usize> {
    (count > 0).then_some(count)
}

/// An open file of the file system.
///
/// It is closed when it is dropped.
#[derive(Debug)]
pub(crate) struct DiskFile {
    /// Its number in the file system's driver.
    pub node: NodeId,
    /// Where the next read or write begins.
    ///
    /// The file system's service moves it.
    pub position: Mutex<u64>,
    /// Writes go to the end.
    pub append: bool,
    read: bool,
    write: bool,
    charge: Charge,
}

impl DiskFile {
    /// Makes the file that the driver has opened as `node`, which this charge pays for.
    pub(crate) fn new(node: NodeId, how: Opening, charge: Charge) -> DiskFile {
        DiskFile {
            node,
            position: Mutex::new(0),
            append: how.append,
            read: how.read,
            write: how.write,
            charge,
        }
    }

    /// Reads up to the buffer's length or the file's end.
    ///
    /// Returns the number of bytes.
    ///
    /// # Errors
    /// A bad address ends the process; the inner ones are the file system's, if nothing has been
    /// read.
    pub(crate) async fn read(
        self: Arc<DiskFile>,
        memory: &UserMemory,
        mut buffer: UserBuffer,
    ) -> Transferred {
        if !self.read {
            return Ok(Err(NOT_ALLOWED));
        }
        let mut count = 0;
        for length in chunks(buffer.length) {
            let Ok(_charge) = memory.reserve(super::REQUEST + length) else {
                return Ok(if_any(count).ok_or(Failure(NO_MEMORY)));
            };
            let data = match super::perform(Operation::Read(self.clone(), length)).await {
                Ok(Reply::Data(data)) => data,
                Err(failure) if count == 0 => return Ok(Err(failure)),
                _ => break,
            };
            for piece in data.chunks(pace::BYTES) {
                memory.with_space(|space| space.write(buffer.address, piece), Ok(()))?;
                buffer.advance(piece.len());
                checkpoint().await;
            }
            count += data.len();
            if data.len() < length {
                break;
            }
        }
        Ok(Ok(count))
    }

    /// Writes the buffer.
    ///
    /// Returns the number of bytes, which is smaller when the file system has failed in between.
    ///
    /// # Errors
    /// As [`DiskFile::read`].
    pub(crate) async fn write(
        self: Arc<DiskFile>,
        memory: &UserMemory,
        mut buffer: UserBuffer,
    ) -> Transferred {
        if !self.write {
            return Ok(Err(NOT_ALLOWED));
        }
        let mut count = 0;
        for length in chunks(buffer.length) {
            let charge = memory.reserve(super::REQUEST + length);
            let Ok((_charge, mut data)) = charge.and_then(|charge| {
                let mut data = Vec::new();
                account::make_room(&mut data, length)?;
                Ok((charge, data))
            }) else {
                return Ok(if_any(count).ok_or(Failure(NO_MEMORY)));
            };
            while data.len() < length {
                let before = data.len();
                bulk::append_zeros(&mut data, pace::BYTES.min(length - before));
                let piece = &mut data[before..];
                memory.with_space(|space| space.read(buffer.address, piece), Ok(()))?;
                buffer.advance(piece.len());
                checkpoint().await;
            }
            match super::perform(Operation::Write(self.clone(), data)).await {
                Ok(Reply::Count(written)) => count += written,
                Err(failure) if count == 0 => return Ok(Err(failure)),
                _ => break,
            }
        }
        Ok(Ok(count))
    }

    /// Moves the position, and returns it.
    ///
    /// # Errors
    /// For a position in front of the file or beyond `i64::MAX`, and for a `from` that does not
    /// exist.
    pub(crate) async fn seek(self: Arc<DiskFile>, offset: isize, from: usize) -> Result<u64> {
        let start = match from {
            FROM_START => 0,
            FROM_HERE => *self.position.lock(),
            FROM_END => self.clone().status().await?.size,
            _ => return Err(Failure(INVALID)),
        };
        let position = start
            .checked_add_signed(offset as i64)
            // A result that is negative would be an error.
            .filter(|position| i64::try_from(*position).is_ok())
            .ok_or(Failure(INVALID))?;
        *self.position.lock() = position;
        Ok(position)
    }

    /// Returns what is known of it.
    ///
    /// # Errors
    /// When the disk cannot be read.
    pub(crate) async fn status(self: Arc<DiskFile>) -> Result<FileStatus> {
        match super::perform(Operation::StatusOf(self)).await? {
            Reply::Status(status) => Ok(status),
            _ => Err(Failure(INVALID)),
        }
    }

    /// Cuts it off, or extends it by zeros.
    ///
    /// # Errors
    /// When it is not open for writing, and what the file system says.
    pub(crate) async fn truncate(self: Arc<DiskFile>, size: u64) -> Result<()> {
        if !self.write {
            return Err(Failure(BAD_DESCRIPTOR));
        }
        super::perform(Operation::Truncate(self, size))
            .await
            .map(|_| ())
    }

    /// Closes it, and waits for what has been written.
    ///
    /// # Errors
    /// What the file system says; it is closed nevertheless.
    pub(crate) async fn close(mut self) -> Result<()> {
        let operation = Operation::Close(self.node, self.write);
        // Its cost pays for the request, until that is done.
        let _charge = core::mem::take(&mut self.charge);
        core::mem::forget(self);
        super::perform(operation).await.map(|_| ())
    }
}

impl Drop for DiskFile {
    fn drop(&mut self) {
        super::close(self.node, self.write, core::mem::take(&mut self.charge));
    }
}
