//! Processes.
use super::{Result, files};
use crate::fs::{self, Operation, Reply, path};
use crate::group::Group;
use crate::memory::OutOfMemory;
use crate::memory::account::Charge;
use crate::memory::address_space::AddressSpace;
use crate::pace::checkpoint;
use crate::process::{self, Global, Process, Waited};
use crate::programs;
use crate::trap::Context;
use crate::user::thread::{self, End, Thread};
use crate::wait::{WaitMode, until};
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use corank_abi::call::{FAILED, GLOBAL_RELAXED, GLOBAL_STRICT};
use core::task::Poll;

/// How many arguments a program may get, and how many bytes they may have together.
const MAX_ARGUMENTS: usize = 256;
const MAX_ARGUMENT_BYTES: usize = 32 << 10;

/// How many bytes of an argument are read in one piece of work.
///
/// A byte takes some ten instructions.
const READ_AT_ONCE: usize = 2 << 10;

/// What copies of the arguments cost for a moment, in bytes.
///
/// Each is in a block of its own that has grown by doubling. What points to them is included.
const COPIES: usize = 2 * MAX_ARGUMENT_BYTES + 128 * MAX_ARGUMENTS;

/// The largest program on the disk that can be run, in bytes.
const MAX_PROGRAM: usize = 8 << 20;

/// The signals.
///
/// Each ends a process, and its number determines the exit code.
const SIGNALS: core::ops::RangeInclusive<usize> = 1..=31;

/// The signals that rCore-Tutorial-v3 has in chapter 8, as a mask: SIGINT, SIGILL, SIGABRT, SIGFPE
/// and SIGSEGV.
const MASK: usize = 1 << 2 | 1 << 4 | 1 << 6 | 1 << 8 | 1 << 11;

/// Returns the signal that `kill` is asked for.
///
/// rCore-Tutorial-v3 counts signals up to its chapter 7 and passes a mask from chapter 8 on. What
/// can be a mask of chapter 8 is one, and the first of its signals counts. Anything else is a
/// number, or a mask of one other signal.
fn signal(asked: usize) -> Option<i32> {
    let is_mask = asked & !MASK == 0 || asked > *SIGNALS.end() && asked.is_power_of_two();
    let number = if is_mask && asked != 0 {
        asked.trailing_zeros() as usize
    } else {
        asked
    };
    SIGNALS.contains(&number).then_some(number as i32)
}

pub(super) async fn fork(process: &Arc<Process>, context: &Context) -> isize {
    if !process.has_one_thread() {
        return FAILED;
    }
    let mut child = context.fork();
    child.set_result(0);
    let forked = process
        .fork(|process| thread::start_main(process, child))
        .await;
    forked.map_or(FAILED, |child| child.pid as isize)
}

pub(super) async fn exec(
    thread: &Thread,
    path: usize,
    vector: usize,
) -> core::result::Result<isize, End> {
    let process = &thread.process;
    if thread.tid != 0 || !process.has_one_thread() {
        return Ok(FAILED);
    }
    let Ok(_charge) = process.reserve(COPIES + fs::REQUEST) else {
        return Ok(FAILED);
    };
    let path = files::text_at(process, path)?;
    let Some(arguments) = read_arguments(process, vector).await? else {
        return Ok(FAILED);
    };
    let Ok(path) = path else { return Ok(FAILED) };
    let Some((program, _its_charge)) = find_program(process, &path).await else {
        return Ok(FAILED);
    };
    let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
    let name = path.rsplit('/').next().unwrap_or(&path);
    Ok(match process.exec(name, &program, &arguments).await {
        Ok(fresh) => return Err(End::Program(Box::new(fresh))),
        Err(_) => FAILED,
    })
}

/// Returns the program that a path means, and what that costs until it is loaded.
///
/// A plain name is first looked for in the archive, whatever the current directory is.
async fn find_program(process: &Process, path: &str) -> Option<(Cow<'static, [u8]>, Charge)> {
    if let Some(program) = programs::find(path) {
        return Some((Cow::Borrowed(program), Charge::none()));
    }
    let absolute = path::absolute(&process.directory.lock(), path);
    let operation = Operation::ReadAll(absolute, MAX_PROGRAM, process.memory.account.clone());
    match fs::perform(operation).await {
        Ok(Reply::Contents(program, charge)) => Some((Cow::Owned(program), charge)),
        _ => None,
    }
}

/// Returns the strings that `vector` points to, up to a null pointer.
///
/// Returns `None` when they are too many or too long. A null vector is empty.
async fn read_arguments(process: &Process, vector: usize) -> Result<Option<Vec<Vec<u8>>>> {
    let mut arguments = Vec::new();
    let mut left = MAX_ARGUMENT_BYTES;
    if vector == 0 {
        return Ok(Some(arguments));
    }
    for number in 0..=MAX_ARGUMENTS {
        let at = vector.wrapping_add(8 * number);
        let pointer = process.with_memory(|space| space.read_word(at), Ok(0))?;
        if pointer == 0 {
            return Ok(Some(arguments));
        }
        let Some(argument) = read_argument(process, pointer, left).await? else {
            return Ok(None);
        };
        left -= argument.len();
        arguments.push(argument);
    }
    Ok(None)
}

