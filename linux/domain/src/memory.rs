//! Memory that processes share. It is sealed, so that no process can take it away under a reader.

use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fmt;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;

/// The processes that may write a piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writers {
    /// Only the process that made it.
    ///
    /// Linux refuses writable mappings and `write` to all others, whatever they do with the file
    /// descriptor.
    Owner,
    /// Every process that has the file descriptor.
    All,
}

impl Writers {
    /// Returns the seals of a file with this kind of memory.
    ///
    /// They fix its size for ever, and which processes write it.
    fn seals(self) -> SealFlags {
        let size = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        match self {
            Self::Owner => size | SealFlags::FUTURE_WRITE,
            Self::All => size,
        }
    }
}

/// Types that any bytes are a value of, and that other processes may change at any time.
///
/// # Safety
/// The type consists of atomics alone (and of padding), and any bits are a value of it.
pub(crate) unsafe trait Shareable: Sync {}

/// A mapping of a `T` that other processes share. It is unmapped when it is dropped.
pub(crate) struct Mapping<T: Shareable> {
    start: NonNull<T>,
}

// SAFETY: it gives out `&T` alone, and `T` is `Sync`.
unsafe impl<T: Shareable> Send for Mapping<T> {}
// SAFETY: as above.
unsafe impl<T: Shareable> Sync for Mapping<T> {}

impl<T: Shareable> Mapping<T> {
    /// Creates memory that is all zeros, and the file descriptor by which others map it.
    pub(crate) fn create(name: &str, writers: Writers) -> io::Result<(Self, OwnedFd)> {
        let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, Self::LENGTH as u64)?;
        let mapping = Self::map(&file, ProtFlags::READ | ProtFlags::WRITE)?;
        fcntl_add_seals(&file, writers.seals())?;
        Ok((mapping, file))
    }

    /// Maps memory that another process [created](Self::create).
    ///
    /// The mapping is only to be read if its owner writes it. Otherwise it is to be written too.
    pub(crate) fn open(file: impl AsFd, writers: Writers) -> Result<Self, Unsuitable> {
        // Only memory files can be sealed at all. So this also refuses files of a file system that
        // may fail to read.
        let seals = fcntl_get_seals(&file).map_err(|_| Unsuitable::NotSealed)?;
        if !seals.contains(writers.seals()) {
            return Err(Unsuitable::NotSealed);
        }
        let size = fstat(&file).map_err(io::Error::from)?.st_size;
        if u64::try_from(size) != Ok(Self::LENGTH as u64) {
            return Err(Unsuitable::Size(size));
        }
        let access = match writers {
            Writers::Owner => ProtFlags::READ,
            Writers::All => ProtFlags::READ | ProtFlags::WRITE,
        };
        Ok(Self::map(file, access)?)
    }

    const LENGTH: usize = size_of::<T>();

    fn map(file: impl AsFd, access: ProtFlags) -> io::Result<Self> {
        // SAFETY: a new mapping, which overlaps nothing.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                Self::LENGTH,
                access,
                MapFlags::SHARED,
                file,
                0,
            )
        }?;
        let start = NonNull::new(start.cast()).expect("Linux maps nothing at 0 by itself");
        Ok(Self { start })
    }

    /// Keeps the memory mapped for ever.
    pub(crate) fn leak(self) -> &'static T {
        let start = self.start;
        std::mem::forget(self);
        // SAFETY: as in `deref`, and it is never unmapped.
        unsafe { start.as_ref() }
    }
}

impl<T: Shareable> Deref for Mapping<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: mapped at a page's boundary, which suits any `T` here, for the whole length. The
        // file's seals keep its size. Any bits are a `T`, and every writer, here or elsewhere,
        // changes atomics.
        unsafe { self.start.as_ref() }
    }
}

impl<T: Shareable> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: no borrow of it is left.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), Self::LENGTH) };
        debug_assert!(unmapped.is_ok());
    }
}

/// The reason why a file of another process is not mapped.
#[derive(Debug)]
pub(crate) enum Unsuitable {
    /// It could be taken away while it is read, or be written by others.
    NotSealed,
    /// It has another size, in bytes.
    Size(i64),
    /// The system refused.
    System(io::Error),
}

impl From<io::Error> for Unsuitable {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl fmt::Display for Unsuitable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSealed => f.write_str("its memory is not sealed"),
            Self::Size(bytes) => write!(f, "its memory has {bytes} bytes"),
            Self::System(error) => write!(f, "its memory cannot be mapped: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[repr(C, align(4096))]
    struct Words([AtomicU64; 512]);

    // SAFETY: atomics alone.
    unsafe impl Shareable for Words {}

    #[test]
    fn only_the_owner_writes_and_all_read() {
        let (own, file) = Mapping::<Words>::create("test", Writers::Owner).unwrap();
        let seen = Mapping::<Words>::open(&file, Writers::Owner).unwrap();
        own.0[3].store(7, Ordering::Relaxed);
        assert_eq!(seen.0[3].load(Ordering::Relaxed), 7);
        // Not even its owner gets a second writable mapping.
        let write = Mapping::<Words>::map(&file, ProtFlags::READ | ProtFlags::WRITE);
        assert_eq!(write.err().unwrap().kind(), io::ErrorKind::PermissionDenied);
        assert!(rustix::io::write(&file, b"x").is_err());
    }

    #[test]
    fn the_size_cannot_change() {
        for writers in [Writers::Owner, Writers::All] {
            let (_own, file) = Mapping::<Words>::create("test", writers).unwrap();
            for size in [0, 4096 * 2] {
                assert!(ftruncate(&file, size).is_err());
            }
        }
    }

    #[test]
    fn what_could_change_its_size_is_refused() {
        let file = memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, 4096).unwrap();
        let opened = Mapping::<Words>::open(&file, Writers::All);
        assert!(matches!(opened.err(), Some(Unsuitable::NotSealed)));
        let disk = tempfile::tempfile().unwrap();
        disk.set_len(4096).unwrap();
        let opened = Mapping::<Words>::open(&disk, Writers::All);
        assert!(matches!(opened.err(), Some(Unsuitable::NotSealed)));
    }

    #[test]
    fn another_size_and_other_writers_are_refused() {
        let (_own, doorbells) = Mapping::<Words>::create("test", Writers::All).unwrap();
        let opened = Mapping::<Words>::open(&doorbells, Writers::Owner);
        assert!(matches!(opened.err(), Some(Unsuitable::NotSealed)));
        let file = memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, 8192).unwrap();
        fcntl_add_seals(&file, Writers::All.seals()).unwrap();
        let opened = Mapping::<Words>::open(&file, Writers::All);
        assert!(matches!(opened.err(), Some(Unsuitable::Size(8192))));
    }
}
