//! Files and directories on the disk, as blocking calls; for coroutines they are in
//! [`asynchronous`].
//!
//! Relative paths begin in the process's [current directory](current_directory). Why a call failed
//! is the error's [code](Error::code), one of [`corank_abi::error`].
use alloc::ffi::CString;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem::MaybeUninit;
use core::ops::Deref;

use corank_abi::call;
use corank_abi::error::INVALID;
use corank_abi::file::{
    DIRECTORY, DirectoryEntry, FILE, FROM_END, FROM_HERE, FROM_START, OPEN_APPEND, OPEN_CREATE,
    OPEN_EXCLUSIVE, OPEN_READ_WRITE, OPEN_TRUNCATE, OPEN_WRITE, PATH_SIZE,
};
pub use corank_abi::file::{FileStatus, Space};

use crate::io::OwnedFd;
use crate::raw::{self, Error, check};

pub mod asynchronous;

/// Makes a call with pointers that are good.
///
/// # Safety
/// As [`raw::system_call`].
unsafe fn call(number: usize, arguments: [usize; 3]) -> Result<usize, Error> {
    // SAFETY: promised by the caller.
    check(unsafe { raw::system_call(number, arguments) })
}

/// Makes a call with a path, another number and, maybe, a place for what the kernel writes.
fn path_call<T>(
    number: usize,
    path: &str,
    argument: usize,
    result: Option<&mut MaybeUninit<T>>,
) -> Result<usize, Error> {
    let path = c_string(path)?;
    let result = result.map_or(0, |result| result.as_mut_ptr().expose_provenance());
    let [first, second] = if number == call::STATUS {
        [result, 0]
    } else {
        [argument, result]
    };
    // SAFETY: the kernel only reads the path, which lives until the call returns, and writes a `T`
    // into the place for it.
    unsafe { call(number, [path.as_ptr().expose_provenance(), first, second]) }
}

fn c_string(text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| Error::new(INVALID))
}

/// How a file is opened: for reading, unless something else is asked for.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct Options(u32);

impl Options {
    /// Returns options for reading.
    pub const fn read() -> Self {
        Self(0)
    }

    /// Returns options for writing.
    pub const fn write() -> Self {
        Self(OPEN_WRITE)
    }

    /// Returns options for both.
    pub const fn read_write() -> Self {
        Self(OPEN_READ_WRITE)
    }

    /// Makes the file if it is not there.
    pub const fn create(self) -> Self {
        Self(self.0 | OPEN_CREATE)
    }

    /// Makes the file, and fails if it is there.
    pub const fn create_new(self) -> Self {
        Self(self.0 | OPEN_CREATE | OPEN_EXCLUSIVE)
    }

    /// Empties the file first.
    pub const fn truncate(self) -> Self {
        Self(self.0 | OPEN_TRUNCATE)
    }

    /// Writes go to the end.
    pub const fn append(self) -> Self {
        Self(self.0 | OPEN_APPEND)
    }

    /// Opens the file.
    ///
    /// # Errors
    /// There is no such file, or what [`corank_abi::error`] says.
    pub fn open(self, path: &str) -> Result<File, Error> {
        path_call::<()>(call::FILE_OPEN, path, self.0 as usize, None)
            .map(|number| File(OwnedFd::from_number(number)))
    }

    /// Returns the flags, for programs that make the call themselves.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }
}

/// An open file.
///
/// It reads and writes as every other [descriptor](crate::io::Fd), at its position, and is closed
/// when it is dropped.
#[derive(Debug)]
pub struct File(OwnedFd);

/// Where a [seek](File::seek) counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// The beginning.
    Start(u64),
    /// The position.
    Here(i64),
    /// The end.
    End(i64),
}

impl From {
    /// Returns the arguments of the call.
    fn arguments(self) -> [usize; 2] {
        match self {
            From::Start(offset) => [offset as usize, FROM_START],
            From::Here(offset) => [offset as usize, FROM_HERE],
            From::End(offset) => [offset as usize, FROM_END],
        }
    }
}

impl File {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn open(path: &str) -> Result<File, Error> {
        Options::read().open(path)
    }

    /// Makes a file, or empties it, for writing.
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn create(path: &str) -> Result<File, Error> {
        Options::write().create().truncate().open(path)
    }

    /// Writes all of `data`.
    ///
    /// # Errors
    /// The disk is full, or could not write. A part may have been written.
    pub fn write_all(&self, mut data: &[u8]) -> Result<(), Error> {
        while !data.is_empty() {
            let count = self.write(data)?;
            data = &data[count..];
        }
        Ok(())
    }

    /// Reads from the position to the end.
    ///
    /// # Errors
    /// The disk could not read.
    pub fn read_to_end(&self) -> Result<Vec<u8>, Error> {
        const PIECE: usize = 16 << 10;
        let mut data = Vec::new();
        loop {
            let start = data.len();
            data.resize(start + PIECE, 0);
            let count = self.read(&mut data[start..])?;
            data.truncate(start + count);
            if count == 0 {
                return Ok(data);
            }
        }
    }

    /// Moves the position and returns it.
    ///
    /// It may lie behind the end: a write there fills the gap with zeros.
    ///
    /// # Errors
    /// The position would lie in front of the beginning.
    pub fn seek(&self, to: From) -> Result<u64, Error> {
        let [offset, from] = to.arguments();
        // SAFETY: the arguments are numbers.
        unsafe { call(call::FILE_SEEK, [self.number(), offset, from]) }
            .map(|position| position as u64)
    }

    /// Cuts the file off, or extends it by zeros.
    ///
    /// # Errors
    /// The disk is full or could not write.
    pub fn truncate(&self, size: u64) -> Result<(), Error> {
        // SAFETY: the arguments are numbers.
        unsafe { call(call::TRUNCATE, [self.number(), size as usize, 0]) }.map(|_| ())
    }

