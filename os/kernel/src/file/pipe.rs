//! Pipes.
//!
//! As in rCore-Tutorial-v3, reading returns when the buffer is full or nobody can write any more, and writing when
//! everything has been written. Bytes lie in frames that are taken when the first byte goes into them and given back with the
//! last: an empty pipe has none.
use super::{NOT_ALLOWED, Transferred};
use crate::memory::PAGE_SIZE;
use crate::memory::frame::Frame;
use crate::memory::user::{BadAddress, UserBuffer};
use crate::process::Process;
use crate::wait::{WaitMode, WaitQueue, until};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::Poll;
use spin::Mutex;

const FRAMES: usize = 16;
/// How many bytes a pipe holds.
pub(crate) const CAPACITY: usize = FRAMES * PAGE_SIZE;

#[derive(Debug)]
struct State {
    /// Frame *i* holds the bytes whose number, divided by the page size, is *i* modulo [`FRAMES`].
    frames: [Option<Frame>; FRAMES],
    /// Number of the next byte to read; counts from the pipe's beginning on.
    read: usize,
    /// Number of the next byte to write.
    written: usize,
}

#[derive(Debug)]
struct Pipe {
    state: Mutex<State>,
    /// How many open files read it and write it.
    read_ends: AtomicUsize,
    write_ends: AtomicUsize,
    readers: WaitQueue,
    writers: WaitQueue,
}

/// The end of a pipe that is read.
#[derive(Debug)]
pub(crate) struct ReadEnd(Arc<Pipe>);

/// The end of a pipe that is written.
#[derive(Debug)]
pub(crate) struct WriteEnd(Arc<Pipe>);

/// A new pipe.
pub(crate) fn pipe() -> (ReadEnd, WriteEnd) {
    let pipe = Arc::new(Pipe {
        state: Mutex::new(State {
            frames: [const { None }; FRAMES],
            read: 0,
            written: 0,
        }),
        read_ends: AtomicUsize::new(1),
        write_ends: AtomicUsize::new(1),
        readers: WaitQueue::new(),
        writers: WaitQueue::new(),
    });
    (ReadEnd(pipe.clone()), WriteEnd(pipe))
}

impl Pipe {
    fn is_read(&self) -> bool {
        self.read_ends.load(Ordering::Acquire) > 0
    }

    fn is_written(&self) -> bool {
        self.write_ends.load(Ordering::Acquire) > 0
    }
}

impl State {
    fn length(&self) -> usize {
        self.written - self.read
    }

    fn room(&self) -> usize {
        CAPACITY - self.length()
    }

    /// Moves what there is, up to the buffer's length, to the program. Advances the buffer.
    fn take(&mut self, process: &Process, buffer: &mut UserBuffer) -> Result<(), BadAddress> {
        process.with_memory(
            |space| {
                while buffer.length > 0 && self.length() > 0 {
                    let offset = self.read % PAGE_SIZE;
                    let count = buffer.length.min(self.length()).min(PAGE_SIZE - offset);
                    let place = &mut self.frames[self.read / PAGE_SIZE % FRAMES];
                    let frame = place.as_ref().expect("bytes lie in frames");
                    space.write(buffer.address, &frame.bytes()[offset..offset + count])?;
                    self.read += count;
                    buffer.advance(count);
                    // In a pipe that is full, the newest bytes may have come into this frame already.
                    let is_reused = self.written - self.read > CAPACITY - PAGE_SIZE;
                    let is_done = self.read.is_multiple_of(PAGE_SIZE) && !is_reused;
                    if is_done || self.read == self.written {
                        *place = None;
                    }
                }
                if self.read == self.written {
                    // The next byte begins a frame again.
                    (self.read, self.written) = (0, 0);
                }
                Ok(())
            },
            Ok(()),
        )
    }

    /// Moves as much as there is room for from the program into the pipe. Advances the buffer. Returns false when no frame is
    /// free.
    fn put(&mut self, process: &Process, buffer: &mut UserBuffer) -> Result<bool, BadAddress> {
        process.with_memory(
            |space| {
                while buffer.length > 0 && self.room() > 0 {
                    let offset = self.written % PAGE_SIZE;
                    let count = buffer.length.min(self.room()).min(PAGE_SIZE - offset);
                    let place = &mut self.frames[self.written / PAGE_SIZE % FRAMES];
                    if place.is_none() {
                        let Ok(frame) = Frame::uninitialised() else {
                            return Ok(false);
                        };
                        *place = Some(frame);
                    }
                    let frame = place.as_mut().expect("just put there");
                    space.read(
                        buffer.address,
                        &mut frame.bytes_mut()[offset..offset + count],
                    )?;
                    self.written += count;
                    buffer.advance(count);
                }
                Ok(true)
            },
            Ok(true),
        )
    }
}

