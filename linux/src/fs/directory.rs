//! Lists directories.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, FileType, Metadata};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::{fmt, io};

use futures_core::Stream;
use futures_lite::StreamExt;

use super::{Operation, call, poll_operation};
use crate::blocking::spawn_blocking;

/// Entries per call on another thread: about as many as the kernel returns at once.
const ENTRIES: usize = 128;

/// Lists the entries of a directory, in no order.
///
/// # Errors
/// Fails as [`std::fs::read_dir`] does.
pub async fn read_dir(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    let path = path.as_ref().to_path_buf();
    let batch = call(move || fs::read_dir(path).map(Batch::take)).await?;
    Ok(ReadDir(State::Ready(batch)))
}

/// Streams the entries of a directory; see [`read_dir`].
pub struct ReadDir(State);

enum State {
    Ready(Batch),
    Reading(Operation<Batch>),
    Done,
}

/// Some entries, and the iterator of the further ones, unless these are the last.
struct Batch {
    entries: VecDeque<io::Result<fs::DirEntry>>,
    rest: Option<fs::ReadDir>,
}

impl Batch {
    fn take(mut directory: fs::ReadDir) -> Self {
        let entries: VecDeque<_> = directory.by_ref().take(ENTRIES).collect();
        let rest = (entries.len() == ENTRIES).then_some(directory);
        Self { entries, rest }
    }
}

impl ReadDir {
    /// Returns the next entry; `None` if there are no more. Dropping the future loses none.
    ///
    /// # Errors
    /// Fails as the iterator of [`std::fs::read_dir`] does.
    pub async fn next_entry(&mut self) -> io::Result<Option<DirEntry>> {
        self.try_next().await
    }
}

impl Stream for ReadDir {
    type Item = io::Result<DirEntry>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match &mut self.0 {
                State::Ready(batch) => {
                    if let Some(entry) = batch.entries.pop_front() {
                        let entry = entry.map(|entry| DirEntry(Arc::new(entry)));
                        return Poll::Ready(Some(entry));
                    }
                    self.0 = match batch.rest.take() {
                        None => State::Done,
                        Some(rest) => State::Reading(spawn_blocking(|| Ok(Batch::take(rest)))),
                    };
                }
                State::Reading(operation) => match ready!(poll_operation(operation, cx)) {
                    Ok(batch) => self.0 = State::Ready(batch),
                    Err(error) => {
                        self.0 = State::Done;
                        return Poll::Ready(Some(Err(error)));
                    }
                },
                State::Done => return Poll::Ready(None),
            }
        }
    }
}

impl fmt::Debug for ReadDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadDir").finish_non_exhaustive()
    }
}

/// Describes one entry of a directory; see [`read_dir`].
#[derive(Clone, Debug)]
pub struct DirEntry(Arc<fs::DirEntry>);

impl DirEntry {
    /// Returns the directory's path with the entry's name.
    pub fn path(&self) -> PathBuf {
        self.0.path()
    }

    /// Returns the entry's name.
    pub fn file_name(&self) -> OsString {
        self.0.file_name()
    }

    /// Returns the metadata of the entry itself, which may be a link.
    ///
    /// # Errors
    /// Fails as [`std::fs::DirEntry::metadata`] does.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        let entry = self.0.clone();
        call(move || entry.metadata()).await
    }

    /// Returns whether the entry is a file, a directory or a link.
    ///
    /// # Errors
    /// Fails as [`std::fs::DirEntry::file_type`] does.
    pub async fn file_type(&self) -> io::Result<FileType> {
        let entry = self.0.clone();
        call(move || entry.file_type()).await
    }
}
