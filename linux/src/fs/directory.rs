//! What is in a directory.

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

/// Entries that one call on another thread brings: about what the kernel gives at once.
const ENTRIES: usize = 128;

/// What is in a directory, in no order.
///
/// # Errors
/// As [`std::fs::read_dir`].
pub async fn read_dir(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    let path = path.as_ref().to_path_buf();
    let batch = call(move || fs::read_dir(path).map(Batch::take)).await?;
    Ok(ReadDir(State::Here(batch)))
}

/// A stream of a directory's entries; see [`read_dir`].
pub struct ReadDir(State);

enum State {
    Here(Batch),
    Reading(Operation<Batch>),
    Over,
}

/// Some entries, and where more come from, unless these are the last.
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
    /// The next entry; `None` when there are no more. Dropping the future loses none.
    ///
    /// # Errors
    /// As the iterator's of [`std::fs::read_dir`].
    pub async fn next_entry(&mut self) -> io::Result<Option<DirEntry>> {
        self.try_next().await
    }
}

impl Stream for ReadDir {
    type Item = io::Result<DirEntry>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match &mut self.0 {
                State::Here(batch) => {
                    if let Some(entry) = batch.entries.pop_front() {
                        let entry = entry.map(|entry| DirEntry(Arc::new(entry)));
                        return Poll::Ready(Some(entry));
                    }
                    self.0 = match batch.rest.take() {
                        None => State::Over,
                        Some(rest) => State::Reading(spawn_blocking(|| Ok(Batch::take(rest)))),
                    };
                }
                State::Reading(operation) => match ready!(poll_operation(operation, cx)) {
                    Ok(batch) => self.0 = State::Here(batch),
                    Err(error) => {
                        self.0 = State::Over;
                        return Poll::Ready(Some(Err(error)));
                    }
                },
                State::Over => return Poll::Ready(None),
            }
        }
    }
}

impl fmt::Debug for ReadDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadDir").finish_non_exhaustive()
    }
}

/// One entry of a directory; see [`read_dir`].
#[derive(Clone, Debug)]
pub struct DirEntry(Arc<fs::DirEntry>);

impl DirEntry {
    /// The directory's path with the entry's name.
    pub fn path(&self) -> PathBuf {
        self.0.path()
    }

    /// The entry's name.
    pub fn file_name(&self) -> OsString {
        self.0.file_name()
    }

    /// What is known of the entry itself, which may be a link.
    ///
    /// # Errors
    /// As [`std::fs::DirEntry::metadata`].
    pub async fn metadata(&self) -> io::Result<Metadata> {
        let entry = self.0.clone();
        call(move || entry.metadata()).await
    }

    /// Whether it is a file, a directory or a link.
    ///
    /// # Errors
    /// As [`std::fs::DirEntry::file_type`].
    pub async fn file_type(&self) -> io::Result<FileType> {
        let entry = self.0.clone();
        call(move || entry.file_type()).await
    }
}
