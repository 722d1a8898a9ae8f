//! Calls on the file system.
//!
//! Those of rCore-Tutorial-v3 say only that they failed. Corank's own say why.
use super::Result;
use super::information::write;
use crate::failure::{self, Failure};
use crate::file::{File, stored::Stored};
use crate::fs::{self, DiskFile, Opening, Operation, Reply, path};
use crate::memory::account;
use crate::memory::user::UserBuffer;
use crate::process::Process;
use crate::programs;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use corank_abi::call::{
    DIRECTORY_CHANGE, DIRECTORY_ENTRY, DIRECTORY_MAKE, FAILED, FILE_OPEN, FILE_SEEK, FSTAT,
    NOT_IMPLEMENTED, OPEN, REMOVE, RENAME, SPACE, STATUS, STATUS_OF, SYNC, TRUNCATE, UNLINKAT,
};
use corank_abi::error::{
    BAD_DESCRIPTOR, INVALID, NAME_TOO_LONG, NO_DEVICE, NO_MEMORY, NOT_A_DIRECTORY, NOT_FOUND,
    TOO_MANY_FILES,
};
use corank_abi::file::{
    DIRECTORY, FILE, FileStatus, MODE_DIRECTORY, MODE_FILE, OPEN_APPEND, OPEN_CREATE,
    OPEN_EXCLUSIVE, OPEN_READ_WRITE, OPEN_TRUNCATE, OPEN_WRITE, PATH_SIZE, Stat,
};

/// Serves a call that may have to wait for the disk.
///
/// # Errors
/// When the call passes a bad pointer.
pub(super) async fn serve(process: &Process, number: usize, arguments: [usize; 3]) -> Result {
    let [first, second, third] = arguments;
    Ok(match number {
        OPEN => {
            let path = path_at(process, first)?;
            let opened = open(process, path, tutorial_flags(second as u32)).await;
            opened.map_or(FAILED, |descriptor| descriptor as isize)
        }
        FILE_OPEN => {
            let path = path_at(process, first)?;
            code(match our_flags(second as u32) {
                Some(how) => open(process, path, how).await,
                None => Err(Failure(INVALID)),
            })
        }
        FILE_SEEK => code(match file(process, first) {
            Ok(file) => file
                .seek(second as isize, third)
                .await
                .map(|position| position as usize),
            Err(failure) => Err(failure),
        }),
        TRUNCATE => code(match file(process, first) {
            Ok(file) => file.truncate(second as u64).await.map(|()| 0),
            Err(failure) => Err(failure),
        }),
        STATUS_OF | FSTAT => {
            let status = match file(process, first) {
                Ok(file) => file.status().await,
                Err(failure) => Err(failure),
            };
            match status {
                Ok(status) if number == FSTAT => write(process, second, &stat(&status))?,
                Ok(status) => write(process, second, &status)?,
                Err(_) if number == FSTAT => FAILED,
                Err(failure) => failure.0,
            }
        }
        STATUS => {
            let path = path_at(process, first)?;
            match ask(path, Operation::Status).await {
                Ok(Reply::Status(status)) => write(process, second, &status)?,
                reply => done(reply),
            }
        }
        DIRECTORY_ENTRY => {
            let path = path_at(process, first)?;
            match ask(path, |path| Operation::Entry(path, second as u64)).await {
                Ok(Reply::Entry(Some(entry))) => write(process, third, &*entry).map(|_| 1)?,
                reply => done(reply),
            }
        }
        DIRECTORY_MAKE => done(ask(path_at(process, first)?, Operation::MakeDirectory).await),
        DIRECTORY_CHANGE => code(change_directory(process, path_at(process, first)?).await),
        REMOVE => {
            let path = path_at(process, first)?;
            done(match second as u64 {
                FILE => ask(path, |path| Operation::Remove(path, false)).await,
                DIRECTORY => ask(path, |path| Operation::Remove(path, true)).await,
                _ => Err(Failure(INVALID)),
            })
        }
        UNLINKAT => {
            let path = path_at(process, second)?;
            match ask(path, |path| Operation::Remove(path, false)).await {
                Ok(_) if third == 0 => 0,
                _ => FAILED,
            }
        }
        RENAME => {
            let (from, to) = (path_at(process, first)?, path_at(process, second)?);
            done(match to {
                Ok(to) => ask(from, |from| Operation::Rename(from, to)).await,
                Err(failure) => Err(failure),
            })
        }
        SYNC => done(fs::perform(Operation::Sync).await),
        SPACE => match fs::perform(Operation::Space).await {
            Ok(Reply::Space(space)) => write(process, first, &space)?,
            reply => done(reply),
        },
        _ => NOT_IMPLEMENTED,
    })
}

/// Copies the path of the current directory into the buffer.
pub(super) fn current_directory(process: &Process, buffer: UserBuffer) -> Result {
    let directory = process.directory.lock().clone();
    if directory.len() > buffer.length {
        return Ok(NAME_TOO_LONG);
    }
    process.with_memory(
        |space| space.write(buffer.address, directory.as_bytes()),
        Ok(()),
    )?;
    Ok(directory.len() as isize)
}

