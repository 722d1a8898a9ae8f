//! System-call numbers: the number in `a7`, arguments in `a0` to `a2`, the result in `a0`.
//!
//! Up to 3999 numbers, arguments and results are those of rCore-Tutorial-v3 (chapter 8), so that
//! its programs run here. From 4000 on they are Corank's. A call fails with [`FAILED`] unless its
//! description names other values. An unknown number gives [`NOT_IMPLEMENTED`]. A bad pointer ends
//! the process with the exit code [`MEMORY_FAULT`](crate::exit_code::MEMORY_FAULT), and a message.

/// Result of a call that failed.
pub const FAILED: isize = -1;
/// Result of [`WAITPID`] and [`WAITTID`] while the process or thread waited for still runs.
pub const STILL_RUNNING: isize = -2;
/// Result of a system call that does not exist (Linux's `-ENOSYS`).
pub const NOT_IMPLEMENTED: isize = -38;

/// Returns another descriptor for the same file: `dup(fd) -> fd`.
pub const DUP: usize = 24;
/// Opens a UDP socket between a port here and a port there.
///
/// `connect(address: u32, local port: u16, remote port: u16) -> fd`
///
/// The first byte of the IPv4 address is the most significant. Each read gives one datagram from
/// there, cut off if it is longer than the buffer. Each write sends one.
pub const UDP_CONNECT: usize = 29;
/// Listens as [`TCP_LISTEN`] does, with a backlog of [`BACKLOG`](crate::net::BACKLOG).
///
/// `listen(port: u16) -> fd`
///
/// Every error is [`FAILED`].
pub const LISTEN: usize = 30;
/// Waits for a connection, and returns its descriptor or an [`error`](crate::error).
///
/// `accept(listener) -> fd`
pub const ACCEPT: usize = 31;
/// Removes a file that no process has open.
///
/// `unlinkat(directory, path: *const u8 (NUL-terminated), flags: u32) -> 0`
///
/// The directory does not matter, and `flags` is 0.
pub const UNLINKAT: usize = 35;
/// Fails with [`FAILED`], because the file system has no second names: `linkat(…)`.
pub const LINKAT: usize = 37;
/// Opens a file with the flags of rCore-Tutorial-v3.
///
/// `open(path: *const u8 (NUL-terminated), flags: u32) -> fd`
///
/// Flags of 0 mean reading, 1 writing, and any other value both. Bit 9 makes the file, or empties
/// it if it is there. Bit 10 empties it. A file that is neither on the disk nor to be made is
/// looked for in the system's archive, for reading.
pub const OPEN: usize = 56;
/// Closes a descriptor.
///
/// `close(fd) -> 0`
///
/// Returns an [`error`](crate::error) if what was written could not be kept. The descriptor is
/// closed in any case.
pub const CLOSE: usize = 57;
/// Makes a pipe, and writes its two descriptors, the read end first.
///
/// `pipe(ends: *mut [usize; 2]) -> 0`
pub const PIPE: usize = 59;
/// Reads into a buffer, and returns how many bytes came.
///
/// `read(fd, buffer, length) -> bytes`
///
/// On a pipe it returns when the buffer is full or every write end is closed. On a file of the disk
/// it returns an [`error`](crate::error) if that cannot be read.
pub const READ: usize = 63;
/// Writes a buffer, and returns how many bytes were taken.
///
/// `write(fd, buffer, length) -> bytes`
///
/// On a file of the disk these are fewer if the disk becomes full. If not even one byte could be
/// written, it returns an [`error`](crate::error).
pub const WRITE: usize = 64;
/// Writes the status of a file on the disk.
///
/// `fstat(fd, status: *mut `[`Stat`](crate::file::Stat)`) -> 0`
pub const FSTAT: usize = 80;
/// Ends the calling thread, or the process if that is its main thread: `exit(code: i32)`.
pub const EXIT: usize = 93;
/// Sleeps for so many milliseconds: `sleep(milliseconds) -> 0`.
pub const SLEEP: usize = 101;
/// Yields the hart: `yield() -> 0`.
pub const YIELD: usize = 124;
/// Ends a process, or all of a group, with the exit code -signal.
///
/// `kill(pid, signals: u32) -> 0`
///
/// `signals` is a mask as in rCore-Tutorial-v3's chapter 8: some of the bits 2 (SIGINT), 4, 6, 8
/// and 11, of which the lowest counts. Anything else is, as in its chapter 7, a number from 1 to
/// 31, or a mask of 32 or more with one bit. So 4, 16 and 20 are masks; the signals with these
/// numbers are `1 << 4`, `1 << 16` and `1 << 20`. 0 only tests whether the process exists.
///
/// A negative pid means all processes of the group with this number that belongs to the caller.
///
/// Returns [`FAILED`] for any other signal, when the process has ended or never was, and when the
/// caller [may not act on it](crate::rights).
pub const KILL: usize = 129;
/// Returns the milliseconds since boot: `get_time() -> milliseconds`.
pub const GET_TIME: usize = 169;
/// Returns the number of the calling process: `getpid() -> pid`.
pub const GETPID: usize = 172;
/// Makes a child with a copy of the memory.
///
/// `fork() -> 0 in the child, its pid in the parent`
///
/// The child has no mutexes, semaphores and condition variables. Those that it makes get other
/// numbers than its parent's.
pub const FORK: usize = 220;
/// Runs another program in the calling process.
///
/// `exec(path: *const u8, args: *const *const u8 (NULL-terminated)) -> argc`
pub const EXEC: usize = 221;
/// Collects a child that has ended, and never blocks.
///
/// `waitpid(pid or -1, exit_code: *mut i32 or null) -> pid`
///
/// Returns [`FAILED`] without such a child, and [`STILL_RUNNING`] if it has not ended.
pub const WAITPID: usize = 260;
/// Starts a thread at `entry`, with `argument` and its own number in its first two registers.
///
/// `thread_create(entry, argument) -> tid`
///
/// Returns [`FAILED`] without memory for it, or when 32,768 threads of the process run or have
/// ended and were not waited for.
pub const THREAD_CREATE: usize = 1000;
/// Returns the number of the calling thread: `gettid() -> tid`.
pub const GETTID: usize = 1001;
/// Collects a thread that has ended, and never blocks.
///
/// `waittid(tid) -> exit code`
///
/// Returns [`FAILED`] without such a thread, and [`STILL_RUNNING`] if it has not ended.
pub const WAITTID: usize = 1002;
/// Makes a mutex: `mutex_create(blocking: bool) -> id`.
pub const MUTEX_CREATE: usize = 1010;
/// Locks a mutex, and waits for it: `mutex_lock(id) -> 0`.
pub const MUTEX_LOCK: usize = 1011;
/// Unlocks a mutex: `mutex_unlock(id) -> 0`.
pub const MUTEX_UNLOCK: usize = 1012;
/// Makes a semaphore with so many permits: `semaphore_create(permits) -> id`.
pub const SEMAPHORE_CREATE: usize = 1020;
/// Adds a permit to a semaphore: `semaphore_up(id) -> 0`.
pub const SEMAPHORE_UP: usize = 1021;
/// Takes a permit of a semaphore, and waits for it: `semaphore_down(id) -> 0`.
pub const SEMAPHORE_DOWN: usize = 1022;
/// Makes a condition variable: `condvar_create() -> id`.
pub const CONDVAR_CREATE: usize = 1030;
/// Wakes one waiter of a condition variable: `condvar_signal(id) -> 0`.
pub const CONDVAR_SIGNAL: usize = 1031;
/// Unlocks a mutex, waits for a signal, and locks it again: `condvar_wait(id, mutex) -> 0`.
pub const CONDVAR_WAIT: usize = 1032;

