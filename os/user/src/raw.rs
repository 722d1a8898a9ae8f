//! System calls as the hardware sees them: everything else in this crate is built on
//! [`system_call`].
use corank_abi::call::NOT_IMPLEMENTED;
use corank_abi::error;

/// Makes system call `number` (see [`corank_abi::call`]) and returns what the kernel left in `a0`.
///
/// Programs use the typed wrappers of this crate instead; tests use this one to make calls that are
/// wrong on purpose.
///
/// # Safety
/// What the call does to this process's memory and descriptors must be sound: a pointer that the
/// kernel writes through must be valid for that write until the call returns (for a ring's
/// submission: until it has completed). A pointer that the kernel refuses is sound.
#[inline]
pub unsafe fn system_call(number: usize, arguments: [usize; 3]) -> isize {
    let result: isize;
    // SAFETY: the kernel changes no register but `a0`, and memory only as the caller has vouched
    // for.
    unsafe {
        core::arch::asm!(
            "ecall",
            inlateout("a0") arguments[0] as isize => result,
            in("a1") arguments[1],
            in("a2") arguments[2],
            in("a7") number,
            options(nostack),
        );
    }
    result
}

/// Makes a [`system_call`] that has only plain numbers as arguments.
///
/// Such a call can't touch this process's memory.
#[inline]
pub(crate) fn number_call(number: usize, arguments: [usize; 3]) -> Result<usize, Error> {
    // SAFETY: the caller chooses calls without pointers, so no memory of ours changes.
    check(unsafe { system_call(number, arguments) })
}

/// Splits a result into what the call returned and why it failed.
#[inline]
pub(crate) fn check(result: isize) -> Result<usize, Error> {
    usize::try_from(result).map_err(|_| Error(result))
}

/// Why a system call failed: the negative number that it returned.
///
/// The ABI of rCore-Tutorial-v3 gives one number, -1, for every reason. The kernel's documentation
/// of the call lists the reasons. Calls on files and sockets give one of [`corank_abi::error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error(isize);

impl Error {
    pub(crate) const fn new(code: isize) -> Self {
        Self(code)
    }

    /// Returns the number that the call returned.
    #[must_use]
    pub fn code(self) -> isize {
        self.0
    }
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self.0 {
            NOT_IMPLEMENTED => "the kernel does not know this system call",
            error::NOT_FOUND => "no such file or directory",
            error::INPUT_OUTPUT => "the disk could not read or write",
            error::BAD_DESCRIPTOR => "not an open file, or not for this",
            error::NO_MEMORY => "the kernel has no memory for it",
            error::BUSY => "the file is open",
            error::EXISTS => "it exists already",
            error::NO_DEVICE => "there is no disk",
            error::NOT_A_DIRECTORY => "not a directory",
            error::IS_A_DIRECTORY => "it is a directory",
            error::INVALID => "not a valid name or argument",
            error::TOO_MANY_FILES => "too many open files",
            error::FILE_TOO_LARGE => "the file would be too large",
            error::NO_SPACE => "the disk is full",
            error::READ_ONLY => "the disk cannot be written",
            error::NAME_TOO_LONG => "the name is too long",
            error::NOT_EMPTY => "the directory is not empty",
            error::PORT_IN_USE => "another socket has the port",
            error::UNREACHABLE => "there is no way to that address",
            error::RESET => "the other side has broken the connection off",
            error::NO_SOCKETS => "the kernel has no room for another socket",
            error::NOT_CONNECTED => "the socket is not connected",
            error::SHUT_DOWN => "the connection is closed in this direction",
            error::TIMED_OUT => "no answer in time",
            error::REFUSED => "no socket listens at that port",
            error::CORRUPT => "the file system contradicts itself",
            code => return write!(f, "the kernel refused the system call ({code})"),
        })
    }
}

impl core::error::Error for Error {}