/// Returns the absolute form of the path at an address.
fn path_at(process: &Process, address: usize) -> Result<failure::Result<String>> {
    let path = text_at(process, address)?;
    Ok(path.map(|path| path::absolute(&process.directory.lock(), &path)))
}

/// Returns the path at an address, as it stands there.
pub(super) fn text_at(process: &Process, address: usize) -> Result<failure::Result<String>> {
    let mut bytes = Vec::new();
    let complete = process.with_memory(
        |space| space.read_string(address, PATH_SIZE + 1, &mut bytes),
        Ok(false),
    )?;
    if !complete {
        return Ok(Err(Failure(NAME_TOO_LONG)));
    }
    Ok(match String::from_utf8(bytes) {
        Err(_) => Err(Failure(INVALID)),
        Ok(path) if path.is_empty() => Err(Failure(NOT_FOUND)),
        Ok(path) => Ok(path),
    })
}

/// Returns a file of the disk.
fn file(process: &Process, descriptor: usize) -> failure::Result<Arc<DiskFile>> {
    match process.file(descriptor) {
        Some(File::Disk(file)) => Ok(file),
        _ => Err(Failure(BAD_DESCRIPTOR)),
    }
}

async fn ask(
    path: failure::Result<String>,
    operation: impl FnOnce(String) -> Operation,
) -> failure::Result<Reply> {
    fs::perform(operation(path?)).await
}

fn code(result: failure::Result<usize>) -> isize {
    result.map_or_else(|failure| failure.0, |value| value as isize)
}

fn done(reply: failure::Result<Reply>) -> isize {
    code(reply.map(|_| 0))
}

fn tutorial_flags(flags: u32) -> Opening {
    let write_only = flags & OPEN_WRITE != 0;
    Opening {
        read: !write_only,
        write: flags != 0,
        append: false,
        truncate: flags & (OPEN_TRUNCATE | OPEN_CREATE) != 0,
        create: flags & OPEN_CREATE != 0,
        exclusive: false,
    }
}

fn our_flags(flags: u32) -> Option<Opening> {
    const CHANGES: u32 = OPEN_CREATE | OPEN_TRUNCATE | OPEN_APPEND | OPEN_EXCLUSIVE;
    let write = flags & (OPEN_WRITE | OPEN_READ_WRITE) != 0;
    let known = flags & !(OPEN_WRITE | OPEN_READ_WRITE | CHANGES) == 0;
    (known && (write || flags & CHANGES == 0)).then_some(Opening {
        read: flags & OPEN_WRITE == 0,
        write,
        append: flags & OPEN_APPEND != 0,
        truncate: flags & OPEN_TRUNCATE != 0,
        create: flags & OPEN_CREATE != 0,
        exclusive: flags & OPEN_EXCLUSIVE != 0,
    })
}

async fn open(
    process: &Process,
    path: failure::Result<String>,
    how: Opening,
) -> failure::Result<usize> {
    let path = path?;
    let charge = process
        .reserve(fs::OPEN_FILE)
        .map_err(|_| Failure(NO_MEMORY))?;
    let file = match fs::perform(Operation::Open(path.clone(), how, charge)).await {
        Ok(Reply::File(file)) => File::Disk(Arc::new(file)),
        Err(Failure(NOT_FOUND | NO_DEVICE)) if !how.write => {
            let data = archive(&path).ok_or(Failure(NOT_FOUND))?;
            let charge = process.reserve(account::of::<Stored>());
            let charge = charge.map_err(|_| Failure(NO_MEMORY))?;
            File::Stored(Arc::new(Stored::new(data, charge)))
        }
        Err(failure) => return Err(failure),
        Ok(_) => return Err(Failure(INVALID)),
    };
    process.open(file).ok_or(Failure(TOO_MANY_FILES))
}

/// Returns the file of the archive with this name, seen as if it lay in the root.
fn archive(path: &str) -> Option<&'static [u8]> {
    programs::find(path.strip_prefix('/')?)
}

async fn change_directory(
    process: &Process,
    path: failure::Result<String>,
) -> failure::Result<usize> {
    let path = path?;
    if path.len() > PATH_SIZE {
        return Err(Failure(NAME_TOO_LONG));
    }
    match fs::perform(Operation::Status(path.clone())).await? {
        Reply::Status(status) if status.kind == DIRECTORY => {
            *process.directory.lock() = path;
            Ok(0)
        }
        _ => Err(Failure(NOT_A_DIRECTORY)),
    }
}

fn stat(status: &FileStatus) -> Stat {
    Stat {
        number: status.number,
        mode: if status.kind == DIRECTORY {
            MODE_DIRECTORY
        } else {
            MODE_FILE
        },
        links: 1,
        ..Stat::default()
    }
}