/// Moves the end of the heap, and returns where it was, or [`FAILED`].
///
/// `sbrk(bytes: isize) -> the old end`
///
/// Whole pages are mapped. `sbrk(0)` returns the end and moves nothing.
pub const SBRK: usize = 214;

/// Makes the rings of the calling thread, which becomes a worker as by [`WORKER`].
///
/// `ring_setup(entries: usize) -> address of the `[`RingHeader`](crate::ring::RingHeader)
///
/// `entries` is a power of two from 1 to 4096. A worker makes its rings once: the second time the
/// call returns [`FAILED`].
pub const RING_SETUP: usize = 4000;
/// Serves every entry of the submission ring, then waits for completions.
///
/// `ring_enter(wait_for: usize) -> completions that are ready`
///
/// Blocks until at least `wait_for` completions are ready (0 never blocks), the deadline in the
/// ring's header has passed, or a user-level interrupt is due.
pub const RING_ENTER: usize = 4001;
/// Sets how this process's threads wait inside blocking calls: [`WAIT_BLOCK`] or [`WAIT_YIELD`].
///
/// `wait_mode(mode: usize) -> the mode before`
pub const WAIT_MODE: usize = 4002;
/// Waits for a thread, and collects it as [`WAITTID`] does: `wait_thread(tid) -> exit code`.
pub const WAIT_THREAD: usize = 4003;
/// Waits for a child, and collects it as [`WAITPID`] does.
///
/// `wait_process(pid or -1, exit_code: *mut i32) -> pid`
pub const WAIT_PROCESS: usize = 4004;
/// Returns the number of free 4 KiB frames of physical memory: `frames_free() -> frames`.
pub const FRAMES_FREE: usize = 4005;
/// Takes every level that is not in the set `levels` from the caller or a child of it.
///
/// `grant(pid, levels: u64) -> 0`
///
/// Bit *i* of `levels` is level *i*. What a process claims beyond its grant counts as the next
/// level that it was granted, or 63 if there is none. No level ever comes back. Children have at
/// first what their parent has. A process that loses a level loses the right
/// [`MACHINE`](crate::rights::MACHINE) with it.
pub const GRANT: usize = 4006;
/// Sets how the harts that run this process respond to what is more urgent elsewhere.
///
/// `global(mode) -> the mode before`
///
/// The mode is [`GLOBAL_RELAXED`], as at first, or [`GLOBAL_STRICT`]. Children have at first what
/// their parent has.
pub const GLOBAL: usize = 4007;
/// Returns how many harts run coroutines and programs: `harts() -> harts`.
pub const HARTS: usize = 4008;
/// Takes every [right](crate::rights) that is not in the set `rights` from the caller or a child of
/// it.
///
/// `restrict(pid, rights) -> 0`
///
/// No right ever comes back. Returns [`FAILED`] if `pid` is neither.
pub const RESTRICT: usize = 4009;

