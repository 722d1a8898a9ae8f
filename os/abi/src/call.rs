//! System-call numbers: the number in `a7`, arguments in `a0` to `a2`, the result in `a0`.
//!
//! Up to 3999 numbers, arguments and results are those of rCore-Tutorial-v3 (chapter 8), so that
//! its programs run here; from 4000 on they are ours. A call fails with [`FAILED`] unless its
//! description names other values; a number that the kernel does not know gives
//! [`NOT_IMPLEMENTED`]. A bad pointer ends the process with the exit code
//! [`MEMORY_FAULT`](crate::exit_code::MEMORY_FAULT), and a message.

/// Result of a call that failed.
pub const FAILED: isize = -1;
/// Result of [`WAITPID`] and [`WAITTID`] while the process or thread waited for still runs.
pub const STILL_RUNNING: isize = -2;
/// Result of a system call that does not exist (Linux's `-ENOSYS`).
pub const NOT_IMPLEMENTED: isize = -38;

/// `dup(fd) -> fd`
pub const DUP: usize = 24;
/// `connect(address: u32, local port: u16, remote port: u16) -> fd`: UDP between a port here and
/// one there. The first byte of the IPv4 address is the most significant. Each read gives one
/// datagram from there, cut off if it is longer than the buffer; each write sends one.
pub const UDP_CONNECT: usize = 29;
/// `listen(port: u16) -> fd`: as [`TCP_LISTEN`] with a backlog of [`BACKLOG`](crate::net::BACKLOG),
/// and [`FAILED`] for every error.
pub const LISTEN: usize = 30;
/// `accept(listener) -> fd`: waits for a connection. Or an [`error`](crate::error).
pub const ACCEPT: usize = 31;
/// `unlinkat(directory, path: *const u8 (NUL-terminated), flags: u32) -> 0`: removes a file that
/// no process has open. The directory does not matter, and `flags` is 0.
pub const UNLINKAT: usize = 35;
/// `linkat(…)`: [`FAILED`]; the file system has no second names.
pub const LINKAT: usize = 37;
/// `open(path: *const u8 (NUL-terminated), flags: u32) -> fd`: 0 for reading, 1 for writing, any
/// other value for both; bit 9 makes the file, or empties it if it is there; bit 10 empties it. A
/// file that is not on the disk, and not to be made, is looked for in the system's archive, for
/// reading.
pub const OPEN: usize = 56;
/// `close(fd) -> 0`, or an [`error`](crate::error) if what was written could not be kept. The
/// descriptor is closed in any case.
pub const CLOSE: usize = 57;
/// `pipe(ends: *mut [usize; 2]) -> 0`: read end first.
pub const PIPE: usize = 59;
/// `read(fd, buffer, length) -> bytes`. On a pipe: returns when the buffer is full or every write
/// end is closed. On a file of the disk: an [`error`](crate::error) if it cannot be read.
pub const READ: usize = 63;
/// `write(fd, buffer, length) -> bytes`. On a file of the disk: fewer if the disk is full by then,
/// and an [`error`](crate::error) if not even one byte could be written.
pub const WRITE: usize = 64;
/// `fstat(fd, status: *mut` [`Stat`](crate::file::Stat)`) -> 0`: of a file on the disk.
pub const FSTAT: usize = 80;
/// `exit(code: i32)`: ends the calling thread; from the main thread, the process.
pub const EXIT: usize = 93;
/// `sleep(milliseconds) -> 0`
pub const SLEEP: usize = 101;
/// `yield() -> 0`
pub const YIELD: usize = 124;
/// `kill(pid, signals: u32) -> 0`: ends the process with the exit code -signal. `signals` is a mask
/// as in rCore-Tutorial-v3's chapter 8: some of the bits 2 (SIGINT), 4, 6, 8 and 11, of which the
/// lowest counts. Anything else is, as in its chapter 7, a number from 1 to 31, or a mask of 32 or
/// more with one bit. So 4, 16 and 20 are masks; the signals with these numbers are `1 << 4`,
/// `1 << 16` and `1 << 20`. 0 only asks whether the process exists. A negative pid means all
/// processes of the group with this number that belongs to the caller. [`FAILED`] for any other
/// signal, when the process has ended or never was, and when the caller [may not act on
/// it](crate::rights).
pub const KILL: usize = 129;
/// `get_time() -> milliseconds since boot`
pub const GET_TIME: usize = 169;
/// `getpid() -> pid`
pub const GETPID: usize = 172;
/// `fork() -> 0 in the child, its pid in the parent`. The child has no mutexes, semaphores and
/// condition variables, and those that it makes get other numbers than its parent's.
pub const FORK: usize = 220;
/// `exec(path: *const u8, args: *const *const u8 (NULL-terminated)) -> argc`
pub const EXEC: usize = 221;
/// `waitpid(pid or -1, exit_code: *mut i32 or null) -> pid`, [`FAILED`] without such a child, or
/// [`STILL_RUNNING`]. Never blocks.
pub const WAITPID: usize = 260;
/// `thread_create(entry, argument) -> tid`: the thread begins at `entry`, with `argument` and its
/// own number in its first two registers. [`FAILED`] without memory for it, or when 32,768
/// threads of the process run or have ended and were not waited for.
pub const THREAD_CREATE: usize = 1000;
/// `gettid() -> tid`
pub const GETTID: usize = 1001;
/// `waittid(tid) -> exit code`, [`FAILED`] without such a thread, or [`STILL_RUNNING`]. Never
/// blocks.
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

