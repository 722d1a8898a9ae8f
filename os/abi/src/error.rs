//! Why a call on files failed: Linux's error numbers, negative.
//!
//! Calls of rCore-Tutorial-v3 that make or change something in the file system return
//! [`FAILED`](crate::call::FAILED) for every reason, as there. Corank's own calls, and reading,
//! writing and closing a file on the disk or a socket, return one of these.

/// There is no such file or directory.
pub const NOT_FOUND: isize = -2;
/// The disk could not read or write.
pub const INPUT_OUTPUT: isize = -5;
/// The file descriptor is not open, or not for this.
pub const BAD_DESCRIPTOR: isize = -9;
/// The kernel has no memory for it.
pub const NO_MEMORY: isize = -12;
/// The file is open, and must not be for this.
pub const BUSY: isize = -16;
/// There is such a file or directory already.
pub const EXISTS: isize = -17;
/// There is no disk.
pub const NO_DEVICE: isize = -19;
/// A part of the path is no directory.
pub const NOT_A_DIRECTORY: isize = -20;
/// It is a directory.
pub const IS_A_DIRECTORY: isize = -21;
/// Arguments that make no sense, or a name that the file system cannot hold.
pub const INVALID: isize = -22;
/// The process has too many files open.
pub const TOO_MANY_FILES: isize = -24;
/// The file would be larger than the file system allows.
pub const FILE_TOO_LARGE: isize = -27;
/// The disk is full.
pub const NO_SPACE: isize = -28;
/// The disk cannot be written.
pub const READ_ONLY: isize = -30;
/// The name or the path is too long.
pub const NAME_TOO_LONG: isize = -36;
/// The directory is not empty.
pub const NOT_EMPTY: isize = -39;
/// Another socket has the port.
pub const PORT_IN_USE: isize = -98;
/// There is no network, or no way to the address.
pub const UNREACHABLE: isize = -101;
/// The other side has ended the connection, and what it had not read is lost.
pub const RESET: isize = -104;
/// There are as many sockets as the kernel has room for.
pub const NO_SOCKETS: isize = -105;
/// The socket is not connected.
pub const NOT_CONNECTED: isize = -107;
/// Nothing can be written any more; see [`SHUTDOWN`](crate::call::SHUTDOWN).
pub const SHUT_DOWN: isize = -108;
/// The other side has not answered in time, or a call has waited as long as it may.
pub const TIMED_OUT: isize = -110;
/// Nothing listens at that port.
pub const REFUSED: isize = -111;
/// What is on the disk contradicts itself.
pub const CORRUPT: isize = -117;
