//! Processes: making, replacing, waiting for and ending them.
use alloc::ffi::CString;
use alloc::vec::Vec;
use core::ptr;

use corank_abi::{call, exit_code, rights};

use crate::local;
use crate::raw::{self, Error, check, number_call};

/// Number of a process.
pub type Pid = usize;

/// Which side of a [`fork`] this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// The new process.
    Child,
    /// The old one; this is the new one's number.
    Parent(Pid),
}

/// Duplicates this process: memory and descriptors, but of its threads only the calling one.
///
/// Call it from plain code. The child has no rings, and none of its parent's asynchronous calls: a
/// coroutine that forks should [`exec`] or [`exit`] at once in the child.
///
/// # Errors
/// The process has other threads, or the kernel no memory.
pub fn fork() -> Result<Fork, Error> {
    Ok(match number_call(call::FORK, [0; 3])? {
        0 => {
            let block = local::block();
            block.ring.set(None);
            block.runtime.set(None);
            block.executors.set(0);
            Fork::Child
        }
        pid => Fork::Parent(pid),
    })
}

/// Runs `child` in a new process and returns its number; the child exits with the code that `child`
/// returns.
///
/// # Errors
/// As [`fork`].
pub fn spawn(child: impl FnOnce() -> i32) -> Result<Pid, Error> {
    match fork()? {
        Fork::Child => exit(child()),
        Fork::Parent(pid) => Ok(pid),
    }
}

/// Replaces this process's program by the one named `path`.
///
/// Descriptors stay open.
///
/// Returns only if that fails: there is no such program, an argument contains a NUL, or the kernel
/// has no memory.
pub fn exec(path: &str, arguments: &[&str]) -> Option<Error> {
    let path = CString::new(path).ok()?;
    let strings: Vec<CString> = arguments
        .iter()
        .map(|text| CString::new(*text))
        .collect::<Result<_, _>>()
        .ok()?;
    let mut pointers: Vec<*const core::ffi::c_char> =
        strings.iter().map(|text| text.as_ptr()).collect();
    pointers.push(ptr::null());
    let [path, pointers] = [
        path.as_ptr().expose_provenance(),
        pointers.as_ptr().expose_provenance(),
    ];
    // SAFETY: the kernel only reads the strings and the list, and they live until the call returns.
    check(unsafe { raw::system_call(call::EXEC, [path, pointers, 0]) }).err()
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exited {
    /// Which one.
    pub pid: Pid,
    /// Its exit code; negative when the kernel ended it.
    pub code: i32,
}

/// Waits until the child `pid` has ended.
///
/// # Errors
/// There is no such child, or it has been waited for already.
pub fn wait(pid: Pid) -> Result<Exited, Error> {
    wait_call(call::WAIT_PROCESS, pid)
}

/// Waits until any child has ended.
///
/// # Errors
/// There are no children.
pub fn wait_any() -> Result<Exited, Error> {
    wait_call(call::WAIT_PROCESS, ANY)
}

/// Returns the child `pid`, if it has ended.
///
/// # Errors
/// There is no such child, or it has been waited for already.
pub fn try_wait(pid: Pid) -> Result<Option<Exited>, Error> {
    match wait_call(call::WAITPID, pid) {
        Err(error) if error.code() == call::STILL_RUNNING => Ok(None),
        other => other.map(Some),
    }
}

/// Returns any child that has ended.
///
/// # Errors
/// There are no children.
pub fn try_wait_any() -> Result<Option<Exited>, Error> {
    try_wait(ANY)
}

/// -1 as an argument: any child.
const ANY: usize = usize::MAX;

fn wait_call(number: usize, pid: Pid) -> Result<Exited, Error> {
    let mut code = 0_i32;
    // SAFETY: the kernel writes one `i32` into `code`.
    let pid =
        check(unsafe { raw::system_call(number, [pid, (&raw mut code).expose_provenance(), 0]) })?;
    Ok(Exited { pid, code })
}

/// This process's number.
#[must_use]
pub fn id() -> Pid {
    number_call(call::GETPID, [0; 3]).unwrap_or(0)
}

/// Sends a signal, from 1 to 31; every signal ends the process.
///
/// 0 only tests whether there is such a process.
///
/// # Errors
/// There is no such process, or no such signal, or this process [may not act on
/// it](corank_abi::rights).
pub fn kill(pid: Pid, signal: u32) -> Result<(), Error> {
    number_call(call::KILL, [pid, mask(signal), 0]).map(|_| ())
}

/// Returns what the kernel calls a signal: its bit, where its number could be taken for other
/// signals' bits.
fn mask(signal: u32) -> usize {
    match signal {
        4..=31 => 1 << signal,
        _ => signal as usize,
    }
}

/// Sends a signal to all processes of a group that belongs to this process.
///
/// With [`Rights::MACHINE`], of any group.
///
/// # Errors
/// There is no process in such a group, or no such signal.
pub fn kill_group(group: Pid, signal: u32) -> Result<(), Error> {
    number_call(call::KILL, [group.wrapping_neg(), mask(signal), 0]).map(|_| ())
}

/// Makes a process part of a group, which its children inherit.
///
/// 0 as the pid is this process, as the group the process's own number. The group is this process's
/// own, or belongs to this process. Itself it puts only into a group with its own number, which
/// belongs to its parent.
///
/// # Errors
/// There is no such process, this process [may not act on it](corank_abi::rights), or not in this
/// way.
pub fn set_group(pid: Pid, group: Pid) -> Result<(), Error> {
    number_call(call::GROUP_SET, [pid, group, 0]).map(|_| ())
}

/// Gives the console to a group of processes.
///
/// Ctrl-C ends them, and their input comes in lines. 0 is no group: then each byte comes as it was
/// typed, and so does Ctrl-C. The group is this process's own, or belongs to this process.
///
/// # Errors
/// There is no process in such a group, or this process does not have [`Rights::CONSOLE`].
pub fn set_foreground(group: Pid) -> Result<(), Error> {
    number_call(call::FOREGROUND, [group, 0, 0]).map(|_| ())
}

/// What a process may do beyond itself and its descendants; see [`corank_abi::rights`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights(usize);

impl Rights {
    /// None.
    pub const NONE: Rights = Rights(0);
    /// Say which group of processes the console belongs to.
    pub const CONSOLE: Rights = Rights(rights::CONSOLE);
    /// Act on any process and on the machine as a whole.
    pub const MACHINE: Rights = Rights(rights::MACHINE);
    /// All of them.
    pub const ALL: Rights = Rights(rights::ALL);
}

/// Takes every right that is not in `rights` from this process, or from a child of it.
///
/// No right ever comes back. Children that the process has already keep theirs.
///
/// # Errors
/// `pid` is neither this process nor a child of it.
pub fn restrict(pid: Pid, rights: Rights) -> Result<(), Error> {
    number_call(call::RESTRICT, [pid, rights.0, 0]).map(|_| ())
}

/// Returns what an exit code means with which the kernel has ended a process; `None` for one that
/// the process may have chosen itself.
#[must_use]
pub fn cause(code: i32) -> Option<&'static str> {
    Some(match code {
        -2 => "interrupted",
        exit_code::ILLEGAL_INSTRUCTION => "illegal instruction",
        exit_code::ABORTED => "aborted",
        -9 => "killed",
        exit_code::MEMORY_FAULT => "memory fault",
        -15 => "terminated",
        -31..=-1 => "ended by a signal",
        _ => return None,
    })
}