/// `sbrk(bytes: isize) -> the old end of the heap`, or [`FAILED`]. Whole pages are mapped;
/// `sbrk(0)` asks.
pub const SBRK: usize = 214;

/// `ring_setup(entries: usize) -> address of the` [`RingHeader`](crate::ring::RingHeader).
/// `entries` is a power of two from 1 to 4096. The calling thread becomes a worker, as by
/// [`WORKER`]. Once per worker; [`FAILED`] the second time.
pub const RING_SETUP: usize = 4000;
/// `ring_enter(wait_for: usize) -> completions that are ready`. Serves every entry of the
/// submission ring, then blocks until at least `wait_for` completions are ready (0: never blocks),
/// the deadline in the ring's header has passed, or a user-level interrupt is due.
pub const RING_ENTER: usize = 4001;
/// `wait_mode(mode: usize) -> the mode before`: how this process's threads wait inside blocking
/// calls: [`WAIT_BLOCK`] or [`WAIT_YIELD`].
pub const WAIT_MODE: usize = 4002;
/// `wait_thread(tid) -> exit code`: as [`WAITTID`], but waits.
pub const WAIT_THREAD: usize = 4003;
/// `wait_process(pid or -1, exit_code: *mut i32) -> pid`: as [`WAITPID`], but waits.
pub const WAIT_PROCESS: usize = 4004;
/// `frames_free() -> free 4 KiB frames of physical memory`
pub const FRAMES_FREE: usize = 4005;
/// `grant(pid, levels: u64) -> 0`: takes every level that is not in the set `levels` (bit *i* is
/// level *i*) from what the caller, or a child of it, may claim. What a process claims beyond its
/// grant counts as the next level that it was granted, 63 if there is none. Nothing ever comes
/// back; children have at first what their parent has. A process that loses a level loses the right
/// [`MACHINE`](crate::rights::MACHINE) with it.
pub const GRANT: usize = 4006;
/// `global(mode) -> the mode before`: how much the harts that run this process care for what is
/// more urgent elsewhere, [`GLOBAL_RELAXED`] (at first) or [`GLOBAL_STRICT`]. Children have at
/// first what their parent has.
pub const GLOBAL: usize = 4007;
/// `harts() -> how many harts run coroutines and programs`
pub const HARTS: usize = 4008;
/// `restrict(pid, rights) -> 0`: takes every [right](crate::rights) that is not in the set `rights`
/// from the caller or a child of it. Nothing ever comes back. [`FAILED`] if `pid` is neither.
pub const RESTRICT: usize = 4009;

/// `memory_limit(bytes) -> the limit from now on`: what the calling process and the children that
/// it forks from now on may take of the kernel's heap together: threads, files, sockets, calls
/// under way and the like, not the pages of their memory. A limit can be lowered and never raised.
/// What is there already stays; further calls fail for want of memory until enough of it is gone.
/// [`FAILED`] if sixteen ancestors have limits of their own.
pub const MEMORY_LIMIT: usize = 4017;