/// Returns the string at an address, which is read in pieces.
///
/// Returns `None` if it is longer than `limit`.
async fn read_argument(process: &Process, start: usize, limit: usize) -> Result<Option<Vec<u8>>> {
    let mut argument = Vec::new();
    while argument.len() < limit {
        let at = start.wrapping_add(argument.len());
        let most = READ_AT_ONCE.min(limit - argument.len());
        let before = argument.len();
        let read = |space: &mut AddressSpace| space.read_string(at, most, &mut argument);
        if process.with_memory(read, Ok(false))? {
            checkpoint().await;
            return Ok(Some(argument));
        }
        if argument.len() == before {
            // The process has no memory any more.
            break;
        }
        checkpoint().await;
    }
    Ok(None)
}

/// Sends a signal to a process if that is one piece of work.
///
/// Returns `None` if [`kill`] has to do it.
#[inline(never)]
pub(super) fn kill_at_once(process: &Process, pid: usize, asked: usize) -> Option<isize> {
    let Some(signal) = signal(asked) else {
        let is_there = asked == 0 && process::find(pid).is_some();
        return Some(if is_there { 0 } else { FAILED });
    };
    if (pid as isize) < 0 {
        return None;
    }
    let Some(other) = process::find(pid) else {
        return Some(FAILED);
    };
    let may = process.may_act_on_at_once(&other)?;
    Some(end_if(may, &other, signal))
}

/// Sends a signal to a process, or to all of a group.
pub(super) async fn kill(process: &Process, pid: usize, asked: usize) -> isize {
    let Some(signal) = signal(asked) else {
        return FAILED;
    };
    if (pid as isize) < 0 {
        let number = pid.wrapping_neg();
        let is_meant = |group: Group| group.number == number && process.may_end(group);
        let found = process::end_groups(process, is_meant, -signal).await;
        return if found { 0 } else { FAILED };
    }
    let Some(other) = process::find(pid) else {
        return FAILED;
    };
    let may = process.may_act_on(&other).await;
    end_if(may, &other, signal)
}

fn end_if(may: bool, other: &Process, signal: i32) -> isize {
    if !may {
        return FAILED;
    }
    other.end(-signal);
    0
}

/// Returns the process with this number, if it is the calling process or a child of it.
fn member(process: &Arc<Process>, pid: usize) -> Option<Arc<Process>> {
    if pid == process.pid {
        Some(process.clone())
    } else {
        process.child(pid)
    }
}

#[inline(never)]
pub(super) fn grant(process: &Arc<Process>, pid: usize, levels: u64) -> isize {
    member(process, pid).map_or(FAILED, |member| {
        member.restrict(levels);
        0
    })
}

#[inline(never)]
pub(super) fn restrict(process: &Arc<Process>, pid: usize, rights: usize) -> isize {
    member(process, pid).map_or(FAILED, |member| {
        member.keep_rights(rights);
        0
    })
}

#[inline(never)]
pub(super) fn global(process: &Process, mode: usize) -> isize {
    let mode = match mode {
        GLOBAL_RELAXED => Global::Relaxed,
        GLOBAL_STRICT => Global::Strict,
        _ => return FAILED,
    };
    match process.set_global(mode) {
        Global::Relaxed => GLOBAL_RELAXED as isize,
        Global::Strict => GLOBAL_STRICT as isize,
    }
}

fn old_end(moved: core::result::Result<usize, OutOfMemory>) -> isize {
    moved.map_or(FAILED, |end| end as isize)
}

/// Lowers the limit of the process's account to so many bytes; returns the limit from now on.
#[inline(never)]
pub(super) fn limit_memory(process: &Process, bytes: usize) -> isize {
    let limit = process.memory.account.lower(bytes);
    // Larger than any memory, but no error.
    limit.map_or(FAILED, |limit| limit.min(isize::MAX as usize) as isize)
}

/// Moves the end of the heap by little; `None` if it is more.
#[inline(never)]
pub(super) fn sbrk_at_once(process: &Process, bytes: isize) -> Option<isize> {
    process.move_heap_end_at_once(bytes).map(old_end)
}

pub(super) async fn sbrk(process: &Process, bytes: isize) -> isize {
    old_end(process.move_heap_end(bytes).await)
}

/// Returns the child that is meant.
///
/// -1 means any.
fn child(pid: usize) -> Option<usize> {
    (pid as isize != -1).then_some(pid)
}

/// Returns the result of `waitpid`.
///
/// Returns `None` while the child runs.
fn report(process: &Process, waited: Waited, exit_code: usize) -> Option<Result> {
    match waited {
        Waited::None => Some(Ok(FAILED)),
        Waited::Running => None,
        Waited::Ended(pid, _) if exit_code == 0 => Some(Ok(pid as isize)),
        Waited::Ended(pid, code) => {
            let written =
                process.with_memory(|space| space.write(exit_code, &code.to_le_bytes()), Ok(()));
            Some(written.map(|()| pid as isize))
        }
    }
}

pub(super) fn wait_at_once(process: &Process, pid: usize, exit_code: usize) -> Option<Result> {
    report(process, process.wait_child(child(pid), |_| ()), exit_code)
}

pub(super) async fn wait(
    process: &Process,
    mode: WaitMode,
    pid: usize,
    exit_code: usize,
) -> Result {
    until(&process.children, mode, |turn| {
        let waited = process.wait_child(child(pid), |state| turn.wait(state));
        report(process, waited, exit_code).map_or(Poll::Pending, Poll::Ready)
    })
    .await
}