/// Limits what the caller and the children that it forks from now on take of the kernel's heap.
///
/// `memory_limit(bytes) -> the limit from now on`
///
/// The limit holds for all of them together. It counts threads, files, sockets, calls under way and
/// the like, and not the pages of their memory. A limit can be lowered and never raised. What is
/// there already stays, and further calls fail for want of memory until enough of it is gone.
/// Returns [`FAILED`] if sixteen ancestors have limits of their own.
pub const MEMORY_LIMIT: usize = 4017;

/// Ends the asynchronous call that was submitted under `key`.
///
/// `ring_cancel(key) -> `[`RING_CANCELLED`] or [`RING_COMPLETED`]
///
/// When it returns, the kernel does not touch the call's buffer any more. Returns [`FAILED`] if no
/// such call is under way: it has completed, or is still in the submission ring.
///
/// - [`RING_CANCELLED`]: it has done nothing, and no completion comes. A read has taken no byte, a
///   lock is not held, and a signal of a condition variable that had come went to another waiter. A
///   wait for a condition variable has unlocked its mutex and does not hold it.
/// - [`RING_COMPLETED`]: it was done, and its completion is in the ring. Or it had transferred a
///   part of its bytes, and the completion says how many.
///
/// A call that works on the disk is not interrupted: it completes. What is linked behind the call
/// goes on. The call is only for threads, and not for a submission ring.
pub const RING_CANCEL: usize = 4010;
/// Sets the level at which the kernel serves the call that was submitted under `key`.
///
/// `ring_reprioritize(key, level) -> 0`
///
/// A level of 64 or more counts as 63. Returns [`FAILED`] as [`RING_CANCEL`] does. In a submission
/// ring it takes effect with the next [`RING_ENTER`].
pub const RING_REPRIORITIZE: usize = 4011;

