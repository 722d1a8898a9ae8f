//! System calls, as [`corank_abi::call`] describes them.
//!
//! A call comes from a thread ([`serve_at_once`], then [`serve`]) or from a process's submission
//! ring ([`at_once`], then [`wait`]). What a call does is written once. What it does without
//! waiting is in `at_once`, and what it does with waiting is in `wait`.
mod files;
mod fs;
mod information;
mod net;
mod process;
mod ring;
mod sync;
mod thread;

use crate::device::calendar;
use crate::fault;
use crate::file::File;
use crate::memory::OutOfMemory;
use crate::memory::account;
use crate::memory::frame;
use crate::memory::user::{BadAddress, UserBuffer};
use crate::pace;
use crate::process::Process;
use crate::stretch::{self, Work};
use crate::trap::Context;
use crate::user::kernel_thread::{Call, KernelThread};
use crate::user::thread::{End, Thread};
use crate::user::upcall;
use crate::wait::WaitMode;
use crate::{clock, hart};
use alloc::boxed::Box;
use alloc::sync::Arc;
use corank_abi::call::*;
use corank_abi::error::{NO_DEVICE, NO_MEMORY};
use corank_abi::rights::MACHINE;
use core::pin::{Pin, pin};
use core::sync::atomic::Ordering;

/// What a call returns.
///
/// A bad pointer ends the process.
pub(crate) type Result<T = isize> = core::result::Result<T, BadAddress>;

/// Notes that the thread has made a system call, which is served next.
#[inline]
pub(crate) fn note_call(thread: &Thread, context: &Context) {
    stretch::works_on(Work::Call(context.call().0));
    thread.process.calls_made.fetch_add(1, Ordering::Relaxed);
    thread.process.step();
}

/// Tests whether the thread's registers describe `ring_enter`.
///
/// Coroutines make hardly any other call.
#[inline]
pub(crate) fn is_ring_enter(context: &Context) -> bool {
    context.call().0 == RING_ENTER
}

/// Serves `ring_enter`.
///
/// # Errors
/// When the call passes a bad pointer.
#[inline]
pub(crate) async fn enter_ring(thread: &Thread, context: &Context) -> Result {
    let (_, [completions, ..]) = context.call();
    match thread.worker().ring() {
        Some(ring) => {
            stretch::during(Work::Call(RING_ENTER), ring.enter(thread, completions)).await
        }
        None => Ok(FAILED),
    }
}

/// Serves the system call that the thread's registers describe, if that is done without waiting.
///
/// The thread then goes on behind the call. Returns `None` if [`serve`] has to serve it.
#[inline]
pub(crate) fn serve_at_once(thread: &Thread, context: &Context) -> Option<Result> {
    let (number, arguments) = context.call();
    let [first, second, _] = arguments;
    let process = &thread.process;
    Some(Ok(match number {
        EXIT | YIELD | YIELD_TO | FORK | EXEC | RING_CANCEL | RING_REPRIORITIZE | UPCALL_RETURN
        | HARTS_LIMIT | QUIESCE => return None,
        WAITTID | WAIT_THREAD if first == thread.tid => FAILED,
        READ | WRITE | SEMAPHORE_DOWN | MUTEX_LOCK | CONDVAR_WAIT | SLEEP | WAIT_PROCESS
        | WAIT_THREAD
            if process.by_thread.load(Ordering::Relaxed) =>
        {
            return None;
        }
        GETTID => thread.tid as isize,
        THREAD_CREATE => thread::create(process, first, second),
        WORKER => thread
            .become_worker()
            .map_or(FAILED, |worker| worker.number as isize),
        RING_SETUP => thread::ring_setup(thread, first),
        UPCALL_SETUP if upcall::set_up(thread, first, second) => 0,
        UPCALL_SETUP => FAILED,
        UPCALL_RAISE => match process.find_worker(first) {
            Some(worker) if process.raise(worker) => 0,
            _ => FAILED,
        },
        WAIT_MODE => thread::wait_mode(process, first),
        _ => return at_once(process, number, arguments),
    }))
}

/// Serves a system call that [`serve_at_once`] has left.
///
/// # Errors
/// When the thread ends by it, or goes on elsewhere.
pub(crate) async fn serve(thread: &Thread, context: &Context) -> core::result::Result<isize, End> {
    let (number, arguments) = context.call();
    let first = arguments[0];
    Ok(match number {
        EXIT => return Err(End::Exit(first as i32)),
        YIELD => {
            // A process that yields has changed its bitmap since the kernel read it. It must not
            // come back at an old level.
            thread.come_to_rest();
            corank::yield_now().await;
            0
        }
        YIELD_TO => {
            thread.come_to_rest();
            let lent = thread.lend_level(first);
            corank::yield_now().await;
            if lent { 0 } else { FAILED }
        }
        UPCALL_RETURN => return Err(End::Handler(first)),
        FORK | EXEC | SBRK | KILL | GROUP_SET | FOREGROUND | RING_REPRIORITIZE | RING_CANCEL
        | HARTS_LIMIT | QUIESCE => pace::apart(serve_rare(thread, context)).await?,
        _ => {
            // Made in its place: a future is large, and would be copied there.
            let call = pin!(block(thread, number, arguments));
            upcall::interruptible(thread, context, call).await?
        }
    })
}

