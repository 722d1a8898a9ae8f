//! File descriptors and pipes, as blocking calls. [`crate::ring`] has the same calls for
//! coroutines.
use alloc::vec::Vec;
use core::ops::Deref;

use corank_abi::call;

use crate::calls;
use crate::raw::{self, Error, check, number_call};

/// The console's input.
pub const STDIN: Fd = Fd(0);
/// The console's output.
pub const STDOUT: Fd = Fd(1);
/// Where messages go that are no results: the console as well, unless the shell says otherwise.
pub const STDERR: Fd = Fd(2);

/// A number that the kernel knows an open file of this process by.
///
/// The number may have been closed, or stand for another file by now. Then calls fail or reach that
/// other file. [`OwnedFd`] rules this out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fd(usize);

impl Fd {
    /// Returns the descriptor with this number, open or not.
    #[must_use]
    pub const fn new(number: usize) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> usize {
        self.0
    }

    /// Reads into `buffer` and returns how many bytes came.
    ///
    /// On a pipe this waits until the buffer is full or every write end is closed.
    ///
    /// # Errors
    /// The descriptor isn't open for reading.
    pub fn read(self, buffer: &mut [u8]) -> Result<usize, Error> {
        calls::read(self.0, buffer)
    }

    /// Reads into `buffer`, from its start and up to its capacity, and sets its length to the bytes
    /// that came; otherwise as [`read`](Self::read).
    ///
    /// # Errors
    /// The descriptor isn't open for reading. The buffer is empty then.
    pub fn fill(self, buffer: &mut Vec<u8>) -> Result<usize, Error> {
        buffer.clear();
        let arguments = [
            self.0,
            buffer.as_mut_ptr().expose_provenance(),
            buffer.capacity(),
        ];
        // SAFETY: the kernel writes at most so many bytes, into memory that is the buffer's own.
        let count = check(unsafe { raw::system_call(call::READ, arguments) })?;
        // SAFETY: the kernel has written that many bytes.
        unsafe { buffer.set_len(count) };
        Ok(count)
    }

    /// Writes `data` and returns how many bytes were taken.
    ///
    /// Waits while a pipe is full.
    ///
    /// # Errors
    /// The descriptor isn't open for writing, or a pipe has no read end any more.
    pub fn write(self, data: &[u8]) -> Result<usize, Error> {
        calls::write(self.0, data)
    }

    /// Returns another descriptor for the same file.
    ///
    /// # Errors
    /// The descriptor isn't open, or the process has too many.
    pub fn duplicate(self) -> Result<OwnedFd, Error> {
        number_call(call::DUP, [self.0, 0, 0]).map(|number| OwnedFd(Self(number)))
    }
}

/// An open file that is closed when this is dropped.
#[derive(Debug)]
pub struct OwnedFd(Fd);

impl OwnedFd {
    /// Takes over the descriptor with this number.
    ///
    /// Nothing else may close it. Closing it twice is no memory error, but may close a file that
    /// was opened in between.
    #[must_use]
    pub const fn from_number(number: usize) -> Self {
        Self(Fd(number))
    }

    /// Returns the number, and does not close it.
    #[must_use]
    pub fn into_number(self) -> usize {
        let number = self.0.0;
        core::mem::forget(self);
        number
    }
}

impl Deref for OwnedFd {
    type Target = Fd;

    fn deref(&self) -> &Fd {
        &self.0
    }
}

impl Drop for OwnedFd {
    fn drop(&mut self) {
        // An owned descriptor is open, so this can't fail. There is no caller to report it to.
        let _ = number_call(call::CLOSE, [self.0.0, 0, 0]);
    }
}

/// Both ends of a pipe.
#[derive(Debug)]
pub struct Pipe {
    /// Where the bytes come out.
    pub reader: OwnedFd,
    /// Where they go in.
    pub writer: OwnedFd,
}

impl Pipe {
    /// Creates a pipe.
    ///
    /// One kernel entry.
    ///
    /// # Errors
    /// The process has too many descriptors, or the kernel no memory.
    pub fn new() -> Result<Self, Error> {
        let mut ends = [0_usize; 2];
        // SAFETY: the kernel writes two numbers into `ends`.
        check(unsafe {
            raw::system_call(call::PIPE, [(&raw mut ends).expose_provenance(), 0, 0])
        })?;
        Ok(Self::from_numbers(ends))
    }

    /// Returns the pipe with the ends that have these numbers.
    pub(crate) fn from_numbers(ends: [usize; 2]) -> Self {
        let [reader, writer] = ends.map(OwnedFd::from_number);
        Self { reader, writer }
    }
}