/// Returns how many system calls the process's threads have made, this one included.
///
/// `calls_made() -> calls`
pub const CALLS_MADE: usize = 4012;
/// Makes something fail on purpose, for tests.
///
/// `fault(kind, step) -> steps that were left`
///
/// It fails at the `step`th time from now on at which it could; 0 is never. A result of 0 means
/// that an earlier fault has happened. `kind` is [`FAULT_END`], [`FAULT_MEMORY`],
/// [`FAULT_SLOW_END`], [`FAULT_FRAME`], [`FAULT_HEAP`] or [`FAULT_SILENCE`], which has a third
/// argument.
///
/// Returns [`NOT_IMPLEMENTED`] but in a kernel with the feature `faults`. Returns [`FAILED`] for
/// any other kind, and without the right [`MACHINE`](crate::rights::MACHINE).
pub const FAULT: usize = 4013;

/// Ends the process with the exit code -9, before a step of the kernel's work for it.
///
/// A kind of [`FAULT`]. A step is a system call, a submission, a poll of what serves an
/// asynchronous call, or a completion.
pub const FAULT_END: usize = 0;
/// Fails an allocation that the kernel makes for a program.
///
/// A kind of [`FAULT`]. Allocations for other programs also count.
pub const FAULT_MEMORY: usize = 1;
/// Ends the process as [`FAULT_END`] does, by a hart that is slow at it.
///
/// A kind of [`FAULT`]. The hart marks the process as ending. It cancels what is under way only
/// when the process is gone, or after 2 seconds. So the threads have to notice by themselves, on
/// other harts. Returns [`FAILED`] where one hart serves.
pub const FAULT_SLOW_END: usize = 2;
/// Changes a bit of a frame from the network card.
///
/// A kind of [`FAULT`]. Frames that are too short for data do not count.
pub const FAULT_FRAME: usize = 3;
/// Loses all received TCP segments to or from a port, from that step on.
///
/// A kind of [`FAULT`]. The port is the third argument. So each side of such a connection has a
/// peer that has fallen silent. 0 steps end the silence.
pub const FAULT_SILENCE: usize = 4;
/// Makes the kernel's heap count as full, but for its reserve.
///
/// A kind of [`FAULT`]. A `step` of 1 begins this, and 0 ends it. It ends with the process.
pub const FAULT_HEAP: usize = 5;

/// Waits until every hart has finished what the kernel did there when this was called.
///
/// `quiesce() -> 0`
///
/// So what an ended process leaves behind for a moment, on another hart, is gone. What the
/// scheduler keeps of the memory of coroutines that are gone goes back to the kernel's heap. The
/// call is for tests, and only for threads. Returns [`FAILED`] without the right
/// [`MACHINE`](crate::rights::MACHINE).
pub const QUIESCE: usize = 4014;

/// Lets so many harts, at least 1, run coroutines and programs from now on.
///
/// `harts_limit(harts) -> the limit before`
///
/// The other harts serve interrupts only. The call is for tests and measurements, and only for
/// threads. Returns [`FAILED`] without the right [`MACHINE`](crate::rights::MACHINE).
pub const HARTS_LIMIT: usize = 4015;

/// Makes the calling thread one of the process's [workers](crate::page::WORKERS) until it ends.
///
/// `worker() -> number`
///
/// Its [page](crate::page::worker_page) is there then. Returns the same number each time, or
/// [`FAILED`] when there are [`WORKERS`](crate::page::WORKERS) already, or no memory.
pub const WORKER: usize = 4016;

/// Yields, and lends the caller's level to a less urgent thread of the process.
///
/// `yield_to(tid) -> 0`
///
/// That thread keeps the level until it yields, the clock's next tick interrupts it, or another
/// thread of the process gets a loan. Returns [`FAILED`] without such a thread, when it has ended,
/// and for the caller itself. The caller has yielded even so.
pub const YIELD_TO: usize = 4018;

/// Result of [`RING_CANCEL`]: the call has done nothing.
pub const RING_CANCELLED: isize = 0;
/// Result of [`RING_CANCEL`]: the call has completed.
pub const RING_COMPLETED: isize = 1;

