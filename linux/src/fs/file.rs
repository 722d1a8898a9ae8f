//! An open file.

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
use crate::budget;

/// What is read or written at once, in bytes: what a call does in the cache in a few tens of microseconds.
const CHUNK: usize = 256 * 1024;

/// An open file that has positions: no pipe and no terminal, for which there is [`pipe`](crate::pipe).
///
/// Reads try the kernel's cache first, on the worker (`RWF_NOWAIT`); what isn't there, and everything else, is done on a thread for blocking
/// calls. Nothing is buffered here: what a write has said to be written, the kernel has, as with [`std::fs::File`], and dropping the file loses nothing.
///
/// Its position is the file's own, and moves when an operation has ended; one that is dropped before may have happened or not, and the next
/// one takes its place.
pub struct File {
    std: Arc<fs::File>,
    position: u64,
    /// Writes go to the file's end (`O_APPEND`).
    appends: bool,
    under_way: UnderWay,
}

/// What a poll has begun at the file's position.
enum UnderWay {
    Nothing,
    Read(Operation<Vec<u8>>),
    /// These bytes; gives how many were written, and the position after them. Waited for before anything else is written: also if
    /// whoever began it has given up.
    Write(Arc<[u8]>, Operation<(usize, u64)>),
    /// Asks where the file ends.
    Seek(Operation<u64>),
}

impl File {
    /// Opens a file, to be read.
    ///
    /// # Errors
    /// As [`std::fs::File::open`].
    pub async fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::open_with(path, OpenOptions::new().read(true)).await
    }

    /// Makes a file that is empty, to be written, in the place of what it had.
    ///
    /// # Errors
    /// As [`std::fs::File::create`].
    pub async fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        Self::open_with(path, options.write(true).create(true).truncate(true)).await
    }

    /// Opens a file as one likes.
    ///
    /// # Errors
    /// As [`std::fs::OpenOptions::open`].
    pub async fn open_with(path: impl AsRef<Path>, options: &OpenOptions) -> io::Result<Self> {
        let (path, options) = (path.as_ref().to_path_buf(), options.clone());
        Self::from_std(call(move || options.open(path)).await?)
    }

    /// A file from elsewhere, at its beginning.
    ///
    /// # Errors
    /// Those of the system call that asks how it was opened.
    pub fn from_std(file: fs::File) -> io::Result<Self> {
        Ok(Self {
            appends: fcntl_getfl(&file)?.contains(OFlags::APPEND),
            std: Arc::new(file),
            position: 0,
            under_way: UnderWay::Nothing,
        })
    }

    /// What is inside.
    pub fn get_ref(&self) -> &fs::File {
        &self.std
    }

    /// Reads at an offset, whatever the file's position; fewer bytes than there is room for only at its end, or if a read is interrupted.
    ///
    /// # Errors
    /// As [`FileExt::read_at`].
    pub async fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        poll_fn(|cx| budget::poll_proceed(cx)).await;
        if let Some(result) = read_cached(&self.std, buffer, offset) {
            return result;
        }
        let room = buffer.len().min(CHUNK);
        let bytes = self.call(move |file| read_at(file, room, offset)).await?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    /// Writes at an offset, whatever the file's position; returns how many bytes.
    ///
    /// # Errors
    /// As [`FileExt::write_at`].
    pub async fn write_at(&self, bytes: impl Into<Vec<u8>>, offset: u64) -> io::Result<usize> {
        let bytes = bytes.into();
        self.call(move |file| file.write_at(&bytes, offset)).await
    }

    /// What is known of the file.
    ///
    /// # Errors
    /// As [`std::fs::File::metadata`].
    pub async fn metadata(&self) -> io::Result<Metadata> {
        self.call(fs::File::metadata).await
    }

    /// Cuts the file off, or makes it longer by zeros.
    ///
    /// # Errors
    /// As [`std::fs::File::set_len`].
    pub async fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.call(move |file| file.set_len(bytes)).await
    }

    /// Says who may do what.
    ///
    /// # Errors
    /// As [`std::fs::File::set_permissions`].
    pub async fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        self.call(move |file| file.set_permissions(permissions))
            .await
    }

    /// Returns when what has been written, and what is known of the file, would survive a power failure.
    ///
    /// # Errors
    /// As [`std::fs::File::sync_all`].
    pub async fn sync_all(&self) -> io::Result<()> {
        self.call(fs::File::sync_all).await
    }

    /// As [`sync_all`](Self::sync_all), of the bytes and of what is needed to find them.
    ///
    /// # Errors
    /// As [`std::fs::File::sync_data`].
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

    /// Ready when nothing is under way that somebody has given up and that could still change the file.
    fn poll_settled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let UnderWay::Write(_, operation) = &mut self.under_way {
            // Whoever wanted to know has gone.
            let _ = ready!(poll_operation(operation, cx));
        }
        self.under_way = UnderWay::Nothing;
        Poll::Ready(())
    }
}