/// Ends the calling thread with `code`; from the main thread, the process.
pub fn exit(code: i32) -> ! {
    loop {
        let _ = number_call(call::EXIT, [code as usize, 0, 0]);
    }
}

/// Chooses how this process's threads wait inside blocking calls.
///
/// `yielding` stands for polling, as the threads of AsyncOS do (section 3).
pub fn wait_by_yielding(yielding: bool) {
    let mode = if yielding {
        call::WAIT_YIELD
    } else {
        call::WAIT_BLOCK
    };
    let _ = number_call(call::WAIT_MODE, [mode, 0, 0]);
}

/// Lets the system run on so many harts from now on, at least 1; the others pause.
///
/// Returns on how many it did. For tests and measurements.
///
/// # Errors
/// This process does not have [`Rights::MACHINE`].
pub fn limit_harts(harts: usize) -> Result<usize, Error> {
    number_call(call::HARTS_LIMIT, [harts, 0, 0])
}

/// Returns how many harts the system runs on.
#[must_use]
pub fn harts() -> usize {
    number_call(call::HARTS, [0; 3]).unwrap_or(1)
}

/// Waits until every hart has finished what the kernel does there now.
///
/// So what an ending process leaves behind for a moment on another hart is gone. For tests. Does
/// nothing without [`Rights::MACHINE`].
pub fn quiesce() {
    let _ = number_call(call::QUIESCE, [0; 3]);
}

/// Takes all levels but those in `levels` (bit *i* is level *i*) from what this process, or a child
/// of it, may claim.
///
/// No level ever comes back. What a process claims beyond its grant counts as the next level that
/// it was granted. A process that loses a level loses [`Rights::MACHINE`] with it.
///
/// # Errors
/// `pid` is neither this process nor a child of it.
pub fn grant(pid: Pid, levels: u64) -> Result<(), Error> {
    number_call(call::GRANT, [pid, levels as usize, 0]).map(|_| ())
}

/// Limits what the kernel's heap may hold for this process and for the children that it forks from
/// now on, in bytes: threads, files, sockets, calls under way and the like.
///
/// A limit is never raised. Returns the limit from now on.
///
/// # Errors
/// Sixteen ancestors have limits of their own.
pub fn limit_memory(bytes: usize) -> Result<usize, Error> {
    number_call(call::MEMORY_LIMIT, [bytes, 0, 0])
}

/// Returns the number of free frames of physical memory, of 4 KiB each.
#[must_use]
pub fn frames_free() -> usize {
    number_call(call::FRAMES_FREE, [0; 3]).unwrap_or(0)
}