/// Sets the handler of user-level interrupts of the calling thread (see [`crate::upcall`]).
///
/// `upcall_setup(handler, block) -> 0`
///
/// `block` is the address of its [`Block`](crate::upcall::Block). A `handler` of 0 ends the
/// interrupts. The thread becomes a worker, as by [`WORKER`]. Returns [`FAILED`] if it cannot. The
/// addresses are used when an interrupt comes, and bad ones end the process then.
pub const UPCALL_SETUP: usize = 4020;
/// Restores the registers of a [`Frame`](crate::upcall::Frame) and unmasks interrupts, in one step.
///
/// `upcall_return(frame)`
///
/// If an interrupt was deferred, the handler is entered again first.
pub const UPCALL_RETURN: usize = 4021;
/// Interrupts a worker, or ends its wait in [`RING_ENTER`].
///
/// `upcall_raise(worker) -> 0`
///
/// It is for a caller to which [`Flag::raise`](crate::upcall::Flag::raise) has returned true.
/// Returns [`FAILED`] if the worker takes no interrupts, or there is no such worker.
pub const UPCALL_RAISE: usize = 4022;
/// Sets how the kernel serves this process's calls that may wait, also asynchronous ones.
///
/// `service_model(model) -> the model before`
///
/// The model is [`BY_COROUTINE`] or [`BY_THREAD`], and any other is [`FAILED`]. Children inherit
/// it. Under [`BY_THREAD`] such a call fails without effect when the kernel has no stack for it.
pub const SERVICE_MODEL: usize = 4030;

/// Coroutines of the kernel, which share the hart's stack.
pub const BY_COROUTINE: usize = 0;
/// Threads of the kernel, each with a stack of its own.
pub const BY_THREAD: usize = 1;

/// Writes records of the processes, and returns how many processes there are.
///
/// `process_list(records: *mut`
/// [`ProcessRecord`](crate::information::ProcessRecord)`, room) -> processes`
///
/// As many records are written as there is room for, in the order of their numbers. Processes that
/// have ended come behind the others.
pub const PROCESS_LIST: usize = 4040;
/// Writes the state of the system as a whole.
///
/// `system_status(status: *mut `[`SystemStatus`](crate::information::SystemStatus)`) -> 0`
pub const SYSTEM_STATUS: usize = 4041;
/// Makes a process part of a group, which its children inherit.
///
/// `group_set(pid, group) -> 0`
///
/// A pid of 0 is the caller, and a group of 0 is the process's own number. The group is the
/// caller's own if that has this number, or else one that belongs to the caller. A process puts
/// itself only into a group with its own number, which belongs to its parent. Groups of different
/// owners are independent, whatever their numbers.
///
/// Returns [`FAILED`] when the caller [may not act on](crate::rights) the process, or not in this
/// way.
pub const GROUP_SET: usize = 4042;
/// Sets the group of processes to which the console belongs.
///
/// `foreground(group) -> 0`
///
/// While a group has it, Ctrl-C ends its processes with the exit code -2, input comes in lines that
/// are shown as they are typed, and a carriage return is a new line. With 0, as at the beginning,
/// each byte comes as it was typed. The input's end is typed, too, and any byte can be quoted: see
/// [`crate::console`].
///
/// The group is the caller's own if that has this number, or else one that belongs to the caller.
/// Returns [`FAILED`] if no process is in it, and without the right
/// [`CONSOLE`](crate::rights::CONSOLE).
pub const FOREGROUND: usize = 4043;

/// Returns the seconds since 1970, UTC.
///
/// `calendar() -> seconds`
///
/// Returns [`NO_DEVICE`](crate::error::NO_DEVICE) on a machine without a calendar.
pub const CALENDAR: usize = 4044;