/// `ring_cancel(key) -> `[`RING_CANCELLED`] or [`RING_COMPLETED`]: ends the asynchronous call that
/// was submitted under `key`. When it returns, the kernel does not touch the call's buffer any
/// more. [`FAILED`] if no such call is under way: it has completed, or is still in the submission
/// ring.
///
/// - [`RING_CANCELLED`]: it has done nothing, and no completion comes: a read has taken no byte, a
///   lock is not held, a signal of a condition variable went to another waiter if it had come
///   already. A wait for a condition variable has unlocked its mutex and does not hold it.
/// - [`RING_COMPLETED`]: it was done, and its completion is in the ring; or it had transferred a
///   part of its bytes, and the completion says how many.
///
/// A call that works on the disk is not interrupted: it completes. What is linked behind the call
/// goes on. Only for threads: not in a submission ring.
pub const RING_CANCEL: usize = 4010;
/// `ring_reprioritize(key, level) -> 0`: from now on the kernel serves the call that was submitted
/// under `key` at this level (64 and more: 63). [`FAILED`] as in [`RING_CANCEL`]. In a submission
/// ring as well, where it takes effect with the next [`RING_ENTER`].
pub const RING_REPRIORITIZE: usize = 4011;

/// `calls_made() -> how many system calls the process's threads have made`, this one included.
pub const CALLS_MADE: usize = 4012;
/// `fault(kind, step) -> steps that were left`: for tests. [`NOT_IMPLEMENTED`] but in a kernel with
/// the feature `faults`. Something fails on purpose, at the `step`th time from now on at which it
/// could; 0 is never. The result tells 0 when a fault that was asked for has happened. `kind` is
/// [`FAULT_END`], [`FAULT_MEMORY`], [`FAULT_SLOW_END`], [`FAULT_FRAME`], [`FAULT_HEAP`] or
/// [`FAULT_SILENCE`], which has a third argument; [`FAILED`] for any other, and without the right
/// [`MACHINE`](crate::rights::MACHINE).
pub const FAULT: usize = 4013;

/// Kind of [`FAULT`]: the process ends with the exit code -9, before a step of the kernel's work
/// for it: a system call, a submission, a poll of what serves an asynchronous call, a completion.
pub const FAULT_END: usize = 0;
/// Kind of [`FAULT`]: an allocation fails that the kernel makes for a program. Allocations for
/// other programs count as well.
pub const FAULT_MEMORY: usize = 1;
/// Kind of [`FAULT`]: [`FAULT_END`] by a hart that is slow at it. It says that the process ends,
/// and cancels what is under way only when the process is gone, or 2 seconds are over: its threads
/// have to notice by themselves, on other harts. [`FAILED`] where one hart serves.
pub const FAULT_SLOW_END: usize = 2;
/// Kind of [`FAULT`]: a bit of a frame from the network card is another one than was sent. Frames
/// that are too short for data don't count.
pub const FAULT_FRAME: usize = 3;
/// Kind of [`FAULT`], with a port as the third argument: from that step on all TCP segments are
/// lost on their way here that go to the port or come from it. So each side of such a connection
/// has a peer that has fallen silent. 0 steps end the silence.
pub const FAULT_SILENCE: usize = 4;
/// Kind of [`FAULT`], with 1 as `step`: the kernel's heap is full from now on, but for its reserve;
/// with 0 it has room again. Ends with the process.
pub const FAULT_HEAP: usize = 5;

/// `quiesce() -> 0`: returns when every hart is through with what the kernel did there when this
/// was called. So what an ended process leaves behind for a moment, on another hart, is gone.
/// What the scheduler keeps of the memory of coroutines that are gone goes back to the kernel's
/// heap. For tests, and only for threads; [`FAILED`] without the right
/// [`MACHINE`](crate::rights::MACHINE).
pub const QUIESCE: usize = 4014;

/// `harts_limit(harts) -> the limit before`: from now on so many harts, at least 1, run coroutines
/// and programs; the others rest, but for interrupts. [`FAILED`] without the right
/// [`MACHINE`](crate::rights::MACHINE). For tests and measurements, and only for threads.
pub const HARTS_LIMIT: usize = 4015;

/// `worker() -> number`: the calling thread is one of the process's [workers](crate::page::WORKERS)
/// from now on, the one with this number, until it ends. Its [page](crate::page::worker_page) is
/// there then. [`FAILED`] when there are [`WORKERS`](crate::page::WORKERS) already, or no memory.
/// The same number each time.
pub const WORKER: usize = 4016;

