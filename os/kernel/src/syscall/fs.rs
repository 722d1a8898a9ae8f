//! Files.
use super::Result;
use crate::file::{File, Transferred, pipe, stored::Stored};
use crate::memory::user::UserBuffer;
use crate::process::Process;
use crate::programs;
use crate::wait::WaitMode;
use alloc::sync::Arc;
use alloc::vec::Vec;
use corank_abi::call::FAILED;

/// The longest name of a file, in bytes.
pub(super) const MAX_NAME: usize = 255;

fn number(transferred: Transferred) -> Result {
    transferred.map(|bytes| bytes.map_or(FAILED, |bytes| bytes as isize))
}

pub(super) fn read_at_once(
    process: &Process,
    descriptor: usize,
    buffer: UserBuffer,
) -> Option<Result> {
    let Some(file) = process.file(descriptor) else {
        return Some(Ok(FAILED));
    };
    file.read_at_once(process, buffer).map(number)
}

pub(super) fn write_at_once(
    process: &Process,
    descriptor: usize,
    buffer: UserBuffer,
) -> Option<Result> {
    let Some(file) = process.file(descriptor) else {
        return Some(Ok(FAILED));
    };
    file.write_at_once(process, buffer).map(number)
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
    number(file.read(process, mode, buffer).await)
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
    number(file.write(process, mode, buffer).await)
}

#[inline(never)]
pub(super) fn dup(process: &Process, descriptor: usize) -> isize {
    let file = process.file(descriptor);
    file.and_then(|file| process.open(file))
        .map_or(FAILED, |descriptor| descriptor as isize)
}

/// Files are those of the archive, for reading.
#[inline(never)]
pub(super) fn open(process: &Process, path: usize, flags: usize) -> Result {
    let mut name = Vec::new();
    let complete = process.with_memory(
        |space| space.read_string(path, MAX_NAME + 1, &mut name),
        Ok(false),
    )?;
    let file = core::str::from_utf8(&name)
        .ok()
        .and_then(programs::find)
        .filter(|_| complete && flags == 0);
    let descriptor = file.and_then(|data| process.open(File::Stored(Arc::new(Stored::new(data)))));
    Ok(descriptor.map_or(FAILED, |descriptor| descriptor as isize))
}

pub(super) fn close(process: &Process, descriptor: usize) -> isize {
    if process.close(descriptor) { 0 } else { FAILED }
}

#[inline(never)]
pub(super) fn pipe(process: &Process, ends: usize) -> Result {
    let (read, write) = pipe::pipe();
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
