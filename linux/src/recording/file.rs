//! The file of a recording, mapped for as long as the process lives.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::AtomicU32;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap};

/// Creates a file of so many words, all 0, and maps it.
///
/// It takes the place of a former file only when it is whole. A process that still writes the
/// former one keeps it: a file that is shortened would end that process.
pub(super) fn create(path: &Path, words: usize) -> io::Result<&'static [AtomicU32]> {
    let mut name: OsString = path.file_name().unwrap_or_default().into();
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    let _ = fs::remove_file(&new);
    let file = (OpenOptions::new().read(true).write(true).create_new(true))
        .mode(0o600)
        .open(&new)?;
    let mapped = allocate(&file, words).and_then(|()| map(&file, words));
    let named = mapped.and_then(|words| fs::rename(&new, path).map(|()| words));
    if named.is_err() {
        let _ = fs::remove_file(&new);
    }
    named
}

/// Reserves the room, so that a full disk is an error now and not a signal later.
fn allocate(file: &File, words: usize) -> io::Result<()> {
    let bytes = 4 * words as u64;
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.set_len(bytes),
        done => Ok(done?),
    }
}

fn map(file: &File, words: usize) -> io::Result<&'static [AtomicU32]> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, at an address that the kernel chooses.
    let start = unsafe {
        mmap(
            ptr::null_mut(),
            4 * words,
            access,
            MapFlags::SHARED,
            file,
            0,
        )
    }?;
    let start = NonNull::new(start.cast()).expect("Linux maps nothing at 0 by itself");
    // SAFETY: the mapping has so many words and is never unmapped. It begins at a page. Any bits
    // are words, and all who write them use atomics.
    Ok(unsafe { slice::from_raw_parts(start.as_ptr(), words) })
}
