//! The calls that can wait, each declared once for threads and for coroutines (COPS, section
//! 4.3.1).
//!
//! A declaration gives a function that blocks the thread, a function that returns a future, and a
//! macro with both forms:
//!
//! ```no_run
//! # async fn example(file: usize, mut buffer: Vec<u8>) {
//! use corank_user::{corank, read};
//!
//! read!(file, &mut buffer).expect("it is open");
//!
//! let this = corank::current().expect("a coroutine");
//! let (count, buffer) = read!(file, buffer, 7, this).await;
//! # }
//! ```
//!
//! `key` is the number by which the kernel and the process know the call. It is below 2⁶³, and no
//! other call of this form may use it. The coroutine `cid` is woken when the call is done. Until
//! then the kernel serves the call at the live level of that coroutine, which usually is the one
//! that awaits. [`crate::ring`], [`crate::time`] and [`crate::sync`] have the same futures in the
//! form of Rust's libraries.
use corank_abi::call::{
    ACCEPT, CONDVAR_WAIT, MUTEX_LOCK, MUTEX_UNLOCK, READ, SEMAPHORE_DOWN, SEMAPHORE_UP, SLEEP,
    TCP_CONNECT, WAIT_PROCESS, WAIT_THREAD, WRITE,
};
use corank_macros::async_fn;

use crate::raw::Error;

/// Reads into `buffer` from the file with this descriptor, and returns how many bytes came.
///
/// On a pipe this waits until the buffer is full or every write end is closed.
///
/// # Errors
/// The descriptor isn't open for reading.
#[async_fn(READ)]
pub fn read(file: usize, buffer: &mut [u8]) -> Result<usize, Error>;

/// Writes `data` to the file with this descriptor, and returns how many bytes were taken.
///
/// Waits while a pipe is full.
///
/// # Errors
/// The descriptor isn't open for writing, or a pipe has no read end any more.
#[async_fn(WRITE)]
pub fn write(file: usize, data: &[u8]) -> Result<usize, Error>;

/// Sleeps at least so many milliseconds.
///
/// # Errors
/// The kernel has no memory for another asynchronous call.
#[async_fn(SLEEP)]
pub fn sleep(milliseconds: usize) -> Result<usize, Error>;

/// Waits until the child `pid` has ended, and returns its number; `usize::MAX` is any child.
///
/// Its exit code goes to `code`.
///
/// # Errors
/// There is no such child, or it has been waited for already.
#[async_fn(WAIT_PROCESS)]
pub fn waitpid(pid: usize, code: &mut i32) -> Result<usize, Error>;

/// Waits until the thread `tid` of this process has ended, and returns its exit code.
///
/// A negative one comes back as an error.
///
/// # Errors
/// There is no such thread, or it has been waited for already.
#[async_fn(WAIT_THREAD)]
pub fn waittid(tid: usize) -> Result<usize, Error>;

/// Locks a mutex of the kernel.
///
/// # Errors
/// There is no such mutex.
#[async_fn(MUTEX_LOCK, undo = MUTEX_UNLOCK(mutex))]
pub fn mutex_lock(mutex: usize) -> Result<usize, Error>;

/// Takes a permit of a semaphore of the kernel.
///
/// # Errors
/// There is no such semaphore.
#[async_fn(SEMAPHORE_DOWN, undo = SEMAPHORE_UP(semaphore))]
pub fn semaphore_down(semaphore: usize) -> Result<usize, Error>;

/// Unlocks a mutex of the kernel, waits for a signal of a condition variable, and locks the mutex
/// again.
///
/// A future that is dropped after its first poll leaves the mutex unlocked, whatever it was waiting
/// for. A signal that came goes to another waiter.
///
/// # Safety
/// The caller holds the mutex, which is not held by a guard of [`crate::sync`]. A future that is
/// dropped between its first poll and its completion has given that hold up.
///
/// # Errors
/// There is no such condition variable or mutex, or the mutex is not locked. The call has had no
/// effect.
#[async_fn(CONDVAR_WAIT, payload = crate::ring::Signal)]
pub unsafe fn condvar_wait(condition: usize, mutex: usize) -> Result<usize, Error>;

/// Takes the oldest connection that waits at a listener, and returns its descriptor.
///
/// Waits until there is one.
///
/// # Errors
/// The descriptor is not a listener, the process has too many files open, or the listener's wait
/// limit has passed.
#[async_fn(ACCEPT, payload = crate::ring::Opened)]
pub fn accept(listener: usize) -> Result<usize, Error>;

/// Connects to a TCP port, and returns the connection's descriptor.
///
/// The first byte of the IPv4 address is the most significant. The other side has `limit`
/// milliseconds to answer, where 0 is 20 seconds.
///
/// # Errors
/// Nothing listens or answers there, there is no way to the address, or the kernel has no room for
/// another socket.
#[async_fn(TCP_CONNECT, payload = crate::ring::Opened)]
pub fn tcp_connect(address: usize, port: usize, limit: usize) -> Result<usize, Error>;
