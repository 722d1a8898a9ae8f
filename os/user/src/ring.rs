//! Asynchronous system calls, which suspend the coroutine that makes them, and nothing else (COPS,
//! section 4.3).
//!
//! A coroutine that awaits a call writes one entry into the submission ring, without entering the
//! kernel. The executor (see [`crate::runtime`]) polls the other coroutines first and then enters
//! once for all their calls. A completion has the key of its call, by which the waker is found, and
//! the coroutine goes on.
//!
//! Each thread that makes such calls has rings of its own, up to [`WORKERS`](crate::page::WORKERS)
//! threads of a process at a time.
//!
//! # Buffers
//! A call owns the buffer that it works on, and gives it back with the result. It can't borrow one,
//! because a future may be leaked, and then no destructor runs that could take the buffer back from
//! the kernel. One that is leaked keeps its buffer, so the kernel never writes into memory that has
//! another owner by then.
//!
//! # Cancelling
//! Dropping a future cancels its call. When the drop returns, the kernel doesn't touch the buffer
//! any more. A call that the kernel hasn't seen is cancelled without a kernel entry, any other with
//! one. Then the call
//!
//! - has done nothing: a read of up to 64 KiB from a pipe has taken no byte, a lock isn't held, a
//!   signal went to another waiter;
//! - or it had been done before: a lock is released again, and what else it did is lost with its
//!   result, as when any future is dropped after it was ready. [`AsyncCall::cancel`] returns that
//!   result instead.
//!
//! # Urgency
//! The kernel serves a call at the live level of the coroutine that waits (rule I9). If that
//! changes, the kernel learns of a more urgent level at once, and of a less urgent one when it is
//! entered next.
mod backlog;
mod call;
mod node;
mod payload;
mod shared;

use alloc::vec::Vec;

use corank_abi::call::PIPE;

pub use call::{AsyncCall, Ended, NamedCall};
pub use payload::{Code, Data, Fill, Opened, Payload, Plain, Signal, Undo};
pub use shared::ENTRIES;
pub(crate) use shared::Ring;

use crate::calls;
use crate::io::{OwnedFd, Pipe};
use crate::process::{Exited, Pid};
use crate::raw::Error;
use payload::Ends;

/// What a call on a buffer comes to: how many bytes, and the buffer.
pub type Transferred = (Result<usize, Error>, Vec<u8>);

/// Creates many pipes with few kernel entries: one for each [`ENTRIES`] of them.
///
/// # Errors
/// The process has too many descriptors, or the kernel no memory. Those that were made are closed
/// again.
pub async fn pipes(count: usize) -> Result<Vec<Pipe>, Error> {
    let mut pipes = Vec::with_capacity(count);
    while pipes.len() < count {
        let batch = (count - pipes.len()).min(ENTRIES as usize);
        let ends = Ends(alloc::vec![[0; 2]; batch]);
        let made = AsyncCall::new(PIPE, [0; 3], ends).repeated(batch as u32);
        let (result, ends) = made.await;
        // No pipe has descriptor 0 at both ends: where the kernel has written none, it has made
        // none.
        pipes.extend(
            ends.into_iter()
                .filter(|ends| *ends != [0, 0])
                .map(Pipe::from_numbers),
        );
        result?;
    }
    Ok(pipes)
}

/// Returns how many asynchronous calls of this thread have been made and are not over.
///
/// Their futures have neither ended nor been dropped. A call with a leaked future counts for ever.
/// For tests that nothing is left; checks each call that is over.
#[must_use]
pub fn not_over() -> usize {
    crate::local::block().ring.get().map_or(0, Ring::not_over)
}

/// Reads into `buffer`, from its start and up to its capacity, and sets its length to the bytes
/// that came.
///
/// On a pipe this waits until the buffer is full or every write end is closed.
///
/// # Errors
/// The descriptor isn't open for reading.
pub fn read(file: &OwnedFd, buffer: Vec<u8>) -> impl Future<Output = Transferred> {
    calls::read_async(file.number(), buffer)
}

/// Reads as [`read`](fn@read) does, and closes the file, in one submission.
///
/// The file is closed as well if the read fails or the future is dropped.
///
/// # Errors
/// As [`read`](fn@read).
pub fn read_and_close(file: OwnedFd, buffer: Vec<u8>) -> impl Future<Output = Transferred> {
    calls::read_async(file.into_number(), buffer).then_close()
}

/// Writes `data`.
///
/// Waits while a pipe is full. Dropped, it may have written a part.
///
/// # Errors
/// The descriptor isn't open for writing, or a pipe has no read end any more.
pub fn write(file: &OwnedFd, data: Vec<u8>) -> impl Future<Output = Transferred> {
    calls::write_async(file.number(), data)
}

/// Writes `data` and then closes the file, in one submission.
///
/// Returns when the data is written. The kernel may close the file later. The file is closed as
/// well if the write fails or the future is dropped.
///
/// # Errors
/// As [`write`](fn@write).
pub fn write_and_close(file: OwnedFd, data: Vec<u8>) -> impl Future<Output = Transferred> {
    calls::write_async(file.into_number(), data).then_close()
}

/// Asks the kernel to close the file the next time that it is entered.
///
/// Dropping an [`OwnedFd`] closes it at once, with a kernel entry of its own.
pub fn close(file: OwnedFd) {
    Ring::here().submit_silent(shared::request_to_close(file.into_number()));
}

/// Waits until the child `pid` has ended.
///
/// # Errors
/// There is no such child, or it has been waited for already.
pub async fn wait_process(pid: Pid) -> Result<Exited, Error> {
    let (pid, code) = calls::waitpid_async(pid).await?;
    Ok(Exited { pid, code })
}

/// Waits until the thread `tid` of this process has ended, and returns its exit code.
///
/// # Errors
/// There is no such thread, or it has been waited for already.
pub async fn wait_thread(tid: crate::thread::Tid) -> Result<isize, Error> {
    let code = calls::waittid_async(tid).await?;
    Ok(code as isize)
}

/// Sleeps at least this long, in whole milliseconds, in the kernel.
///
/// [`corank::time::sleep`] sleeps in the executor, without a call.
///
/// # Errors
/// The kernel has no memory for another asynchronous call.
pub async fn sleep(duration: core::time::Duration) -> Result<(), Error> {
    let milliseconds = duration.as_nanos().div_ceil(1_000_000);
    let milliseconds = usize::try_from(milliseconds).unwrap_or(usize::MAX);
    calls::sleep_async(milliseconds).await.map(|_| ())
}
