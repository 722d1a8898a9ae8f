//! System calls, as [`corank_abi::call`] describes them.
//!
//! A call comes from a thread ([`serve`]) or from a process's submission ring ([`at_once`], then [`wait`]). What a call does
//! is written once: what it does without waiting in `at_once`, and waiting in `wait`.
mod files;
mod fs;
mod information;
mod process;
mod sync;
mod thread;

use crate::clock;
use crate::memory::frame;
use crate::memory::user::{BadAddress, UserBuffer};
use crate::process::{Process, publish_levels};
use crate::thread::{End, Thread};
use crate::trap::Context;
use crate::wait::WaitMode;
use alloc::sync::Arc;
use corank_abi::call::*;

/// What a call returns; a bad pointer ends the process.
pub(crate) type Result<T = isize> = core::result::Result<T, BadAddress>;

/// Serves the system call that the thread's registers describe.
///
/// # Errors
/// When the thread ends by it.
pub(crate) async fn serve(
    thread: &Thread,
    context: &mut Context,
) -> core::result::Result<isize, End> {
    let (number, arguments) = context.call();
    let [first, second, _] = arguments;
    let process = &thread.process;
    Ok(match number {
        READ | WRITE | SEMAPHORE_DOWN | MUTEX_LOCK | CONDVAR_WAIT | SLEEP | WAIT_PROCESS => {
            wait(process, process.wait_mode(), number, arguments).await?
        }
        EXIT => return Err(End::Exit(first as i32)),
        YIELD => {
            // The calling process's bitmap, and others', may have changed since the last tick (strict global scheduling).
            if process.has_executor() {
                publish_levels();
            }
            corank::yield_now().await;
            0
        }
        GETTID => thread.tid as isize,
        WAITTID | WAIT_THREAD if first == thread.tid => FAILED,
        WAIT_THREAD => wait(process, process.wait_mode(), number, arguments).await?,
        THREAD_CREATE => thread::create(process, first, second),
        FORK => process::fork(process, context),
        EXEC => process::exec(thread, context, first, second).await?,
        RING_SETUP => thread::ring_setup(process, first),
        RING_ENTER => {
            let ring = process.ring.lock().clone();
            match ring {
                Some(ring) => ring.enter(process, first).await?,
                None => FAILED,
            }
        }
        WAIT_MODE => thread::wait_mode(process, first),
        _ => match at_once(process, number, arguments) {
            Some(result) => result?,
            None => wait(process, process.wait_mode(), number, arguments).await?,
        },
    })
}

/// Serves a call if that is done without waiting; `None` if [`wait`] has to. A call that makes sense only for a thread does
/// not exist here.
pub(crate) fn at_once(
    process: &Arc<Process>,
    number: usize,
    arguments: [usize; 3],
) -> Option<Result> {
    let [first, second, third] = arguments;
    let buffer = UserBuffer {
        address: second,
        length: third,
    };
    Some(match number {
        READ => return fs::read_at_once(process, first, buffer),
        WRITE => return fs::write_at_once(process, first, buffer),
        SEMAPHORE_DOWN | MUTEX_LOCK => return sync::down_at_once(process, number, first).map(Ok),
        CONDVAR_WAIT | SLEEP => return None,
        WAIT_PROCESS => return process::wait_at_once(process, first, second),
        WAIT_THREAD => return thread::wait_at_once(process, first).map(Ok),
        DUP => Ok(fs::dup(process, first)),
        CLOSE => return fs::close_at_once(process, first).map(Ok),
        OPEN | FILE_OPEN | FILE_SEEK | UNLINKAT | FSTAT => return None,
        DIRECTORY_MAKE..=DIRECTORY_CHANGE | SPACE => return None,
        DIRECTORY_CURRENT => files::current_directory(
            process,
            UserBuffer {
                address: first,
                length: second,
            },
        ),
        LINKAT => Ok(FAILED),
        PIPE => fs::pipe(process, first),
        KILL => Ok(process::kill(first, second)),
        GET_TIME => Ok(clock::milliseconds() as isize),
        GETPID => Ok(process.pid as isize),
        WAITPID => process::wait_at_once(process, first, second).unwrap_or(Ok(STILL_RUNNING)),
        WAITTID => Ok(thread::wait_at_once(process, first).unwrap_or(STILL_RUNNING)),
        MUTEX_CREATE | SEMAPHORE_CREATE | CONDVAR_CREATE => {
            Ok(sync::create(process, number, first))
        }
        MUTEX_UNLOCK | SEMAPHORE_UP | CONDVAR_SIGNAL => Ok(sync::up(process, number, first)),
        SBRK => Ok(process::sbrk(process, first as isize)),
        FRAMES_FREE => Ok(frame::free() as isize),
        PROCESS_LIST => information::process_list(process, first, second),
        SYSTEM_STATUS => information::system_status(process, first),
        GROUP_SET => Ok(information::set_group(process, first, second)),
        FOREGROUND => Ok(information::set_foreground(first)),
        _ => Ok(NOT_IMPLEMENTED),
    })
}

/// Serves a call, and waits in the given way where it has to.
///
/// # Errors
/// When the call passes a bad pointer.
pub(crate) async fn wait(
    process: &Arc<Process>,
    mode: WaitMode,
    number: usize,
    arguments: [usize; 3],
) -> Result {
    let [first, second, third] = arguments;
    let buffer = UserBuffer {
        address: second,
        length: third,
    };
    match number {
        READ => fs::read(process, mode, first, buffer).await,
        WRITE => fs::write(process, mode, first, buffer).await,
        SEMAPHORE_DOWN | MUTEX_LOCK => Ok(sync::down(process, mode, number, first).await),
        CONDVAR_WAIT => Ok(sync::wait_condition(process, mode, first, second).await),
        SLEEP => {
            clock::sleep_until(clock::after(first as u64)).await;
            Ok(0)
        }
        WAIT_PROCESS => process::wait(process, mode, first, second).await,
        WAIT_THREAD => Ok(thread::wait(process, mode, first).await),
        CLOSE => Ok(fs::close(process, first).await),
        OPEN | FILE_OPEN | FILE_SEEK | UNLINKAT | FSTAT => {
            files::serve(process, number, arguments).await
        }
        DIRECTORY_MAKE..=DIRECTORY_CHANGE | SPACE => files::serve(process, number, arguments).await,
        _ => at_once(process, number, arguments).unwrap_or(Ok(FAILED)),
    }
}