/// Reads what is in the cache. `None` if it may have to wait.
fn read_cached(file: &fs::File, buffer: &mut [u8], offset: u64) -> Option<io::Result<usize>> {
    let room = buffer.len().min(CHUNK);
    let mut room = [IoSliceMut::new(&mut buffer[..room])];
    match preadv2(file, &mut room, offset, ReadWriteFlags::NOWAIT) {
        Ok(count) => Some(Ok(count)),
        // Not there; interrupted; or not every file system can tell.
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
            match &mut this.under_way {
                UnderWay::Nothing => {
                    ready!(budget::poll_proceed(cx));
                    if let Some(result) = read_cached(&this.std, buffer, this.position) {
                        break result?;
                    }
                    let (room, position) = (buffer.len().min(CHUNK), this.position);
                    let read = this.begin(move |file| read_at(file, room, position));
                    this.under_way = UnderWay::Read(read);
                }
                UnderWay::Read(operation) => {
                    let result = ready!(poll_operation(operation, cx));
                    this.under_way = UnderWay::Nothing;
                    // What was read for a larger buffer, whose owner has gone, is read again.
                    let bytes = result?;
                    let count = bytes.len().min(buffer.len());
                    buffer[..count].copy_from_slice(&bytes[..count]);
                    break count;
                }
                _ => ready!(this.poll_settled(cx)),
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
            match &mut this.under_way {
                // Begun by this call, or one that was given up and wanted the same.
                UnderWay::Write(bytes, operation) if buffer.starts_with(bytes) => {
                    let result = ready!(poll_operation(operation, cx));
                    this.under_way = UnderWay::Nothing;
                    let (count, position) = result?;
                    this.position = position;
                    return Poll::Ready(Ok(count));
                }
                UnderWay::Nothing => {
                    let bytes: Arc<[u8]> = buffer[..buffer.len().min(CHUNK)].into();
                    let write = this.begin_write(bytes.clone());
                    this.under_way = UnderWay::Write(bytes, write);
                }
                _ => ready!(this.poll_settled(cx)),
            }
        }
    }

    /// There is nothing to flush; see [`sync_all`](File::sync_all).
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_settled(cx).map(Ok)
    }

    /// The file is closed when it is dropped.
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
            match (to, &mut this.under_way) {
                (SeekFrom::End(by), UnderWay::Seek(operation)) => {
                    let result = ready!(poll_operation(operation, cx));
                    this.under_way = UnderWay::Nothing;
                    break (result?, by);
                }
                (_, UnderWay::Nothing) => match to {
                    SeekFrom::Start(position) => {
                        this.position = position;
                        return Poll::Ready(Ok(position));
                    }
                    SeekFrom::Current(by) => break (this.position, by),
                    SeekFrom::End(_) => {
                        let end = this.begin(|mut file| file.seek(SeekFrom::End(0)));
                        this.under_way = UnderWay::Seek(end);
                    }
                },
                _ => ready!(this.poll_settled(cx)),
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
