//! Files: how they are opened, and their status.

/// Flag of [`FILE_OPEN`](crate::call::FILE_OPEN): for reading; as all others, but for nothing else.
pub const OPEN_READ: u32 = 0;
/// For writing.
pub const OPEN_WRITE: u32 = 1 << 0;
/// For both.
pub const OPEN_READ_WRITE: u32 = 1 << 1;
/// With [`OPEN_CREATE`]: the file must not be there.
pub const OPEN_EXCLUSIVE: u32 = 1 << 7;
/// Makes the file if it is not there.
pub const OPEN_CREATE: u32 = 1 << 9;
/// Empties the file first.
pub const OPEN_TRUNCATE: u32 = 1 << 10;
/// Writes go to the end, wherever that is by then.
pub const OPEN_APPEND: u32 = 1 << 11;

/// [`FILE_SEEK`](crate::call::FILE_SEEK): from the beginning of the file.
pub const FROM_START: usize = 0;
/// From the position.
pub const FROM_HERE: usize = 1;
/// From the end.
pub const FROM_END: usize = 2;

/// [`FileStatus::kind`] of a file.
pub const FILE: u64 = 1;
/// [`FileStatus::kind`] of a directory.
pub const DIRECTORY: u64 = 2;

/// What is known of a file.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStatus {
    /// Tells it from the others of its file system, while it is open.
    pub number: u64,
    /// Size in bytes; 0 for a directory.
    pub size: u64,
    /// When it was last changed, in seconds since 1970; 0 if it is not known.
    pub modified: i64,
    /// [`FILE`] or [`DIRECTORY`].
    pub kind: u64,
}

/// The longest name in bytes: 255 units of UTF-16 in UTF-8, rounded up.
pub const NAME_SIZE: usize = 768;
/// The longest path in bytes.
pub const PATH_SIZE: usize = 1023;

/// One entry of a directory.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The place of the entry behind it, for the next call; it says nothing else.
    pub next: u64,
    /// What is known of the file.
    pub status: FileStatus,
    /// How many bytes of `name` are its name.
    pub name_length: u64,
    /// The name, in UTF-8.
    pub name: [u8; NAME_SIZE],
}

/// How much room a file system has.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes of a block, in which room is counted.
    pub block_size: u64,
    /// Blocks for files and directories.
    pub blocks: u64,
    /// Those that are free.
    pub free: u64,
}

/// What `fstat` of rCore-Tutorial-v3 gives.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Number of the disk: 0.
    pub device: u64,
    /// [`FileStatus::number`]
    pub number: u64,
    /// [`MODE_FILE`] or [`MODE_DIRECTORY`].
    pub mode: u32,
    /// How many names it has: 1.
    pub links: u32,
    /// Zeros.
    pub padding: [u64; 7],
}

/// [`Stat::mode`] of a directory.
pub const MODE_DIRECTORY: u32 = 0o040_000;
/// [`Stat::mode`] of a file.
pub const MODE_FILE: u32 = 0o100_000;
