//! Files and directories on the disk, for coroutines: the calls of [`fs`](super) that suspend the
//! coroutine alone.
//!
//! An open file is read and written by [`ring::read`](fn@crate::ring::read) and
//! [`ring::write`](fn@crate::ring::write). The file system does not stop in the middle of an
//! operation. So dropping one of these futures waits until it is done, which does not depend on
//! anything outside.
use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::string::String;
use core::mem::MaybeUninit;

use corank_abi::call;
use corank_abi::file::{DirectoryEntry, FileStatus};

use super::{Entry, File, From, Options, c_string};
use crate::io::OwnedFd;
use crate::raw::{Error, check, number_call};
use crate::ring::{AsyncCall, Ended, Payload, Plain};

/// A path, which the call reads; it opens a file, which is closed if the result is not seen.
#[derive(Debug)]
struct Path(CString);

// SAFETY: the string's memory is its own; the kernel only reads it, up to its end.
unsafe impl Payload for Path {
    type Output = Result<File, Error>;

    fn place(&mut self, arguments: &mut [usize; 3]) {
        arguments[0] = self.0.as_ptr().expose_provenance();
    }

    fn finish(self, result: isize) -> Self::Output {
        check(result).map(|number| File(OwnedFd::from_number(number)))
    }

    fn undo(self, _: &[usize; 3], ended: Ended) {
        if let Ended::Completed(file @ 0..) = ended {
            drop(OwnedFd::from_number(file as usize));
        }
    }
}

/// A path, if there is one, and a place for the value that the call writes, which is the argument
/// number `PLACE`.
#[derive(Debug)]
struct Value<T, const PLACE: usize> {
    path: Option<CString>,
    /// In a box, because directory entries are large, and futures should not be.
    place: Box<MaybeUninit<T>>,
}

impl<T, const PLACE: usize> Value<T, PLACE> {
    fn new(path: Option<CString>) -> Self {
        Self {
            path,
            place: Box::new_uninit(),
        }
    }
}

// SAFETY: both memories are the value's own; the kernel reads the string up to its end, and writes
// one `T`.
unsafe impl<T, const PLACE: usize> Payload for Value<T, PLACE> {
    /// What the call returned, and the place: it has the value if the call says so.
    type Output = Result<(usize, Box<MaybeUninit<T>>), Error>;

    fn place(&mut self, arguments: &mut [usize; 3]) {
        if let Some(path) = &self.path {
            arguments[0] = path.as_ptr().expose_provenance();
        }
        arguments[PLACE] = self.place.as_mut_ptr().expose_provenance();
    }

    fn finish(self, result: isize) -> Self::Output {
        check(result).map(|result| (result, self.place))
    }
}

/// Opens a file as [`Options::open`] does.
///
/// # Errors
/// As there, or the kernel has no memory for an asynchronous call.
pub async fn open(path: &str, options: Options) -> Result<File, Error> {
    let path = Path(c_string(path)?);
    AsyncCall::new(call::FILE_OPEN, [0, options.0 as usize, 0], path).await
}

/// Returns what [`File::status`] does.
///
/// # Errors
/// As there, or the kernel has no memory for an asynchronous call.
pub async fn status_of(file: &File) -> Result<FileStatus, Error> {
    let place = Value::<FileStatus, 1>::new(None);
    let (_, status) = AsyncCall::new(call::STATUS_OF, [file.number(), 0, 0], place).await?;
    // SAFETY: the call has succeeded, so the kernel has written it.
    Ok(*unsafe { status.assume_init() })
}

/// Returns what [`fs::status`](super::status) does.
///
/// # Errors
/// As there, or the kernel has no memory for an asynchronous call.
pub async fn status(path: &str) -> Result<FileStatus, Error> {
    let place = Value::<FileStatus, 1>::new(Some(c_string(path)?));
    let (_, status) = AsyncCall::new(call::STATUS, [0; 3], place).await?;
    // SAFETY: the call has succeeded, so the kernel has written it.
    Ok(*unsafe { status.assume_init() })
}

/// Seeks as [`File::seek`] does.
///
/// # Errors
/// As there, or the kernel has no memory for an asynchronous call.
pub async fn seek(file: &File, to: From) -> Result<u64, Error> {
    let [offset, from] = to.arguments();
    let seek = AsyncCall::new(call::FILE_SEEK, [file.number(), offset, from], Plain);
    seek.await.map(|position| position as u64)
}

/// Closes a file as [`File::close`] does.
///
/// Dropping a file closes it as well, but blocks the thread while the file system is busy.
///
/// # Errors
/// As there.
pub async fn close(file: File) -> Result<(), Error> {
    let number = file.0.into_number();
    let closed = AsyncCall::new(call::CLOSE, [number, 0, 0], Closing(number)).await;
    match closed {
        // The descriptor is open, so this is want of memory for an asynchronous call: a blocking
        // one needs none.
        Err(error) if error.code() == call::FAILED => number_call(call::CLOSE, [number, 0, 0]),
        closed => closed,
    }
    .map(|_| ())
}

/// No memory, and a file that is closed in any case.
#[derive(Debug)]
struct Closing(usize);

// SAFETY: no memory is named.
unsafe impl Payload for Closing {
    type Output = Result<usize, Error>;

    fn finish(self, result: isize) -> Self::Output {
        check(result)
    }

    fn undo(self, _: &[usize; 3], ended: Ended) {
        if !matches!(ended, Ended::Completed(result) if result != call::FAILED) {
            let _ = number_call(call::CLOSE, [self.0, 0, 0]);
        }
    }
}

/// The entries of a directory, one after the other.
#[derive(Debug)]
pub struct Entries {
    path: CString,
    /// Where the next one stands.
    place: u64,
}

impl Entries {
    /// Returns the entries of the directory at `path`.
    ///
    /// Makes no call of the file system.
    ///
    /// # Errors
    /// `path` cannot be a path.
    pub fn of(path: &str) -> Result<Self, Error> {
        Ok(Self {
            path: c_string(path)?,
            place: 0,
        })
    }

    /// Returns the next one; `None` behind the last.
    ///
    /// # Errors
    /// There is no such directory, the disk could not read, or the kernel has no memory for an
    /// asynchronous call.
    pub async fn next(&mut self) -> Result<Option<Entry>, Error> {
        let place = Value::<DirectoryEntry, 2>::new(Some(self.path.clone()));
        let arguments = [0, self.place as usize, 0];
        let (found, entry) = AsyncCall::new(call::DIRECTORY_ENTRY, arguments, place).await?;
        if found == 0 {
            return Ok(None);
        }
        // SAFETY: the call says that it has written an entry.
        let entry = unsafe { entry.assume_init() };
        self.place = entry.next;
        let name = &entry.name[..entry.name_length as usize];
        Ok(Some(Entry {
            name: String::from_utf8_lossy(name).into_owned(),
            status: entry.status,
        }))
    }
}