/// Opens a file with the flags of [`crate::file`], or returns an [`error`](crate::error).
///
/// `file_open(path: *const u8 (NUL-terminated), flags: u32) -> fd`
///
/// A file that is neither on the disk nor to be made is looked for in the system's archive, for
/// reading.
pub const FILE_OPEN: usize = 4050;
/// Moves a file's position, and returns it or an error.
///
/// `file_seek(fd, offset: isize, from) -> the new position`
///
/// `from` is one of [`crate::file::FROM_START`], [`FROM_HERE`](crate::file::FROM_HERE),
/// [`FROM_END`](crate::file::FROM_END). A write behind the end fills the gap with zeros.
pub const FILE_SEEK: usize = 4051;
/// Makes a directory, or returns an error: `directory_make(path) -> 0`.
pub const DIRECTORY_MAKE: usize = 4052;
/// Removes a file or an empty directory, or returns an error.
///
/// `remove(path, kind) -> 0`
///
/// `kind` is [`crate::file::FILE`] or [`crate::file::DIRECTORY`].
pub const REMOVE: usize = 4053;
/// Renames a file or directory, or returns an error.
///
/// `rename(from, to) -> 0`
///
/// What is at `to` is replaced: a file by a file, an empty directory by a directory.
pub const RENAME: usize = 4054;
/// Writes the status of a path, or returns an error.
///
/// `status(path, status: *mut `[`FileStatus`](crate::file::FileStatus)`) -> 0`
pub const STATUS: usize = 4055;
/// Writes the status of an open file on the disk, or returns an error.
///
/// `status_of(fd, status: *mut `[`FileStatus`](crate::file::FileStatus)`) -> 0`
pub const STATUS_OF: usize = 4056;
/// Cuts a file off or extends it by zeros, or returns an error: `truncate(fd, size) -> 0`.
pub const TRUNCATE: usize = 4057;
/// Waits until everything that has been written is on the disk, or returns an error: `sync() -> 0`.
pub const SYNC: usize = 4058;
/// Writes the entry of a directory at a position, or returns an error.
///
/// `directory_entry(path, place, entry: *mut`
/// [`DirectoryEntry`](crate::file::DirectoryEntry)`) -> 1`
///
/// The first position is 0, and each entry names the next. Returns 0 behind the last entry.
pub const DIRECTORY_ENTRY: usize = 4059;
/// Sets the directory where relative paths begin, or returns an error.
///
/// `directory_change(path) -> 0`
pub const DIRECTORY_CHANGE: usize = 4060;
/// Writes the path of the directory where relative paths begin.
///
/// `directory_current(buffer, length) -> bytes`
///
/// Returns [`NAME_TOO_LONG`](crate::error::NAME_TOO_LONG) if it does not fit.
pub const DIRECTORY_CURRENT: usize = 4061;
/// Writes how much room the file system has, or returns an error.
///
/// `space(space: *mut `[`Space`](crate::file::Space)`) -> 0`
pub const SPACE: usize = 4062;

/// Listens at a TCP port, or returns an [`error`](crate::error).
///
/// `tcp_listen(port: u16, backlog) -> fd`
///
/// A port of 0 is any that is free. Up to `backlog` connections wait to be accepted, those with a
/// handshake under way included. At the limit further ones are not answered, so that the other side
/// tries again.
pub const TCP_LISTEN: usize = 4070;
/// Connects to a TCP port, or returns an error.
///
/// `tcp_connect(address: u32, port: u16, limit) -> fd`
///
/// Waits until the other side has answered, at most `limit` milliseconds, where 0 is 20 seconds.
/// The first byte of the IPv4 address is the most significant.
pub const TCP_CONNECT: usize = 4071;
/// Ends the direction from here to there, or returns an error.
///
/// `shutdown(fd) -> 0`
///
/// What was written arrives, then the end.
pub const SHUTDOWN: usize = 4072;
/// Sets an option of [`crate::net`], or returns an error.
///
/// `socket_set(fd, option, value) -> 0`
pub const SOCKET_SET: usize = 4073;
/// Writes the status of a socket, or returns an error.
///
/// `socket_status(fd, status: *mut `[`SocketStatus`](crate::net::SocketStatus)`) -> 0`
pub const SOCKET_STATUS: usize = 4074;
/// Writes the state of the network.
///
/// `network_status(status: *mut `[`NetworkStatus`](crate::net::NetworkStatus)`) -> 0`
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