    /// Returns what is known of it.
    ///
    /// # Errors
    /// The disk could not read.
    pub fn status(&self) -> Result<FileStatus, Error> {
        let mut status = FileStatus::default();
        let place = (&raw mut status).expose_provenance();
        // SAFETY: the kernel writes a `FileStatus` into `status`.
        unsafe { call(call::STATUS_OF, [self.number(), place, 0]) }.map(|_| status)
    }

    /// Closes it.
    ///
    /// Dropping a file closes it as well, but hides an error.
    ///
    /// # Errors
    /// What has been written could not be kept.
    pub fn close(self) -> Result<(), Error> {
        // SAFETY: the arguments are numbers.
        unsafe { call(call::CLOSE, [self.0.into_number(), 0, 0]) }.map(|_| ())
    }

    /// Returns the descriptor.
    #[must_use]
    pub fn into_fd(self) -> OwnedFd {
        self.0
    }
}

impl Deref for File {
    type Target = OwnedFd;

    fn deref(&self) -> &OwnedFd {
        &self.0
    }
}

/// Returns all of a file.
///
/// # Errors
/// As [`Options::open`].
pub fn read(path: &str) -> Result<Vec<u8>, Error> {
    File::open(path)?.read_to_end()
}

/// Makes a file with this contents, or replaces what it has.
///
/// # Errors
/// As [`Options::open`] and [`File::write_all`].
pub fn write(path: &str, data: &[u8]) -> Result<(), Error> {
    let file = File::create(path)?;
    file.write_all(data)?;
    file.close()
}

/// Returns what is known of a file or directory.
///
/// # Errors
/// There is none.
pub fn status(path: &str) -> Result<FileStatus, Error> {
    let mut status = MaybeUninit::<FileStatus>::uninit();
    path_call(call::STATUS, path, 0, Some(&mut status))?;
    // SAFETY: the call has succeeded, so the kernel has written it.
    Ok(unsafe { status.assume_init() })
}

/// Tests whether a status is a directory's.
#[must_use]
pub fn is_directory(status: &FileStatus) -> bool {
    status.kind == DIRECTORY
}

/// Makes a directory.
///
/// # Errors
/// There is something of this name, or no room.
pub fn make_directory(path: &str) -> Result<(), Error> {
    path_call::<()>(call::DIRECTORY_MAKE, path, 0, None).map(|_| ())
}

/// Removes a file.
///
/// # Errors
/// There is none, or a process has it open.
pub fn remove(path: &str) -> Result<(), Error> {
    path_call::<()>(call::REMOVE, path, FILE as usize, None).map(|_| ())
}

/// Removes an empty directory.
///
/// # Errors
/// There is none, or it is not empty.
pub fn remove_directory(path: &str) -> Result<(), Error> {
    path_call::<()>(call::REMOVE, path, DIRECTORY as usize, None).map(|_| ())
}

/// Moves a file or directory, and replaces a file, or an empty directory, that is there.
///
/// # Errors
/// There is nothing at `from`, or what is at `to` cannot be replaced.
pub fn rename(from: &str, to: &str) -> Result<(), Error> {
    let to = c_string(to)?;
    path_call::<()>(call::RENAME, from, to.as_ptr().expose_provenance(), None).map(|_| ())
}

/// Waits until everything that has been written is on the disk.
///
/// # Errors
/// The disk could not write.
pub fn sync() -> Result<(), Error> {
    // SAFETY: there are no arguments.
    unsafe { call(call::SYNC, [0; 3]) }.map(|_| ())
}

/// Returns how much room there is.
///
/// # Errors
/// There is no disk.
pub fn space() -> Result<Space, Error> {
    let mut space = Space::default();
    // SAFETY: the kernel writes a `Space` into `space`.
    unsafe { call(call::SPACE, [(&raw mut space).expose_provenance(), 0, 0]) }.map(|_| space)
}

/// Makes `path` the directory where relative paths begin, for this process and the children that it
/// will have.
///
/// # Errors
/// There is no such directory.
pub fn change_directory(path: &str) -> Result<(), Error> {
    path_call::<()>(call::DIRECTORY_CHANGE, path, 0, None).map(|_| ())
}

/// Returns the directory where relative paths begin.
///
/// # Errors
/// Its path is too long.
pub fn current_directory() -> Result<String, Error> {
    let mut buffer = alloc::vec![0; PATH_SIZE];
    let arguments = [buffer.as_mut_ptr().expose_provenance(), buffer.len(), 0];
    // SAFETY: the kernel writes at most so many bytes into the buffer.
    let length = unsafe { call(call::DIRECTORY_CURRENT, arguments) }?;
    buffer.truncate(length);
    String::from_utf8(buffer).map_err(|_| Error::new(INVALID))
}

/// Returns the entries of a directory.
///
/// # Errors
/// There is no such directory, or the disk could not read.
pub fn list(path: &str) -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::new();
    let mut place = 0;
    loop {
        let mut entry = MaybeUninit::<DirectoryEntry>::uninit();
        if path_call(call::DIRECTORY_ENTRY, path, place, Some(&mut entry))? == 0 {
            return Ok(entries);
        }
        // SAFETY: the call says that it has written an entry.
        let entry = unsafe { entry.assume_init_ref() };
        place = entry.next as usize;
        let name = &entry.name[..entry.name_length as usize];
        entries.push(Entry {
            name: String::from_utf8_lossy(name).into_owned(),
            status: entry.status,
        });
    }
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name in the directory.
    pub name: String,
    /// What is known of it.
    pub status: FileStatus,
}
