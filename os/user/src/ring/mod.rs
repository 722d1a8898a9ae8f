//! Asynchronous system calls (seed 002, section 4.3): they suspend the coroutine that makes them, and nothing else.
//!
//! A coroutine that awaits a call writes one entry into the submission ring; nothing enters the kernel. The executor (see
//! [`crate::runtime`]) polls the other coroutines first and then enters once for all that they have asked. A completion bears
//! the key of its call, finds the waker under it, and the coroutine goes on.
//!
//! These functions work in coroutines of one thread of each process, the one that made the first of these calls: the kernel gives a
//! process one pair of rings.
//!
//! # Buffers
//! The kernel writes into a buffer whenever it completes the call, so the buffer has to stay until then, even when the future
//! that waits is dropped. A borrowed buffer can't promise that: a future may be leaked, and then no destructor runs that could
//! wait. So buffers are passed in by value and handed back with the result, as in io_uring libraries. A dropped future leaves its
//! buffer behind in the table of calls until the kernel is done with it.
//!
//! # Cancelling
//! Dropping a future before the executor has entered the kernel takes the call back. Later the call goes on without anyone
//! waiting: a read that was abandoned still takes bytes out of its pipe.
mod shared;

use alloc::vec::Vec;
use core::pin::Pin;
use core::task::{Context, Poll};

use corank_abi::call;

pub use shared::ENTRIES;
pub(crate) use shared::{Operation, Request, Ring};

use crate::io::{OwnedFd, Pipe};
use crate::process::{Exited, Pid};
use crate::raw::{Error, check};

/// What a call on a buffer comes to: how many bytes, and the buffer.
pub type Transferred = (Result<usize, Error>, Vec<u8>);

/// A future of a call's bare result and its buffer.
struct Call(Operation);

impl Future for Call {
    type Output = (isize, Vec<u8>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(context)
    }
}

fn call(number: usize, arguments: [usize; 3], then: Option<Request>, buffer: Vec<u8>) -> Call {
    Call(Operation::new(
        Request {
            call: number,
            arguments,
        },
        then,
        buffer,
    ))
}

fn request_to_close(file: OwnedFd) -> Request {
    Request {
        call: call::CLOSE,
        arguments: [file.into_number(), 0, 0],
    }
}

/// Creates many pipes with few kernel entries: one for each [`ENTRIES`] of them.
///
/// # Errors
/// The process has too many descriptors, or the kernel no memory. Those that were made are closed again.
pub async fn pipes(count: usize) -> Result<Vec<Pipe>, Error> {
    /// Bytes that the kernel writes for each pipe.
    const ENDS: usize = size_of::<[usize; 2]>();
    let mut pipes = Vec::with_capacity(count);
    while pipes.len() < count {
        let batch = (count - pipes.len()).min(ENTRIES as usize);
        let mut ends = alloc::vec![0; batch * ENDS];
        let request = Request {
            call: call::PIPE,
            arguments: [ends.as_mut_ptr().expose_provenance(), 0, 0],
        };
        let (result, ends) = Call(Operation::repeated(request, batch as u32, ENDS, ends)).await;
        let (numbers, _) = ends.as_chunks().0.as_chunks();
        // No pipe has descriptor 0 at both ends: where the kernel has written none, it has made none.
        let made = numbers
            .iter()
            .map(|ends| ends.map(usize::from_le_bytes))
            .filter(|ends| *ends != [0, 0]);
        pipes.extend(made.map(Pipe::from_numbers));
        check(result)?;
    }
    Ok(pipes)
}

/// Reads into `buffer`, from its start and up to its capacity, and sets its length to the bytes that came. On a pipe this waits
/// until the buffer is full or every write end is closed.
///
/// # Errors
/// The descriptor isn't open for reading.
pub async fn read(file: &OwnedFd, mut buffer: Vec<u8>) -> Transferred {
    buffer.clear();
    let arguments = [
        file.number(),
        buffer.as_mut_ptr().expose_provenance(),
        buffer.capacity(),
    ];
    let (result, mut buffer) = call(call::READ, arguments, None, buffer).await;
    let result = check(result);
    // SAFETY: the kernel has written so many bytes, and never more than the capacity that it was told.
    unsafe { buffer.set_len(result.unwrap_or(0)) };
    (result, buffer)
}

/// Writes `data`. Waits while a pipe is full.
///
/// # Errors
/// The descriptor isn't open for writing, or a pipe has no read end any more.
pub async fn write(file: &OwnedFd, data: Vec<u8>) -> Transferred {
    write_then(file.number(), data, None).await
}

/// Writes `data` and then closes the file, in one submission. Returns when the data is written; whether the kernel has closed the
/// file by then isn't said. The file is closed as well if the write fails or the future is dropped.
///
/// # Errors
/// As [`write`](fn@write).
pub async fn write_and_close(file: OwnedFd, data: Vec<u8>) -> Transferred {
    // From here to the submission nothing can suspend or fail, so the descriptor isn't lost.
    let number = file.number();
    write_then(number, data, Some(request_to_close(file))).await
}

async fn write_then(file: usize, data: Vec<u8>, then: Option<Request>) -> Transferred {
    let arguments = [file, data.as_ptr().expose_provenance(), data.len()];
    let (result, data) = call(call::WRITE, arguments, then, data).await;
    (check(result), data)
}

/// Asks the kernel to close the file the next time that it is entered. Dropping an [`OwnedFd`] closes it at once, with a kernel
/// entry of its own.
pub fn close(file: OwnedFd) {
    Ring::here().submit_silent(request_to_close(file));
}

/// Waits until the child `pid` has ended.
///
/// # Errors
/// There is no such child, or it has been waited for already.
pub async fn wait_process(pid: Pid) -> Result<Exited, Error> {
    let mut buffer = alloc::vec![0; size_of::<i32>()];
    let arguments = [pid, buffer.as_mut_ptr().expose_provenance(), 0];
    let (result, buffer) = call(call::WAIT_PROCESS, arguments, None, buffer).await;
    let pid = check(result)?;
    let code = buffer
        .first_chunk()
        .map_or(0, |bytes| i32::from_le_bytes(*bytes));
    Ok(Exited { pid, code })
}

/// Waits until the thread `tid` of this process has ended, and returns its exit code.
///
/// # Errors
/// There is no such thread, or it has been waited for already.
pub async fn wait_thread(tid: crate::thread::Tid) -> Result<isize, Error> {
    let (result, _) = call(call::WAIT_THREAD, [tid, 0, 0], None, Vec::new()).await;
    check(result).map(|code| code as isize)
}
