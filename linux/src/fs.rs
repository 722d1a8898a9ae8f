//! Files and directories, as in [`std::fs`].
//!
//! Operations run on threads for blocking calls, the most urgent caller first (see
//! [`spawn_blocking`]).
//!
//! ```
//! # let runtime = corank_linux::Runtime::new()?;
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("notes");
//! use corank_linux::fs;
//! use futures::{AsyncReadExt, AsyncWriteExt};
//!
//! # runtime.block_on(async move {
//! let mut file = fs::File::create(&path).await?;
//! file.write_all(b"first things first\n").await?;
//! file.sync_all().await?;
//!
//! let mut text = String::new();
//! fs::File::open(&path).await?.read_to_string(&mut text).await?;
//! assert_eq!(text, "first things first\n");
//! assert_eq!(fs::metadata(&path).await?.len(), 19);
//! # std::io::Result::Ok(()) })?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Data in the kernel's cache is read at once, without another thread (see [`File`]).
//!
//! If a future of this module is dropped, its operation may or may not happen, now or later.
//!
//! All functions return the errors of the same functions in `std`, and one more if no thread can be
//! started.

use std::fs::{self, Metadata, Permissions};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::blocking::{Blocking, into_io, spawn_blocking};

mod directory;
mod file;

pub use directory::{DirEntry, ReadDir, read_dir};
pub use file::File;

/// Runs an operation of the file system on a thread for blocking calls.
async fn call<T, F>(work: F) -> io::Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> io::Result<T> + Send + 'static,
{
    spawn_blocking(work).await.map_err(into_io)?
}

/// An operation that has been submitted.
type Operation<T> = Blocking<io::Result<T>>;

fn poll_operation<T>(operation: &mut Operation<T>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
    let result = Pin::new(operation).poll(cx);
    result.map(|result| result.map_err(into_io)?)
}

macro_rules! functions {
    ($($(#[$about:meta])* fn $name:ident($($path:ident),+ $(; $given:ident: $type:ty)?) -> $output:ty;)*) => {$(
        $(#[$about])*
        ///
        /// # Errors
        #[doc = concat!("Fails as [`std::fs::", stringify!($name), "`] does.")]
        pub async fn $name($($path: impl AsRef<Path>,)+ $($given: $type)?) -> io::Result<$output> {
            $(let $path = $path.as_ref().to_path_buf();)+
            call(move || fs::$name($($path,)+ $($given)?)).await
        }
    )*};
}

functions! {
    /// Returns the absolute path without links.
    fn canonicalize(path) -> PathBuf;
    /// Copies a file's bytes and permissions; returns the number of bytes.
    fn copy(from, to) -> u64;
    /// Creates a directory.
    fn create_dir(path) -> ();
    /// Creates a directory, and those above it that are missing.
    fn create_dir_all(path) -> ();
    /// Creates another name for a file.
    fn hard_link(original, link) -> ();
    /// Returns the metadata of what the path leads to.
    fn metadata(path) -> Metadata;
    /// Reads a whole file.
    fn read(path) -> Vec<u8>;
    /// Returns the target of a symbolic link.
    fn read_link(path) -> PathBuf;
    /// Reads a whole file of UTF-8 text.
    fn read_to_string(path) -> String;
    /// Removes an empty directory.
    fn remove_dir(path) -> ();
    /// Removes a directory and everything in it.
    fn remove_dir_all(path) -> ();
    /// Removes a file's name.
    fn remove_file(path) -> ();
    /// Renames a file; replaces one that has the new name.
    fn rename(from, to) -> ();
    /// Sets the permissions of a file or directory.
    fn set_permissions(path; permissions: Permissions) -> ();
    /// Returns the metadata of the path itself, which may be a link.
    fn symlink_metadata(path) -> Metadata;
}

/// Tests whether the path exists.
///
/// # Errors
/// Fails as [`std::fs::exists`] does.
pub async fn try_exists(path: impl AsRef<Path>) -> io::Result<bool> {
    let path = path.as_ref().to_path_buf();
    call(move || fs::exists(path)).await
}

/// Creates a symbolic link.
///
/// # Errors
/// Fails as [`std::os::unix::fs::symlink`] does.
pub async fn symlink(original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    let (original, link) = (original.as_ref().to_path_buf(), link.as_ref().to_path_buf());
    call(move || std::os::unix::fs::symlink(original, link)).await
}

/// Writes a file with these bytes; replaces what it had. A vector or a string is not copied.
///
/// # Errors
/// Fails as [`std::fs::write`] does.
pub async fn write(path: impl AsRef<Path>, contents: impl Into<Vec<u8>>) -> io::Result<()> {
    let (path, contents) = (path.as_ref().to_path_buf(), contents.into());
    call(move || fs::write(path, contents)).await
}