/// Serves a call that is long, or seldom made.
///
/// See [`pace::apart`].
///
/// # Errors
/// As [`serve`].
async fn serve_rare(thread: &Thread, context: &Context) -> core::result::Result<isize, End> {
    let (number, [first, second, _]) = context.call();
    let process = &thread.process;
    Ok(match number {
        FORK | EXEC | SBRK => {
            // Long work, at the level of what the process says now.
            thread.come_to_rest();
            match number {
                FORK => match apart(process, process::fork(process, context)) {
                    Ok(fork) => fork.await,
                    Err(OutOfMemory) => FAILED,
                },
                EXEC => match apart(process, process::exec(thread, first, second)) {
                    Ok(exec) => exec.await?,
                    Err(OutOfMemory) => FAILED,
                },
                // No handler runs meanwhile, because it might move the heap's end too.
                _ => match apart(process, process::sbrk(process, first as isize)) {
                    Ok(sbrk) => sbrk.await,
                    Err(OutOfMemory) => FAILED,
                },
            }
        }
        // The thread has paid for it, so it works when there is no memory.
        KILL | GROUP_SET | FOREGROUND => {
            Box::pin(act_on_others(process, number, first, second)).await
        }
        RING_REPRIORITIZE => match thread.worker().ring() {
            // The thread has paid for it, as for a cancellation.
            Some(ring) => Box::pin(ring.reprioritize(process, first as u64, second)).await,
            None => FAILED,
        },
        RING_CANCEL => match thread.worker().ring() {
            // The thread has paid for it. If a program reads that a call is not under way, it takes
            // its buffer as free.
            Some(ring) => Box::pin(ring.cancel(process, first as u64)).await,
            None => FAILED,
        },
        HARTS_LIMIT if first > 0 && process.has_right(MACHINE) => {
            let Ok(quiesced) = apart(process, hart::quiesce()) else {
                return Ok(FAILED);
            };
            let before = hart::set_limit(first);
            quiesced.await;
            before as isize
        }
        HARTS_LIMIT => FAILED,
        QUIESCE if process.has_right(MACHINE) => match apart(process, hart::quiesce()) {
            Ok(quiesced) => {
                quiesced.await;
                0
            }
            Err(OutOfMemory) => FAILED,
        },
        QUIESCE => FAILED,
        _ => NOT_IMPLEMENTED,
    })
}

/// Serves a thread's call that may have to wait, in the way in which the process's threads wait.
async fn block(thread: &Thread, number: usize, arguments: [usize; 3]) -> Result {
    let process = &thread.process;
    if process.by_thread.load(Ordering::Relaxed) {
        return block_on_stack(thread, number, arguments).await;
    }
    let [_, address, length] = arguments;
    let mut buffer = UserBuffer { address, length };
    wait(process, process.wait_mode(), number, arguments, &mut buffer).await
}

/// Serves a call as [`block`] does, by a kernel thread.
///
/// It runs on the stack that the thread keeps for this.
async fn block_on_stack(thread: &Thread, number: usize, arguments: [usize; 3]) -> Result {
    let stack = thread.kernel_stack.lock().take();
    let call = Call {
        process: thread.process.clone(),
        mode: thread.process.wait_mode(),
        number,
        arguments,
    };
    let Ok(mut serving) = KernelThread::new(stack, call) else {
        return Ok(FAILED);
    };
    let result = (&mut serving).await;
    *thread.kernel_stack.lock() = Some(serving.into_stack());
    result
}

/// Puts a rare call's future into a place of its own.
///
/// Neither its size nor its code is part of what every call goes through. It is charged to the
/// process, with a request to a service.
///
/// # Errors
/// When there is no memory for it.
fn apart<'a, T, F: Future<Output = T> + Send + 'a>(
    process: &Process,
    future: F,
) -> core::result::Result<Pin<Box<dyn Future<Output = T> + Send + 'a>>, OutOfMemory> {
    let charge = process.reserve(account::of::<F>() + crate::fs::REQUEST)?;
    Ok(Box::pin(async move {
        let _charge = charge;
        future.await
    }))
}