/// `yield_to(tid) -> 0`: yields as [`YIELD`] does, and lends the caller's level to a thread of the
/// process that is less urgent. That thread keeps it until it yields, or the clock's next tick
/// interrupts it, and no longer than until another thread of the process gets a loan. [`FAILED`]
/// without such a thread, when it has ended, and for the caller itself; the caller has yielded even
/// so.
pub const YIELD_TO: usize = 4018;

/// Result of [`RING_CANCEL`]: the call has done nothing.
pub const RING_CANCELLED: isize = 0;
/// Result of [`RING_CANCEL`]: the call has completed.
pub const RING_COMPLETED: isize = 1;

/// `upcall_setup(handler, block) -> 0`: from now on the calling thread takes user-level interrupts
/// (see [`crate::upcall`]), at `handler`; `block` is the address of its
/// [`Block`](crate::upcall::Block). A `handler` of 0 ends that. The thread becomes a worker, as by
/// [`WORKER`]; [`FAILED`] if it can't. The addresses are used when an interrupt comes: bad ones end
/// the process then.
pub const UPCALL_SETUP: usize = 4020;
/// `upcall_return(frame)`: the registers become those of the [`Frame`](crate::upcall::Frame) and
/// interrupts are unmasked, in one step. If one was deferred, the handler is entered again first.
pub const UPCALL_RETURN: usize = 4021;
/// `upcall_raise(worker) -> 0`: interrupts this worker, or ends its wait in [`RING_ENTER`]. For
/// a caller to which [`Flag::raise`](crate::upcall::Flag::raise) has returned true. [`FAILED`] if
/// the worker takes none, or there is no such worker.
pub const UPCALL_RAISE: usize = 4022;
/// `service_model(model) -> the model before`: how the kernel serves this process's calls that may
/// wait, also asynchronous ones: [`BY_COROUTINE`] or [`BY_THREAD`]; [`FAILED`] for any other.
/// Children inherit it. Under [`BY_THREAD`] such a call fails without effect when the kernel has no
/// stack for it.
pub const SERVICE_MODEL: usize = 4030;

/// Coroutines of the kernel, which share the hart's stack.
pub const BY_COROUTINE: usize = 0;
/// Threads of the kernel, each with a stack of its own.
pub const BY_THREAD: usize = 1;

/// `process_list(records: *mut`
/// [`ProcessRecord`](crate::information::ProcessRecord)`, room) -> how many processes there are`.
/// As many records are written as there is room for, in the order of their numbers; those that have
/// ended come behind the others.
pub const PROCESS_LIST: usize = 4040;
/// `system_status(status: *mut` [`SystemStatus`](crate::information::SystemStatus)`) -> 0`
pub const SYSTEM_STATUS: usize = 4041;
/// `group_set(pid, group) -> 0`: makes the process part of a group; children inherit it. A pid of 0
/// is the caller, a group of 0 is the process's own number. The group is the caller's own if that
/// has this number, else one that belongs to the caller. A process puts itself only into a group
/// with its own number, which belongs to its parent. Groups of different owners have nothing to do
/// with each other, whatever their numbers. [`FAILED`] when the caller [may not act
/// on](crate::rights) the process, or not in this way.
pub const GROUP_SET: usize = 4042;
/// `foreground(group) -> 0`: says which group of processes the console belongs to. While one has
/// it, Ctrl-C ends its processes with the exit code -2, input comes in lines that are shown as they
/// are typed, and a carriage return is a new line. With 0, as at the beginning, each byte comes as
/// it was typed. The input's end is typed, too, and any byte can be quoted: see [`crate::console`].
/// The group is the caller's own if that has this number, else one that belongs to the caller.
/// [`FAILED`] if no process is in it, and without the right [`CONSOLE`](crate::rights::CONSOLE).
pub const FOREGROUND: usize = 4043;

/// `calendar() -> seconds since 1970`, UTC, or [`NO_DEVICE`](crate::error::NO_DEVICE) on a machine
/// without a calendar.
pub const CALENDAR: usize = 4044;

