//! Open files.

use std::fmt;
use std::fs::{self, Metadata, OpenOptions, Permissions};
use std::future::poll_fn;
use std::io::{self, IoSliceMut, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_io::{AsyncRead, AsyncSeek, AsyncWrite};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use super::{Operation, call, poll_operation};
use crate::blocking::spawn_blocking;

/// Limits the bytes of one read or write.
///
/// A call copies as many from the cache in a few tens of microseconds.
const CHUNK: usize = 256 * 1024;

/// Reads and writes an open file that has positions.
///
/// For pipes and terminals there is [`pipe`](crate::pipe).
///
/// A read tries the kernel's cache first, on the worker (`RWF_NOWAIT`). Data that is not cached,
/// and all other operations, go to a thread for blocking calls. There is no buffer: the kernel has
/// the bytes that a write has reported, as with [`std::fs::File`], and dropping the file loses
/// nothing.
///
/// The position moves when an operation has ended. An operation that is dropped before that may or
/// may not have happened, and the next one starts at the same position.
pub struct File {
    std: Arc<fs::File>,
    position: u64,
    /// Writes go to the file's end (`O_APPEND`).
    appends: bool,
    pending: Pending,
}

/// The operation that a poll has submitted at the file's position.
enum Pending {
    Nothing,
    Read(Operation<Vec<u8>>),
    /// Writes these bytes; returns how many were written, and the position after them.
    ///
    /// Completes before anything else is written, also if its caller has dropped the future.
    Write(Arc<[u8]>, Operation<(usize, u64)>),
    /// Finds the end of the file.
    Seek(Operation<u64>),
}

impl File {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// Fails as [`std::fs::File::open`] does.
    pub async fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::open_with(path, OpenOptions::new().read(true)).await
    }

    /// Creates an empty file for writing; truncates one that exists.
    ///
    /// # Errors
    /// Fails as [`std::fs::File::create`] does.
    pub async fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        Self::open_with(path, options.write(true).create(true).truncate(true)).await
    }

    /// Opens a file with the given options.
    ///
    /// # Errors
    /// Fails as [`std::fs::OpenOptions::open`] does.
    pub async fn open_with(path: impl AsRef<Path>, options: &OpenOptions) -> io::Result<Self> {
        let (path, options) = (path.as_ref().to_path_buf(), options.clone());
        Self::from_std(call(move || options.open(path)).await?)
    }

    /// Wraps an existing file, at its beginning.
    ///
    /// # Errors
    /// Returns the errors of the system call that reads how the file was opened.
    pub fn from_std(file: fs::File) -> io::Result<Self> {
        Ok(Self {
            appends: fcntl_getfl(&file)?.contains(OFlags::APPEND),
            std: Arc::new(file),
            position: 0,
            pending: Pending::Nothing,
        })
    }

    /// Returns the file.
    pub fn get_ref(&self) -> &fs::File {
        &self.std
    }

    /// Reads at an offset, independently of the file's position.
    ///
    /// Returns fewer bytes than there is room for only at the end of the file, or if a read is
    /// interrupted.
    ///
    /// # Errors
    /// Fails as [`FileExt::read_at`] does.
    pub async fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        poll_fn(|cx| corank::poll_proceed(cx)).await;
        if let Some(result) = read_cached(&self.std, buffer, offset) {
            return result;
        }
        let room = buffer.len().min(CHUNK);
        let bytes = self.call(move |file| read_at(file, room, offset)).await?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    /// Writes at an offset, independently of the file's position; returns the number of bytes.
    ///
    /// # Errors
    /// Fails as [`FileExt::write_at`] does.
    pub async fn write_at(&self, bytes: impl Into<Vec<u8>>, offset: u64) -> io::Result<usize> {
        let bytes = bytes.into();
        self.call(move |file| file.write_at(&bytes, offset)).await
    }

    /// Returns the file's metadata.
    ///
    /// # Errors
    /// Fails as [`std::fs::File::metadata`] does.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        self.call(fs::File::metadata).await
    }

    /// Sets the file's length: truncates it, or extends it by zeros.
    ///
    /// # Errors
    /// Fails as [`std::fs::File::set_len`] does.
    pub async fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.call(move |file| file.set_len(bytes)).await
    }

    /// Sets the file's permissions.
    ///
    /// # Errors
    /// Fails as [`std::fs::File::set_permissions`] does.
    pub async fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        self.call(move |file| file.set_permissions(permissions))
            .await
    }

    /// Waits until all written data and the metadata would survive a power failure.
    ///
    /// # Errors
    /// Fails as [`std::fs::File::sync_all`] does.
    pub async fn sync_all(&self) -> io::Result<()> {
        self.call(fs::File::sync_all).await
    }

    /// Waits as [`sync_all`](Self::sync_all) does, for the data and the metadata that is needed to
    /// find it.
    ///
    /// # Errors
    /// Fails as [`std::fs::File::sync_data`] does.
    pub async fn sync_data(&self) -> io::Result<()> {
        self.call(fs::File::sync_data).await
    }

    async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&fs::File) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let file = self.std.clone();
        call(move || work(&file)).await
    }

    fn begin<T: Send + 'static>(
        &self,
        work: impl FnOnce(&fs::File) -> io::Result<T> + Send + 'static,
    ) -> Operation<T> {
        let file = self.std.clone();
        spawn_blocking(move || work(&file))
    }

    fn begin_write(&self, bytes: Arc<[u8]>) -> Operation<(usize, u64)> {
        let (position, appends) = (self.position, self.appends);
        self.begin(move |mut file| {
            if appends {
                let count = file.write(&bytes)?;
                return Ok((count, file.stream_position()?));
            }
            let count = file.write_at(&bytes, position)?;
            Ok((count, position + count as u64))
        })
    }

    /// Returns ready when no operation whose future was dropped can change the file any more.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Pending::Write(_, operation) = &mut self.pending {
            // The caller has dropped the future, so the result is discarded.
            let _ = ready!(poll_operation(operation, cx));
        }
        self.pending = Pending::Nothing;
        Poll::Ready(())
    }
}

