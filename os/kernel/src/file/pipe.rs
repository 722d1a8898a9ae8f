//! Pipes.
//!
//! As in rCore-Tutorial-v3, reading returns when the buffer is full or no write end is left, and
//! writing when everything has been written. Bytes lie in frames that are taken when the first byte
//! goes into them and given back with the last. So an empty pipe has none.
//!
//! An asynchronous read that waits stands in the pipe itself, as a [`PendingRead`], where that is
//! possible. The code that brings what it waits for finds it there and serves it, or makes sure
//! that it is served. Other reads and writes wait in queues.
use crate::failure::{NOT_ALLOWED, Transferred};
use crate::lock::Mutex;
use crate::memory::account::{self, Account, Charge};
use crate::memory::frame::Frame;
use crate::memory::user::{BadAddress, UserBuffer, UserMemory};
use crate::memory::{OutOfMemory, PAGE_SIZE};
use crate::pending_read::{EndedRead, PendingRead, Slot};
use crate::wait::{WaitMode, WaitQueue, until};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::Poll;

/// How many frames a pipe has at most.
const FRAMES: usize = 16;
/// How many bytes a pipe holds.
pub(crate) const CAPACITY: usize = FRAMES * PAGE_SIZE;

/// The bytes that have been written and not been read.
///
/// Frame *i* holds those whose number, divided by the page size, is *i* modulo [`FRAMES`].
#[derive(Debug)]
struct Bytes {
    /// Frame 0.
    ///
    /// It is all that most pipes ever need, because the numbers begin anew when a pipe is empty.
    first: Option<Frame>,
    /// Frames 1 and following, once there was one.
    others: Option<Box<[Option<Frame>; FRAMES - 1]>>,
    /// Number of the next byte to read, counted from the pipe's beginning on.
    read: usize,
    /// Number of the next byte to write.
    written: usize,
}

#[derive(Debug)]
struct State {
    bytes: Bytes,
    /// A read that waits.
    pending_read: Slot,
}

#[derive(Debug)]
struct Pipe {
    state: Mutex<State>,
    /// How many open files read it and write it.
    read_ends: AtomicUsize,
    write_ends: AtomicUsize,
    readers: WaitQueue,
    writers: WaitQueue,
    _charge: Charge,
}

/// What a pipe costs beside its frames.
const COST: usize = account::of::<Pipe>() + account::of::<[Option<Frame>; FRAMES - 1]>();

/// The end of a pipe that is read.
#[derive(Debug)]
pub(crate) struct ReadEnd(Arc<Pipe>);

/// The end of a pipe that is written.
#[derive(Debug)]
pub(crate) struct WriteEnd(Arc<Pipe>);

/// What writes to a pipe.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Writer {
    /// A writer of this level.
    ///
    /// If it `closes` this end, it does so next, before anything else sees the end.
    At { level: u8, closes: bool },
    /// A writer of a level that only the executor can tell.
    Anyone,
}

/// Makes a pipe, which this account pays for, but for its frames.
///
/// # Errors
/// When there is no memory for it.
pub(crate) fn pipe(account: &Arc<Account>) -> Result<(ReadEnd, WriteEnd), OutOfMemory> {
    let charge = account::charge(account, COST)?;
    let pipe = Arc::new(Pipe {
        state: Mutex::new(State {
            bytes: Bytes::none(),
            pending_read: Slot::new(),
        }),
        read_ends: AtomicUsize::new(1),
        write_ends: AtomicUsize::new(1),
        readers: WaitQueue::new(),
        writers: WaitQueue::new(),
        _charge: charge,
    });
    Ok((ReadEnd(pipe.clone()), WriteEnd(pipe)))
}

impl Pipe {
    fn is_read(&self) -> bool {
        self.read_ends.load(Ordering::Acquire) > 0
    }

    fn is_written(&self) -> bool {
        self.write_ends.load(Ordering::Acquire) > 0
    }

