//! Files: what is read and written, and pipes. Calls on the file system are in `files`.
use super::Result;
use crate::failure::Transferred;
use crate::file::{File, pipe, pipe::Writer};
use crate::memory::user::UserBuffer;
use crate::pending_read::EndedRead;
use crate::process::Process;
use crate::wait::WaitMode;
use alloc::sync::Arc;
use corank_abi::call::FAILED;

fn number(transferred: Transferred) -> Result {
    transferred.map(|bytes| bytes.map_or_else(|failure| failure.0, |bytes| bytes as isize))
}

pub(super) fn read_at_once(
    process: &Process,
    descriptor: usize,
    buffer: UserBuffer,
) -> Option<Result> {
    // A pipe is read without a share of the file, because pipes are read most often.
    let read = |file: &File| match file {
        File::PipeRead(end) => Ok(end.read_at_once(&process.memory, buffer)),
        other => Err(other.clone()),
    };
    match process.use_file(descriptor, read, |_| false) {
        None => Some(Ok(FAILED)),
        Some((Ok(read), _)) => read.map(|read| number(read.map(Ok))),
        Some((Err(file), _)) => file.read_at_once(&process.memory, buffer).map(number),
    }
}

pub(super) fn write_at_once(
    process: &Process,
    descriptor: usize,
    buffer: UserBuffer,
) -> Option<Result> {
    let mut ended_read = None;
    let write = |file: &File| match file {
        File::PipeWrite(end) => {
            Ok(end.write_at_once(&process.memory, buffer, Writer::Anyone, &mut ended_read))
        }
        other => Err(other.clone()),
    };
    match process.use_file(descriptor, write, |_| false) {
        None => Some(Ok(FAILED)),
        Some((Ok(written), _)) => {
            EndedRead::finish(ended_read);
            written.map(number)
        }
        Some((Err(file), _)) => file.write_at_once(&process.memory, buffer).map(number),
    }
}

pub(super) async fn read(
    process: &Process,
    mode: WaitMode,
    descriptor: usize,
    buffer: &mut UserBuffer,
) -> Result {
    let Some(file) = process.file(descriptor) else {
        return Ok(FAILED);
    };
    number(file.read(&process.memory, mode, buffer).await)
}

pub(super) async fn write(
    process: &Process,
    mode: WaitMode,
    descriptor: usize,
    buffer: &mut UserBuffer,
) -> Result {
    let Some(file) = process.file(descriptor) else {
        return Ok(FAILED);
    };
    number(file.write(&process.memory, mode, buffer).await)
}

#[inline(never)]
pub(super) fn dup(process: &Process, descriptor: usize) -> isize {
    let file = process.file(descriptor);
    file.and_then(|file| process.open(file))
        .map_or(FAILED, |descriptor| descriptor as isize)
}

/// Closes a descriptor if that is done without waiting.
///
/// Returns `None` for a file on the disk, whose last close waits for the file system.
pub(super) fn close_at_once(process: &Process, descriptor: usize) -> Option<isize> {
    if let Some(File::Disk(_)) = process.file(descriptor) {
        return None;
    }
    Some(process.close(descriptor).map_or(FAILED, |_| 0))
}

pub(super) async fn close(process: &Process, descriptor: usize) -> isize {
    let file = match process.close(descriptor) {
        None => return FAILED,
        Some(File::Disk(file)) => Arc::into_inner(file),
        Some(_) => None,
    };
    match file {
        Some(file) => file.close().await.map_or_else(|failure| failure.0, |()| 0),
        None => 0,
    }
}

#[inline(never)]
pub(super) fn pipe(process: &Process, ends: usize) -> Result {
    let Ok((read, write)) = pipe::pipe(&process.memory.account) else {
        return Ok(FAILED);
    };
    let Some([read, write]) = process.open_two([File::PipeRead(read), File::PipeWrite(write)])
    else {
        return Ok(FAILED);
    };
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&read.to_le_bytes());
    bytes[8..].copy_from_slice(&write.to_le_bytes());
    process.with_memory(|space| space.write(ends, &bytes), Ok(()))?;
    Ok(0)
}