/// `file_open(path: *const u8 (NUL-terminated), flags: u32) -> fd` or an [`error`](crate::error),
/// with the flags of [`crate::file`]. A file that is not on the disk, and not to be made, is looked
/// for in the system's archive, for reading.
pub const FILE_OPEN: usize = 4050;
/// `file_seek(fd, offset: isize, from) -> the new position` or an error; `from` is one of
/// [`crate::file::FROM_START`], [`FROM_HERE`](crate::file::FROM_HERE),
/// [`FROM_END`](crate::file::FROM_END). A write behind the end fills the gap with zeros.
pub const FILE_SEEK: usize = 4051;
/// `directory_make(path) -> 0` or an error.
pub const DIRECTORY_MAKE: usize = 4052;
/// `remove(path, kind) -> 0` or an error: a file if `kind` is [`crate::file::FILE`], an empty
/// directory if it is [`crate::file::DIRECTORY`].
pub const REMOVE: usize = 4053;
/// `rename(from, to) -> 0` or an error. What is at `to` is replaced: a file by a file, an empty
/// directory by a directory.
pub const RENAME: usize = 4054;
/// `status(path, status: *mut` [`FileStatus`](crate::file::FileStatus)`) -> 0` or an error.
pub const STATUS: usize = 4055;
/// `status_of(fd, status: *mut` [`FileStatus`](crate::file::FileStatus)`) -> 0` or an error: of a
/// file on the disk.
pub const STATUS_OF: usize = 4056;
/// `truncate(fd, size) -> 0` or an error: cuts the file off or extends it by zeros.
pub const TRUNCATE: usize = 4057;
/// `sync() -> 0` or an error: everything that has been written is on the disk.
pub const SYNC: usize = 4058;
/// `directory_entry(path, place, entry: *mut`
/// [`DirectoryEntry`](crate::file::DirectoryEntry)`) -> 1`, 0 behind the last entry, or an error.
/// The first place is 0; each entry tells the next.
pub const DIRECTORY_ENTRY: usize = 4059;
/// `directory_change(path) -> 0` or an error: from now on paths that don't begin with `/` begin
/// there.
pub const DIRECTORY_CHANGE: usize = 4060;
/// `directory_current(buffer, length) -> bytes` of the path of the directory where relative paths
/// begin; [`NAME_TOO_LONG`](crate::error::NAME_TOO_LONG) if it does not fit.
pub const DIRECTORY_CURRENT: usize = 4061;
/// `space(space: *mut` [`Space`](crate::file::Space)`) -> 0` or an error.
pub const SPACE: usize = 4062;

/// `tcp_listen(port: u16, backlog) -> fd` or an [`error`](crate::error): takes TCP connections to a
/// port, 0 for any that is free. Up to `backlog` connections wait to be accepted, those with a
/// handshake under way included; at the limit further ones are not answered, so that the other
/// side tries again.
pub const TCP_LISTEN: usize = 4070;
/// `tcp_connect(address: u32, port: u16, limit) -> fd` or an error: waits until the other side has
/// answered, at most `limit` milliseconds, where 0 is 20 seconds. The first byte of the IPv4
/// address is the most significant.
pub const TCP_CONNECT: usize = 4071;
/// `shutdown(fd) -> 0` or an error: nothing more is written to the connection. What was written
/// arrives, then the end.
pub const SHUTDOWN: usize = 4072;
/// `socket_set(fd, option, value) -> 0` or an error, with the options of [`crate::net`].
pub const SOCKET_SET: usize = 4073;
/// `socket_status(fd, status: *mut` [`SocketStatus`](crate::net::SocketStatus)`) -> 0` or an error.
pub const SOCKET_STATUS: usize = 4074;
/// `network_status(status: *mut` [`NetworkStatus`](crate::net::NetworkStatus)`) -> 0`
pub const NETWORK_STATUS: usize = 4075;

/// A hart that runs the process checks for something more urgent at each clock tick.
pub const GLOBAL_RELAXED: usize = 0;
/// A hart that runs the process is interrupted when something strictly more urgent becomes ready
/// and no other hart is idle or runs something less urgent still.
pub const GLOBAL_STRICT: usize = 1;

/// A thread that waits sleeps in the kernel until what it waits for has happened.
pub const WAIT_BLOCK: usize = 0;
/// A thread that waits stays ready and asks again each time it gets the hart, as in
/// rCore-Tutorial-v3, the system of AsyncOS and COPS.
pub const WAIT_YIELD: usize = 1;