    /// Takes bytes as [`Bytes::take`], and wakes the writers if there are fewer then.
    ///
    /// A read may have taken bytes before it came to an address that is not its program's.
    #[inline]
    fn take(
        &self,
        state: &mut State,
        memory: &UserMemory,
        buffer: &mut UserBuffer,
    ) -> Result<(), BadAddress> {
        let wanted = buffer.length;
        let taken = state.bytes.take(memory, buffer);
        if buffer.length < wanted {
            self.writers.wake_all();
        }
        taken
    }

    /// Puts bytes in as [`Bytes::put`], and wakes the readers if there are more then.
    ///
    /// A reader that is woken for nothing waits again, behind others that were woken with it.
    #[inline]
    fn put(
        &self,
        state: &mut State,
        memory: &UserMemory,
        buffer: &mut UserBuffer,
    ) -> Result<bool, BadAddress> {
        let wanted = buffer.length;
        let put = state.bytes.put(memory, buffer);
        if buffer.length < wanted {
            self.readers.wake_all();
        }
        put
    }
}

impl Bytes {
    #[inline(always)]
    fn none() -> Bytes {
        Bytes {
            first: None,
            others: None,
            read: 0,
            written: 0,
        }
    }

    /// Returns the place of the frame for the byte with this number.
    ///
    /// Returns `None` where there can't be one yet.
    fn place(&mut self, number: usize) -> Option<&mut Option<Frame>> {
        match number / PAGE_SIZE % FRAMES {
            0 => Some(&mut self.first),
            frame => Some(&mut self.others.as_mut()?[frame - 1]),
        }
    }

    /// Returns [`place`](Self::place), which is made if it is not there.
    fn make_place(&mut self, number: usize) -> Option<&mut Option<Frame>> {
        if !(number / PAGE_SIZE).is_multiple_of(FRAMES) && self.others.is_none() {
            // Charged for with the pipe.
            self.others = Some(Box::new([const { None }; FRAMES - 1]));
        }
        self.place(number)
    }

    fn length(&self) -> usize {
        self.written - self.read
    }

    fn room(&self) -> usize {
        CAPACITY - self.length()
    }