/// Reads from the cache. `None` if the read might block.
fn read_cached(file: &fs::File, buffer: &mut [u8], offset: u64) -> Option<io::Result<usize>> {
    let room = buffer.len().min(CHUNK);
    let mut room = [IoSliceMut::new(&mut buffer[..room])];
    match preadv2(file, &mut room, offset, ReadWriteFlags::NOWAIT) {
        Ok(count) => Some(Ok(count)),
        // Not cached, interrupted, or not supported by the file system.
        Err(Errno::AGAIN | Errno::INTR | Errno::OPNOTSUPP | Errno::NOSYS) => None,
        Err(error) => Some(Err(error.into())),
    }
}

fn read_at(file: &fs::File, room: usize, offset: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; room];
    let count = file.read_at(&mut bytes, offset)?;
    bytes.truncate(count);
    Ok(bytes)
}

impl AsyncRead for File {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let count = loop {
            match &mut this.pending {
                Pending::Nothing => {
                    ready!(corank::poll_proceed(cx));
                    if let Some(result) = read_cached(&this.std, buffer, this.position) {
                        break result?;
                    }
                    let (room, position) = (buffer.len().min(CHUNK), this.position);
                    let read = this.begin(move |file| read_at(file, room, position));
                    this.pending = Pending::Read(read);
                }
                Pending::Read(operation) => {
                    let result = ready!(poll_operation(operation, cx));
                    this.pending = Pending::Nothing;
                    // Bytes that do not fit, because the read was begun with a larger buffer, are
                    // read again.
                    let bytes = result?;
                    let count = bytes.len().min(buffer.len());
                    buffer[..count].copy_from_slice(&bytes[..count]);
                    break count;
                }
                _ => ready!(this.poll_idle(cx)),
            }
        };
        this.position += count as u64;
        Poll::Ready(Ok(count))
    }
}

impl AsyncWrite for File {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if buffer.is_empty() {
            return Poll::Ready(Ok(0));
        }
        loop {
            match &mut this.pending {
                // Begun by this call, or by a dropped one with the same bytes.
                Pending::Write(bytes, operation) if buffer.starts_with(bytes) => {
                    let result = ready!(poll_operation(operation, cx));
                    this.pending = Pending::Nothing;
                    let (count, position) = result?;
                    this.position = position;
                    return Poll::Ready(Ok(count));
                }
                Pending::Nothing => {
                    let bytes: Arc<[u8]> = buffer[..buffer.len().min(CHUNK)].into();
                    let write = this.begin_write(bytes.clone());
                    this.pending = Pending::Write(bytes, write);
                }
                _ => ready!(this.poll_idle(cx)),
            }
        }
    }

    /// Waits for pending writes; there is no buffer to flush. See [`sync_all`](File::sync_all).
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_idle(cx).map(Ok)
    }

    /// Waits for pending writes; dropping the file closes it.
    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

impl AsyncSeek for File {
    fn poll_seek(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: SeekFrom,
    ) -> Poll<io::Result<u64>> {
        let this = &mut *self;
        let (from, by) = loop {
            match (to, &mut this.pending) {
                (SeekFrom::End(by), Pending::Seek(operation)) => {
                    let result = ready!(poll_operation(operation, cx));
                    this.pending = Pending::Nothing;
                    break (result?, by);
                }
                (_, Pending::Nothing) => match to {
                    SeekFrom::Start(position) => {
                        this.position = position;
                        return Poll::Ready(Ok(position));
                    }
                    SeekFrom::Current(by) => break (this.position, by),
                    SeekFrom::End(_) => {
                        let end = this.begin(|mut file| file.seek(SeekFrom::End(0)));
                        this.pending = Pending::Seek(end);
                    }
                },
                _ => ready!(this.poll_idle(cx)),
            }
        };
        let position = from.checked_add_signed(by).ok_or_else(|| {
            let message = "a file has no position before its beginning";
            io::Error::new(io::ErrorKind::InvalidInput, message)
        })?;
        this.position = position;
        Poll::Ready(Ok(position))
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.std.as_fd()
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("std", &self.std)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}
