//! System-call numbers: the number in `a7`, arguments in `a0` to `a2`, the result in `a0`.
//!
//! Up to 3999 numbers, arguments and results are those of rCore-Tutorial-v3 (chapter 8), so that its programs run here;
//! from 4000 on they are ours. A call fails with [`FAILED`] unless its description names other values; a number that the
//! kernel does not know gives [`NOT_IMPLEMENTED`]. A bad pointer ends the process with the exit code
//! [`MEMORY_FAULT`](crate::exit_code::MEMORY_FAULT), and a message.

/// Result of a call that failed.
pub const FAILED: isize = -1;
/// Result of [`WAITPID`] and [`WAITTID`] while the process or thread waited for still runs.
pub const STILL_RUNNING: isize = -2;
/// Result of a system call that does not exist (Linux's `-ENOSYS`).
pub const NOT_IMPLEMENTED: isize = -38;

/// `dup(fd) -> fd`
pub const DUP: usize = 24;
/// `open(path: *const u8 (NUL-terminated), flags: u32) -> fd`: a file of the system's archive, for reading; `flags` is 0.
pub const OPEN: usize = 56;
/// `close(fd) -> 0`
pub const CLOSE: usize = 57;
/// `pipe(ends: *mut [usize; 2]) -> 0`: read end first.
pub const PIPE: usize = 59;
/// `read(fd, buffer, length) -> bytes`. On a pipe: returns when the buffer is full or every write end is closed.
pub const READ: usize = 63;
/// `write(fd, buffer, length) -> bytes`
pub const WRITE: usize = 64;
/// `exit(code: i32)`: ends the calling thread; from the main thread, the process.
pub const EXIT: usize = 93;
/// `sleep(milliseconds) -> 0`
pub const SLEEP: usize = 101;
/// `yield() -> 0`
pub const YIELD: usize = 124;
/// `kill(pid, signal: u32) -> 0`. A signal from 1 to 31, or a mask of 32 or more with the bit of one such signal, ends the process
/// with the exit code -signal; 0 only asks whether the process exists. [`FAILED`] for any other, and when the process has ended or
/// never was.
pub const KILL: usize = 129;
/// `get_time() -> milliseconds since boot`
pub const GET_TIME: usize = 169;
/// `getpid() -> pid`
pub const GETPID: usize = 172;
/// `fork() -> 0 in the child, its pid in the parent`
pub const FORK: usize = 220;
/// `exec(path: *const u8, args: *const *const u8 (NULL-terminated)) -> argc`
pub const EXEC: usize = 221;
/// `waitpid(pid or -1, exit_code: *mut i32 or null) -> pid`, [`FAILED`] without such a child, or [`STILL_RUNNING`]. Never blocks.
pub const WAITPID: usize = 260;
/// `thread_create(entry, argument) -> tid`
pub const THREAD_CREATE: usize = 1000;
/// `gettid() -> tid`
pub const GETTID: usize = 1001;
/// `waittid(tid) -> exit code`, [`FAILED`] without such a thread, or [`STILL_RUNNING`]. Never blocks.
pub const WAITTID: usize = 1002;
/// `mutex_create(blocking: bool) -> id`
pub const MUTEX_CREATE: usize = 1010;
/// `mutex_lock(id) -> 0`
pub const MUTEX_LOCK: usize = 1011;
/// `mutex_unlock(id) -> 0`
pub const MUTEX_UNLOCK: usize = 1012;
/// `semaphore_create(permits) -> id`
pub const SEMAPHORE_CREATE: usize = 1020;
/// `semaphore_up(id) -> 0`
pub const SEMAPHORE_UP: usize = 1021;
/// `semaphore_down(id) -> 0`
pub const SEMAPHORE_DOWN: usize = 1022;
/// `condvar_create() -> id`
pub const CONDVAR_CREATE: usize = 1030;
/// `condvar_signal(id) -> 0`
pub const CONDVAR_SIGNAL: usize = 1031;
/// `condvar_wait(id, mutex) -> 0`
pub const CONDVAR_WAIT: usize = 1032;

/// `sbrk(bytes: isize) -> the old end of the heap`, or [`FAILED`]. Whole pages are mapped; `sbrk(0)` asks.
pub const SBRK: usize = 214;

/// `ring_setup(entries: usize) -> address of the` [`RingHeader`](crate::ring::RingHeader). `entries` is a power of two from
/// 1 to 4096. Once per process; [`FAILED`] the second time.
pub const RING_SETUP: usize = 4000;
/// `ring_enter(wait_for: usize) -> completions that are ready`. Serves every entry of the submission ring, then blocks until
/// at least `wait_for` completions are ready (0: never blocks) or the deadline in the ring's header has passed.
pub const RING_ENTER: usize = 4001;
/// `wait_mode(mode: usize) -> the mode before`: how this process's threads wait inside blocking calls: [`WAIT_BLOCK`] or
/// [`WAIT_YIELD`].
pub const WAIT_MODE: usize = 4002;
/// `wait_thread(tid) -> exit code`: as [`WAITTID`], but waits.
pub const WAIT_THREAD: usize = 4003;
/// `wait_process(pid or -1, exit_code: *mut i32) -> pid`: as [`WAITPID`], but waits.
pub const WAIT_PROCESS: usize = 4004;
/// `frames_free() -> free 4 KiB frames of physical memory`
pub const FRAMES_FREE: usize = 4005;

/// `ring_cancel(key) -> `[`RING_CANCELLED`] or [`RING_COMPLETED`]: ends the asynchronous call that was submitted under `key`. When it
/// returns, the kernel does not touch the call's buffer any more. [`FAILED`] if no such call is under way: it has
/// completed, or is still in the submission ring.
///
/// - [`RING_CANCELLED`]: it has done nothing, and no completion comes: a read has taken no byte, a lock is not held, a signal
///   of a condition variable went to another waiter if it had come already. A wait for a condition variable has
///   unlocked its mutex and does not hold it.
/// - [`RING_COMPLETED`]: it was done, and its completion is in the ring; or it had transferred a part of its bytes, and the
///   completion says how many.
///
/// What is linked behind the call goes on. Only for threads: not in a submission ring.
pub const RING_CANCEL: usize = 4010;
/// `ring_reprioritize(key, level) -> 0`: from now on the kernel serves the call that was submitted under `key` at this level
/// (64 and more: 63). [`FAILED`] as in [`RING_CANCEL`]. In a submission ring as well, where it takes effect with the next
/// [`RING_ENTER`].
pub const RING_REPRIORITIZE: usize = 4011;

/// Result of [`RING_CANCEL`]: the call has done nothing.
pub const RING_CANCELLED: isize = 0;
/// Result of [`RING_CANCEL`]: the call has completed.
pub const RING_COMPLETED: isize = 1;

/// A thread that waits sleeps in the kernel until what it waits for has happened.
pub const WAIT_BLOCK: usize = 0;
/// A thread that waits stays ready and asks again each time it gets the hart, as in rCore-Tutorial-v3 and the seeds' papers.
pub const WAIT_YIELD: usize = 1;