    /// Moves what there is, up to the buffer's length, to the program.
    ///
    /// Advances the buffer.
    fn take(&mut self, memory: &UserMemory, buffer: &mut UserBuffer) -> Result<(), BadAddress> {
        memory.with_space(
            |space| {
                while buffer.length > 0 && self.length() > 0 {
                    let offset = self.read % PAGE_SIZE;
                    let count = buffer.length.min(self.length()).min(PAGE_SIZE - offset);
                    let from = self.read;
                    let frame = self.place(from).and_then(|place| place.as_ref());
                    let frame = frame.expect("bytes lie in frames");
                    space.write(buffer.address, &frame.bytes()[offset..offset + count])?;
                    self.read += count;
                    buffer.advance(count);
                    // In a pipe that is full, the newest bytes may have come into this frame
                    // already.
                    let is_reused = self.written - self.read > CAPACITY - PAGE_SIZE;
                    let is_done = self.read.is_multiple_of(PAGE_SIZE) && !is_reused;
                    if (is_done || self.read == self.written)
                        && let Some(place) = self.place(from)
                    {
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

    /// Moves as much as there is room for from the program into the pipe.
    ///
    /// Advances the buffer. Returns false when no frame is free. The first byte of an empty pipe
    /// may take one of the reserve.
    fn put(&mut self, memory: &UserMemory, buffer: &mut UserBuffer) -> Result<bool, BadAddress> {
        memory.with_space(
            |space| {
                while buffer.length > 0 && self.room() > 0 {
                    let offset = self.written % PAGE_SIZE;
                    let count = buffer.length.min(self.room()).min(PAGE_SIZE - offset);
                    let is_empty = self.length() == 0;
                    let Some(place) = self.make_place(self.written) else {
                        return Ok(false);
                    };
                    if place.is_none() {
                        let frame = if is_empty {
                            Frame::of_reserve()
                        } else {
                            Frame::uninitialised()
                        };
                        let Ok(frame) = frame else {
                            return Ok(false);
                        };
                        *place = Some(frame);
                    }
                    let frame = place.as_mut().expect("just put there");
                    let bytes = &mut frame.bytes_mut()[offset..offset + count];
                    if let Err(bad) = space.read(buffer.address, bytes) {
                        if is_empty {
                            *place = None;
                        }
                        return Err(bad);
                    }
                    self.written += count;
                    buffer.advance(count);
                }
                Ok(true)
            },
            Ok(true),
        )
    }
}

impl State {
    /// Takes the pending read out if what it waits for has come.
    ///
    /// There are more bytes than before, or, with `is_end`, nothing more can be written. The read
    /// is served right here if it is at least as urgent as what brings that, which is of the level
    /// `by`. Else, and if that level is not known, it goes on in a coroutine at its own level (rule
    /// I9).
    fn end_pending_read(&mut self, by: Option<u8>, is_end: bool) -> Option<EndedRead> {
        let pending = self.pending_read.get()?;
        if self.bytes.length() < pending.call.buffer.length && !is_end {
            return None;
        }
        let is_urgent = by.is_some_and(|by| pending.is_as_urgent_as(by));
        let mut pending = self.pending_read.take()?;
        if !is_urgent {
            return Some(pending.leave());
        }
        let wanted = pending.call.buffer.length;
        let PendingRead { reader, call, .. } = &mut pending;
        let taken = self.bytes.take(reader.memory(), &mut call.buffer);
        let result = taken.map(|()| Ok(wanted - pending.call.buffer.length));
        Some(pending.done(result))
    }
}

impl State {
    /// Copies what is written straight into the pending read's buffer, if the read is complete by
    /// that.
    ///
    /// It is if nothing lies in the pipe, both buffers are of the same memory, and the read is
    /// full then or, with `is_end`, nothing more can be written. The caller takes the read out
    /// then. Returns `None` if the read is not complete.
    fn hand_over(
        &mut self,
        memory: &UserMemory,
        data: UserBuffer,
        by: Option<u8>,
        is_end: bool,
    ) -> Option<Result<(), BadAddress>> {
        let pending = self.pending_read.get()?;
        let room = pending.call.buffer.length;
        let is_complete = data.length == room || is_end && data.length < room;
        if !is_complete
            || self.bytes.length() > 0
            || !core::ptr::eq(pending.reader.memory(), memory)
            || !by.is_some_and(|by| pending.is_as_urgent_as(by))
        {
            return None;
        }
        let target = pending.call.buffer.address;
        Some(memory.with_space(
            |space| space.move_within(data.address, target, data.length),
            Ok(()),
        ))
    }
}

impl ReadEnd {
    /// Leaves a read of at most [`CAPACITY`] bytes pending.
    ///
    /// It comes back if it need not wait, or if other reads wait already.
    pub(crate) fn put_pending(&self, pending: PendingRead) -> Option<PendingRead> {
        let mut state = self.0.state.lock();
        let waits = state.bytes.length() < pending.call.buffer.length && self.0.is_written();
        if !waits || state.pending_read.get().is_some() || !self.0.readers.is_empty() {
            return Some(pending);
        }
        state.pending_read.put(pending);
        None
    }

    /// Gives access to where a read waits, to cancel it or to set its level.
    pub(crate) fn with_slot<T>(&self, use_it: impl FnOnce(&mut Slot) -> T) -> T {
        use_it(&mut self.0.state.lock().pending_read)
    }

    /// Fills the buffer.
    ///
    /// Returns earlier, with fewer bytes, only when no write end is left. Takes bytes when it has
    /// as many as it wants, or when the pipe is full. So a read of up to [`CAPACITY`] bytes that is
    /// cancelled has taken none.
    ///
    /// # Errors
    /// When the buffer is not the program's to write.
    pub(crate) async fn read(
        &self,
        memory: &UserMemory,
        mode: WaitMode,
        buffer: &mut UserBuffer,
    ) -> Result<usize, BadAddress> {
        let wanted = buffer.length;
        until(&self.0.readers, mode, |turn| {
            let mut state = self.0.state.lock();
            // Asked once, because the last write end may go at any moment, also between two checks.
            // Then it wakes the waiters.
            let is_written = self.0.is_written();
            if state.bytes.length() >= buffer.length.min(CAPACITY) || !is_written {
                self.0.take(&mut state, memory, buffer)?;
            }
            if buffer.length > 0 && is_written {
                turn.wait(&state);
                return Poll::Pending;
            }
            Poll::Ready(Ok(wanted - buffer.length))
        })
        .await
    }

    /// Reads if that is done without waiting.
    pub(crate) fn read_at_once(
        &self,
        memory: &UserMemory,
        mut buffer: UserBuffer,
    ) -> Option<Result<usize, BadAddress>> {
        let mut state = self.0.state.lock();
        if state.bytes.length() < buffer.length && self.0.is_written() {
            return None;
        }
        let wanted = buffer.length;
        let taken = self.0.take(&mut state, memory, &mut buffer);
        Some(taken.map(|()| wanted - buffer.length))
    }
}

impl WriteEnd {
    /// Writes all of the buffer.
    ///
    /// Fails when no read end is left, or no frame is free.
    ///
    /// # Errors
    /// When the buffer is not the program's to read.
    pub(crate) async fn write(
        &self,
        memory: &UserMemory,
        mode: WaitMode,
        buffer: &mut UserBuffer,
    ) -> Transferred {
        let wanted = buffer.length;
        until(&self.0.writers, mode, |turn| {
            let mut state = self.0.state.lock();
            if !self.0.is_read() {
                return Poll::Ready(Ok(Err(NOT_ALLOWED)));
            }
            let put = self.0.put(&mut state, memory, buffer);
            // Only the executor can tell what level this runs at.
            let ended_read = state.end_pending_read(None, false);
            let polled = match put {
                Err(bad) => Poll::Ready(Err(bad)),
                Ok(false) => Poll::Ready(Ok(Err(NOT_ALLOWED))),
                Ok(true) if buffer.length > 0 => {
                    turn.wait(&state);
                    Poll::Pending
                }
                Ok(true) => Poll::Ready(Ok(Ok(wanted))),
            };
            drop(state);
            EndedRead::finish(ended_read);
            polled
        })
        .await
    }

    /// Writes if that is done without waiting.
    ///
    /// The caller finishes what comes in `ended_read` when it holds no lock.
    pub(crate) fn write_at_once(
        &self,
        memory: &UserMemory,
        mut buffer: UserBuffer,
        writer: Writer,
        ended_read: &mut Option<EndedRead>,
    ) -> Option<Transferred> {
        let mut state = self.0.state.lock();
        if !self.0.is_read() {
            return Some(Ok(Err(NOT_ALLOWED)));
        }
        let wanted = buffer.length;
        let (by, closes) = match writer {
            Writer::At { level, closes } => (Some(level), closes),
            Writer::Anyone => (None, false),
        };
        let is_end = closes && self.0.write_ends.load(Ordering::Relaxed) == 1;
        if let Some(handed) = state.hand_over(memory, buffer, by, is_end) {
            return Some(match handed {
                Ok(()) => {
                    *ended_read = state
                        .pending_read
                        .take()
                        .map(|pending| pending.done(Ok(Ok(wanted))));
                    Ok(Ok(wanted))
                }
                Err(bad) => Err(bad),
            });
        }
        if state.bytes.room() < wanted {
            return None;
        }
        let put = self.0.put(&mut state, memory, &mut buffer);
        *ended_read = state.end_pending_read(by, is_end);
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

// A waiter has checked under the lock. So the last end goes first, then takes the lock, then wakes.
impl Drop for ReadEnd {
    fn drop(&mut self) {
        if self.0.read_ends.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let mut state = self.0.state.lock();
        state.bytes = Bytes::none();
        self.0.writers.wake_all();
    }
}

impl Drop for WriteEnd {
    fn drop(&mut self) {
        if self.0.write_ends.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let mut state = self.0.state.lock();
        let ended_read = state.end_pending_read(None, true);
        self.0.readers.wake_all();
        drop(state);
        EndedRead::finish(ended_read);
    }
}