/// Serves a call if that is done without waiting.
///
/// Returns `None` if [`wait`] has to serve it. A call that makes sense only for a thread does not
/// exist here.
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
        KILL => return process::kill_at_once(process, first, second).map(Ok),
        UDP_CONNECT | LISTEN | ACCEPT | TCP_LISTEN..=NETWORK_STATUS => {
            return net::at_once(process, number, arguments);
        }
        GET_TIME => Ok(clock::milliseconds() as isize),
        GETPID => Ok(process.pid as isize),
        WAITPID => process::wait_at_once(process, first, second).unwrap_or(Ok(STILL_RUNNING)),
        WAITTID => Ok(thread::wait_at_once(process, first).unwrap_or(STILL_RUNNING)),
        MUTEX_CREATE | SEMAPHORE_CREATE | CONDVAR_CREATE => {
            Ok(sync::create(process, number, first))
        }
        MUTEX_UNLOCK | SEMAPHORE_UP | CONDVAR_SIGNAL => Ok(sync::up(process, number, first)),
        SBRK => return process::sbrk_at_once(process, first as isize).map(Ok),
        GRANT => Ok(process::grant(process, first, second as u64)),
        RESTRICT => Ok(process::restrict(process, first, second)),
        GLOBAL => Ok(process::global(process, first)),
        MEMORY_LIMIT => Ok(process::limit_memory(process, first)),
        HARTS => Ok(hart::serving() as isize),
        FRAMES_FREE => Ok(frame::free() as isize),
        PROCESS_LIST => return None,
        SYSTEM_STATUS => information::system_status(process, first),
        CALENDAR => Ok(calendar::seconds().map_or(NO_DEVICE, |seconds| seconds as isize)),
        SERVICE_MODEL => Ok(thread::service_model(process, first)),
        CALLS_MADE => Ok(process.calls_made.load(Ordering::Relaxed) as isize),
        FAULT => {
            let is_allowed = process.has_right(MACHINE);
            let (own, pid) = (&process.faults, process.pid);
            Ok(fault::serve(own, pid, is_allowed, arguments))
        }
        GROUP_SET => return information::set_group_at_once(process, first, second).map(Ok),
        FOREGROUND => return information::set_foreground_at_once(process, first).map(Ok),
        _ => Ok(NOT_IMPLEMENTED),
    })
}

/// Serves a call that acts on other processes.
async fn act_on_others(process: &Process, number: usize, first: usize, second: usize) -> isize {
    match number {
        KILL => process::kill(process, first, second).await,
        GROUP_SET => information::set_group(process, first, second).await,
        _ => information::set_foreground(process, first).await,
    }
}

/// Tests whether a call that waits can be dropped, having done nothing but what its buffer tells.
///
/// A call that the file system's service works on can't be dropped. It is done in bounded time.
pub(crate) fn can_be_dropped(process: &Process, number: usize, first: usize) -> bool {
    match number {
        READ | WRITE => !matches!(process.file(first), Some(File::Disk(_))),
        SEMAPHORE_DOWN | MUTEX_LOCK | CONDVAR_WAIT | SLEEP | WAIT_PROCESS | WAIT_THREAD => true,
        ACCEPT | TCP_CONNECT => true,
        _ => false,
    }
}

/// Serves a call, and waits in the given mode where it has to.
///
/// `buffer` is the program's memory that the last two arguments name. A call that is dropped leaves
/// it as far advanced as bytes have been transferred.
///
/// # Errors
/// When the call passes a bad pointer.
pub(crate) async fn wait(
    process: &Arc<Process>,
    mode: WaitMode,
    number: usize,
    arguments: [usize; 3],
    buffer: &mut UserBuffer,
) -> Result {
    let [first, second, _] = arguments;
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
        SBRK => Ok(
            match apart(process, process::sbrk(process, first as isize)) {
                Ok(sbrk) => sbrk.await,
                Err(OutOfMemory) => FAILED,
            },
        ),
        PROCESS_LIST => match apart(process, information::process_list(process, first, second)) {
            Ok(list) => list.await,
            Err(OutOfMemory) => Ok(FAILED),
        },
        OPEN
        | FILE_OPEN
        | FILE_SEEK
        | UNLINKAT
        | FSTAT
        | DIRECTORY_MAKE..=DIRECTORY_CHANGE
        | SPACE => match apart(process, files::serve(process, number, arguments)) {
            Ok(call) => call.await,
            // Those of rCore-Tutorial-v3 say only that they failed.
            Err(OutOfMemory) if matches!(number, OPEN | UNLINKAT | FSTAT) => Ok(FAILED),
            Err(OutOfMemory) => Ok(NO_MEMORY),
        },
        KILL | GROUP_SET | FOREGROUND => {
            match apart(process, act_on_others(process, number, first, second)) {
                Ok(call) => Ok(call.await),
                Err(OutOfMemory) => Ok(FAILED),
            }
        }
        ACCEPT | LISTEN | TCP_LISTEN | TCP_CONNECT | NETWORK_STATUS => {
            match apart(process, net::wait(process, mode, number, arguments)) {
                Ok(call) => call.await,
                Err(OutOfMemory) => Ok(NO_MEMORY),
            }
        }
        _ => at_once(process, number, arguments).unwrap_or(Ok(FAILED)),
    }
}