impl ReadEnd {
    /// Fills the buffer; returns earlier, with fewer bytes, only when nobody can write any more. Takes bytes when it has as many
    /// as it wants, or when the pipe is full: so a read of up to [`CAPACITY`] bytes that is cancelled has taken none.
    ///
    /// # Errors
    /// When the buffer is not the program's to write.
    pub(crate) async fn read(
        &self,
        process: &Process,
        mode: WaitMode,
        buffer: &mut UserBuffer,
    ) -> Result<usize, BadAddress> {
        let wanted = buffer.length;
        until(&self.0.readers, mode, |turn| {
            let mut state = self.0.state.lock();
            if state.length() >= buffer.length.min(CAPACITY) || !self.0.is_written() {
                state.take(process, buffer)?;
                self.0.writers.wake_all();
            }
            if buffer.length > 0 && self.0.is_written() {
                turn.wait();
                return Poll::Pending;
            }
            Poll::Ready(Ok(wanted - buffer.length))
        })
        .await
    }

    /// Reads if that is done without waiting.
    pub(crate) fn read_at_once(
        &self,
        process: &Process,
        mut buffer: UserBuffer,
    ) -> Option<Result<usize, BadAddress>> {
        let mut state = self.0.state.lock();
        if state.length() < buffer.length && self.0.is_written() {
            return None;
        }
        let wanted = buffer.length;
        let taken = state.take(process, &mut buffer);
        self.0.writers.wake_all();
        Some(taken.map(|()| wanted - buffer.length))
    }
}

impl WriteEnd {
    /// Writes all of the buffer. Fails when nobody can read it any more, or no frame is free.
    ///
    /// # Errors
    /// When the buffer is not the program's to read.
    pub(crate) async fn write(
        &self,
        process: &Process,
        mode: WaitMode,
        buffer: &mut UserBuffer,
    ) -> Transferred {
        let wanted = buffer.length;
        until(&self.0.writers, mode, |turn| {
            let mut state = self.0.state.lock();
            if !self.0.is_read() {
                return Poll::Ready(Ok(Err(NOT_ALLOWED)));
            }
            if state.room() > 0 {
                let found_frames = state.put(process, buffer)?;
                self.0.readers.wake_all();
                if !found_frames {
                    return Poll::Ready(Ok(Err(NOT_ALLOWED)));
                }
            }
            if buffer.length > 0 {
                turn.wait();
                return Poll::Pending;
            }
            Poll::Ready(Ok(Ok(wanted)))
        })
        .await
    }

    /// Writes if that is done without waiting.
    pub(crate) fn write_at_once(
        &self,
        process: &Process,
        mut buffer: UserBuffer,
    ) -> Option<Transferred> {
        let mut state = self.0.state.lock();
        if !self.0.is_read() {
            return Some(Ok(Err(NOT_ALLOWED)));
        }
        if state.room() < buffer.length {
            return None;
        }
        let wanted = buffer.length;
        let put = state.put(process, &mut buffer);
        self.0.readers.wake_all();
        Some(put.map(|found_frames| {
            if found_frames {
                Ok(wanted)
            } else {
                Err(NOT_ALLOWED)
            }
        }))
    }
}

impl Clone for ReadEnd {
    fn clone(&self) -> ReadEnd {
        self.0.read_ends.fetch_add(1, Ordering::Relaxed);
        ReadEnd(self.0.clone())
    }
}

impl Clone for WriteEnd {
    fn clone(&self) -> WriteEnd {
        self.0.write_ends.fetch_add(1, Ordering::Relaxed);
        WriteEnd(self.0.clone())
    }
}

// Whoever waits has looked under the lock: the last end goes first, then takes the lock, then wakes.
impl Drop for ReadEnd {
    fn drop(&mut self) {
        if self.0.read_ends.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let mut state = self.0.state.lock();
        state.frames = [const { None }; FRAMES];
        (state.read, state.written) = (0, 0);
        self.0.writers.wake_all();
    }
}

impl Drop for WriteEnd {
    fn drop(&mut self) {
        if self.0.write_ends.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let _state = self.0.state.lock();
        self.0.readers.wake_all();
    }
}
